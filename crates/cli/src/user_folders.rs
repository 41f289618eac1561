//! Folders of the program for one user, on each system. They depend on nothing but the arguments, so that the rules of
//! all systems are tested on each of them.

use std::path::{Path, PathBuf};

use hospes_host::config::applications::SystemKind;

/// Purpose of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FolderKind {
    /// Configuration, rules, and keys.
    Config,
    /// Databases, logs, records of connections.
    State,
    /// Unpacked bundles.
    Data,
    /// Data that can be fetched again.
    Cache,
}

/// The user's folders on a system.
pub(crate) struct UserFolders<'a> {
    system: SystemKind,
    home: Option<PathBuf>,
    variable: &'a dyn Fn(&str) -> Option<PathBuf>,
    is_folder: &'a dyn Fn(&Path) -> bool,
}

impl<'a> UserFolders<'a> {
    /// Creates the rules. `variable` returns environment variables that are absolute paths, and `is_folder` tells
    /// whether a folder exists.
    pub(crate) fn new(
        system: SystemKind,
        home: Option<PathBuf>,
        variable: &'a dyn Fn(&str) -> Option<PathBuf>,
        is_folder: &'a dyn Fn(&Path) -> bool,
    ) -> Self {
        Self { system, home, variable, is_folder }
    }

    /// Returns the program's folder. `None` if there is no home folder.
    ///
    /// A variable of the XDG Base Directory Specification counts on all systems. On macOS, a folder of that
    /// specification that exists is kept.
    pub(crate) fn folder(&self, kind: FolderKind) -> Option<PathBuf> {
        let (name, below_home) = match kind {
            FolderKind::Config => ("XDG_CONFIG_HOME", ".config"),
            FolderKind::State => ("XDG_STATE_HOME", ".local/state"),
            FolderKind::Data => ("XDG_DATA_HOME", ".local/share"),
            FolderKind::Cache => ("XDG_CACHE_HOME", ".cache"),
        };
        if let Some(base) = (self.variable)(name) {
            return Some(base.join("hospes"));
        }
        let home = |below: &str| Some(self.home.as_ref()?.join(below));
        let xdg = || Some(home(below_home)?.join("hospes"));
        // Keys and what they open are in different folders, so configuration and state must not share one.
        let part = match kind {
            FolderKind::Config => "",
            FolderKind::State => "state",
            FolderKind::Data => "data",
            FolderKind::Cache => "cache",
        };
        match self.system {
            SystemKind::MacOs => xdg().filter(|folder| (self.is_folder)(folder)).or_else(|| match kind {
                FolderKind::Cache => home("Library/Caches/hospes"),
                _ => Some(home("Library/Application Support/hospes")?.join(part)),
            }),
            SystemKind::Windows => {
                let (variable, below_home) = match kind {
                    FolderKind::Config => ("APPDATA", "AppData/Roaming"),
                    _ => ("LOCALAPPDATA", "AppData/Local"),
                };
                let base = (self.variable)(variable).or_else(|| home(below_home))?;
                Some(base.join("hospes").join(part))
            }
            _ => xdg(),
        }
        // A trailing slash, which an empty part leaves, would be shown to people.
        .map(|folder| folder.components().collect())
    }
}

/// Returns the program's folder for all users of a machine.
pub(crate) fn machine_folder(system: SystemKind, variable: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
    match system {
        SystemKind::MacOs => PathBuf::from("/Library/Application Support/hospes"),
        // Without the variable, the folder is where Windows has it, so that to unset it hides nothing.
        SystemKind::Windows => {
            variable("ProgramData").unwrap_or_else(|| PathBuf::from("C:\\ProgramData")).join("hospes")
        }
        _ => PathBuf::from("/etc/hospes"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn folder(
        system: SystemKind,
        variables: &[(&str, &str)],
        existing: &[&str],
        kind: FolderKind,
    ) -> Option<String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value))
        };
        let is_folder = |path: &Path| existing.iter().any(|known| path == Path::new(known));
        let folders = UserFolders::new(system, Some("/home/me".into()), &variable, &is_folder);
        folders.folder(kind).map(|path| path.to_string_lossy().replace('\\', "/"))
    }

    #[test]
    fn each_system_has_a_folder_for_all_its_users() {
        let of = |system| machine_folder(system, &|_| None).to_string_lossy().replace('\\', "/");
        assert_eq!(of(SystemKind::Linux), "/etc/hospes");
        assert_eq!(of(SystemKind::MacOs), "/Library/Application Support/hospes");
        assert_eq!(of(SystemKind::Windows), "C:/ProgramData/hospes");
    }

    #[test]
    fn each_system_has_its_own_folders() {
        use FolderKind::{Cache, Config, Data, State};
        let of = |system, kind| folder(system, &[], &[], kind).unwrap();
        for (kind, linux, mac, windows) in [
            (Config, ".config/hospes", "Library/Application Support/hospes", "AppData/Roaming/hospes"),
            (
                State,
                ".local/state/hospes",
                "Library/Application Support/hospes/state",
                "AppData/Local/hospes/state",
            ),
            (
                Data,
                ".local/share/hospes",
                "Library/Application Support/hospes/data",
                "AppData/Local/hospes/data",
            ),
            (Cache, ".cache/hospes", "Library/Caches/hospes", "AppData/Local/hospes/cache"),
        ] {
            assert_eq!(of(SystemKind::Linux, kind), format!("/home/me/{linux}"));
            assert_eq!(of(SystemKind::MacOs, kind), format!("/home/me/{mac}"));
            assert_eq!(of(SystemKind::Windows, kind), format!("/home/me/{windows}"));
        }
    }

    #[test]
    fn variables_count_and_macos_keeps_the_folders_of_before() {
        let given = [("XDG_CONFIG_HOME", "/c"), ("APPDATA", "/roaming"), ("LOCALAPPDATA", "/local")];
        let of = |system, kind| folder(system, &given, &[], kind).unwrap();
        for system in [SystemKind::Linux, SystemKind::MacOs, SystemKind::Windows] {
            assert_eq!(of(system, FolderKind::Config), "/c/hospes");
        }
        assert_eq!(of(SystemKind::Windows, FolderKind::State), "/local/hospes/state");
        assert_eq!(of(SystemKind::Linux, FolderKind::State), "/home/me/.local/state/hospes");
        let roaming = folder(SystemKind::Windows, &given[1..], &[], FolderKind::Config);
        assert_eq!(roaming.as_deref(), Some("/roaming/hospes"));
        let kept = folder(SystemKind::MacOs, &[], &["/home/me/.config/hospes"], FolderKind::Config);
        assert_eq!(kept.as_deref(), Some("/home/me/.config/hospes"));
        let other = folder(SystemKind::MacOs, &[], &["/home/me/.config/hospes"], FolderKind::State);
        assert_eq!(other.as_deref(), Some("/home/me/Library/Application Support/hospes/state"));
    }

    #[test]
    fn without_a_home_folder_there_is_none() {
        let none = |_: &str| None;
        let folders = UserFolders::new(SystemKind::MacOs, None, &none, &|_: &Path| true);
        assert_eq!(folders.folder(FolderKind::Config), None);
    }
}
