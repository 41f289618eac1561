//! Files in which an application keeps its state, and which it writes anew while it runs: an entry that others add may be
//! lost.

use std::time::Duration;

use hospes_host::config::applications::{ApplicationFile, PlaceScope};

/// Time after which a running application has written its file.
pub(super) const REWRITE_TIME: Duration = Duration::from_secs(2);

/// Applications with such a user file, and the names of their processes.
const REWRITERS: [(&str, &[&str]); 2] =
    [("claude-code", &["claude"]), ("claude-desktop", &["claude-desktop", "Claude", "claude"])];

/// Returns true if the application may write the file anew, because it runs. Where processes cannot be listed, it may
/// always run.
pub(super) fn may_be_rewritten(file: &ApplicationFile) -> bool {
    let rewriter = REWRITERS.iter().find(|(id, _)| *id == file.application.id);
    match rewriter.filter(|_| file.scope == PlaceScope::User) {
        Some((_, names)) => is_running(names),
        None => false,
    }
}

#[cfg(target_os = "linux")]
fn is_running(names: &[&str]) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let user = rustix::process::geteuid().as_raw();
    let Ok(entries) = std::fs::read_dir("/proc") else { return true };
    entries.flatten().any(|entry| {
        let is_own = entry.metadata().is_ok_and(|data| data.uid() == user);
        let name = || std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        is_own && names.contains(&name().trim())
    })
}

#[cfg(not(target_os = "linux"))]
fn is_running(_: &[&str]) -> bool {
    true
}
