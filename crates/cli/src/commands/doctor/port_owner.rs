//! Program that listens on a port of this machine.

/// Returns the program that listens on a TCP port, and its process id. `None` if it belongs to another user, or if the
/// system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn port_owner(port: u16) -> Option<(String, u32)> {
    use std::fs::{read_dir, read_link, read_to_string};

    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| read_to_string(table).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines());
    let sockets: Vec<String> = lines
        .filter_map(|line| listening_socket(line, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    read_dir("/proc").ok()?.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        // Files of processes of others cannot be read.
        let mut files = read_dir(process.path().join("fd")).ok()?.flatten();
        let is_socket =
            |target: &std::path::Path| sockets.iter().any(|socket| target.as_os_str() == &**socket);
        files.find(|file| read_link(file.path()).is_ok_and(|target| is_socket(&target)))?;
        let name = read_to_string(process.path().join("comm")).ok()?;
        Some((crate::output::printable(name.trim()), pid))
    })
}

/// Returns the inode of a socket that listens on a port, from a line of the kernel's table: number, local address, remote
/// address, state, …, with the inode in the tenth column.
#[cfg(target_os = "linux")]
fn listening_socket(line: &str, port: u16) -> Option<&str> {
    const LISTENING: &str = "0A";
    let mut columns = line.split_whitespace().skip(1);
    let (_, local) = columns.next()?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(local, 16) == Ok(port) && columns.nth(1)? == LISTENING;
    is_it.then(|| columns.nth(5))?
}

#[cfg(not(target_os = "linux"))]
pub(super) fn port_owner(_: u16) -> Option<(String, u32)> {
    None
}
