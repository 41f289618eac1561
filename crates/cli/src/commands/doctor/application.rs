//! Checks of an application: its file, and the entry of Hospes in it.

use std::path::Path;

use hospes_host::config::applications::{
    Application, ApplicationFile, ApplicationFolders, PlaceScope, SystemKind,
};
use hospes_host::config::connect::ENTRY_NAME;
use hospes_host::config::{ConfigLoader, ServerConfig, ServerTransport, is_profile_name, profile_hint};

use super::check::{A01, A02, A03, A04, A05, A06, A07, DoctorChain, DoctorFinding};
use crate::paths::{self, display_path};
use crate::profiles;

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
        chain.fail(&A01, finding, &[&A02, &A03, &A04, &A05, &A06, &A07]);
        return Some(chain);
    };
    chain.ok(&A01, display_path(&file.path));
    let config = match read(file) {
        Ok(servers) => servers,
        Err(why) => {
            let finding = DoctorFinding::new(format!("{} cannot be read", display_path(&file.path)))
                .why(why)
                .mend("correct the file; the application may ignore all of it");
            chain.fail(&A02, finding, &[&A03, &A04, &A05, &A06, &A07]);
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
        chain.fail(&A03, finding, &[&A04, &A05, &A06, &A07]);
        return Some(chain);
    };
    let profile = profile_of(entry);
    let named = profile.as_ref().map(|profile| format!(" of the profile `{profile}`")).unwrap_or_default();
    chain.ok(&A03, format!("entry `{}`{named}", entry.name));
    if program(entry, application, &mut chain) {
        check_profile(profile.as_deref(), application, &mut chain);
    }
    packaged(&folders, file, &mut chain);
    if let Ok(project) = std::env::current_dir() {
        folders = folders.project(project);
        shadowed(&folders, file, &entry.name, &mut chain);
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
    let Some(profile) = profile else { return chain.ok(&A07, "") };
    let configured = profiles::configured(&[]);
    if configured.iter().any(|known| known.name == profile) {
        return chain.ok(&A07, "");
    }
    let known: Vec<&str> = configured.iter().map(|profile| profile.name.as_str()).collect();
    let finding = DoctorFinding::new(format!("the profile `{profile}` is not configured"))
        .why(profile_hint(profile, &known))
        .mend(format!(
            "add `[profiles.{profile}]` to the configuration, or hospes connect {} --profile NAME",
            application.id
        ));
    chain.fail(&A07, finding, &[]);
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
            let url = http.url.reveal().as_str();
            let is_endpoint = |endpoint: &str| endpoint == url || profile_in_url(url, endpoint).is_some();
            // Without a running host, only the name says so.
            server.name == ENTRY_NAME
                || paths::list_host_notes().iter().any(|(_, note)| is_endpoint(&note.endpoint))
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
            chain.fail(&A04, finding, &[&A07]);
            false
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
