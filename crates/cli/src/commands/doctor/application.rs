//! Checks of an application: its files, and the entry of Hospes in them.

use hospes_host::config::applications::{
    APPLICATIONS, Application, ApplicationFile, ApplicationFolders, PlaceScope, SystemKind,
};
use hospes_host::config::connect::{ENTRY_NAME, EditEntryError, application_in_form, check_own_parser};
use hospes_host::config::{ConfigError, ConfigLoader, HostConfig, ServerConfig, profile_hint};
use hospes_sandbox::dead_link;

use super::application_entry::{CheckedEntry, KnownEndpoints, is_hospes, option_of, profile_of};
use super::check::{A01, A02, A03, A04, A05, A06, A07, DoctorChain, DoctorFinding};
use crate::commands::connect::{RecordedConnection, recorded_connections};
use crate::commands::file_replace::read_text;
use crate::output::shell_word;
use crate::paths::display_path;
use crate::profiles;
use crate::shown_commands::shown_command;

/// Facts that the files of applications are compared with.
pub(super) struct ApplicationChecks {
    endpoints: KnownEndpoints,
    connections: Vec<RecordedConnection>,
}

impl ApplicationChecks {
    /// Finds the endpoints and the records of connections.
    pub(super) async fn new(config: Option<&HostConfig>) -> Self {
        Self { endpoints: KnownEndpoints::find(config).await, connections: recorded_connections() }
    }

    /// Checks the files of all applications. Those without an entry of Hospes are left out, unless it was lost or the file
    /// cannot be read.
    pub(super) async fn all(&self) -> Vec<DoctorChain> {
        let Some(folders) = folders() else { return Vec::new() };
        let mut chains = Vec::new();
        for application in APPLICATIONS {
            for file in self.files(&folders, application) {
                if let FileResult::Checked(chain) = self.file(&folders, &file, false).await {
                    chains.push(chain);
                }
            }
        }
        chains
    }

    /// Checks the files of an application that was named.
    pub(super) async fn one(&self, application: &'static Application) -> Vec<DoctorChain> {
        let Some(folders) = folders() else { return vec![DoctorChain::new(application.id)] };
        let files = self.files(&folders, application);
        let mut chains = Vec::new();
        let mut other = None;
        for file in &files {
            match self.file(&folders, file, true).await {
                FileResult::Checked(chain) => chains.push(chain),
                FileResult::OfOther(owner) => other = other.or(Some((file, owner))),
                FileResult::NoEntry => {}
            }
        }
        if !chains.is_empty() {
            return chains;
        }
        let mut chain = DoctorChain::new(application.id);
        let not_reached = [&A04, &A05, &A06, &A07];
        match (files.first(), other) {
            (None, _) => {
                let known: Vec<String> =
                    folders.paths(application).iter().map(|place| display_path(&place.path)).collect();
                let finding =
                    DoctorFinding::new(format!("no configuration of {} was found", application.name))
                        .why(format!("looked for {}", known.join(", ")))
                        .mend(format!(
                            "start {} once; then `hospes connect {}`",
                            application.name, application.id
                        ));
                chain.fail(&A01, finding, &[&A02, &A03, &A04, &A05, &A06, &A07]);
            }
            (_, Some((file, owner))) => {
                let shown = display_path(&file.path);
                chain.ok(&A01, shown.as_str());
                chain.ok(&A02, "");
                let finding = DoctorFinding::new(format!("the entry in {shown} is that of {}", owner.name))
                    .why(format!("{} has the same files", application.name))
                    .mend(shown_command("doctor", owner.id));
                chain.fail(&A03, finding, &not_reached);
            }
            (Some(file), None) => {
                chain.ok(&A01, display_path(&file.path));
                chain.ok(&A02, "");
                let finding = DoctorFinding::new(format!("{} does not use Hospes", application.name))
                    .mend(format!("hospes connect {}", application.id));
                chain.fail(&A03, finding, &not_reached);
            }
        }
        vec![chain]
    }

    /// Returns the files of an application that exist, and those that are recorded as connected.
    fn files(
        &self,
        folders: &ApplicationFolders<'_>,
        application: &'static Application,
    ) -> Vec<ApplicationFile> {
        let mut files = folders.paths(application);
        files.retain(|file| file.path.is_file() || dead_link(&file.path).is_some());
        for scope in [PlaceScope::User, PlaceScope::Project] {
            let Some(mut file) = folders.file_to_edit(application, scope) else { continue };
            for connection in &self.connections {
                if let Some(path) = connection.path_of(&file)
                    && !files.iter().any(|known| known.path == path)
                {
                    path.clone_into(&mut file.path);
                    files.push(file.clone());
                }
            }
        }
        files
    }

    async fn file(
        &self,
        folders: &ApplicationFolders<'_>,
        file: &ApplicationFile,
        is_named: bool,
    ) -> FileResult {
        let application = file.application;
        let record = self.record(file, application);
        let shown = display_path(&file.path);
        let mut chain = DoctorChain::new(application.id);
        if let Some(target) = dead_link(&file.path) {
            if !is_named && self.owner(file, "", None).id != application.id {
                return FileResult::NoEntry;
            }
            let link = shell_word(&file.path.to_string_lossy());
            let options = record.map(RecordedConnection::options).unwrap_or_default();
            let finding = DoctorFinding::new(format!("{shown} is a link to a file that does not exist"))
                .why(format!("it leads to {}, and {} reads nothing", display_path(&target), application.name))
                .mend(format!(
                    "restore {}; or begin anew: rm {link}; hospes connect {}{}{options}",
                    display_path(&target),
                    application.id,
                    project_option(file)
                ));
            chain.fail(&A01, finding, &[&A02, &A03, &A04, &A05, &A06, &A07]);
            return FileResult::Checked(chain);
        }
        if !file.path.exists() {
            let options = record.map(RecordedConnection::options).unwrap_or_default();
            let project = project_option(file);
            let finding = DoctorFinding::new(format!("{shown} is gone, with the entry of Hospes"))
                .why(format!("`hospes connect {}` had added it there", application.id))
                .mend(format!(
                    "hospes connect {0}{project}{options}; or, without {1} on this machine: hospes disconnect {0}{project}",
                    application.id, application.name
                ));
            chain.fail(&A01, finding, &[&A02, &A03, &A04, &A05, &A06, &A07]);
            return FileResult::Checked(chain);
        }
        let (text, servers) = match read(file) {
            Ok(read) => read,
            Err(why) => {
                if !is_named && self.owner(file, "", None).id != application.id {
                    return FileResult::NoEntry;
                }
                chain.ok(&A01, shown.as_str());
                let finding = DoctorFinding::new(format!("{shown} cannot be read"))
                    .why(why)
                    .mend("correct the file; the application may ignore all of it");
                chain.fail(&A02, finding, &[&A03, &A04, &A05, &A06, &A07]);
                return FileResult::Checked(chain);
            }
        };
        chain.ok(&A01, shown.as_str());
        if let Err(error) = check_own_parser(application, &file.path, &text) {
            let mend = match &error {
                EditEntryError::Extended { .. } => {
                    "remove the comments and trailing commas; the application ignores all of the file"
                }
                _ => "correct the file; the application may ignore all of it",
            };
            let finding = DoctorFinding::new(format!("{} cannot read {shown}", application.name))
                .why(error.to_string())
                .mend(mend);
            chain.fail(&A02, finding, &[&A03, &A04, &A05, &A06, &A07]);
            return FileResult::Checked(chain);
        }
        chain.ok(&A02, "");
        let entry = servers.entries.iter().find(|server| is_hospes(server, &self.endpoints));
        let owner = self.owner(file, &text, entry);
        if owner.id != application.id {
            return if entry.is_some() { FileResult::OfOther(owner) } else { FileResult::NoEntry };
        }
        let Some(entry) = entry else {
            let Some(record) = record else { return FileResult::NoEntry };
            chain.fail(&A03, lost_entry(file, record, &servers), &[&A04, &A05, &A06, &A07]);
            return FileResult::Checked(chain);
        };
        let checked = CheckedEntry { entry, file, is_recorded: record.is_some() };
        if checked.check(&self.endpoints, &mut chain).await {
            match (profile_of(entry), option_of(entry, "--profile")) {
                (None, Some(_)) => {
                    // Without the name, which is any text.
                    let finding =
                        DoctorFinding::new(format!("the entry in {shown} names no possible profile"))
                            .mend(checked.reconnect(" --profile NAME"));
                    chain.fail(&A07, finding, &[]);
                }
                (profile, _) => check_profile(profile.as_deref(), file, &mut chain),
            }
        }
        if !chain.checks.iter().any(|check| check.code == A05.code) {
            packaged(folders, file, &mut chain);
            self.shadowed(folders, file, &entry.name, &mut chain);
        }
        FileResult::Checked(chain)
    }

    fn record(&self, file: &ApplicationFile, application: &Application) -> Option<&RecordedConnection> {
        self.connections.iter().find(|connection| connection.is_at(application, &file.path))
    }

    /// Returns the application whose entry a file has or is to have, if two applications share the file: the one that the
    /// entry or the record names, or whose form the file has; else the first.
    fn owner(
        &self,
        file: &ApplicationFile,
        text: &str,
        entry: Option<&ServerConfig>,
    ) -> &'static Application {
        let Some(other) = file.application.sharing_files() else { return file.application };
        let both = || APPLICATIONS.iter().filter(|one| one.id == file.application.id || one.id == other.id);
        let named = entry.and_then(|entry| option_of(entry, "--application"));
        let owner = both().find(|one| named.as_deref() == Some(one.id));
        let owner = owner.or_else(|| both().find(|one| self.record(file, one).is_some()));
        let owner = owner.or_else(|| application_in_form(file.application, text));
        owner.or_else(|| both().next()).unwrap_or(file.application)
    }

    /// Checks that no file of the project has an entry of the same name, which would be used instead.
    fn shadowed(
        &self,
        folders: &ApplicationFolders<'_>,
        file: &ApplicationFile,
        entry: &str,
        chain: &mut DoctorChain,
    ) {
        if file.scope == PlaceScope::Project {
            return;
        }
        let mut places = folders.paths(file.application);
        places.retain(|place| place.scope == PlaceScope::Project && place.path.is_file());
        let has_entry = |place: &&ApplicationFile| {
            let is_other =
                |server: &ServerConfig| server.name == entry && !is_hospes(server, &self.endpoints);
            read(place).is_ok_and(|(_, servers)| servers.entries.iter().any(is_other))
        };
        let Some(other) = places.iter().find(has_entry) else { return chain.ok(&A06, "") };
        let shown = display_path(&other.path);
        let finding =
            DoctorFinding::new(format!("{shown} has another server `{entry}`, which wins in this folder"))
                .why(format!("{} prefers the project's file to yours", file.application.name))
                .mend(format!("rename or remove `{entry}` in {shown}"));
        chain.warn(&A06, finding);
    }
}

/// Result of the checks of a file.
enum FileResult {
    Checked(DoctorChain),
    /// The entry is that of an application with the same files.
    OfOther(&'static Application),
    /// There is no entry, and there need not be one.
    NoEntry,
}

/// Returns the folders of the user and of the project. `None` without a home folder.
fn folders() -> Option<ApplicationFolders<'static>> {
    let home = std::env::home_dir()?;
    let folders = ApplicationFolders::new(SystemKind::current(), home, |name| std::env::var(name).ok());
    Some(match std::env::current_dir() {
        Ok(project) => folders.project(project),
        Err(_) => folders,
    })
}

/// Servers of a file.
#[derive(Default)]
struct FileServers {
    entries: Vec<ServerConfig>,
    /// Entries that cannot be used, with the reason.
    unusable: Vec<(String, String)>,
}

/// Reads a file of an application. One that names no servers has none, as most files of settings.
fn read(file: &ApplicationFile) -> Result<(String, FileServers), String> {
    let text = read_text(&file.path).map_err(|problem| problem.to_string())?;
    let loader = ConfigLoader::new().allow_unset(true).keep_going(true).keep_references(true);
    let servers = match loader.parse(&file.path, &text) {
        Ok(config) => {
            let rejected =
                config.rejected.into_iter().map(|one| (one.name.to_string(), one.errors.to_string()));
            let skipped =
                config.skipped.into_iter().map(|one| (one.name.to_string(), one.reason.to_string()));
            FileServers { entries: config.servers, unusable: rejected.chain(skipped).collect() }
        }
        Err(errors) if errors.iter().all(ConfigError::names_no_servers) => FileServers::default(),
        Err(errors) => {
            return Err(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
        }
    };
    Ok((text, servers))
}

/// Returns the option of `hospes connect` that chooses the file, after a space.
pub(super) fn project_option(file: &ApplicationFile) -> &'static str {
    if file.scope == PlaceScope::Project { " --project" } else { "" }
}

/// Describes the loss of an entry that `hospes connect` had added.
fn lost_entry(file: &ApplicationFile, record: &RecordedConnection, servers: &FileServers) -> DoctorFinding {
    let (id, shown) = (file.application.id, display_path(&file.path));
    let project = project_option(file);
    let connect = format!("hospes connect {id}{project}{}", record.options());
    let again = format!("hospes disconnect {id}{project}; {connect}");
    if let Some((_, why)) = servers.unusable.iter().find(|(name, _)| name == ENTRY_NAME) {
        return DoctorFinding::new(format!("the entry `{ENTRY_NAME}` in {shown} cannot be used"))
            .why(why.as_str())
            .mend(again);
    }
    if servers.entries.iter().any(|server| server.name == ENTRY_NAME) {
        return DoctorFinding::new(format!("the entry `{ENTRY_NAME}` in {shown} starts another program"))
            .why("it was changed since `hospes connect` added it")
            .mend(again);
    }
    DoctorFinding::new(format!("the entry of Hospes in {shown} is gone"))
        .why(format!(
            "`hospes connect {id}` had added it; {} or another program has removed it",
            file.application.name
        ))
        .mend(connect)
}

fn check_profile(profile: Option<&str>, file: &ApplicationFile, chain: &mut DoctorChain) {
    let Some(profile) = profile else { return chain.ok(&A07, "") };
    let configured = profiles::configured(&[]);
    if configured.iter().any(|known| known.name == profile) {
        return chain.ok(&A07, "");
    }
    let known: Vec<&str> = configured.iter().map(|profile| profile.name.as_str()).collect();
    let finding = DoctorFinding::new(format!("the profile `{profile}` is not configured"))
        .why(profile_hint(profile, &known))
        .mend(format!(
            "add `[profiles.{profile}]` to the configuration, or hospes connect {}{} --profile NAME",
            file.application.id,
            project_option(file)
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

#[cfg(test)]
mod tests {
    use std::path::Path;

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
