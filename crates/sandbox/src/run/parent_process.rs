//! Detection of the end of the host process.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// The process that started this one. The kernel's parent-death signal is sent when the starting thread ends, which may
/// be long before its process does.
pub(super) struct ParentProcess {
    pid: Option<Pid>,
    /// Descriptor that is readable once the process has ended. `None` if the kernel does not support it.
    pub(super) end: Option<OwnedFd>,
}

impl ParentProcess {
    pub(super) fn watch(pid: u32) -> Self {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self { pid, end }
    }

    /// Returns true if the host has ended, which is when this process has another parent.
    pub(super) fn is_gone(&self) -> bool {
        getppid() != self.pid
    }
}
