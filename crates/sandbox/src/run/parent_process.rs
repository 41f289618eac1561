//! Detection of the end of the host process.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// The process that started us. The signal that the kernel sends at its end would come at the end of the one thread of it
/// that started us, which may be long before.
pub(super) struct ParentProcess {
    pid: Option<Pid>,
    /// Readable once it has ended; none where the kernel has no such thing.
    pub(super) end: Option<OwnedFd>,
}

impl ParentProcess {
    pub(super) fn watch(pid: u32) -> Self {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self { pid, end }
    }

    /// Returns true if the host has ended. The parent is another process then.
    pub(super) fn is_gone(&self) -> bool {
        getppid() != self.pid
    }
}
