//! Processes and connections, read from `/proc`.

use std::fs;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::process::{MAX_PARENTS, ProcessDescription, TerminalName, sanitize_name};
use super::{CallerLookupError, HELPER_WORD, LocalCaller};

/// The longest table of sockets that is read, in bytes: some 200 000 sockets.
const MAX_SOCKET_TABLE_BYTES: u64 = 32 << 20;
/// Maximum number of ancestors that are followed.
const MAX_ANCESTORS: usize = 1024;
/// Maximum number of times that a line of ancestors is read until it is the same twice: one may end meanwhile.
const MAX_READ_ATTEMPTS: usize = 4;

pub(super) fn of_connection(local: SocketAddr, remote: SocketAddr) -> Result<LocalCaller, CallerLookupError> {
    let (uid, inode) = find_socket(local, remote).ok_or(CallerLookupError::Elsewhere)?;
    let hidden = CallerLookupError::Hidden { uid };
    let mut found: Option<LocalCaller> = None;
    // A socket may be held by several: what a server holds is the server's.
    for pid in find_socket_holders(uid, inode) {
        // A holder that cannot be read may be a server, so the readable ones must not stand for it.
        let caller = of_process(pid, uid).map_err(|_| hidden)?;
        if found.is_none() || caller.is_server {
            found = Some(caller);
        }
    }
    found.ok_or(hidden)
}

pub(super) fn of_process(pid: u32, uid: u32) -> Result<LocalCaller, CallerLookupError> {
    let hidden = CallerLookupError::Hidden { uid };
    let line = read_ancestry(pid).ok_or(hidden)?;
    let own = own_ancestry();
    let parents = line.iter().skip(1).take(MAX_PARENTS).map(|stat| program(stat.pid, &stat.name));
    let first = line.first().ok_or(hidden)?;
    let process = ProcessDescription {
        pid,
        program: program(pid, &first.name),
        terminal: TerminalName::from_device(first.terminal),
        parents: parents.collect(),
    };
    Ok(LocalCaller { uid, is_server: is_server(&line, &own), process, vouches_for_terminal: false })
}

/// Device number of `/dev/tty`, which every process resolves to its own controlling terminal.
const OWN_TERMINAL: u64 = 5 << 8;

/// Returns true if a process is in the foreground of its controlling terminal and uses it as standard input, output or
/// error.
pub(super) fn is_at_terminal(pid: u32) -> bool {
    let Some(stat) = read_stat(pid).filter(|stat| stat.terminal != 0 && stat.group == stat.foreground) else {
        return false;
    };
    // Both are numbers of devices in the kernel's one encoding.
    let Ok(terminal) = u64::try_from(stat.terminal & 0xffff_ffff) else { return false };
    let device = |number| fs::metadata(format!("/proc/{pid}/fd/{number}")).map(|data| data.rdev());
    (0..=2).any(|number| device(number).is_ok_and(|device| device == terminal || device == OWN_TERMINAL))
}

/// Returns true if the ancestors include this process, or the helper of another host.
fn is_server(line: &[ProcessStat], own: &[u32]) -> bool {
    let this = std::process::id();
    // This process is its own first ancestor here, and what it asks itself is asked by no server.
    if line.first().is_some_and(|stat| stat.pid == this) {
        return false;
    }
    // What is above us, too, says nothing of who is below.
    let below = line.iter().take_while(|stat| stat.pid == this || !own.contains(&stat.pid));
    below.into_iter().any(|stat| stat.pid == this || is_helper(stat.pid))
}

fn own_ancestry() -> Vec<u32> {
    read_ancestry(std::process::id()).unwrap_or_default().iter().map(|stat| stat.pid).collect()
}

/// Returns true if a process is a helper that starts servers: a copy of this program with [`HELPER_WORD`] as its first
/// argument.
fn is_helper(pid: u32) -> bool {
    let Ok(command) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    command.split(|byte| *byte == 0).nth(1) == Some(HELPER_WORD.as_bytes())
}

/// Returns the owner and inode of the socket at the other end.
fn find_socket(local: SocketAddr, remote: SocketAddr) -> Option<(u32, u64)> {
    // The table is read from the other end: its local address is the remote one here.
    let wanted = (unmap_ipv4(remote), unmap_ipv4(local));
    // IPv4 connections of sockets that were opened for IPv6 are in the second table.
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].into_iter().find_map(|table| {
        let mut text = String::new();
        fs::File::open(table).ok()?.take(MAX_SOCKET_TABLE_BYTES).read_to_string(&mut text).ok()?;
        text.lines().skip(1).find_map(|line| parse_socket_line(line, wanted))
    })
}

/// Parses a line of the socket table, if it is about that connection. A closed socket has no inode.
fn parse_socket_line(line: &str, wanted: (SocketAddr, SocketAddr)) -> Option<(u32, u64)> {
    // The columns (proc(5)): sl, local, remote, st, tx:rx, tr:when, retrnsmt, uid, timeout, inode.
    let mut words = line.split_ascii_whitespace().skip(1);
    if parse_address(words.next()?)? != wanted.0
        || !matches_destination(parse_address(words.next()?)?, wanted.1)
    {
        return None;
    }
    let uid = words.nth(4)?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    (inode != 0).then_some((uid, inode))
}

/// Returns true if a connection matches the address; a listener on all addresses matches by port.
fn matches_destination(address: SocketAddr, wanted: SocketAddr) -> bool {
    address == wanted || (wanted.ip().is_unspecified() && address.port() == wanted.port())
}

/// Parses an address of the table: hexadecimal words in native byte order, a colon, the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut bytes = [0; 16];
            for (number, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(number * 8)?);
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(unmap_ipv4(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?)))
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn unmap_ipv4(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns the processes of the user and of root that hold a socket.
fn find_socket_holders(uid: u32, inode: u64) -> Vec<u32> {
    let wanted = format!("socket:[{inode}]");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // What does not let itself be looked at belongs to the administrator.
        let owner = entry.metadata().ok()?.uid();
        (owner == uid || owner == 0).then_some(pid)
    });
    processes.filter(|pid| holds(*pid, &wanted)).collect()
}

fn holds(pid: u32, wanted: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors
        .flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == wanted))
}

/// The needed fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    pid: u32,
    parent: u32,
    /// Process group.
    group: i64,
    /// The device of its controlling terminal; 0 without one.
    terminal: i64,
    /// The process group in the foreground of that terminal.
    foreground: i64,
    name: String,
}

/// Returns a process and its ancestors up to the first. `None` if one of them cannot be read.
fn read_ancestry(pid: u32) -> Option<Vec<ProcessStat>> {
    let mut last = None;
    for _ in 0..MAX_READ_ATTEMPTS {
        let read = try_read_ancestry(pid);
        if read.is_some() && read == last {
            return read;
        }
        last = read;
    }
    None
}

fn try_read_ancestry(pid: u32) -> Option<Vec<ProcessStat>> {
    let (mut line, mut next) = (Vec::new(), pid);
    // A process whose parent lives where we do not see it has none.
    while next != 0 {
        if line.len() >= MAX_ANCESTORS {
            return None;
        }
        let read = read_stat(next)?;
        next = read.parent;
        line.push(read);
    }
    Some(line)
}

fn read_stat(pid: u32) -> Option<ProcessStat> {
    // A name need not be UTF-8, and what counts stands after it.
    parse(pid, &String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// Parses `/proc/PID/stat`. The name may contain anything, so the fields after the last parenthesis are used.
fn parse(pid: u32, text: &str) -> Option<ProcessStat> {
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    // After the name (proc(5)): state, ppid, pgrp, session, tty_nr, tpgid.
    let mut words = after.split_ascii_whitespace();
    let parent = words.nth(1)?.parse().ok()?;
    let group = words.next()?.parse().ok()?;
    let terminal = words.nth(1)?.parse().ok()?;
    let foreground = words.next()?.parse().ok()?;
    Some(ProcessStat { pid, parent, group, terminal, foreground, name })
}

fn program(pid: u32, called: &str) -> String {
    let file = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = file.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    sanitize_name(name.as_deref().unwrap_or(called))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::super::own_user;
    use super::*;

    fn pair(at: &str) -> (TcpListener, TcpStream, TcpStream) {
        let listener = TcpListener::bind(at).unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let here = listener.accept().unwrap().0;
        (listener, there, here)
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let read = |text: &str| parse_address(text).map(|address| address.to_string());
        if cfg!(target_endian = "little") {
            assert_eq!(read("0100007F:1CA9").as_deref(), Some("127.0.0.1:7337"));
            assert_eq!(read("0000000000000000FFFF00000100007F:0050").as_deref(), Some("127.0.0.1:80"));
            assert_eq!(read("00000000000000000000000001000000:0050").as_deref(), Some("[::1]:80"));
        }
        for bad in ["", ":", "0100007F", "0100007F:", "0100007F:zz", "ä100007F:0050", "01:0050"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_of_processes_do_not_confuse() {
        let read = |text| parse(7, text).map(|stat| (stat.parent, stat.terminal));
        assert_eq!(read("7 (sh) S 5 7 7 34816 9 0"), Some((5, 34_816)));
        assert_eq!(read("7 (a) S 1 1 1 0 (b) R 5 7 7 0 1"), Some((5, 0)));
        assert_eq!(read("7 (sh"), None);
    }

    #[test]
    fn who_connects_is_known_by_both_families() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let (listener, there, here) = pair(at);
            let (local, remote) = (here.local_addr().unwrap(), here.peer_addr().unwrap());
            let caller = LocalCaller::of_connection(local, remote).unwrap();
            assert_eq!(caller.process.pid, std::process::id());
            assert!(caller.is_same_user() && !caller.is_server, "{caller:?}");
            assert!(!caller.process.program.is_empty() && !caller.process.parents.is_empty(), "{caller:?}");
            drop((listener, there));
            assert_eq!(LocalCaller::of_connection(local, remote), Err(CallerLookupError::Elsewhere));
        }
    }

    #[test]
    fn what_this_process_has_started_is_no_caller() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let caller = of_process(child.id(), own_user()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(caller.is_server, "{caller:?}");
        assert_eq!(of_process(child.id(), 0), Err(CallerLookupError::Hidden { uid: 0 }));
    }

    /// A server that another host started is recognized by the helper process that stays beside it.
    #[test]
    fn a_server_of_another_host_is_one_too() {
        let mut child = Command::new("sh")
            .arg0("/proc/self/exe")
            .args(["-c", "read x"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(!is_helper(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        let folder = tempfile::tempdir().unwrap();
        // The shell takes the word for the name of a script.
        fs::write(folder.path().join(HELPER_WORD), "read x\n").unwrap();
        let mut command = Command::new("sh");
        let mut child = command.arg(HELPER_WORD).current_dir(&folder).stdin(Stdio::piped()).spawn().unwrap();
        // The kernel lets the parent go on before the arguments of the new program are in place.
        let file = format!("/proc/{}/cmdline", child.id());
        let until = Instant::now() + Duration::from_secs(20);
        while fs::read(&file).unwrap().is_empty() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(is_helper(child.id()), "{}", String::from_utf8_lossy(&fs::read(&file).unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
