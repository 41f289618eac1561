//! Processes of systems without `/proc`, from the table that the system gives.
//!
//! A process whose parent has ended has no ancestors here: macOS gives it to `launchd`, and Windows leaves it without one.
//! So a server that detaches itself is not recognized. Servers are not confined on these systems, and can do all that
//! their user can, so that this check keeps out mistakes and not attacks.

use std::path::{Path, PathBuf};

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

use super::process::{MAX_PARENTS, ProcessDescription, sanitize_name};
use super::{CallerLookupError, LocalCaller};

/// Maximum number of ancestors that are followed.
const MAX_ANCESTORS: usize = 64;

/// A process of the table.
#[derive(Clone, Debug)]
struct TableEntry {
    pid: u32,
    parent: Option<u32>,
    /// Start in seconds since 1970. 0 if it is not known.
    started: u64,
    /// File of the program, without links.
    file: Option<PathBuf>,
    name: String,
}

impl TableEntry {
    fn program(&self) -> String {
        let name = self.file.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        sanitize_name(name.as_deref().unwrap_or(&self.name))
    }
}

pub(super) fn of_process(pid: u32, uid: u32) -> Result<LocalCaller, CallerLookupError> {
    let own = std::env::current_exe().ok().map(|file| real_path(&file));
    let this = std::process::id();
    let mut system = System::new().map_err(|_| CallerLookupError::System)?;
    let line = ancestry(pid, |pid| read_entry(&mut system, pid));
    let own_line = ancestry(this, |pid| read_entry(&mut system, pid));
    let first = line.first().ok_or(CallerLookupError::Hidden { uid })?;
    let process = ProcessDescription {
        pid,
        program: first.program(),
        terminal: None,
        parents: line.iter().skip(1).take(MAX_PARENTS).map(TableEntry::program).collect(),
    };
    let vouches_for_terminal = own.is_some() && first.file == own;
    Ok(LocalCaller {
        uid,
        is_server: is_server(&line, &own_line, this, own.as_deref()),
        process,
        vouches_for_terminal,
    })
}

/// Returns a process and its ancestors, the nearest first. Empty if there is no such process.
fn ancestry(pid: u32, mut read: impl FnMut(u32) -> Option<TableEntry>) -> Vec<TableEntry> {
    let (mut line, mut next): (Vec<TableEntry>, _) = (Vec::new(), Some(pid));
    while let Some(pid) = next.filter(|_| line.len() < MAX_ANCESTORS) {
        let Some(entry) = read(pid) else { break };
        // A parent that has started later has got the id of one that has ended.
        let is_other = line.last().is_some_and(|child| child.started < entry.started && child.started != 0);
        if is_other || line.iter().any(|known| known.pid == entry.pid) {
            break;
        }
        next = entry.parent;
        line.push(entry);
    }
    line
}

/// Returns true if the ancestors include this process, or another one of this program: outside Linux, a host is the parent
/// of its servers.
fn is_server(line: &[TableEntry], own_line: &[TableEntry], this: u32, own: Option<&Path>) -> bool {
    // This process is its own first ancestor here, and what it asks itself is asked by no server.
    if line.first().is_some_and(|entry| entry.pid == this) {
        return false;
    }
    let is_host = |entry: &TableEntry| entry.pid == this || own.is_some() && entry.file.as_deref() == own;
    // What is above this process says nothing of who is below.
    let below = line
        .iter()
        .skip(1)
        .take_while(|entry| entry.pid == this || !own_line.iter().any(|above| above.pid == entry.pid));
    below.into_iter().any(is_host)
}

fn read_entry(system: &mut System, pid: u32) -> Option<TableEntry> {
    let id = Pid::from_u32(pid);
    let kind = ProcessRefreshKind::nothing().with_exe(UpdateKind::OnlyIfNotSet);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[id]), true, kind);
    let process = system.process(id)?;
    Some(TableEntry {
        pid,
        parent: process.parent().map(Pid::as_u32),
        started: process.start_time(),
        file: process.exe().filter(|file| file.is_absolute()).map(real_path),
        name: process.name().to_string_lossy().into_owned(),
    })
}

/// Returns a path without links, as far as it can be resolved.
fn real_path(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|_| file.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn entry(pid: u32, parent: u32, started: u64, file: &str) -> TableEntry {
        let parent = (parent != 0).then_some(parent);
        TableEntry { pid, parent, started, file: Some(file.into()), name: String::new() }
    }

    fn line(table: &[TableEntry], pid: u32) -> Vec<TableEntry> {
        ancestry(pid, |pid| table.iter().find(|entry| entry.pid == pid).cloned())
    }

    #[test]
    fn what_a_host_has_started_is_a_server_and_no_other_program() {
        let table = [
            entry(1, 0, 1, "/sbin/launchd"),
            entry(10, 1, 5, "/bin/zsh"),
            entry(20, 10, 10, "/bin/hospes"),
            entry(21, 20, 11, "/bin/node"),
            entry(22, 21, 12, "/bin/hospes"),
            entry(30, 1, 6, "/bin/claude"),
            entry(31, 30, 13, "/bin/hospes"),
            entry(40, 1, 7, "/bin/hospes"),
            entry(41, 40, 8, "/bin/node"),
            entry(50, 10, 14, "/bin/hospes"),
        ];
        let is_server =
            |pid| is_server(&line(&table, pid), &line(&table, 20), 20, Some(Path::new("/bin/hospes")));
        // A server of this host, and the `hospes stdio` that it starts; a server of another host.
        assert!(is_server(21) && is_server(22) && is_server(41));
        // This process; the one of an application; one of the shell that has started this host.
        assert!(!is_server(20) && !is_server(31) && !is_server(50) && !is_server(30));
    }

    #[test]
    fn an_id_that_was_given_again_is_no_parent() {
        let table =
            [entry(5, 0, 90, "/a"), entry(6, 5, 80, "/b"), entry(7, 6, 85, "/c"), entry(8, 8, 1, "/d")];
        let ids = |pid| line(&table, pid).iter().map(|entry| entry.pid).collect::<Vec<_>>();
        assert_eq!(ids(7), [7, 6]);
        assert_eq!(ids(8), [8]);
        assert!(ids(9).is_empty());
    }

    #[test]
    fn a_child_of_this_process_is_a_server() {
        let program = if cfg!(windows) { "cmd" } else { "cat" };
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let caller = of_process(child.id(), 0).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(caller.is_server && !caller.vouches_for_terminal, "{caller:?}");
        let this = of_process(std::process::id(), 0).unwrap();
        assert!(!this.is_server && this.vouches_for_terminal, "{this:?}");
        let gone = of_process(u32::MAX - 7, 0);
        assert_eq!(gone, Err(CallerLookupError::Hidden { uid: 0 }));
    }
}
