//! Nothing of a server outlives it, its helper or its host, whatever it has started and however any of them ends.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use hospes_sandbox::{LaunchCommand, SandboxFiles, SandboxKind, SandboxMechanism, SandboxProfile};
use rustix::process::{Pid, Signal, kill_process};

use super::started::{Started, command};
use super::{NAUGHTY, by, confined, eventually, helper};

/// Default number of cycles.
const CYCLES: usize = 200;

/// The processes whose command line holds the marker, apart from helpers.
fn alive(marker: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.contains(marker) && !stat.contains(") Z ")).then(|| line.trim().to_owned())
    });
    lines.collect()
}

fn gone(marker: &str, by: &str) {
    eventually(&format!("{by}: nothing is left"), || alive(marker).is_empty());
}

/// Unconfined, and by each of the two.
fn all() -> Vec<LaunchCommand> {
    let plain = helper().launch(&SandboxProfile::new(), None).unwrap();
    let confined = confined(SandboxFiles::new());
    [SandboxKind::Bubblewrap, SandboxKind::Landlock]
        .into_iter()
        .filter_map(|kind| by(kind, &confined))
        .chain([plain])
        .collect()
}

fn marker(name: &str) -> String {
    format!("marker-{name}-{}", std::process::id())
}

#[test]
fn the_exit_of_the_server_is_that_of_the_helper() {
    for launch in all() {
        let by = launch.confinement.to_string();
        assert_eq!(Started::new(&launch, &[NAUGHTY, "exit", "7"]).ended().code(), Some(7), "{by}");
        let ended = Started::new(&launch, &[NAUGHTY, "abort"]).ended();
        // Bubblewrap tells of a signal as shells do.
        assert!(ended.signal() == Some(6) || ended.code() == Some(134), "{by}: {ended}");
        assert!(!ended.core_dumped() || ended.code().is_some(), "{by}: {ended}");
    }
}

/// A server that closes its output has closed it: the helper does not keep the pipes open. Bubblewrap does.
#[test]
fn the_pipes_are_the_servers_alone() {
    for launch in all().into_iter().filter(|launch| launch.confinement.means != SandboxMechanism::Bubblewrap)
    {
        let mut started = Started::new(&launch, &[NAUGHTY, "close-stdout"]);
        let mut all = Vec::new();
        std::io::Read::read_to_end(started.child.stdout.as_mut().unwrap(), &mut all).unwrap();
        assert!(all.is_empty() && started.child.try_wait().unwrap().is_none(), "{}", launch.confinement);
    }
}

#[test]
fn the_end_of_its_input_ends_a_server_and_all_that_it_started() {
    let marker = marker("input");
    for launch in all() {
        let by = launch.confinement.to_string();
        let mut started = Started::new(&launch, &[NAUGHTY, "tree", &marker]);
        assert_eq!(started.line(), "started", "{by}");
        assert!(alive(&marker).len() >= 4, "{by}");
        drop(started.stdin.take());
        assert!(started.ended().success(), "{by}");
        assert_eq!(alive(&marker), [""; 0], "{by}");
    }
}

#[test]
fn a_server_that_crashes_leaves_nothing() {
    let marker = marker("crash");
    for launch in all() {
        let by = launch.confinement.to_string();
        let mut started = Started::new(&launch, &[NAUGHTY, "tree-and-crash", &marker]);
        assert!(!started.ended().success(), "{by}");
        assert_eq!(alive(&marker), [""; 0], "{by}");
    }
}

#[test]
fn a_server_is_asked_to_end_and_killed_if_it_does_not() {
    let marker = marker("asked");
    for launch in all() {
        let by = launch.confinement.to_string();
        let mut willing = Started::new(&launch, &[NAUGHTY, "serve", &marker]);
        assert_eq!(willing.line(), "serving", "{by}");
        willing.signal(Signal::TERM);
        let ended = willing.ended();
        assert!(ended.signal() == Some(15) || ended.code() == Some(143), "{by}: {ended}");

        let mut stubborn = Started::new(&launch, &[NAUGHTY, "stubborn-tree", &marker]);
        assert_eq!(stubborn.line(), "started", "{by}");
        stubborn.signal(Signal::TERM);
        eventually("who can be asked has ended", || {
            !alive(&marker).iter().any(|line| line.contains(" linger "))
        });
        assert!(stubborn.child.try_wait().unwrap().is_none(), "{by}: it was to be killed only when told");
        stubborn.signal(Signal::QUIT);
        stubborn.ended();
        assert_eq!(alive(&marker), [""; 0], "{by}");
    }
}

/// A host that is killed can do nothing any more; its helpers can.
#[test]
fn a_host_that_is_killed_leaves_nothing() {
    let marker = marker("host");
    for launch in all() {
        let by = launch.confinement.to_string();
        // A shell stands for the host. It is the parent, and the helper is told so.
        let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
        let own = std::process::id().to_string();
        let command = command(&launch, &[NAUGHTY, "stubborn-tree", &marker], &[]);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<String> = words
            .map(|word| word.to_str().unwrap())
            .map(|word| if word == own { "$$".to_owned() } else { quoted(word) })
            .collect();
        let script = format!("{} & wait", words.join(" "));
        let mut host = Command::new("sh");
        host.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let mut host = host.spawn().unwrap();
        eventually("the server is there", || {
            alive(&marker).iter().filter(|line| line.contains(" linger ")).count() >= 2
        });
        kill_process(Pid::from_child(&host), Signal::KILL).unwrap();
        host.wait().unwrap();
        gone(&marker, &by);
    }
}

/// A helper cannot be killed without its server. Within bubblewrap that holds for all that the server has started, too.
#[test]
fn a_helper_that_is_killed_takes_its_server_along() {
    let marker = marker("helper");
    for launch in all() {
        let by = launch.confinement.to_string();
        let is_contained = by.starts_with("bubblewrap");
        let words = if is_contained { ["stubborn-tree", &marker] } else { ["stubborn", &marker] };
        let mut started = Started::new(&launch, &[NAUGHTY, words[0], words[1]]);
        eventually("the server is there", || alive(&marker).iter().any(|line| line.starts_with(NAUGHTY)));
        started.signal(Signal::KILL);
        started.ended();
        gone(&marker, &by);
    }
}

/// A process that starts the helper without being its host gets no server.
#[test]
fn a_helper_without_its_host_starts_nothing() {
    let launch = helper().launch(&SandboxProfile::new(), None).unwrap();
    let marker = marker("nobody");
    let command = command(&launch, &[NAUGHTY, "serve", &marker], &[]);
    let mut words = vec![command.get_program().to_owned()];
    words.extend(command.get_args().map(ToOwned::to_owned));
    // A process of its own between us and the helper.
    let ended = Command::new("sh").args(["-c", "\"$@\"; exit $?", "sh"]).args(words).output().unwrap();
    assert_eq!(ended.status.code(), Some(126));
    let why = String::from_utf8_lossy(&ended.stderr);
    assert!(why.contains("the host process has exited") && ended.stdout.is_empty(), "{why}");
}

/// Repeats this many times, with each kind of end in turn. `cargo xtask soak` does it a thousand times.
#[test]
fn hundreds_of_servers_leave_no_orphan() {
    let cycles =
        std::env::var("HOSPES_SOAK_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(CYCLES);
    let marker = marker("cycles");
    let launches = all();
    for cycle in 0..cycles {
        let launch = &launches[cycle % launches.len()];
        let words = if cycle % 4 == 3 { "tree-and-crash" } else { "stubborn-tree" };
        let mut started = Started::new(launch, &[NAUGHTY, words, &marker]);
        match cycle % 4 {
            0 => {
                started.line();
                started.signal(Signal::QUIT);
            }
            // In the middle of its start.
            1 => started.signal(Signal::QUIT),
            2 => {
                started.line();
                started.signal(Signal::TERM);
                started.signal(Signal::QUIT);
            }
            _ => {}
        }
        started.ended();
    }
    let left = alive(&marker);
    eprintln!("{cycles} cycles, {} orphans", left.len());
    assert_eq!(left, [""; 0]);
}
