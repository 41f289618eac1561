//! Checks of an application: its file, and the entry of Hospes in it.

use std::path::Path;

use hospes_host::config::applications::{Application, ApplicationFile, ApplicationFolders, SystemKind};
use hospes_host::config::{ConfigLoader, ServerConfig, ServerTransport, is_profile_name, profile_hint};

use super::check::{A01, A02, A03, A04, A05, DoctorChain, DoctorFinding};
use crate::paths::{self, display_path};
use crate::profiles;

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
        chain.fail(&A01, finding, &[&A02, &A03, &A04, &A05]);
        return Some(chain);
    };
    chain.ok(&A01, display_path(&file.path));
    let config = match read(file) {
        Ok(servers) => servers,
        Err(why) => {
            let finding = DoctorFinding::new(format!("{} cannot be read", display_path(&file.path)))
                .why(why)
                .mend("correct the file; the application may ignore all of it");
            chain.fail(&A02, finding, &[&A03, &A04, &A05]);
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
        chain.fail(&A03, finding, &[&A04, &A05]);
        return Some(chain);
    };
    let profile = profile_of(entry);
    let named = profile.as_ref().map(|profile| format!(" of the profile `{profile}`")).unwrap_or_default();
    chain.ok(&A03, format!("entry `{}`{named}", entry.name));
    if program(entry, application, &mut chain) {
        check_profile(profile.as_deref(), application, &mut chain);
    }
    Some(chain)
}

/// Returns the profile that an entry of Hospes names.
fn profile_of(entry: &ServerConfig) -> Option<String> {
    match &entry.transport {
        ServerTransport::Stdio(stdio) => {
            let mut words = stdio.args.iter().map(|arg| arg.reveal());
            let separate = words.clone().skip_while(|word| *word != "--profile").nth(1);
            let profile = separate.or_else(|| words.find_map(|word| word.strip_prefix("--profile=")));
            profile.map(str::to_owned)
        }
        ServerTransport::Http(http) => {
            let url = http.url.reveal();
            let notes = paths::list_host_notes();
            notes.iter().find_map(|(_, note)| profile_in_url(url.as_str(), &note.endpoint))
        }
        _ => None,
    }
}

/// Returns the profile of a URL below the endpoint of a host.
fn profile_in_url(url: &str, endpoint: &str) -> Option<String> {
    let name = url.strip_prefix(endpoint)?.strip_prefix('/')?;
    is_profile_name(name).then(|| name.to_owned())
}

fn check_profile(profile: Option<&str>, application: &Application, chain: &mut DoctorChain) {
    let Some(profile) = profile else { return chain.ok(&A05, "") };
    let configured = profiles::configured(&[]);
    if configured.iter().any(|known| known.name == profile) {
        return chain.ok(&A05, "");
    }
    let known: Vec<&str> = configured.iter().map(|profile| profile.name.as_str()).collect();
    let finding = DoctorFinding::new(format!("the profile `{profile}` is not configured"))
        .why(profile_hint(profile, &known))
        .mend(format!(
            "add `[profiles.{profile}]` to the configuration, or hospes connect {} --profile NAME",
            application.id
        ));
    chain.fail(&A05, finding, &[]);
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
            let url = http.url.reveal().as_str();
            let is_endpoint = |endpoint: &str| endpoint == url || profile_in_url(url, endpoint).is_some();
            paths::list_host_notes().iter().any(|(_, note)| is_endpoint(&note.endpoint))
        }
        _ => false,
    }
}

/// Checks the program of an entry. Returns false if it cannot be started.
fn program(entry: &ServerConfig, application: &Application, chain: &mut DoctorChain) -> bool {
    let ServerTransport::Stdio(stdio) = &entry.transport else {
        chain.ok(&A04, "the endpoint of the running host");
        return true;
    };
    let written = stdio.command.reveal();
    let program = Path::new(written);
    let mend = format!("hospes disconnect {0}; hospes connect {0}", application.id);
    if !program.is_absolute() {
        let finding = DoctorFinding::new(format!("`{written}` is not an absolute path"))
            .why("applications that are started from a dock or menu have a short PATH")
            .mend(mend);
        chain.warn(&A04, finding);
        return true;
    }
    match hospes_sandbox::resolve(program.as_os_str(), None, Path::new("/")) {
        Ok(_) => {
            chain.ok(&A04, "");
            true
        }
        Err(error) => {
            let finding = DoctorFinding::new(format!("{} cannot start {written}", application.name))
                .why(error.to_string())
                .mend(mend);
            chain.fail(&A04, finding, &[&A05]);
            false
        }
    }
}
