//! Resolution of a command to the file of its program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Reasons a program cannot be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramNotFound {
    /// The command is a path, and the file does not exist.
    #[error("there is no file {}", .0.display())]
    File(PathBuf),
    /// The file is a symbolic link, and its target does not exist.
    #[error("{} is a link to {}, which does not exist", .link.display(), .target.display())]
    DeadLink {
        /// Path of the link.
        link: PathBuf,
        /// File to which it leads.
        target: PathBuf,
    },
    /// The file is not executable.
    #[error("{} may not be run; is it executable?", .0.display())]
    NotExecutable(PathBuf),
    /// The command is a name, and it is in no folder of `PATH`.
    #[error("there is no program {0} in PATH; is it installed?")]
    Name(String),
    /// The command is a URL, which is not repeated: it may have a secret.
    #[error(
        "the command is a URL: write `url = \"…\"` in place of `command`, or add it with `hospes add URL`"
    )]
    Url,
    /// The command is a program with its arguments in one text.
    #[error(
        "the command is one text of several words: write `{0}` alone in `command`, and the others in `args`"
    )]
    Words(String),
}

/// Endings that a command may leave out, in the order in which they are tried. Unix has none, and then the name is used
/// as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramEndings(Vec<String>);

/// Endings of Windows if `PATHEXT` is not set, as `cmd.exe` assumes. Scripts of other programs are left out: the system
/// starts none of them.
#[cfg(any(windows, test))]
const DEFAULT_ENDINGS: &str = ".COM;.EXE;.BAT;.CMD";

impl ProgramEndings {
    /// Returns the endings of this system.
    #[cfg(windows)]
    pub(crate) fn of_system() -> Self {
        Self::of_windows(std::env::var("PATHEXT").ok().as_deref())
    }

    /// Returns the endings of this system: none.
    #[cfg(not(windows))]
    pub(crate) fn of_system() -> Self {
        Self::default()
    }

    /// Returns those of `PATHEXT` that Windows itself can start: programs and batch files.
    #[cfg(any(windows, test))]
    pub(crate) fn of_windows(pathext: Option<&str>) -> Self {
        let is_startable =
            |ending: &str| DEFAULT_ENDINGS.split(';').any(|one| one.eq_ignore_ascii_case(ending));
        let listed = |text: &str| {
            let endings = text.split(';').map(str::trim).filter(|ending| is_startable(ending));
            endings.map(str::to_ascii_lowercase).collect::<Vec<_>>()
        };
        let all = listed(pathext.unwrap_or(DEFAULT_ENDINGS));
        Self(if all.is_empty() { listed(DEFAULT_ENDINGS) } else { all })
    }

    /// Returns the files that a name may mean in its folder, in the order of precedence.
    ///
    /// On Windows, a name without a known ending is never taken as it is: npm puts a shell script `npx` beside `npx.cmd`.
    fn candidates(&self, file: &Path) -> Vec<PathBuf> {
        if self.0.is_empty() {
            return vec![file.to_owned()];
        }
        let text = file.as_os_str();
        let lower = text.to_string_lossy().to_ascii_lowercase();
        let with = |ending: &String| {
            let mut whole = text.to_owned();
            whole.push(ending);
            PathBuf::from(whole)
        };
        let has_ending = self.0.iter().any(|ending| lower.ends_with(ending.as_str()));
        let own = has_ending.then(|| file.to_owned());
        own.into_iter().chain(self.0.iter().map(with)).collect()
    }
}

/// Returns the absolute path of the file that `program` means. A path is taken as it is, below `cwd` if it is relative.
/// A name is looked up in `path`, a `PATH`: the first folder with such a program is used. Symbolic links are kept,
/// because some programs depend on the name they are called by. On Windows, the endings of `PATHEXT` may be left out,
/// as far as the system can start such files.
///
/// # Errors
/// If there is no such file, or it is not executable.
pub fn resolve(program: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, ProgramNotFound> {
    resolve_with(program, path, cwd, &ProgramEndings::of_system())
}

fn resolve_with(
    program: &OsStr,
    path: Option<&OsStr>,
    cwd: &Path,
    endings: &ProgramEndings,
) -> Result<PathBuf, ProgramNotFound> {
    let below = |path: &Path| cwd.join(path);
    let is_path = Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/');
    // Default of the C library without a `PATH`.
    let path = path.unwrap_or_else(|| OsStr::new(if cfg!(windows) { "" } else { "/bin:/usr/bin" }));
    let places: Vec<PathBuf> = match is_path {
        true => vec![below(Path::new(program))],
        // An empty or relative entry of `PATH` means a folder below the working folder.
        false => std::env::split_paths(path).map(|folder| below(&folder).join(program)).collect(),
    };
    let (mut blocked, mut dead) = (None, None);
    let found = places.iter().flat_map(|place| endings.candidates(place)).find(|file| {
        let is_file = file.is_file();
        // As with `execvp`, such a file does not end the search; it only explains why no program was found.
        if is_file && !is_executable(file) {
            blocked.get_or_insert_with(|| file.clone());
            return false;
        }
        if !is_file && dead.is_none() {
            dead = dead_link(file).map(|target| (file.clone(), target));
        }
        is_file
    });
    let text = program.to_string_lossy();
    found.ok_or_else(|| match (blocked, is_path) {
        _ if is_url(&text) => ProgramNotFound::Url,
        (Some(file), _) => ProgramNotFound::NotExecutable(file),
        (None, is_path) => {
            // A program of the first word alone shows what was meant.
            let first = text.split_whitespace().next().filter(|first| first.len() < text.len());
            let is_program = |first: &&str| resolve_with(OsStr::new(first), Some(path), cwd, endings).is_ok();
            match (first.filter(is_program), dead, is_path) {
                (Some(first), ..) => ProgramNotFound::Words(first.to_owned()),
                (None, Some((link, target)), _) => ProgramNotFound::DeadLink { link, target },
                (None, None, true) => ProgramNotFound::File(below(Path::new(program))),
                (None, None, false) => ProgramNotFound::Name(text.into_owned()),
            }
        }
    })
}

/// Returns the file to which a symbolic link leads, if that does not exist. Of a chain of links it is the next one.
#[must_use]
pub fn dead_link(file: &Path) -> Option<PathBuf> {
    let target = file.read_link().ok().filter(|_| !file.exists())?;
    // A relative target is below the folder of the link.
    Some(file.parent().map_or_else(|| target.clone(), |folder| folder.join(&target)))
}

fn is_url(text: &str) -> bool {
    let starts =
        |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    starts("http://") || starts("https://")
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    true
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_command_is_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        for (folder, mode) in [(&first, 0o644), (&second, 0o755)] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("tool"), "").unwrap();
            fs::set_permissions(folder.join("tool"), fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = std::env::join_paths([&first, &second]).unwrap();
        let find = |program: &str| resolve(OsStr::new(program), Some(&path), folder.path());
        assert_eq!(find("tool"), Ok(second.join("tool")), "what may not be run is passed over");
        assert_eq!(find("second/tool"), Ok(folder.path().join("second/tool")));
        assert_eq!(find(second.join("tool").to_str().unwrap()), Ok(second.join("tool")));
        assert_eq!(find("first/tool"), Err(ProgramNotFound::NotExecutable(first.join("tool"))));
        assert_eq!(find("third/tool"), Err(ProgramNotFound::File(folder.path().join("third/tool"))));
        assert_eq!(find("nothing"), Err(ProgramNotFound::Name("nothing".into())));
        assert_eq!(find("nothing; tool"), Err(ProgramNotFound::Name("nothing; tool".into())));
        let only = resolve(OsStr::new("tool"), Some(first.as_os_str()), folder.path());
        assert_eq!(only, Err(ProgramNotFound::NotExecutable(first.join("tool"))));
        for link in ["first/link", "second/other"] {
            let link = folder.path().join(link);
            std::os::unix::fs::symlink("gone/tool", &link).unwrap();
            let target = link.parent().unwrap().join("gone/tool");
            let name = link.file_name().unwrap().to_str().unwrap();
            let error = ProgramNotFound::DeadLink { link: link.clone(), target };
            assert!(error.to_string().contains("is a link to"), "{error}");
            assert_eq!(find(link.to_str().unwrap()), Err(error.clone()));
            assert_eq!(find(name), Err(error), "in PATH");
        }
        assert!(resolve(OsStr::new("sh"), None, folder.path()).is_ok());
        for url in ["https://x.example/mcp", "HTTP://127.0.0.1:1/mcp?key=s3cret"] {
            let error = find(url).unwrap_err();
            assert!(error == ProgramNotFound::Url && !error.to_string().contains("s3cret"), "{error}");
        }
        for words in ["tool x.js", "second/tool x.js"] {
            let first = words.split(' ').next().unwrap();
            assert_eq!(find(words), Err(ProgramNotFound::Words(first.into())));
        }
        assert_eq!(find("third/tool x"), Err(ProgramNotFound::File(folder.path().join("third/tool x"))));
    }

    #[test]
    fn windows_finds_the_batch_file_beside_the_shell_script_of_npm() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["npx", "npx.cmd", "tool.py", "both.exe", "both.cmd", "given.bat"] {
            let file = folder.path().join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let find = |program: &str, pathext: Option<&str>| {
            let endings = ProgramEndings::of_windows(pathext);
            let found =
                resolve_with(program.as_ref(), Some(folder.path().as_os_str()), folder.path(), &endings);
            found.ok().map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
        };
        assert_eq!(find("npx", None).as_deref(), Some("npx.cmd"));
        assert_eq!(find("./npx", None).as_deref(), Some("npx.cmd"), "a path has no ending either");
        assert_eq!(find("npx.cmd", None).as_deref(), Some("npx.cmd"));
        assert_eq!(find("both", None).as_deref(), Some("both.exe"), "the order of PATHEXT");
        assert_eq!(find("both", Some(".CMD;.EXE")).as_deref(), Some("both.cmd"));
        assert_eq!(find("given", Some(".EXE")).as_deref(), None, "PATHEXT decides");
        assert_eq!(find("tool", Some(".PY;.EXE")), None, "the system starts no such file");
        assert_eq!(find("npx", Some("")).as_deref(), Some("npx.cmd"), "an empty PATHEXT is none");
        assert_eq!(find("nothing", None), None);
    }
}

#[cfg(test)]
#[cfg(windows)]
mod batch_file_tests {
    use std::fs;
    use std::process::{Command, Output};

    use super::*;

    /// Starts a batch file in a folder whose name has a blank and an ampersand, as installers of npm packages make them. It
    /// prints its arguments with their quotes.
    fn run(arguments: &[&str]) -> std::io::Result<Output> {
        let folder = tempfile::tempdir()?;
        let folder = folder.path().join("a & b");
        fs::create_dir(&folder)?;
        fs::write(folder.join("show it.cmd"), "@echo off\r\necho (%1)(%2)\r\n")?;
        let program = resolve(OsStr::new("show it"), Some(folder.as_os_str()), &folder).unwrap();
        Command::new(program).args(arguments).output()
    }

    #[test]
    fn arguments_of_batch_files_arrive_whole() {
        for (argument, shown) in
            [("plain", "plain"), ("two words", "two words"), ("a&b", "a&b"), ("a^b", "a^b")]
        {
            let output = run(&[argument, "second"]).unwrap();
            let text = String::from_utf8_lossy(&output.stdout).replace('"', "");
            assert_eq!(text.trim_end(), format!("({shown})(second)"), "{argument}");
        }
    }

    /// What `cmd.exe` would run as a command of its own arrives as text, or is refused. Whether `%NAME%` stays is not tested:
    /// the `cmd.exe` of Wine expands what the standard library protects from that of Windows.
    #[test]
    fn arguments_of_batch_files_run_nothing() {
        for argument in [
            "&echo INJECTED",
            "\"&echo INJECTED&\"",
            "x\" & echo INJECTED & rem \"",
            "^&echo INJECTED",
            "|echo INJECTED",
            "%CMDCMDLINE:~-1%&echo INJECTED",
            "a\r\necho INJECTED",
            "\\\"&echo INJECTED",
        ] {
            let output = match run(&[argument, "second"]) {
                Ok(output) => output,
                Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => continue,
                Err(error) => panic!("{argument:?}: {error}"),
            };
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                !text.lines().any(|line| line.trim_start().starts_with("INJECTED")),
                "{argument:?}: {text}"
            );
        }
    }
}
