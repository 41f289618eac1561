//! Resolution of this machine's symbolic links, for policy rules about paths.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf, Prefix};

use hospes_policy::LinkResolver;

/// Maximum number of links that one path leads through, as on Linux.
const MAX_LINKS: usize = 40;

/// Maximum number of entries of a folder that are looked at.
const MAX_ENTRIES: usize = 4096;

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LocalLinks;

impl LinkResolver for LocalLinks {
    fn follow(&self, path: &str) -> io::Result<String> {
        check_local(Path::new(path))?;
        let mut followed = follow(Path::new(path))?;
        if cfg!(windows) {
            followed = long_name(&followed)?;
        }
        let text = followed.into_os_string().into_string();
        let text = text.map_err(|_| io::Error::other("the path is not UTF-8"))?;
        Ok(if cfg!(windows) { policy_path(&text) } else { text })
    }

    fn list_folders_and_links(&self, folder: &str, most: usize) -> io::Result<Vec<String>> {
        check_local(Path::new(folder))?;
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let mut ways = Vec::new();
        for (at, entry) in entries.enumerate() {
            // A folder of many files takes long to read, too.
            if ways.len() >= most || at >= MAX_ENTRIES {
                return Err(io::Error::other("the folder has too many entries"));
            }
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() || kind.is_symlink() {
                ways.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(ways)
    }
}

/// Returns an error for the path of another machine on Windows. Looking at one would sign in there, and the path comes
/// from a call that nobody has approved.
fn check_local(path: &Path) -> io::Result<()> {
    match path.components().next() {
        Some(Component::Prefix(prefix))
            if !matches!(prefix.kind(), Prefix::Disk(_) | Prefix::VerbatimDisk(_)) =>
        {
            Err(io::Error::new(io::ErrorKind::Unsupported, "the path is not on a drive of this machine"))
        }
        _ => Ok(()),
    }
}

/// Returns a path without short names (`PROGRA~1`), in the letter case of the disk, as far as it exists.
fn long_name(path: &Path) -> io::Result<PathBuf> {
    for part in path.ancestors() {
        match std::fs::canonicalize(part) {
            // Joined part by part, because an empty rest would add a separator.
            Ok(mut real) => {
                real.extend(path.strip_prefix(part).into_iter().flat_map(Path::components));
                return Ok(real);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            Err(_) => {}
        }
    }
    Ok(path.to_owned())
}

/// Returns a path of Windows as rules have it: with slashes, and without the prefix `\\?\`.
fn policy_path(path: &str) -> String {
    let path = match path.strip_prefix(r"\\?\UNC\") {
        Some(rest) => format!("//{rest}"),
        None => path.strip_prefix(r"\\?\").unwrap_or(path).to_owned(),
    };
    path.replace('\\', "/")
}

/// Follows part by part: the end need not exist, as of a file that is to be written, also by a link.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let parts =
        |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<Vec<OsString>>();
    let mut left = VecDeque::from(parts(path));
    let mut done = PathBuf::new();
    let mut links = 0;
    // Below what is not there is no link.
    let mut missing = usize::MAX;
    while let Some(part) = left.pop_front() {
        match Path::new(&part).components().next() {
            None | Some(Component::CurDir) => continue,
            Some(Component::ParentDir) => {
                // There are no links left in what is done, so this is the parent that the kernel would take.
                done.pop();
                continue;
            }
            Some(Component::Prefix(_) | Component::RootDir) => {
                done.push(&part);
                continue;
            }
            Some(Component::Normal(_)) => done.push(&part),
        }
        let depth = done.components().count();
        if depth > missing {
            continue;
        }
        missing = usize::MAX;
        // One system call tells a link from anything else, so nothing can be replaced between a look and the reading.
        match std::fs::read_link(&done) {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::other("too many symbolic links"));
                }
                // A relative target starts in the folder of the link; an absolute one resets the path with its root.
                done.pop();
                check_local(&target)?;
                for part in parts(&target).into_iter().rev() {
                    left.push_front(part);
                }
            }
            // What is no link is `EINVAL`; what is not there leads nowhere else.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing = depth,
            Err(_) => (),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod name_tests {
    use super::*;

    #[test]
    fn paths_of_windows_have_the_form_of_rules() {
        assert_eq!(policy_path(r"\\?\C:\Users\me"), "C:/Users/me");
        assert_eq!(policy_path(r"C:\Users"), "C:/Users");
        assert_eq!(policy_path(r"\\?\UNC\host\share\x"), "//host/share/x");
    }

    #[cfg(windows)]
    #[test]
    fn a_path_is_followed_to_the_name_that_the_disk_has() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("Notes")).unwrap();
        let text = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let found = LocalLinks.follow(&text("NOTES\\new\\a.txt")).unwrap();
        assert!(found.ends_with("/Notes/new/a.txt") && !found.contains('\\'), "{found}");
        assert_eq!(LocalLinks.follow(&text("notes")).unwrap(), LocalLinks.follow(&text("Notes")).unwrap());
        for remote in [r"\\host.invalid\share\x", r"\\?\UNC\host.invalid\share", r"\\.\pipe\x"] {
            let error = LocalLinks.follow(remote).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{remote}");
            assert!(LocalLinks.list_folders_and_links(remote, 9).is_err(), "{remote}");
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use hospes_policy::{
        CallArguments, Policy, PolicyAction, PolicyDecision, PolicyEnvironment, PolicyRequest, ToolEffectSet,
    };

    use super::*;

    #[test]
    fn a_link_below_an_allowed_folder_earns_no_permission_and_passes_no_denial() {
        let folder = tempfile::tempdir().unwrap();
        let home = std::fs::canonicalize(folder.path()).unwrap();
        for name in ["notes/sub", "secret"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        symlink("../secret", home.join("notes/out")).unwrap();
        symlink(home.join("secret/new"), home.join("notes/dangling")).unwrap();
        symlink("loop", home.join("notes/loop")).unwrap();
        symlink("sub", home.join("notes/in")).unwrap();
        let reading = PolicyEnvironment::at_home(home.to_str().unwrap()).following(Arc::new(LocalLinks));
        let decide = |rule: &str, path: String| {
            let policy = Policy::read(&format!("[[rule]]\n{rule}"), &reading).unwrap();
            let arguments = CallArguments::read(&serde_json::json!({ "path": path }).to_string()).unwrap();
            let asked =
                PolicyRequest::new("s", PolicyAction::tool("t", ToolEffectSet::unknown(), &arguments));
            policy.decide(&asked, jiff::Timestamp::now()).decision
        };
        for (path, inside) in [
            ("notes/out/key", false),
            ("notes/dangling", false),
            ("notes/sub/../out/../secret/key", false),
            ("notes/in/file", true),
            ("notes/sub/new", true),
        ] {
            let path = home.join(path).to_str().unwrap().to_owned();
            for rule in [
                "decide = 'allow'\narguments.path = { under = '~/notes' }",
                "decide = 'allow'\ndestinations = '~/notes'",
            ] {
                let allowed = decide(rule, path.clone()) == PolicyDecision::Allow;
                assert_eq!(allowed, inside, "{rule} {path}");
            }
            for rule in [
                "decide = 'deny'\narguments.path = { under = '~/secret' }",
                "decide = 'deny'\ndestinations = '~/secret'",
            ] {
                assert_eq!(decide(rule, path.clone()) == PolicyDecision::Deny, !inside, "{rule} {path}");
            }
        }
        // Wherever a reader finds the path: behind quotes, wildcards, encodings and words, and from the home folder.
        let whole = home.to_str().unwrap();
        for path in [
            format!("{whole}/notes/o?t/key"),
            format!("{whole}/note*/out/key"),
            format!("{whole}/notes/o{{u,x}}t/key"),
            format!("{whole}/notes/o\"u\"t/key"),
            format!("{whole}/notes/%6fut/key"),
            format!("file://{whole}/notes/%6fut/key"),
            format!("{whole}/notes/in/../out/key"),
            format!("cat {whole}/notes/out/key"),
            format!("{whole}/notes/sub {whole}/notes/out/key"),
            "$HOME/notes/out/key".to_owned(),
            "notes/out/key".to_owned(),
            "./notes/out/key".to_owned(),
            "../notes/out/key".to_owned(),
        ] {
            for rule in ["arguments.path = { under = '~/secret' }", "destinations = '~/secret'"] {
                let rule = format!("decide = 'deny'\n{rule}\n[[rule]]\ndecide = 'allow'");
                assert_ne!(decide(&rule, path.clone()), PolicyDecision::Allow, "{rule} {path}");
            }
            for rule in ["arguments.path = { under = '~/notes' }", "destinations = '~/notes'"] {
                assert_ne!(
                    decide(&format!("decide = 'allow'\n{rule}"), path.clone()),
                    PolicyDecision::Allow,
                    "{path}"
                );
            }
        }
        let rule = "decide = 'allow'\ndestinations = '~/notes'";
        assert_ne!(
            decide(rule, home.join("notes/loop/x").to_str().unwrap().to_owned()),
            PolicyDecision::Allow
        );
    }
}
