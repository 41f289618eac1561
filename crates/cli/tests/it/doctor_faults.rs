//! Tests of `hospes doctor`: faults of the host, made on a real system.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they skip")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::checks::{assert_found, check, doctor, program, report};
use crate::support::site::Site;
use crate::support::{House, Ran};

/// Passes bytes on to `server`, and answers with another version in place of the real one.
fn proxy_of_another_version(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            let mut server = TcpStream::connect(server).unwrap();
            let (mut requests, mut answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ended = std::io::copy(&mut requests, &mut server);
                let _ended = server.shutdown(std::net::Shutdown::Write);
            });
            std::thread::spawn(move || {
                let mut bytes = [0; 64 * 1024];
                while let Ok(count @ 1..) = answers.read(&mut bytes) {
                    let other =
                        String::from_utf8_lossy(&bytes[..count]).replace(env!("CARGO_PKG_VERSION"), "9.9.9");
                    if client.write_all(other.as_bytes()).is_err() {
                        return;
                    }
                }
                let _ended = client.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    address
}

#[test]
fn a_running_host_of_another_version_is_found() {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", "[servers.time]\nbuiltin = 'time'\n");
    let mut host = house.up(&[]);
    host.said(|line| line.contains("event=ready"));
    let note = std::fs::read_dir(house.path("run/hospes")).unwrap().flatten().map(|entry| entry.path());
    let note = note.into_iter().find(|file| file.extension().is_some_and(|ending| ending == "json")).unwrap();
    let mut content: Value = serde_json::from_slice(&std::fs::read(&note).unwrap()).unwrap();
    let (_, found) = doctor(&house, &[]);
    assert_eq!(check(&found, "host", "H10")["status"], "ok", "{found:#}");
    let endpoint = url::Url::parse(content["endpoint"].as_str().unwrap()).unwrap();
    let proxy = proxy_of_another_version(endpoint.socket_addrs(|| None).unwrap()[0]);
    content["endpoint"] = json!(format!("http://{proxy}/mcp"));
    std::fs::write(&note, content.to_string()).unwrap();
    let (ran, found) = doctor(&house, &[]);
    assert_eq!(ran.code, Some(2), "a warning: {found:#}");
    assert_found(&found, "host", "H10", "warning", "9.9.9", "hospes up");
    host.signal("-TERM");
    host.wait();
}

#[test]
fn a_low_limit_of_open_files_is_found() {
    let house = House::new();
    let config = house.config(&[]);
    let mut command = house.program("sh", &["-c", "ulimit -n 256 && exec \"$@\"", "sh"]);
    command.args([env!("CARGO_BIN_EXE_hospes"), "doctor", "--json", "--config", &config]);
    let found = report(&Ran::of(command.stdin(Stdio::null()).output().unwrap()));
    assert_found(&found, "host", "H12", "warning", "256 open files", "ulimit -n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_keyring_that_takes_no_key_is_found() {
    use crate::support::desktop::Desktop;

    let house = House::new();
    let config = house.config(&[]);
    let doctor = |bus: &str| {
        let mut command = house.command(&["doctor", "--json", "--config", &config]);
        command.env("HOSPES_CREDENTIALS_STORE", "keyring").env("DBUS_SESSION_BUS_ADDRESS", bus);
        report(&Ran::of(command.stdin(Stdio::null()).output().unwrap()))
    };
    let found = doctor("unix:path=/none");
    assert_found(&found, "host", "H07", "fault", "in the keyring", "--credentials-store auto or file");
    let Some(mut desktop) = Desktop::open() else { return };
    desktop.start(true);
    let found = doctor(&desktop.address);
    let kept = "nothing is stored; a key would be in the system keyring";
    assert_eq!(check(&found, "host", "H07")["what"], kept, "{found:#}");
    assert!(!house.path("state/hospes/credentials").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_service_without_its_program_or_those_of_servers_is_found() {
    let house = House::new();
    let units = house.path("config/systemd/user");
    std::fs::create_dir_all(&units).unwrap();
    std::fs::create_dir_all(house.path("bin")).unwrap();
    program(&house, "bin/my-server", "exec sleep 600");
    let config = house.config(&[
        ("mine", json!({ "command": "my-server", "disabled": true })),
        ("yours", json!({ "command": "my-server" })),
    ]);
    let path = format!("{}:/usr/bin:/bin", house.path("bin").display());
    let doctor = || {
        let args = ["doctor", "--json", "--connect-timeout", "1", "--config", &config];
        let mut command = house.command(&args);
        report(&Ran::of(command.env("PATH", &path).stdin(Stdio::null()).output().unwrap()))
    };
    let install = |path: &str, change: &dyn Fn(String) -> String| {
        let mut command = house.command(&["service", "install", "--dry-run"]);
        let ran =
            Ran::of(command.env("PATH", path).env_remove("SHELL").stdin(Stdio::null()).output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        std::fs::write(units.join("hospes.service"), change(ran.stdout)).unwrap();
    };
    assert_eq!(check(&doctor(), "host", "H14")["status"], "ok");
    install(&path, &|unit| unit);
    assert_eq!(check(&doctor(), "host", "H14")["status"], "ok");
    install("/usr/bin:/bin", &|unit| unit);
    assert_found(&doctor(), "host", "H14", "warning", "does not find `my-server`", "hospes service install");
    install(&path, &|unit| unit.replace(env!("CARGO_BIN_EXE_hospes"), "/none/hospes"));
    assert_found(&doctor(), "host", "H14", "fault", "cannot start /none/hospes", "hospes service install");
}

#[test]
fn rules_about_unknown_servers_and_tools_are_found() {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", "[servers.time]\nbuiltin = 'time'\n");
    let write = |server: &str, tool: &str| {
        let rule = format!("[[rule]]\ndecide = 'deny'\nserver = '{server}'\ntool = '{tool}'\n");
        house.write("config/hospes/policy.toml", &rule);
    };
    for (server, tool, what) in [("tiem", "*", "time"), ("time", "nwo", "now")] {
        write(server, tool);
        let (ran, found) = doctor(&house, &[]);
        assert_eq!(ran.code, Some(2), "a warning: {found:#}");
        assert_found(&found, "host", "H13", "warning", "rules that match nothing", "hospes policy check");
        assert!(check(&found, "host", "H13")["why"].as_str().unwrap().contains(what), "{found:#}");
    }
    write("time", "now");
    let (_, found) = doctor(&house, &[]);
    assert_eq!(check(&found, "host", "H13")["status"], "ok", "{found:#}");
    // Nobody can decide, because nobody signs in.
    house.write(
        "config/hospes/policy.toml",
        "[[rule]]\ndecide = 'ask'\nserver = 'time'\napprover = 'finance'\n",
    );
    let (_, found) = doctor(&house, &[]);
    assert_found(&found, "host", "H13", "warning", "nobody can decide about", "hospes policy check");
}

#[test]
fn an_application_without_an_entry_is_found() {
    let house = House::new();
    std::fs::create_dir_all(house.path("home/.cursor")).unwrap();
    house.write("home/.cursor/mcp.json", r#"{ "mcpServers": { "other": { "command": "other" } } }"#);
    let (ran, found) = doctor(&house, &["cursor"]);
    assert_eq!(ran.code, Some(1));
    assert_found(&found, "cursor", "A03", "fault", "does not use Hospes", "hospes connect cursor");
}

/// Runs a program without `PATH` in which a system call fails, as it does on a system that lacks or forbids it.
#[cfg(target_os = "linux")]
const WITHOUT_SYSTEM_CALL: &str = r"
import ctypes, os, struct, sys
number, error, *command = sys.argv[1:]
load = struct.pack('HBBI', 0x20, 0, 0, 0)
matches = struct.pack('HBBI', 0x15, 0, 1, int(number))
fails = struct.pack('HBBI', 0x06, 0, 0, 0x00050000 | int(error))
allowed = struct.pack('HBBI', 0x06, 0, 0, 0x7fff0000)
program = ctypes.create_string_buffer(load + matches + fails + allowed)
filter = ctypes.create_string_buffer(struct.pack('HxxxxxxP', 4, ctypes.addressof(program)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.environ['PATH'] = '/none'
os.execv(command[0], command)
";

#[cfg(target_os = "linux")]
fn doctor_without(house: &House, (call, error): (u32, i32), args: &[&str]) -> Option<Value> {
    let (call, error) = (call.to_string(), error.to_string());
    let mut command = house.program("python3", &["-c", WITHOUT_SYSTEM_CALL, &call, &error]);
    command.args([env!("CARGO_BIN_EXE_hospes"), "doctor", "--json"]).args(args);
    let ran = Ran::of(command.stdin(Stdio::null()).output().ok()?);
    if ran.stdout.is_empty() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{ran:?}");
        eprintln!("skipped: system calls cannot be forbidden here: {}", ran.stderr);
        return None;
    }
    Some(report(&ran))
}

#[cfg(target_os = "linux")]
#[test]
fn a_system_without_confinement_is_found() {
    let house = House::new();
    let config = house.config(&[]);
    // Landlock is a system call of this number on all processors; the error is `ENOSYS`.
    let Some(found) = doctor_without(&house, (444, 38), &["--config", &config]) else { return };
    assert_found(&found, "host", "H09", "warning", "programs cannot be confined", "");
    assert!(check(&found, "host", "H09")["mend"].is_string(), "{found:#}");
    let (_, found) = doctor(&house, &["--config", &config]);
    assert_eq!(check(&found, "host", "H09")["status"], "ok", "{found:#}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_machine_without_a_port_for_the_end_of_a_sign_in_is_found() {
    let house = House::new();
    let site = Site::open();
    let config = house.config(&[("site", json!({ "url": site.mcp() }))]);
    // `bind` fails with `EADDRINUSE`.
    let bind = if cfg!(target_arch = "aarch64") { 200 } else { 49 };
    let Some(found) = doctor_without(&house, (bind, 98), &["--config", &config, "site"]) else { return };
    assert_found(&found, "site", "O04", "fault", "no port of this machine", "--no-browser");
    let (_, found) = doctor(&house, &["--config", &config, "site"]);
    assert_found(&found, "site", "O01", "fault", "asks for a sign-in", "hospes auth login site");
}
