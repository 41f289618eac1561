//! Arguments of bubblewrap.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::helper_task::{HelperTask, SYSTEM_PATHS, SYSTEM_SETTINGS};
use crate::SandboxNetwork;
use crate::profile::SandboxFiles;

/// Arguments for separate namespaces, no capabilities and no terminal, and for an end together with the parent process.
pub(crate) fn isolation(network: SandboxNetwork) -> Vec<OsString> {
    let mut args = vec![
        "--die-with-parent",
        "--new-session",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--cap-drop",
        "ALL",
    ];
    args.extend((network == SandboxNetwork::None).then_some("--unshare-net"));
    args.into_iter().map(OsString::from).collect()
}

/// Arguments of bubblewrap before the command. The command is `inner`, the helper's second stage.
pub(super) fn arguments(order: &HelperTask, inner: &Path, home: Option<&Path>) -> Vec<OsString> {
    let mut args = isolation(order.network);
    match &order.files {
        // In a process namespace of its own the server needs its own `/proc`.
        None => args.extend(["--dev-bind", "/", "/", "--proc", "/proc"].map(OsString::from)),
        Some(files) => confined(files, order, inner, home, &mut args),
    }
    args.push("--".into());
    args
}

fn confined(
    files: &SandboxFiles,
    order: &HelperTask,
    inner: &Path,
    home: Option<&Path>,
    args: &mut Vec<OsString>,
) {
    let mut add = |flag: &str, from: &Path, to: &Path| args.extend([flag.into(), from.into(), to.into()]);
    for path in SYSTEM_PATHS.iter().chain(&SYSTEM_SETTINGS).map(Path::new).filter(|path| path.exists()) {
        add("--ro-bind-try", path, path);
    }
    let visible = |path: &Path| {
        let granted = files.read.iter().chain(&files.write).map(PathBuf::as_path);
        SYSTEM_PATHS.iter().map(Path::new).chain(granted).any(|seen| path.starts_with(seen) && path != seen)
    };
    args.extend(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"].map(OsString::from));
    // Many programs need their home folder to exist, even if it is empty.
    if let Some(home) = home.filter(|home| home.is_absolute()) {
        args.extend(["--dir".into(), home.into()]);
    }
    let program = order.command.first().map(PathBuf::from);
    // Nested paths come after their parents, so that writable folders inside readable ones work.
    let read = files.read.iter().map(|path| (path.as_path(), "--ro-bind"));
    let write = files.write.iter().map(|path| (path.as_path(), "--bind"));
    let mut grants: Vec<_> =
        read.chain(write).filter_map(|(path, flag)| Some((path.canonicalize().ok()?, flag, path))).collect();
    grants.sort_by_key(|(real, flag, _)| (real.components().count(), *flag == "--bind"));
    for (real, flag, _) in &grants {
        args.extend([(*flag).into(), real.into(), real.into()]);
    }
    let own = program.iter().map(PathBuf::as_path).chain([inner]);
    for path in own.clone() {
        if let Ok(real) = path.canonicalize() {
            args.extend(["--ro-bind".into(), real.clone().into(), real.into()]);
        }
    }
    // Also under the paths as they were given, which may contain links.
    for path in grants.iter().map(|(_, _, path)| *path).chain(own) {
        if let Ok(real) = path.canonicalize()
            && real != path
            && !visible(path)
        {
            args.extend(["--symlink".into(), real.into(), path.into()]);
        }
    }
    // Files written there would be lost with the server, so that it is better if writing fails.
    args.extend(["--remount-ro", "/"].map(OsString::from));
}
