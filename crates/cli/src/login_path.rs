//! `PATH` of the user's login shell, which a service does not inherit.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Maximum time that the shell may take. It reads the user's files.
const SHELL_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of the shell's output, in bytes.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;
/// Text around the value, because files of the user may print something as well.
const MARK: &str = "__hospes_path__";

/// Returns the `PATH` of the user's login shell. Returns `None` if the shell is unknown, fails or is too slow.
pub(crate) fn read() -> Option<String> {
    if cfg!(windows) {
        return None;
    }
    // An interactive shell also reads the files in which nvm and others are set up. With a terminal it would wait for
    // that, since it does not run in the foreground.
    let has_terminal = std::fs::File::open("/dev/tty").is_ok();
    ask(&std::env::var_os("SHELL")?, !has_terminal, SHELL_TIMEOUT)
}

fn ask(shell: &OsString, is_interactive: bool, timeout: Duration) -> Option<String> {
    if !Path::new(shell).is_absolute() {
        return None;
    }
    // `printenv` instead of `$PATH`, which is a list in fish. Both words of it are read alike by all shells.
    let script = format!("printf %s {MARK}; /usr/bin/env printenv PATH; printf %s {MARK}");
    let mut command = Command::new(shell);
    command
        .args(is_interactive.then_some("-i"))
        .args(["-l", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = ChildGuard(command.spawn().ok()?);
    let stdout = child.0.stdout.take()?;
    let (send, receive) = channel();
    // In a thread, because a read has no time limit. It ends with the shell, which the guard kills.
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut text);
        let _too_late = send.send(read.map(|_| text));
    });
    let text = receive.recv_timeout(timeout).ok()?.ok()?;
    value(&String::from_utf8(text).ok()?)
}

/// Returns the value between the marks.
fn value(text: &str) -> Option<String> {
    let path = text.split(MARK).nth(1)?.trim_end_matches(['\r', '\n']);
    (!path.is_empty() && !path.contains(char::is_control)).then(|| path.to_owned())
}

/// Kills the shell on drop.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ended = (self.0.kill(), self.0.wait());
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Instant;

    fn shell(script: &str) -> (tempfile::TempDir, OsString) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shell");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, file.into_os_string())
    }

    #[test]
    fn the_value_is_found_among_what_the_files_of_the_user_print() {
        let (_folder, file) =
            shell("echo welcome; PATH=/opt/mine:/usr/bin:/bin; export PATH; eval \"$3\"; echo bye");
        assert_eq!(ask(&file, false, SHELL_TIMEOUT).as_deref(), Some("/opt/mine:/usr/bin:/bin"));
    }

    #[test]
    fn a_shell_that_hangs_or_fails_gives_nothing() {
        let begun = Instant::now();
        let (_folder, file) = shell("exec sleep 60");
        assert_eq!(ask(&file, false, Duration::from_millis(50)), None);
        assert!(begun.elapsed() < Duration::from_secs(30));
        let (_folder, file) = shell("exit 1");
        assert_eq!(ask(&file, false, SHELL_TIMEOUT), None);
        assert_eq!(ask(&OsString::from("sh"), true, SHELL_TIMEOUT), None, "not an absolute path");
    }

    #[test]
    fn a_value_that_would_need_more_lines_is_refused() {
        assert_eq!(value(&format!("{MARK}/a\n/b\n{MARK}")), None);
        assert_eq!(value(&format!("{MARK}\n{MARK}")), None);
        assert_eq!(value("/a"), None);
    }
}
