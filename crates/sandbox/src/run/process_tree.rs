//! All descendants of this process.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, Signal, getpid, kill_process};

/// Maximum number of scans of a growing process tree. If processes are started faster than they are stopped, the known
/// ones are killed, and the tree is scanned again.
const MAX_KILL_ROUNDS: usize = 50;

/// Returns all descendants. Orphans are included, because they have become children of this process.
pub(super) fn descendants() -> HashSet<Pid> {
    below(getpid(), &parents())
}

/// Returns the children of one process.
pub(super) fn children(of: Pid) -> HashSet<Pid> {
    parents().into_iter().filter(|(_, parent)| *parent == of).map(|(child, _)| child).collect()
}

/// Kills all descendants. They are stopped first, so that they start no further processes.
pub(super) fn kill() {
    let mut known = HashSet::new();
    for _ in 0..MAX_KILL_ROUNDS {
        let new: Vec<Pid> = descendants().difference(&known).copied().collect();
        if new.is_empty() {
            break;
        }
        new.iter().for_each(|pid| send(*pid, Signal::STOP));
        known.extend(new);
    }
    known.into_iter().for_each(|pid| send(pid, Signal::KILL));
}

/// Sends a signal. A process that no longer exists is ignored.
pub(super) fn send(pid: Pid, signal: Signal) {
    let _gone = kill_process(pid, signal);
}

fn below(root: Pid, parents: &HashMap<Pid, Pid>) -> HashSet<Pid> {
    let mut found = HashSet::new();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        let new = parents.iter().filter(|(_, of)| **of == parent).map(|(child, _)| *child);
        let new: Vec<Pid> = new.filter(|child| found.insert(*child)).collect();
        open.extend(new);
    }
    found
}

/// Returns every living process with its parent.
fn parents() -> HashMap<Pid, Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let processes = entries.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let parent = parent(&fs::read_to_string(entry.path().join("stat")).ok()?)?;
        Some((pid, parent))
    });
    processes.collect()
}

/// Returns the parent in a line of `/proc/PID/stat`. `None` for a process that has ended. The process name may contain
/// anything, so the fields after the last parenthesis are used.
fn parent(stat: &str) -> Option<Pid> {
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    Pid::from_raw(parent).filter(|_| !matches!(state, "Z" | "X"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_confuse() {
        let parent = |stat| parent(stat).map(|pid| pid.as_raw_nonzero().get());
        assert_eq!(parent("7 (sh) S 5 7 7 0"), Some(5));
        assert_eq!(parent("7 (a) Z 1 (b) R 5 7"), Some(5));
        assert_eq!(parent("7 (sh) Z 5 7 7 0"), None);
        assert_eq!(parent("1 (init) S 0 1 1 0"), None);
        assert_eq!(parent("7 (sh"), None);
    }

    #[test]
    fn a_tree_is_all_below() {
        let pid = |number| Pid::from_raw(number).unwrap();
        let parents =
            [(2, 1), (3, 2), (4, 3), (5, 1), (6, 9)].map(|(child, parent)| (pid(child), pid(parent))).into();
        assert_eq!(below(pid(2), &parents), HashSet::from([pid(3), pid(4)]));
        assert_eq!(below(pid(6), &parents), HashSet::new());
    }
}
