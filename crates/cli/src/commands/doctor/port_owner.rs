//! Program that listens on a port of this machine.

use std::net::SocketAddr;
#[cfg(target_os = "linux")]
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the program because of which nothing else can listen at a TCP address, and its process id. `None` if it belongs to
/// another user, or if the system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn port_owner(address: SocketAddr) -> Option<(String, u32)> {
    use std::fs::{read_dir, read_link, read_to_string};

    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| read_to_string(table).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines());
    let sockets: Vec<String> = lines
        .filter_map(|line| listening_socket(line, address))
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
        Some((crate::output::one_line(&name), pid))
    })
}

/// Returns the inode of a socket that listens at an address, or at all of this machine, from a line of the kernel's table:
/// number, local address, remote address, state, …, with the inode in the tenth column.
#[cfg(target_os = "linux")]
fn listening_socket(line: &str, address: SocketAddr) -> Option<&str> {
    const LISTENING: &str = "0A";
    let mut columns = line.split_whitespace().skip(1);
    let (ip, port) = columns.next()?.rsplit_once(':')?;
    let (ip, wanted) = (kernel_ip(ip)?, address.ip().to_canonical());
    let is_same_ip = ip == wanted || ip.is_unspecified() || wanted.is_unspecified();
    let is_it =
        is_same_ip && u16::from_str_radix(port, 16) == Ok(address.port()) && columns.nth(1)? == LISTENING;
    is_it.then(|| columns.nth(5))?
}

/// Reads an address of the kernel's table: groups of 32 bits in the order of bytes of this machine.
#[cfg(target_os = "linux")]
fn kernel_ip(text: &str) -> Option<IpAddr> {
    let group = |index: usize| -> Option<[u8; 4]> {
        let group = text.get(8 * index..8 * index + 8)?;
        Some(u32::from_str_radix(group, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(group(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (index, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&group(index)?);
            }
            Some(IpAddr::from(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn port_owner(_: SocketAddr) -> Option<(String, u32)> {
    None
}

#[cfg(all(test, target_os = "linux", target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn a_socket_at_another_address_is_not_the_one() {
        let line = |local: &str, state: &str| {
            format!(
                "   0: {local}:1CA9 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 77 1 0"
            )
        };
        let is_it = |local: &str, state: &str, address: &str| {
            listening_socket(&line(local, state), address.parse().unwrap()) == Some("77")
        };
        for local in ["0100007F", "00000000", "0000000000000000FFFF00000100007F"] {
            assert!(is_it(local, "0A", "127.0.0.1:7337"), "{local}");
        }
        assert!(is_it("00000000000000000000000001000000", "0A", "[::1]:7337"));
        assert!(is_it("0100007F", "0A", "0.0.0.0:7337"));
        assert!(!is_it("0200007F", "0A", "127.0.0.1:7337"), "another address");
        assert!(!is_it("0100007F", "01", "127.0.0.1:7337"), "it does not listen");
        assert!(!is_it("0100007F", "0A", "127.0.0.1:7338"), "another port");
    }
}
