//! Resource usage of this process, for leak tests. Available on Linux only.

use std::fs;

/// Resource usage of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessUsage {
    /// Resident memory, in bytes.
    pub resident: u64,
    /// Number of open file descriptors.
    pub descriptors: usize,
    /// Number of threads.
    pub threads: usize,
    /// Number of child processes, including those that have ended but were not waited for.
    pub children: usize,
}

impl ProcessUsage {
    /// Returns the current usage. `None` if it cannot be determined.
    #[must_use]
    pub fn now() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        let mut children = 0;
        for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
            // A thread may have ended in the meantime.
            let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            children += list.split_ascii_whitespace().count();
        }
        Some(Self {
            resident: field("VmRSS:")? * 1024,
            // The directory that is being read is one of them.
            descriptors: fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1),
            threads: usize::try_from(field("Threads:")?).ok()?,
            children,
        })
    }
}

/// Returns the resident memory, in bytes, or 0 if it cannot be determined.
#[must_use]
pub fn resident() -> u64 {
    ProcessUsage::now().map_or(0, |usage| usage.resident)
}
