//! Sandbox that is proposed for a new server. A person decides.

use std::path::{Path, PathBuf};

use hospes_bundle::manifest::OptionKind;
use hospes_bundle::{BundleManifest, UserValue, UserValues};
use hospes_registry::{LaunchPlan, NetworkSuggestion};
use toml::{Table, Value};

use super::denied::DeniedAccess;
use crate::packages::find_program;
use crate::paths;

/// Folders of programs and libraries that every confined server can read.
const SYSTEM_FOLDERS: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
/// Launchers that download packages, and the folders below the home folder that they write.
const LAUNCHER_CACHES: [(&str, &[&str]); 2] =
    [("npx", &[".npm"]), ("uvx", &[".cache/uv", ".local/share/uv"])];

/// Sandbox that is proposed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct ProposedSandbox {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    has_network: bool,
}

impl ProposedSandbox {
    /// Proposes a sandbox for a package that is installed in `folder`, or run by its launcher. `None` for containers, for
    /// servers elsewhere, and for launchers whose files are not known.
    pub(in crate::commands) fn of_plan(plan: &LaunchPlan, folder: Option<&Path>) -> Option<Self> {
        let command = plan.command.as_deref()?;
        let mut proposed =
            Self { has_network: plan.sandbox.network != NetworkSuggestion::Off, ..Self::default() };
        match (folder, LAUNCHER_CACHES.iter().find(|(launcher, _)| *launcher == command)) {
            (Some(folder), _) => proposed.read.push(folder.to_owned()),
            (None, Some((_, caches))) => {
                let home = std::env::home_dir()?;
                // A folder that does not exist cannot be granted.
                let caches = caches.iter().map(|cache| home.join(cache)).filter(|cache| cache.is_dir());
                proposed.write.extend(caches);
                proposed.has_network = true;
            }
            (None, None) => return None,
        }
        let answers = plan.sandbox.paths.iter().map(PathBuf::from).filter(|path| path.is_absolute());
        proposed.write.extend(answers);
        Some(proposed)
    }

    /// Proposes a sandbox for a bundle: its folder, and the files and folders that were given as answers.
    pub(in crate::commands) fn of_bundle(
        manifest: &BundleManifest,
        values: &UserValues,
        folder: &Path,
    ) -> Self {
        let mut proposed = Self { read: vec![folder.to_owned()], has_network: true, ..Self::default() };
        let is_path = |kind| matches!(kind, OptionKind::Directory | OptionKind::File);
        for option in manifest.user_config.iter().filter(|option| is_path(option.kind)) {
            let paths = match values.get(&option.key) {
                Some(UserValue::List(paths)) => paths.clone(),
                Some(value) => vec![value.to_text()],
                None => Vec::new(),
            };
            proposed.write.extend(paths.into_iter().map(PathBuf::from).filter(|path| path.is_absolute()));
        }
        proposed
    }

    /// Adds the folder of the interpreter, if it is not one that every server can read.
    pub(in crate::commands) fn complete(&mut self, command: &[String]) {
        let Some(program) = command.first() else { return };
        let found = match Path::new(program).is_absolute() {
            true => Some(PathBuf::from(program)),
            false => find_program(program).ok(),
        };
        let Some(found) = found else { return };
        // The script of a virtual environment is started by the Python beside it, which is a link.
        let python = found.with_file_name("python");
        for file in [found, python] {
            let Ok(file) = file.canonicalize() else { continue };
            let covers = |folder: &Path| file.starts_with(folder);
            let is_readable = SYSTEM_FOLDERS.iter().any(|folder| covers(Path::new(folder)))
                || self.read.iter().chain(&self.write).any(|folder| covers(folder));
            // `PREFIX/bin/node` uses files of `PREFIX/lib`.
            if let Some(prefix) = file.parent().and_then(Path::parent).filter(|_| !is_readable)
                && prefix.parent().is_some()
            {
                self.read.push(prefix.to_owned());
            }
        }
    }

    /// Grants one file that was denied. A host cannot be granted alone.
    pub(super) fn grant(&mut self, denied: &DeniedAccess) {
        if let DeniedAccess::File { path, is_written } = denied {
            let paths = if *is_written { &mut self.write } else { &mut self.read };
            paths.push(path.clone());
        }
    }

    /// Returns true if the servers in it may use the network.
    pub(super) fn has_network(&self) -> bool {
        self.has_network
    }

    /// Returns true if a file may be read.
    pub(super) fn can_read(&self, file: &Path) -> bool {
        self.read.iter().any(|folder| file.starts_with(folder)) || self.can_write(file)
    }

    /// Returns true if a file may be read and written.
    pub(super) fn can_write(&self, file: &Path) -> bool {
        self.write.iter().any(|folder| file.starts_with(folder))
    }

    /// Formats what it allows, and what it denies.
    pub(in crate::commands) fn describe(&self) -> String {
        let list = |paths: &[PathBuf]| {
            paths.iter().map(|path| paths::display_path(path)).collect::<Vec<_>>().join(", ")
        };
        let mut allowed = Vec::new();
        if !self.read.is_empty() {
            allowed.push(format!("reads {}", list(&self.read)));
        }
        if !self.write.is_empty() {
            allowed.push(format!("reads and writes {}", list(&self.write)));
        }
        let network = if self.has_network { "the network stays open" } else { "no network" };
        format!("{}; no other files of yours; {network}", allowed.join("; "))
    }

    /// Returns the table of the configuration.
    pub(in crate::commands) fn table(&self) -> Table {
        let list = |paths: &[PathBuf]| {
            Value::Array(
                paths.iter().map(|path| super::draft::literal(&path.to_string_lossy()).into()).collect(),
            )
        };
        let files = Table::from_iter([
            ("read".to_owned(), list(&self.read)),
            ("write".to_owned(), list(&self.write)),
        ]);
        let mut table = Table::from_iter([("files".to_owned(), Value::Table(files))]);
        if !self.has_network {
            table.insert("network".to_owned(), "none".into());
        }
        table
    }
}
