//! Checks of an application: its file, and the entry of Hospes in it.

use std::path::Path;

use hospes_host::config::applications::{
    Application, ApplicationFile, ApplicationFolders, PlaceScope, SystemKind,
};
use hospes_host::config::connect::ENTRY_NAME;
use hospes_host::config::{ConfigLoader, ServerConfig, ServerTransport};

use super::check::{A01, A02, A03, A04, A05, A06, DoctorChain, DoctorFinding};
use crate::paths::{self, display_path};

/// Checks an application. `None` if it has no file here, unless it was asked for, or no entry of Hospes.
pub(super) fn check(application: &'static Application, is_named: bool) -> Option<DoctorChain> {
    let mut chain = DoctorChain::new(application.id);
    let home = std::env::home_dir()?;
    let variable = |name: &str| std::env::var(name).ok();
    let mut folders = ApplicationFolders::new(SystemKind::current(), home, variable);
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
    packaged(&folders, file, &mut chain);
    if let Ok(project) = std::env::current_dir() {
        folders = folders.project(project);
        shadowed(&folders, file, &entry.name, &mut chain);
    }
    Some(chain)
}

/// Checks that a packaged application reads the file. It ignores the one outside of its package without a word.
fn packaged(folders: &ApplicationFolders<'_>, file: &ApplicationFile, chain: &mut DoctorChain) {
    let packages = folders.packaged(file.application);
    let name = file.application.name;
    match packages.as_slice() {
        [] => {}
        [_] if packages.iter().any(|package| package.path == file.path) => chain.ok(&A05, ""),
        [package] => {
            let finding =
                DoctorFinding::new(format!("{name} is packaged, and reads {}", display_path(&package.path)))
                    .why(format!("the entry is in {}, which it ignores", display_path(&file.path)))
                    .mend(format!("hospes disconnect {0}; hospes connect {0}", file.application.id));
            chain.fail(&A05, finding, &[]);
        }
        several => {
            let places: Vec<String> = several.iter().map(|package| display_path(&package.path)).collect();
            let finding =
                DoctorFinding::new(format!("there are several packages of {name}: {}", places.join(", ")))
                    .why("only one of them runs, and reads its own file")
                    .mend(format!(
                        "remove the packages that are not used; or: hospes connect {}",
                        file.application.id
                    ));
            chain.warn(&A05, finding);
        }
    }
}

/// Checks that no file of the project has an entry of the same name, which would be used instead.
fn shadowed(folders: &ApplicationFolders<'_>, file: &ApplicationFile, entry: &str, chain: &mut DoctorChain) {
    if file.scope == PlaceScope::Project {
        return;
    }
    let mut places = folders.paths(file.application);
    places.retain(|place| place.scope == PlaceScope::Project && place.path.is_file());
    let has_entry = |place: &&ApplicationFile| {
        read(place)
            .is_ok_and(|servers| servers.iter().any(|server| server.name == entry && !is_hospes(server)))
    };
    let Some(other) = places.iter().find(has_entry) else { return chain.ok(&A06, "") };
    let shown = display_path(&other.path);
    let finding =
        DoctorFinding::new(format!("{shown} has another server `{entry}`, which wins in this folder"))
            .why(format!("{} prefers the project's file to yours", file.application.name))
            .mend(format!("rename or remove `{entry}` in {shown}"));
    chain.warn(&A06, finding);
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
            // Without a running host, only the name says so.
            server.name == ENTRY_NAME
                || paths::list_host_notes()
                    .iter()
                    .any(|(_, note)| note.endpoint == http.url.reveal().as_str())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::check::CheckStatus;

    #[test]
    fn an_entry_outside_of_the_package_of_an_application_is_a_fault() {
        let home = tempfile::tempdir().unwrap();
        let application = Application::find("claude-desktop").unwrap();
        let at = |path: &str| home.path().join(path);
        let data = |name: &str| match name {
            "APPDATA" => Some(at("roaming").to_string_lossy().into_owned()),
            "LOCALAPPDATA" => Some(at("local").to_string_lossy().into_owned()),
            _ => None,
        };
        let folders = ApplicationFolders::new(SystemKind::Windows, home.path(), data);
        let status = |path: &Path| {
            let mut file = folders.file_to_edit(application, PlaceScope::User).unwrap();
            file.path = path.to_owned();
            let mut chain = DoctorChain::new("claude-desktop");
            packaged(&folders, &file, &mut chain);
            chain.checks.first().map(|check| check.status)
        };
        let outside = at("roaming/Claude/claude_desktop_config.json");
        assert_eq!(status(&outside), None, "it is not packaged");
        std::fs::create_dir_all(at("local/Packages/Claude_one/LocalCache/Roaming/Claude")).unwrap();
        assert_eq!(status(&outside), Some(CheckStatus::Fault));
        let inside = folders.packaged(application)[0].path.clone();
        assert_eq!(status(&inside), Some(CheckStatus::Ok));
        std::fs::create_dir_all(at("local/Packages/Claude_two/LocalCache/Roaming/Claude")).unwrap();
        assert_eq!(status(&inside), Some(CheckStatus::Warning), "which one runs is not known");
    }
}
