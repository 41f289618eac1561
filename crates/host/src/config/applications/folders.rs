//! Files of applications on a system.

use std::path::{Path, PathBuf};

use super::{APPLICATIONS, Application, ApplicationPlace, PlaceBase, PlaceScope};

/// Maximum number of entries that are read of a folder in which names are matched.
const MAX_ENTRIES: usize = 1000;

/// Operating system whose folders are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SystemKind {
    /// Linux and other Unix systems.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl SystemKind {
    /// Returns the system that the program runs on.
    #[must_use]
    pub const fn current() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::MacOs
        } else {
            Self::Linux
        }
    }
}

type VariableSource<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// Folders of a user on a system, in which the files of applications are found.
pub struct ApplicationFolders<'a> {
    system: SystemKind,
    home: PathBuf,
    project: Option<PathBuf>,
    variables: VariableSource<'a>,
}

/// A configuration file of an application.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApplicationFile {
    /// The application.
    pub application: &'static Application,
    /// Owner of its servers.
    pub scope: PlaceScope,
    /// The file.
    pub path: PathBuf,
}

impl<'a> ApplicationFolders<'a> {
    /// Creates the folders of a user from their home folder and their environment variables.
    pub fn new(
        system: SystemKind,
        home: impl Into<PathBuf>,
        variables: impl Fn(&str) -> Option<String> + 'a,
    ) -> Self {
        Self { system, home: home.into(), project: None, variables: Box::new(variables) }
    }

    /// Sets the project whose files are found, too.
    #[must_use]
    pub fn project(mut self, folder: impl Into<PathBuf>) -> Self {
        self.project = Some(folder.into());
        self
    }

    /// Returns the paths of an application, whether they exist or not. A pattern yields only what exists.
    #[must_use]
    pub fn paths(&self, application: &'static Application) -> Vec<ApplicationFile> {
        let mut files: Vec<ApplicationFile> = Vec::new();
        for place in application.places {
            for path in self.resolve(place) {
                if !files.iter().any(|file| file.path == path) {
                    files.push(ApplicationFile { application, scope: place.scope, path });
                }
            }
        }
        files
    }

    /// Returns the file to which a server is added: the first that exists, else the first whose folder exists, else the
    /// first. `None` if the application has no such file on the system.
    #[must_use]
    pub fn file_to_edit(
        &self,
        application: &'static Application,
        scope: PlaceScope,
    ) -> Option<ApplicationFile> {
        let editable = application.places.iter().filter(|place| place.scope == scope && !place.is_read_only);
        let paths: Vec<PathBuf> = editable.flat_map(|place| self.resolve(place)).collect();
        let existing = paths.iter().find(|path| path.is_file());
        let in_folder = || paths.iter().find(|path| path.parent().is_some_and(Path::is_dir));
        let path = existing.or_else(in_folder).or_else(|| paths.first())?.clone();
        Some(ApplicationFile { application, scope, path })
    }

    /// Returns the paths of an application that is installed as a package of the system, which reads its files from the
    /// folder of the package. There are several if several packages match.
    #[must_use]
    pub fn packaged(&self, application: &'static Application) -> Vec<ApplicationFile> {
        let places =
            application.places.iter().filter(|place| place.path.contains('*') && !place.is_read_only);
        let paths = places.flat_map(|place| self.resolve(place).into_iter().map(|path| (place.scope, path)));
        paths.map(|(scope, path)| ApplicationFile { application, scope, path }).collect()
    }

    /// Returns the existing files of all applications. One that two applications share is that of the first.
    #[must_use]
    pub fn find(&self) -> Vec<ApplicationFile> {
        let mut files: Vec<ApplicationFile> = Vec::new();
        for file in APPLICATIONS.iter().flat_map(|application| self.paths(application)) {
            let is_shared = || files.iter().any(|known| known.path == file.path);
            if file.path.is_file() && !is_shared() {
                files.push(file);
            }
        }
        files
    }

    fn resolve(&self, place: &ApplicationPlace) -> Vec<PathBuf> {
        let base = place.systems.contains(&self.system).then(|| self.base(place.base)).flatten();
        let Some(base) = base else { return Vec::new() };
        let mut paths = vec![base];
        for part in place.path.split('/').filter(|part| !part.is_empty()) {
            paths = match part.split_once('*') {
                Some((head, tail)) => paths.iter().flat_map(|folder| matching(folder, head, tail)).collect(),
                None => paths.into_iter().map(|path| path.join(part)).collect(),
            };
        }
        paths
    }

    fn base(&self, base: PlaceBase) -> Option<PathBuf> {
        let folder =
            |name: &str| (self.variables)(name).filter(|value| self.is_absolute(value)).map(PathBuf::from);
        let of_system = |system| self.system == system;
        match base {
            PlaceBase::Home => Some(self.home.clone()),
            PlaceBase::Config => Some(folder("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config"))),
            PlaceBase::ElectronData => match self.system {
                SystemKind::Linux => self.base(PlaceBase::Config),
                SystemKind::MacOs => Some(self.home.join("Library/Application Support")),
                SystemKind::Windows => self.base(PlaceBase::RoamingData),
            },
            PlaceBase::RoamingData => of_system(SystemKind::Windows)
                .then(|| folder("APPDATA").unwrap_or_else(|| self.home.join("AppData/Roaming"))),
            PlaceBase::LocalData => of_system(SystemKind::Windows)
                .then(|| folder("LOCALAPPDATA").unwrap_or_else(|| self.home.join("AppData/Local"))),
            PlaceBase::Variable(name) => folder(name),
            PlaceBase::Project => self.project.clone(),
        }
    }

    /// Returns true if a path of the system is absolute. The rules are those of the system, not of this program's.
    fn is_absolute(&self, path: &str) -> bool {
        match self.system {
            SystemKind::Windows => {
                let mut letters = path.chars();
                let drive = letters.next().is_some_and(|letter| letter.is_ascii_alphabetic());
                (drive && letters.next() == Some(':'))
                    || path.starts_with("\\\\")
                    || Path::new(path).is_absolute()
            }
            SystemKind::Linux | SystemKind::MacOs => path.starts_with('/'),
        }
    }
}

impl std::fmt::Debug for ApplicationFolders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApplicationFolders")
            .field("system", &self.system)
            .field("home", &self.home)
            .field("project", &self.project)
            .finish_non_exhaustive()
    }
}

/// Returns the entries of a folder whose names begin and end so, in the order of their names.
fn matching(folder: &Path, head: &str, tail: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .take(MAX_ENTRIES)
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_files_of_user_and_project_are_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "{}").unwrap();
        };
        for path in [
            "home/.cursor/mcp.json",
            "home/.config/Code/User/profiles/1f/mcp.json",
            "work/.mcp.json",
            "work/.continue/mcpServers/a.yaml",
            "work/.continue/mcpServers/a.txt",
        ] {
            write(path);
        }
        // A folder of the name of a file is none.
        std::fs::create_dir_all(root.path().join("home/.claude.json")).unwrap();
        let folders = ApplicationFolders::new(SystemKind::Linux, root.path().join("home"), |_| None);
        let shown = |files: Vec<ApplicationFile>| {
            let shown = files.iter().map(|file| {
                format!("{} {}", file.application.id, file.path.strip_prefix(root.path()).unwrap().display())
            });
            shown.collect::<Vec<_>>()
        };
        let user = ["vscode home/.config/Code/User/profiles/1f/mcp.json", "cursor home/.cursor/mcp.json"];
        assert_eq!(shown(folders.find()), user);
        let folders = folders.project(root.path().join("work"));
        assert_eq!(
            shown(folders.find()),
            ["claude-code work/.mcp.json", user[0], user[1], "continue work/.continue/mcpServers/a.yaml"]
        );
    }

    #[test]
    fn ids_are_unique_and_paths_are_relative() {
        for (index, application) in APPLICATIONS.iter().enumerate() {
            assert!(
                APPLICATIONS[..index].iter().all(|other| other.id != application.id),
                "{}",
                application.id
            );
            for place in application.places {
                let is_plain = |part: &str| part != ".." && part.matches('*').count() <= 1;
                assert!(place.path.split('/').all(is_plain), "{}", place.path);
            }
        }
    }
}
