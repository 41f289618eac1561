//! How the program was installed, found by the path of its file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::exit::{CliError, CliResult};

/// File beside the program of an archive. Its first word names the channel.
pub(crate) const MARKER: &str = "INSTALLED_BY";
/// Maximum size of the marker that is read, in bytes.
const MAX_MARKER_BYTES: u64 = 256;

/// True if this program is a release: the workflow of releases sets the variable, and cargo builds what a registry has
/// published in a folder of this name. Only releases can be upgraded by a package manager.
pub(crate) const IS_RELEASE: bool = option_env!("HOSPES_RELEASE").is_some()
    || contains(env!("CARGO_MANIFEST_DIR"), "/registry/src/")
    || contains(env!("CARGO_MANIFEST_DIR"), "\\registry\\src\\");

/// Channel by which the program was installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstallChannel {
    /// npm, globally.
    Npm,
    /// The cache of `npx`, which always runs the newest version that fits.
    Npx,
    /// pnpm, globally.
    Pnpm,
    /// `uv tool install`.
    Uv,
    /// The cache of `uvx`.
    Uvx,
    /// pipx.
    Pipx,
    /// pip, in an environment of Python.
    Pip,
    /// `cargo install`.
    Cargo,
    /// Homebrew.
    Homebrew,
    /// A Debian package.
    Debian,
    /// winget.
    Winget,
    /// Scoop.
    Scoop,
    /// A container image.
    Container,
    /// A downloaded archive.
    Archive,
    /// A build in a checkout of the repository.
    Build,
    /// Anything else.
    Unknown,
}

/// What is known about the machine, as far as it says how the program was installed.
#[derive(Debug, Default)]
pub(crate) struct InstallEvidence {
    /// Path of the program with all links resolved, with `/` as separator.
    pub(crate) program: String,
    /// Content of the marker beside the program.
    pub(crate) marker: Option<String>,
    /// True if the package manager of Debian knows the file.
    pub(crate) is_debian: bool,
    /// Content of the file in which Python keeps the name of the installer, such as `pip`.
    pub(crate) python_installer: Option<String>,
    /// `CARGO_HOME`, if it is set.
    pub(crate) cargo_home: Option<String>,
}

impl InstallEvidence {
    /// Examines this machine.
    pub(crate) fn gather() -> std::io::Result<Self> {
        let program = std::fs::canonicalize(std::env::current_exe()?)?;
        let marker = program.parent().map(|folder| folder.join(MARKER)).and_then(|file| read_marker(&file));
        let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        Ok(Self {
            marker,
            is_debian: cfg!(target_os = "linux") && is_known_to_dpkg(&program),
            python_installer: python_installer(&program),
            cargo_home: cargo_home.as_deref().map(slashes),
            program: slashes(&program),
        })
    }

    /// Returns the channel. A marker is exact, and a path is specific. A container may hold any
    /// of these; the program of our image has a marker.
    pub(crate) fn channel(&self) -> InstallChannel {
        match (self.marker.as_deref().and_then(marked_channel), self.path_channel()) {
            // These unpack archives with their marker into folders of their own.
            (
                Some(InstallChannel::Archive),
                by_path @ (InstallChannel::Homebrew | InstallChannel::Scoop | InstallChannel::Winget),
            ) => by_path,
            (Some(marked), _) => marked,
            (None, by_path) => by_path,
        }
    }

    fn path_channel(&self) -> InstallChannel {
        let path = self.program.to_lowercase();
        let has = |part: &str| path.contains(part);
        let is_below =
            |folder: &str| path.starts_with(&format!("{}/", folder.to_lowercase().trim_end_matches('/')));
        // The more specific first: the packages of npm may lie below a folder of Homebrew or winget.
        match () {
            () if has("/_npx/") => InstallChannel::Npx,
            () if has("/pnpm/") && has("/node_modules/") => InstallChannel::Pnpm,
            () if has("/node_modules/") => InstallChannel::Npm,
            () if has("/uv/tools/") => InstallChannel::Uv,
            () if has("/uv/archive-v0/") || has("/uv/cache/") || has("/.cache/uv/") => InstallChannel::Uvx,
            () if has("/pipx/venvs/") => InstallChannel::Pipx,
            () if has("/site-packages/") || self.python_installer.is_some() => InstallChannel::Pip,
            () if has("/cellar/") || has("/homebrew/") || has("/linuxbrew/") => InstallChannel::Homebrew,
            () if has("/winget/packages/") || has("/winget/links/") => InstallChannel::Winget,
            () if has("/scoop/apps/") || has("/scoop/shims/") => InstallChannel::Scoop,
            () if self.cargo_home.as_deref().is_some_and(is_below) || has("/.cargo/bin/") => {
                InstallChannel::Cargo
            }
            () if has("/target/debug/") || has("/target/release/") => InstallChannel::Build,
            () if self.is_debian => InstallChannel::Debian,
            () => InstallChannel::Unknown,
        }
    }
}

/// Returns true if a text contains another one. Evaluated by the compiler, so that no path of the build is in the program.
const fn contains(text: &str, part: &str) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let mut start = 0;
    while start + part.len() <= text.len() {
        let mut at = 0;
        while at < part.len() && text[start + at] == part[at] {
            at += 1;
        }
        if at == part.len() {
            return true;
        }
        start += 1;
    }
    false
}

/// Returns the path of this program for files that outlast it, such as those of services and applications. A link in
/// `PATH` comes first, because the file behind it may change its name when a package manager upgrades it.
///
/// # Errors
/// If the path cannot be determined.
pub(crate) fn lasting_program() -> CliResult<PathBuf> {
    let own = std::env::current_exe().map_err(|error| {
        CliError::usage("cannot determine the path of the hospes executable").with_cause(&error)
    })?;
    Ok(link_in_path(&own, &std::env::var_os("PATH").unwrap_or_default()).unwrap_or(own))
}

/// Returns the file in `folders` that is a link to `program` or the file itself, by the same name.
fn link_in_path(program: &Path, folders: &OsStr) -> Option<PathBuf> {
    let real = std::fs::canonicalize(program).ok()?;
    std::env::split_paths(folders)
        .filter(|folder| folder.is_absolute())
        .filter_map(|folder| Some(folder.join(program.file_name()?)))
        .find(|file| std::fs::canonicalize(file).is_ok_and(|file| file == real))
}

/// Returns a warning if the program is in a cache, from which it may disappear, and cannot be named in files.
pub(crate) fn cache_warning() -> Option<String> {
    let channel = InstallEvidence::gather().ok()?.channel();
    // Before the first release, the packages are files.
    let lasting = match (channel, IS_RELEASE) {
        (InstallChannel::Npx, true) => "npm install --global hospes",
        (InstallChannel::Npx, false) => "npm install --global FILES",
        (InstallChannel::Uvx, true) => "uv tool install hospes",
        (InstallChannel::Uvx, false) => "uv tool install FILE",
        _ => return None,
    };
    Some(format!(
        "this hospes is in the cache of {}, which may delete it; `{lasting}` installs it permanently, then run the \
         command again",
        channel.as_str()
    ))
}

fn slashes(path: &Path) -> String {
    let text = path.to_string_lossy().into_owned();
    if cfg!(windows) { text.replace('\\', "/") } else { text }
}

fn read_marker(file: &Path) -> Option<String> {
    use std::io::Read as _;

    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(MAX_MARKER_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the installer of the Python package that the program is a script of. Scripts are not in the folder of packages,
/// but beside it: `bin/hospes` and `lib/python3.12/site-packages/hospes-0.1.0.dist-info`.
fn python_installer(program: &Path) -> Option<String> {
    let environment = program.parent()?.parent()?;
    let version = concat!("hospes-", env!("CARGO_PKG_VERSION"), ".dist-info");
    let libraries = std::fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let unix = libraries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
    let windows = environment.join("Lib");
    unix.chain([windows])
        // Debian's own Python has packages of pip in another folder.
        .flat_map(|folder| ["site-packages", "dist-packages"].map(|packages| folder.join(packages)))
        .find_map(|packages| read_marker(&packages.join(version).join("INSTALLER")))
}

fn marked_channel(marker: &str) -> Option<InstallChannel> {
    Some(match marker.split_whitespace().next()? {
        "archive" => InstallChannel::Archive,
        "container" => InstallChannel::Container,
        "debian" => InstallChannel::Debian,
        "homebrew" => InstallChannel::Homebrew,
        "npm" => InstallChannel::Npm,
        "pypi" => InstallChannel::Pip,
        "scoop" => InstallChannel::Scoop,
        "winget" => InstallChannel::Winget,
        _ => return None,
    })
}

fn is_known_to_dpkg(program: &Path) -> bool {
    let mut command = Command::new("dpkg");
    command.arg("-S").arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl InstallChannel {
    /// Name for people and for JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Npx => "npx",
            Self::Pnpm => "pnpm",
            Self::Uv => "uv",
            Self::Uvx => "uvx",
            Self::Pipx => "pipx",
            Self::Pip => "pip",
            Self::Cargo => "cargo",
            Self::Homebrew => "Homebrew",
            Self::Debian => "Debian package",
            Self::Winget => "winget",
            Self::Scoop => "Scoop",
            Self::Container => "container image",
            Self::Archive => "archive",
            Self::Build => "build of a checkout",
            Self::Unknown => "unknown",
        }
    }

    /// Command that installs the newest version. `None` if there is none for the channel.
    pub(crate) const fn command(self) -> Option<&'static str> {
        Some(match self {
            Self::Npm => "npm install --global hospes@latest",
            Self::Npx => "npx --yes hospes@latest --version",
            Self::Pnpm => "pnpm add --global hospes@latest",
            Self::Uv => "uv tool upgrade hospes",
            Self::Uvx => "uvx hospes@latest --version",
            Self::Pipx => "pipx upgrade hospes",
            Self::Pip => "python -m pip install --upgrade hospes",
            Self::Cargo => "cargo install hospes-cli --locked",
            Self::Homebrew => "brew upgrade hospes",
            Self::Debian => "sudo apt install --only-upgrade hospes",
            Self::Winget => "winget upgrade hospes",
            Self::Scoop => "scoop update hospes",
            Self::Build => "git pull && cargo build --release",
            Self::Container | Self::Archive | Self::Unknown => return None,
        })
    }

    /// Advice if there is no command.
    pub(crate) const fn advice(self) -> Option<&'static str> {
        match self {
            Self::Container => {
                Some("pull the newest image and create the container again; its volume keeps the state")
            }
            Self::Archive => Some("unpack the newest archive over this folder while no host runs"),
            Self::Unknown => Some("replace the file in the way you installed it"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(program: &str) -> InstallChannel {
        InstallEvidence { program: program.to_owned(), ..InstallEvidence::default() }.channel()
    }

    #[test]
    fn each_channel_is_known_by_its_path_on_all_systems() {
        for (path, expected) in [
            (
                "/usr/local/lib/node_modules/hospes/node_modules/@hospes/linux-x64/bin/hospes",
                InstallChannel::Npm,
            ),
            (
                "C:/Users/me/AppData/Roaming/npm/node_modules/@hospes/win32-x64/hospes.exe",
                InstallChannel::Npm,
            ),
            ("/opt/homebrew/lib/node_modules/@hospes/darwin-arm64/hospes", InstallChannel::Npm),
            ("/home/me/.npm/_npx/0123abcd/node_modules/@hospes/linux-x64/hospes", InstallChannel::Npx),
            (
                "/home/me/.local/share/pnpm/global/5/node_modules/@hospes/linux-x64/hospes",
                InstallChannel::Pnpm,
            ),
            ("/home/me/.local/share/uv/tools/hospes/bin/hospes", InstallChannel::Uv),
            ("C:/Users/me/AppData/Roaming/uv/tools/hospes/Scripts/hospes.exe", InstallChannel::Uv),
            ("/home/me/.cache/uv/archive-v0/abc/bin/hospes", InstallChannel::Uvx),
            ("/home/me/.local/share/pipx/venvs/hospes/bin/hospes", InstallChannel::Pipx),
            ("/home/me/.local/pipx/venvs/hospes/bin/hospes", InstallChannel::Pipx),
            ("/home/me/.cargo/bin/hospes", InstallChannel::Cargo),
            ("C:/Users/me/.cargo/bin/hospes.exe", InstallChannel::Cargo),
            ("/opt/homebrew/Cellar/hospes/0.2.0/bin/hospes", InstallChannel::Homebrew),
            ("/usr/local/Cellar/hospes/0.2.0/bin/hospes", InstallChannel::Homebrew),
            ("/home/linuxbrew/.linuxbrew/Cellar/hospes/0.2.0/bin/hospes", InstallChannel::Homebrew),
            (
                "C:/Users/me/AppData/Local/Microsoft/WinGet/Packages/Hospes.Hospes_x/hospes.exe",
                InstallChannel::Winget,
            ),
            ("C:/Users/me/AppData/Local/Microsoft/WinGet/Links/hospes.exe", InstallChannel::Winget),
            ("C:/Users/me/scoop/apps/hospes/current/hospes.exe", InstallChannel::Scoop),
            ("/home/me/src/hospes/target/release/hospes", InstallChannel::Build),
            ("/opt/hospes/hospes", InstallChannel::Unknown),
        ] {
            assert_eq!(channel(path), expected, "{path}");
        }
    }

    #[test]
    fn other_evidence_decides_where_the_path_says_nothing() {
        let usr = || InstallEvidence { program: "/usr/bin/hospes".to_owned(), ..InstallEvidence::default() };
        assert_eq!(InstallEvidence { is_debian: true, ..usr() }.channel(), InstallChannel::Debian);
        assert_eq!(usr().channel(), InstallChannel::Unknown);
        for (marker, expected) in
            [("archive", InstallChannel::Archive), ("container", InstallChannel::Container)]
        {
            let marked = InstallEvidence { marker: Some(format!("{marker} 0.2.0\n")), ..usr() };
            assert_eq!(marked.channel(), expected);
        }
        let nonsense = InstallEvidence { marker: Some("rm -rf /".to_owned()), is_debian: true, ..usr() };
        assert_eq!(nonsense.channel(), InstallChannel::Debian);
        let own = InstallEvidence {
            program: "/data/rust/bin/hospes".to_owned(),
            cargo_home: Some("/data/rust".to_owned()),
            ..InstallEvidence::default()
        };
        assert_eq!(own.channel(), InstallChannel::Cargo);
    }

    #[test]
    fn an_archive_that_a_package_manager_unpacked_is_upgraded_by_it() {
        let marked = |program: &str| {
            let marker = Some("archive 0.2.0\n".to_owned());
            InstallEvidence { program: program.to_owned(), marker, ..InstallEvidence::default() }.channel()
        };
        assert_eq!(marked("C:/Users/me/scoop/apps/hospes/current/hospes.exe"), InstallChannel::Scoop);
        assert_eq!(
            marked("C:/Users/me/AppData/Local/Microsoft/WinGet/Packages/Hospes.Hospes_x/hospes.exe"),
            InstallChannel::Winget
        );
        assert_eq!(marked("/opt/homebrew/Cellar/hospes/0.2.0/bin/hospes"), InstallChannel::Homebrew);
        // A user may unpack an archive anywhere, such as into a checkout.
        assert_eq!(marked("/home/me/src/target/release/hospes"), InstallChannel::Archive);
    }

    #[test]
    fn a_script_of_a_python_environment_is_known_by_the_record_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("bin/hospes");
        assert_eq!(python_installer(&program), None);
        for library in ["lib/python3.12/site-packages", "Lib/site-packages", "lib/python3/dist-packages"] {
            let version = concat!("hospes-", env!("CARGO_PKG_VERSION"), ".dist-info");
            let record = folder.path().join(library).join(version);
            std::fs::create_dir_all(&record).unwrap();
            std::fs::write(record.join("INSTALLER"), "pip\n").unwrap();
            assert_eq!(python_installer(&program).as_deref(), Some("pip\n"), "{library}");
            std::fs::remove_dir_all(folder.path().join(library)).unwrap();
        }
        let in_environment = |program: &str| {
            let python_installer = Some("pip\n".to_owned());
            InstallEvidence { program: program.to_owned(), python_installer, ..InstallEvidence::default() }
                .channel()
        };
        assert_eq!(in_environment("/home/me/project/.venv/bin/hospes"), InstallChannel::Pip);
        // These have environments, too, and upgrade them by commands of their own.
        assert_eq!(in_environment("/home/me/.local/share/uv/tools/hospes/bin/hospes"), InstallChannel::Uv);
        assert_eq!(in_environment("/home/me/.local/pipx/venvs/hospes/bin/hospes"), InstallChannel::Pipx);
    }

    #[test]
    fn each_channel_has_a_command_or_an_advice() {
        for channel in [
            InstallChannel::Npm,
            InstallChannel::Npx,
            InstallChannel::Pnpm,
            InstallChannel::Uv,
            InstallChannel::Uvx,
            InstallChannel::Pipx,
            InstallChannel::Pip,
            InstallChannel::Cargo,
            InstallChannel::Homebrew,
            InstallChannel::Debian,
            InstallChannel::Winget,
            InstallChannel::Scoop,
            InstallChannel::Container,
            InstallChannel::Archive,
            InstallChannel::Build,
            InstallChannel::Unknown,
        ] {
            assert!(channel.command().is_some() != channel.advice().is_some(), "{channel:?}");
        }
    }

    #[test]
    fn a_build_of_the_workspace_is_no_release() {
        assert_eq!(IS_RELEASE, option_env!("HOSPES_RELEASE").is_some());
        assert!(contains("/home/me/.cargo/registry/src/index/hospes-cli-0.1.0", "/registry/src/"));
        assert!(contains("ab", "b") && contains("ab", "ab") && contains("", ""));
        assert!(!contains("a", "ab") && !contains("/registry/sr", "/registry/src/") && !contains("", "a"));
    }

    #[test]
    fn a_long_marker_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(MARKER);
        std::fs::write(&file, "archive ".repeat(1000)).unwrap();
        let read = read_marker(&file).unwrap();
        assert_eq!(read.len() as u64, MAX_MARKER_BYTES);
        assert_eq!(marked_channel(&read), Some(InstallChannel::Archive));
        assert_eq!(read_marker(&folder.path().join("none")), None);
    }
}
