//! Checks of an application: its file, and the entry of Hospes in it.

use std::path::Path;

use hospes_host::config::applications::{Application, ApplicationFile, ApplicationFolders, SystemKind};
use hospes_host::config::{ConfigLoader, ServerConfig, ServerTransport};

use super::check::{A01, A02, A03, A04, DoctorChain, DoctorFinding};
use crate::paths::{self, display_path};

/// Checks an application. `None` if it has no file here, unless it was asked for, or no entry of Hospes.
pub(super) fn check(application: &'static Application, is_named: bool) -> Option<DoctorChain> {
    let mut chain = DoctorChain::new(application.id);
    let home = std::env::home_dir()?;
    let variable = |name: &str| std::env::var(name).ok();
    let folders = ApplicationFolders::new(SystemKind::current(), home, variable);
    let mut places = folders.paths(application);
    places.retain(|place| place.path.is_file());
    let Some(file) = places.first() else {
        if !is_named {
            return None;
        }
        let known: Vec<String> =
            folders.paths(application).iter().map(|place| display_path(&place.path)).collect();
        let finding = DoctorFinding::new(format!("no configuration of {} was found", application.name))
            .why(format!("looked for {}", known.join(", ")))
            .mend(format!("start {} once; then `hospes connect {}`", application.name, application.id));
        chain.fail(&A01, finding, &[&A02, &A03, &A04]);
        return Some(chain);
    };
    chain.ok(&A01, display_path(&file.path));
    let config = match read(file) {
        Ok(servers) => servers,
        Err(why) => {
            let finding = DoctorFinding::new(format!("{} cannot be read", display_path(&file.path)))
                .why(why)
                .mend("correct the file; the application may ignore all of it");
            chain.fail(&A02, finding, &[&A03, &A04]);
            return Some(chain);
        }
    };
    chain.ok(&A02, "");
    let Some(entry) = config.iter().find(|server| is_hospes(server)) else {
        if !is_named {
            return None;
        }
        let finding = DoctorFinding::new(format!("{} does not use Hospes", application.name))
            .mend(format!("hospes connect {}", application.id));
        chain.fail(&A03, finding, &[&A04]);
        return Some(chain);
    };
    chain.ok(&A03, format!("entry `{}`", entry.name));
    program(entry, application, &mut chain);
    Some(chain)
}

fn read(file: &ApplicationFile) -> Result<Vec<ServerConfig>, String> {
    let loader = ConfigLoader::new().allow_unset(true).keep_going(true).keep_references(true);
    match loader.load([&file.path]) {
        Ok(config) => Ok(config.servers),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

fn is_hospes(server: &ServerConfig) -> bool {
    match &server.transport {
        ServerTransport::Stdio(stdio) => {
            let program = Path::new(stdio.command.reveal());
            program.file_stem().is_some_and(|name| name == "hospes")
                && stdio.args.iter().any(|arg| arg.reveal() == "stdio")
        }
        ServerTransport::Http(http) => {
            paths::list_host_notes().iter().any(|(_, note)| note.endpoint == http.url.reveal().as_str())
        }
        _ => false,
    }
}

fn program(entry: &ServerConfig, application: &Application, chain: &mut DoctorChain) {
    let ServerTransport::Stdio(stdio) = &entry.transport else {
        return chain.ok(&A04, "the endpoint of the running host");
    };
    let written = stdio.command.reveal();
    let program = Path::new(written);
    let mend = format!("hospes disconnect {0}; hospes connect {0}", application.id);
    if !program.is_absolute() {
        let finding = DoctorFinding::new(format!("`{written}` is not an absolute path"))
            .why("applications that are started from a dock or menu have a short PATH")
            .mend(mend);
        return chain.warn(&A04, finding);
    }
    match hospes_sandbox::resolve(program.as_os_str(), None, Path::new("/")) {
        Ok(_) => chain.ok(&A04, ""),
        Err(error) => {
            let finding = DoctorFinding::new(format!("{} cannot start {written}", application.name))
                .why(error.to_string())
                .mend(mend);
            chain.fail(&A04, finding, &[]);
        }
    }
}
