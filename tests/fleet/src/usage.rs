//! Processor time and memory of processes, as `/proc` has them.

use std::fs;

/// Unit of the times in `/proc/PID/stat`, which is a part of the kernel's interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time and memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessUsage {
    /// Seconds of all processors so far.
    pub(crate) cpu_s: f64,
    /// Resident memory.
    pub(crate) resident_kib: u64,
}

impl ProcessUsage {
    /// Returns the usage of a process and of all that it has started, also of those that have ended.
    pub(crate) fn of_tree(pid: u32) -> Self {
        let mut sum = Self::of_process(pid, true);
        for child in children(pid) {
            sum.add(Self::of_tree(child));
        }
        sum
    }

    /// Returns the usage of this process without its children.
    pub(crate) fn of_this_process() -> Self {
        Self::of_process(std::process::id(), false)
    }

    fn of_process(pid: u32, counts_ended_children: bool) -> Self {
        // What has ended meanwhile has no files.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let ticks = read_ticks(&stat, counts_ended_children);
        Self { cpu_s: ticks as f64 / TICKS_PER_SECOND, resident_kib: read_resident(&status) }
    }

    fn add(&mut self, other: Self) {
        self.cpu_s += other.cpu_s;
        self.resident_kib += other.resident_kib;
    }
}

/// Reads the sum of user and system time. The name of the program, in parentheses, can have spaces.
fn read_ticks(stat: &str, counts_ended_children: bool) -> u64 {
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let count = if counts_ended_children { 4 } else { 2 };
    fields.skip(11).take(count).filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn read_resident(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// Returns the processes that any thread of a process has started.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Returns the seconds that the processors of the machine have been busy, also for other machines on the same hardware.
fn machine_busy_s() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    // User, nice, system, idle, waiting for a disk, interrupts (two), stolen.
    let busy = fields.take(8).enumerate().filter(|(index, _)| !matches!(index, 3 | 4));
    busy.filter_map(|(_, ticks)| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

/// Processes that are measured together, by what they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessGroups(Vec<(&'static str, Vec<u32>)>);

impl ProcessGroups {
    /// Adds a group; its processes include their children.
    pub(crate) fn add(&mut self, name: &'static str, pids: Vec<u32>) {
        self.0.push((name, pids));
    }

    /// Returns the usage of one group.
    pub(crate) fn usage(&self, name: &str) -> ProcessUsage {
        let mut sum = ProcessUsage::default();
        for (_, pids) in self.0.iter().filter(|(group, _)| *group == name) {
            pids.iter().for_each(|pid| sum.add(ProcessUsage::of_tree(*pid)));
        }
        sum
    }

    /// Reads the processor time of all groups, of this process and of the machine.
    pub(crate) fn snapshot(&self) -> UsageSnapshot {
        let mut cpu: Vec<_> = self.0.iter().map(|(name, _)| (*name, self.usage(name).cpu_s)).collect();
        cpu.push((LOAD, ProcessUsage::of_this_process().cpu_s));
        UsageSnapshot { cpu, machine: machine_busy_s() }
    }
}

/// Group of this process.
pub(crate) const LOAD: &str = "load";

/// Group of all processes that are in no other.
pub(crate) const OTHERS: &str = "others";

/// Processor time at one moment.
#[derive(Debug)]
pub(crate) struct UsageSnapshot {
    cpu: Vec<(&'static str, f64)>,
    machine: f64,
}

impl UsageSnapshot {
    /// Returns the seconds of each group since another moment. The last group is that of other programs.
    pub(crate) fn since(&self, before: &Self) -> Vec<(&'static str, f64)> {
        let pairs = self.cpu.iter().zip(&before.cpu);
        let mut cpu: Vec<_> =
            pairs.map(|((name, end), (_, start))| (*name, (end - start).max(0.0))).collect();
        let known: f64 = cpu.iter().map(|(_, seconds)| seconds).sum();
        cpu.push((OTHERS, (self.machine - before.machine - known).max(0.0)));
        cpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_a_name_with_parentheses() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0";
        assert_eq!((read_ticks(stat, false), read_ticks(stat, true)), (30, 4330));
        assert_eq!(read_ticks("", true), 0);
        assert_eq!(read_resident("Name:\tx\nVmRSS:\t  512 kB\n"), 512);
    }

    #[test]
    fn the_time_of_an_ended_child_is_counted() {
        let before = ProcessUsage::of_tree(std::process::id());
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", script]).status().unwrap().success());
        let after = ProcessUsage::of_tree(std::process::id());
        assert!(after.cpu_s > before.cpu_s && after.resident_kib > 0, "{before:?} {after:?}");
    }

    #[test]
    fn what_no_group_has_used_is_of_others() {
        let before = UsageSnapshot { cpu: vec![("nodes", 1.0), (LOAD, 2.0)], machine: 10.0 };
        let after = UsageSnapshot { cpu: vec![("nodes", 1.5), (LOAD, 2.25)], machine: 11.0 };
        assert_eq!(after.since(&before), [("nodes", 0.5), (LOAD, 0.25), (OTHERS, 0.25)]);
    }
}
