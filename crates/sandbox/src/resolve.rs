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
    /// The file is not executable.
    #[error("{} may not be run; is it executable?", .0.display())]
    NotExecutable(PathBuf),
    /// The command is a name, and it is in no folder of `PATH`.
    #[error("there is no program {0} in PATH; is it installed?")]
    Name(String),
}

/// Returns the absolute path of the file that `program` means. A path is taken as it is, below `cwd` if it is relative.
/// A name is looked up in `path`, a `PATH`: the first folder with such a program is used. Symbolic links are kept,
/// because some programs depend on the name they are called by.
///
/// # Errors
/// If there is no such file, or it is not executable.
pub fn resolve(program: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, ProgramNotFound> {
    let below = |path: &Path| cwd.join(path);
    if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        let file = below(Path::new(program));
        return match () {
            () if !file.is_file() => Err(ProgramNotFound::File(file)),
            () if !is_executable(&file) => Err(ProgramNotFound::NotExecutable(file)),
            () => Ok(file),
        };
    }
    // Default of the C library without a `PATH`.
    let path = path.unwrap_or_else(|| OsStr::new("/bin:/usr/bin"));
    // An empty or relative entry of `PATH` means a folder below the working folder.
    let mut candidates = std::env::split_paths(path).map(|folder| below(&folder).join(program));
    let mut blocked = None;
    let found = candidates.find(|file| {
        let is_file = file.is_file();
        // As with `execvp`, such a file does not end the search; it only explains why no program was found.
        if is_file && !is_executable(file) {
            blocked.get_or_insert_with(|| file.clone());
            return false;
        }
        is_file
    });
    found.ok_or_else(|| match blocked {
        Some(file) => ProgramNotFound::NotExecutable(file),
        None => ProgramNotFound::Name(program.to_string_lossy().into_owned()),
    })
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

#[cfg(all(test, unix))]
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
        assert!(resolve(OsStr::new("sh"), None, folder.path()).is_ok());
    }
}
