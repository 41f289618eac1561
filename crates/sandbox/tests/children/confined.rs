//! Tests of the operations that a confined server can and cannot perform.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;

use hospes_sandbox::{
    SandboxError, SandboxFiles, SandboxKind, SandboxMechanism, SandboxNetwork, SandboxProfile,
};
use tempfile::TempDir;

use super::started::{command, said, said_with};
use super::{NAUGHTY, both, by, confined, helper, text};

/// A granted folder to read, one to write, and one that is not granted, with a file in each.
fn folders() -> (TempDir, SandboxFiles) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["read", "write", "secret"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("file"), name).unwrap();
    }
    let files = SandboxFiles::new().read(folder.path().join("read")).write(folder.path().join("write"));
    (folder, files)
}

#[test]
fn only_granted_files_are_read() {
    let (folder, files) = folders();
    let at = |name: &str| folder.path().join(name);
    for launch in both(&confined(files)) {
        let by = &launch.confinement;
        let reads = |path: &Path| said(&launch, &[NAUGHTY, "read", text(path)]);
        assert_eq!(reads(&at("read/file")), "ok", "{by}");
        assert_eq!(reads(&at("write/file")), "ok", "{by}");
        for path in
            [at("secret/file"), "/etc/shadow".into(), "/etc/gshadow".into(), at("read/../secret/file")]
        {
            let answer = reads(&path);
            assert!(["NotFound", "PermissionDenied"].contains(&answer.as_str()), "{by}: {path:?} {answer}");
        }
        let list = said(&launch, &[NAUGHTY, "list", text(&at("secret"))]);
        assert!(["NotFound", "PermissionDenied"].contains(&list.as_str()), "{by}: {list}");
        assert_eq!(said(&launch, &[NAUGHTY, "list", text(&at("read"))]), "ok", "{by}");
    }
}

#[test]
fn only_granted_files_are_written() {
    let (folder, files) = folders();
    let at = |name: &str| folder.path().join(name);
    for launch in both(&confined(files)) {
        let by = &launch.confinement;
        assert_eq!(said(&launch, &[NAUGHTY, "write", text(&at("write/new"))]), "ok", "{by}");
        assert_eq!(fs::read_to_string(at("write/new")).unwrap(), "naughty", "{by}");
        assert_eq!(said(&launch, &[NAUGHTY, "remove", text(&at("write/new"))]), "ok", "{by}");
        for folder in ["read", "secret"] {
            for word in ["write", "append", "truncate", "remove"] {
                let file = at(folder).join("file");
                let answer = said(&launch, &[NAUGHTY, word, text(&file)]);
                assert_ne!(answer, "ok", "{by}: {word} {folder}");
                assert_eq!(fs::read_to_string(&file).unwrap(), folder, "{by}: {word}");
            }
        }
        let link = said(&launch, &[NAUGHTY, "link", text(&at("secret/file")), text(&at("write/link"))]);
        assert_ne!(link, "ok", "{by}");
        assert_ne!(said(&launch, &[NAUGHTY, "write", "/etc/hospes-was-here"]), "ok", "{by}");
        assert!(!Path::new("/etc/hospes-was-here").exists(), "{by}");
    }
}

/// A link in a granted folder leads nowhere that is not granted; a granted link is what it leads to.
#[test]
fn links_grant_nothing() {
    let (folder, files) = folders();
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink(at("secret/file"), at("write/leak")).unwrap();
    std::os::unix::fs::symlink(at("read"), at("alias")).unwrap();
    for launch in both(&confined(files)) {
        assert_ne!(
            said(&launch, &[NAUGHTY, "read", text(&at("write/leak"))]),
            "ok",
            "{}",
            launch.confinement
        );
    }
    for launch in both(&confined(SandboxFiles::new().read(at("alias")))) {
        let by = &launch.confinement;
        assert_eq!(said(&launch, &[NAUGHTY, "read", text(&at("alias/file"))]), "ok", "{by}");
        assert_eq!(said(&launch, &[NAUGHTY, "read", text(&at("read/file"))]), "ok", "{by}");
        assert_ne!(said(&launch, &[NAUGHTY, "read", text(&at("secret/file"))]), "ok", "{by}");
    }
}

#[test]
fn programs_that_are_not_granted_do_not_run() {
    let (folder, files) = folders();
    let script = folder.path().join("secret/script");
    fs::copy("/bin/true", &script).unwrap();
    let granted = folder.path().join("read/script");
    fs::copy("/bin/true", &granted).unwrap();
    for launch in both(&confined(files)) {
        assert_ne!(said(&launch, &[NAUGHTY, "run", text(&script)]), "ok", "{}", launch.confinement);
        assert_eq!(said(&launch, &[NAUGHTY, "run", text(&granted)]), "ok", "{}", launch.confinement);
    }
}

#[test]
fn without_a_network_nothing_is_reached() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let (to, datagram) = (tcp.local_addr().unwrap().to_string(), udp.local_addr().unwrap().to_string());
    for files in [None, Some(SandboxFiles::new())] {
        let mut profile = SandboxProfile::new().with_network(SandboxNetwork::None);
        profile.files = files.clone();
        for launch in both(&profile) {
            let by = &launch.confinement;
            assert_ne!(said(&launch, &[NAUGHTY, "tcp", &to]), "ok", "{by}");
            said(&launch, &[NAUGHTY, "udp", &datagram]);
            assert!(udp.recv(&mut [0]).is_err(), "{by}: a datagram came");
        }
        // The same with a network: what is refused above is refused by the sandbox.
        profile.network = SandboxNetwork::Host;
        if profile.is_demanding() {
            for launch in both(&profile) {
                assert_eq!(said(&launch, &[NAUGHTY, "tcp", &to]), "ok", "{}", launch.confinement);
            }
        }
    }
}

/// Behind a socket of the session or of a container engine wait programs that do anything for their user.
#[test]
fn sockets_outside_are_not_reached() {
    let (folder, files) = folders();
    let socket = folder.path().join("secret/socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let open = helper().launch(&SandboxProfile::new(), None).unwrap();
    assert_eq!(said(&open, &[NAUGHTY, "unix", text(&socket)]), "ok");
    for launch in both(&confined(files)) {
        assert_ne!(said(&launch, &[NAUGHTY, "unix", text(&socket)]), "ok", "{}", launch.confinement);
    }
}

#[test]
fn other_processes_are_left_alone() {
    let mut other = std::process::Command::new("sleep").arg("600").env("SECRET", "s3cret").spawn().unwrap();
    let pid = other.id().to_string();
    for launch in both(&confined(SandboxFiles::new())) {
        let by = &launch.confinement;
        assert_ne!(said(&launch, &[NAUGHTY, "environment-of", &pid]), "ok", "{by}");
        said(&launch, &[NAUGHTY, "kill", &pid]);
        assert_ne!(said(&launch, &[NAUGHTY, "mount", "/tmp"]), "ok", "{by}");
    }
    // Landlock forbids signals since Linux 6.12; elsewhere this cannot be asked of it.
    let is_alive = other.try_wait().unwrap().is_none();
    let _ = other.kill();
    other.wait().unwrap();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = kernel.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (6, 12) {
        assert!(is_alive, "a confined server has ended another process");
    } else {
        eprintln!("SKIPPED, not tested on Linux {kernel}: signals to other processes");
    }
}

/// Input of the user's terminals must not be readable for a server, even if the terminals belong to the same user.
#[test]
fn terminals_are_not_opened() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&own).unwrap();
    unlockpt(&own).unwrap();
    let terminal = ptsname(&own, Vec::new()).unwrap().into_string().unwrap();
    let open = helper().launch(&SandboxProfile::new(), None).unwrap();
    assert_eq!(said(&open, &[NAUGHTY, "open", &terminal]), "ok");
    assert_eq!(said(&open, &[NAUGHTY, "open", "/dev/ptmx"]), "ok");
    for launch in both(&confined(SandboxFiles::new())) {
        let by = &launch.confinement;
        assert_ne!(said(&launch, &[NAUGHTY, "open", &terminal]), "ok", "{by}");
        assert_ne!(said(&launch, &[NAUGHTY, "open", "/dev/tty"]), "ok", "{by}");
        assert_eq!(said(&launch, &[NAUGHTY, "open", "/dev/null"]), "ok", "{by}");
        // Bubblewrap makes others, which are nobody else's.
        if by.means == SandboxMechanism::Landlock {
            for path in [&terminal, "/dev/tty", "/dev/ptmx"] {
                assert_eq!(said(&launch, &[NAUGHTY, "open", path]), "PermissionDenied", "{by}: {path}");
            }
            assert_eq!(said(&launch, &[NAUGHTY, "list", "/dev/pts"]), "PermissionDenied", "{by}");
        }
    }
}

#[test]
fn temporary_files_are_private_and_go() {
    let (_folder, files) = folders();
    let marker = tempfile::tempdir().unwrap();
    let in_tmp = Path::new("/tmp").join(marker.path().file_name().unwrap()).join("file");
    for launch in both(&confined(files)) {
        let by = &launch.confinement;
        assert_eq!(said(&launch, &[NAUGHTY, "temporary"]), "ok", "{by}");
        if marker.path().starts_with("/tmp") {
            said(&launch, &[NAUGHTY, "write", text(&in_tmp)]);
            assert!(!in_tmp.exists(), "{by}");
        }
        if launch.confinement.means == SandboxMechanism::Landlock {
            let variables = said(&launch, &[NAUGHTY, "env"]);
            let folder = variables.lines().find_map(|line| line.strip_prefix("TMPDIR=")).unwrap().to_owned();
            assert!(!Path::new(&folder).exists(), "{folder} is left");
        }
    }
}

/// Variables for the server affect neither the helper nor bubblewrap, and the server gets no other variables.
#[test]
fn variables_are_the_servers_alone() {
    let unconfined = helper().launch(&SandboxProfile::new(), None).unwrap();
    for launch in both(&confined(SandboxFiles::new())).into_iter().chain([unconfined]) {
        let by = launch.confinement.clone();
        let said = said_with(&launch, &[NAUGHTY, "env"], &[("GIVEN", "yes"), ("EMPTY", "")]);
        let names: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        let expected = |name: &&str| ["GIVEN", "EMPTY", "TMPDIR", "PWD"].contains(name);
        assert!(
            names.contains(&"GIVEN") && names.contains(&"EMPTY") && names.iter().all(expected),
            "{by}: {names:?}"
        );
        let mut asked = command(&launch, &[NAUGHTY, "env"], &[("LD_PRELOAD", "/nobody/has/this.so")]);
        let ended = asked.output().unwrap();
        let complaints = String::from_utf8_lossy(&ended.stderr).matches("/nobody/has/this.so").count();
        assert_eq!(complaints, 1, "{by}: {ended:?}");
    }
}

#[test]
fn a_profile_is_not_enforced_by_half() {
    let gone = helper().launch(&confined(SandboxFiles::new().read("/nobody/has/this")), None).unwrap_err();
    assert!(matches!(gone, SandboxError::Path { .. }) && !gone.hint().is_empty(), "{gone}");
    // What demands nothing needs nothing.
    assert_eq!(
        helper().launch(&SandboxProfile::new(), None).unwrap().confinement.means,
        SandboxMechanism::Nothing
    );
    let off = SandboxProfile::new().with_kind(SandboxKind::Off);
    assert_eq!(helper().launch(&off, None).unwrap().confinement.means, SandboxMechanism::Nothing);
    // The second stage fails closed, too: what is granted has gone meanwhile.
    let folder = tempfile::tempdir().unwrap();
    let Some(launch) = by(SandboxKind::Landlock, &confined(SandboxFiles::new().read(folder.path()))) else {
        return;
    };
    drop(folder);
    let answer = said(&launch, &[NAUGHTY, "env"]);
    assert!(answer.contains("exit status: 126"), "{answer}");
}
