//! `hospes service`: the files that it writes, as the tools of the systems read them, and their exact removal.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they skip")]

use crate::support;

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{House, LIMIT, Ran, Running, eventually, installed, text};

/// A stand-in for `systemctl` that writes down how it was called, and fails at the word in the file `fails`.
const SYSTEMCTL: &str = r#"#!/bin/sh
printf '%s\n' "$*" >> 'FOLDER/called'
case " $* " in *" $(cat 'FOLDER/fails' 2>/dev/null || echo none) "*) echo 'no such manager' >&2; exit 1;; esac
exit 0
"#;

const UNIT: &str = "config/systemd/user/hospes.service";

fn house() -> House {
    let house = House::new();
    std::fs::create_dir_all(house.path("bin")).unwrap();
    std::fs::create_dir_all(house.path("home")).unwrap();
    for (name, script) in [
        ("bin/systemctl", SYSTEMCTL.replace("FOLDER", &text(&house.path("")))),
        ("bin/shell", "#!/bin/sh\nPATH=/from/the/login/shell:$PATH\nexport PATH\nfor last; do :; done\neval \"$last\"\n".to_owned()),
    ] {
        let file = house.write(name, &script);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    house
}

fn run(house: &House, args: &[&str]) -> Ran {
    let mut command = house.command(args);
    let path = std::env::var("PATH").unwrap();
    command
        .env("PATH", format!("{}:{path}", house.path("bin").display()))
        .env("SHELL", house.path("bin/shell"));
    Ran::of(command.stdin(Stdio::null()).output().unwrap())
}

fn status(house: &House) -> Value {
    serde_json::from_str(&run(house, &["--json", "service", "status"]).stdout).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn an_installed_service_is_started_and_removed_without_a_trace() {
    let house = house();
    let config = text(&house.write("own.toml", ""));
    assert_eq!(status(&house)["installed"], false);
    let ran = run(&house, &["service", "install", "--config", "own.toml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let unit = house.read(UNIT);
    let expected = format!(
        "ExecStart=\"{}\" \"--quiet\" \"up\" \"--config\" \"{config}\"\n",
        env!("CARGO_BIN_EXE_hospes")
    );
    assert!(unit.contains(&expected), "{unit}");
    assert!(unit.contains("Environment=\"PATH=/from/the/login/shell:"), "{unit}");
    assert_eq!(
        house.read("called"),
        "--user daemon-reload\n--user enable hospes.service\n--user restart hospes.service\n"
    );
    let known = status(&house);
    assert_eq!(
        (&known["installed"], &known["enabled"], &known["running"]),
        (&true.into(), &true.into(), &true.into())
    );
    assert_eq!(known["file"], text(&house.path(UNIT)));
    house.write("fails", "is-active");
    assert_eq!(status(&house)["running"], false);

    // A second installation must not forget which folders the first one created.
    house.write("fails", "none");
    assert_eq!(run(&house, &["service", "install"]).code, Some(0));
    house.write("called", "");
    let ran = run(&house, &["service", "remove"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(house.read("called"), "--user disable --now hospes.service\n--user daemon-reload\n");
    assert!(!house.path("config").exists(), "a folder was left");
    assert_eq!(run(&house, &["service", "remove"]).code, Some(0));
}

#[test]
#[cfg(target_os = "linux")]
fn a_failed_installation_leaves_nothing() {
    let house = house();
    house.write("fails", "restart");
    let ran = run(&house, &["service", "install"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("no such manager") && ran.stderr.contains("nothing was installed"),
        "{ran:?}"
    );
    assert!(!house.path("config").exists());
    assert!(house.read("called").contains("--user disable --now hospes.service"), "{}", house.read("called"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_of_somebody_else_is_neither_replaced_nor_removed() {
    let house = house();
    std::fs::create_dir_all(house.path("config/systemd/user")).unwrap();
    house.write(UNIT, "[Service]\nExecStart=/bin/true\n");
    for args in [&["service", "install"][..], &["service", "remove"], &["service", "status"]] {
        let ran = run(&house, args);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("was not written by `hospes service install`"), "{ran:?}");
    }
    assert_eq!(house.read(UNIT), "[Service]\nExecStart=/bin/true\n");
    assert!(!house.path("called").exists());
}

#[test]
fn a_dry_run_prints_the_file_and_changes_nothing() {
    let house = house();
    for (manager, part) in [
        ("systemd", "Type=notify"),
        ("launchd", "<key>KeepAlive</key>"),
        ("task-scheduler", "<LogonTrigger>"),
    ] {
        let ran = run(&house, &["service", "install", "--dry-run", "--manager", manager]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        assert!(ran.stdout.contains(part), "{ran:?}");
    }
    assert!(!house.path("config").exists() && !house.path("called").exists());
    assert_eq!(run(&house, &["service", "install", "--manager", "launchd"]).code, Some(1));
    let missing = run(&house, &["service", "install", "--dry-run", "--config", "nowhere.toml"]);
    assert!(missing.stderr.contains("file not found: nowhere.toml"), "{missing:?}");
}

/// Prints the file for a manager, with a configuration whose name has everything that needs quoting.
fn rendered(house: &House, manager: &str) -> String {
    house.write("a $b %c &<>\"'.toml", "");
    let args = ["service", "install", "--dry-run", "--manager", manager, "--config", "a $b %c &<>\"'.toml"];
    run(house, &args).stdout
}

#[test]
fn systemd_accepts_the_unit() {
    let Some(analyze) = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|folder| folder.join("systemd-analyze"))
        .find(|file| file.is_file())
    else {
        return eprintln!("skipped: systemd-analyze is not installed");
    };
    let house = house();
    std::fs::create_dir_all(house.path("run")).unwrap();
    let file = house.write("hospes.service", &rendered(&house, "systemd"));
    let verify = || {
        let mut command = house.program(&text(&analyze), &["--user", "--man=no", "verify"]);
        Ran::of(command.arg(&file).output().unwrap())
    };
    let ran = verify();
    let about = |ran: &Ran| ran.stderr.lines().filter(|line| line.contains("hospes.service")).count();
    assert_eq!((ran.code, about(&ran)), (Some(0), 0), "{ran:?}");
    // The tool finds what is wrong, or the above would say nothing.
    house.write("hospes.service", &rendered(&house, "systemd").replace("Type=notify", "Type=whatever"));
    assert!(about(&verify()) > 0);
}

#[test]
fn python_reads_the_property_list_and_the_task() {
    let Some(python) = installed("python3") else { return };
    let house = house();
    house.write("agent.plist", &rendered(&house, "launchd"));
    house.write("task.xml", &rendered(&house, "task-scheduler"));
    let script = "import json, plistlib, xml.dom.minidom as dom\n\
                  task = dom.parse('task.xml')\n\
                  text = lambda name: task.getElementsByTagName(name)[0].firstChild.data\n\
                  print(json.dumps([plistlib.load(open('agent.plist', 'rb')), text('Command'), text('Arguments')]))";
    let mut command = Command::new(python);
    command.args(["-c", script]).current_dir(house.path(""));
    let ran = Ran::of(command.output().unwrap());
    let read: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let agent = &read[0];
    let config = text(&house.path("a $b %c &<>\"'.toml"));
    let program = env!("CARGO_BIN_EXE_hospes");
    assert_eq!(agent["ProgramArguments"], serde_json::json!([program, "--quiet", "up", "--config", config]));
    assert_eq!((&agent["RunAtLoad"], &agent["KeepAlive"]["SuccessfulExit"]), (&true.into(), &false.into()));
    assert!(agent["EnvironmentVariables"]["PATH"].as_str().unwrap().starts_with("/from/the/login/shell:"));
    assert_eq!(read[1], program);
    assert!(read[2].as_str().unwrap().contains("a $b %c &<>\\\"'.toml"), "{read}");
}

/// A host tells the manager when it serves and when it stops, and its servers are not told of the manager's socket.
#[test]
fn a_host_reports_that_it_is_ready_and_that_it_stops() {
    let house = House::new();
    let socket = UnixDatagram::bind(house.path("notify")).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let server = house.server("one", &["greet"], "");
    let script = format!("env > '{}'\n{}", house.path("environment").display(), house.read("one.sh"));
    house.write("one.sh", &script);
    let config = house.config(&[("one", server)]);
    let mut command =
        house.command(&["--quiet", "up", "--config", &config, "--listen", "127.0.0.1:0", "--console", "off"]);
    command.env("NOTIFY_SOCKET", house.path("notify"));
    let mut host = Running::start(command);
    let received = || {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    assert_eq!(received(), "READY=1");
    assert_eq!(house.run(&["status"]).code, Some(0));
    eventually("the server runs", || house.is_running("one"));
    assert!(!house.read("environment").contains("NOTIFY_SOCKET"), "{}", house.read("environment"));
    host.signal("-TERM");
    assert_eq!(received(), "STOPPING=1");
    assert_eq!(host.wait(), Some(0));
    // Quiet means that no link and no token gets into the journal.
    let said: Vec<String> = host.stderr.try_iter().collect();
    assert!(said.is_empty(), "{said:?}");
}
