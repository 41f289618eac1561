use std::time::Instant;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::*;
use crate::client::Target;

fn sh(script: &str) -> CommandTarget {
    Target::command("sh").args(["-c", script])
}

/// Returns true if any process with `marker` in its command line is alive.
fn alive(marker: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let state = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker) && !state.contains(") Z ")
    })
}

/// covers: STDIO-09
#[tokio::test]
async fn a_child_that_ends_at_end_of_input_is_not_signalled() {
    let child = ChildProcess::spawn(&sh("cat >/dev/null; exit 7"), ChildListeners::default()).unwrap();
    drop(child.stdin);
    child.handle.stop();
    child.handle.gone().await;
    assert_eq!(&*child.handle.exited().await, "exited with status 7");
}

/// covers: STDIO-10 STDIO-11
#[tokio::test]
async fn a_stubborn_child_is_terminated_then_killed_within_two_seconds() {
    let child = ChildProcess::spawn(
        &sh("trap 'echo told >&2' TERM; echo ready; while :; do sleep 0.05; done"),
        ChildListeners::default(),
    )
    .unwrap();
    let _stdout = ready(child.stdout).await;
    drop(child.stdin);
    let began = Instant::now();
    child.handle.stop();
    child.handle.gone().await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(&*child.handle.exited().await, "was terminated by signal 9");
    assert!(
        child.handle.stderr().is_some_and(|tail| tail.ends_with("told")),
        "it was not asked to terminate"
    );
}

/// A wrapper that ends while a helper of it holds the pipes: the exit is noticed, and the helper does not survive.
#[tokio::test]
async fn a_helper_that_outlives_its_wrapper_is_ended_with_it() {
    let marker = format!("hospes-helper-{}", std::process::id());
    let script = format!("sh -c 'trap \"\" TERM HUP; while :; do sleep 0.1; done' {marker} & exit 0");
    let child = ChildProcess::spawn(&sh(&script), ChildListeners::default()).unwrap();
    let began = Instant::now();
    assert_eq!(&*child.handle.exited().await, "exited with status 0");
    child.handle.stop();
    child.handle.gone().await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(!alive(&marker), "the helper is still there");
}

#[test]
fn the_end_of_the_runtime_kills_the_whole_group() {
    let marker = format!("hospes-orphan-{}", std::process::id());
    let script =
        format!("sh -c 'trap \"\" TERM HUP; while :; do sleep 0.1; done' {marker} & cat >/dev/null; sleep 9");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let child = runtime.block_on(async {
        let child = ChildProcess::spawn(&sh(&script), ChildListeners::default()).unwrap();
        while !alive(&marker) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        child
    });
    drop(runtime);
    let began = Instant::now();
    while alive(&marker) {
        assert!(began.elapsed() < Duration::from_secs(2), "the helper is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(child);
}

#[tokio::test]
async fn a_child_gets_a_clean_environment_and_what_it_was_given() {
    let command = sh("env").env("GIVEN", "yes");
    let child = ChildProcess::spawn(&command, ChildListeners::default()).unwrap();
    let mut lines = BufReader::new(child.stdout).lines();
    let mut names = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        names.push(line.split_once('=').map_or_else(String::new, |(name, _)| name.to_owned()));
    }
    assert!(names.iter().any(|name| name == "GIVEN"));
    assert!(names.iter().any(|name| name == "PATH"));
    // The shell sets these itself.
    let allowed = |name: &str| {
        super::group::INHERITED.contains(&name) || ["GIVEN", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name)
    };
    assert!(names.iter().all(|name| allowed(name)), "{names:?}");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "the test has something to hide");
}

#[tokio::test]
async fn the_end_of_stderr_is_kept_and_bounded() {
    let script = "i=0; while [ $i -lt 200 ]; do echo line $i >&2; i=$((i+1)); done; read x";
    let mut child = ChildProcess::spawn(&sh(script), ChildListeners::default()).unwrap();
    child.stdin.write_all(b"\n").await.unwrap();
    child.handle.exited().await;
    let tail = child.handle.stderr().unwrap();
    assert!(tail.ends_with("line 199") && tail.starts_with("line 190"), "{tail}");
}

/// Programs that fail like to print what they were told, and errors travel as far as to models.
#[tokio::test]
async fn what_a_child_alone_was_told_is_hidden_in_its_stderr() {
    let script = "echo \"token=$TOKEN level=$LEVEL file=$FILE $TOKEN\" >&2; read x";
    let command =
        sh(script).env("TOKEN", "s3cret-value").env("LEVEL", "debug").env("FILE", "/etc/server.conf");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener: StderrCallback = {
        let heard = Arc::clone(&heard);
        Arc::new(move |line: &str| heard.lock().unwrap().push(line.to_owned()))
    };
    let mut child =
        ChildProcess::spawn(&command, ChildListeners { stderr: Some(listener), process: None }).unwrap();
    child.stdin.write_all(b"\n").await.unwrap();
    child.handle.exited().await;
    let line = "token=[redacted] level=debug file=/etc/server.conf [redacted]";
    assert_eq!(child.handle.stderr().as_deref(), Some(line));
    assert_eq!(*heard.lock().unwrap(), [line]);
}

fn launched(script: &str, launcher: &str) -> CommandTarget {
    let args = ["-c", launcher, "launcher"].map(OsString::from).to_vec();
    sh(script).launched_by(crate::client::Launcher::new("/bin/sh", args, "FOR_CHILD_"))
}

/// A variable that changes how programs are loaded would change the launcher, too.
#[tokio::test]
async fn a_launcher_gets_the_command_and_its_variables_behind_a_prefix() {
    let command =
        launched("server", r#"echo "$1 $2 $3 $4"; env; read x"#).env("LD_PRELOAD", "/x.so").inherit(["PATH"]);
    let child = ChildProcess::spawn(&command, ChildListeners::default()).unwrap();
    let mut lines = BufReader::new(child.stdout).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("-- sh -c server"));
    drop(child.stdin);
    let mut names = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        names.extend(line.split_once('=').map(|(name, _)| name.to_owned()));
    }
    // The shell sets these itself.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(&name.as_str()));
    names.sort();
    assert_eq!(names, ["FOR_CHILD_LD_PRELOAD", "FOR_CHILD_PATH"]);
}

/// Waits until the script says that its traps are set.
async fn ready(stdout: impl tokio::io::AsyncRead + Unpin) -> impl Sized {
    let mut lines = BufReader::new(stdout).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
    lines
}

/// Killed itself, it could not kill what the server has started.
#[tokio::test]
async fn a_launcher_is_told_to_kill() {
    let script = r#"trap 'echo asked >&2' TERM; trap 'echo told >&2; exit 9' QUIT; echo ready; while :; do sleep 0.02; done"#;
    let child = ChildProcess::spawn(&launched("server", script), ChildListeners::default()).unwrap();
    let _stdout = ready(child.stdout).await;
    drop(child.stdin);
    child.handle.stop();
    child.handle.gone().await;
    assert_eq!(&*child.handle.exited().await, "exited with status 9");
    let said = child.handle.stderr().unwrap_or_default();
    // Some shells say beside it what became of the command they were waiting for.
    let ours: Vec<&str> = said.lines().filter(|line| ["asked", "told"].contains(line)).collect();
    assert_eq!(ours, ["asked", "told"], "{said}");
    let script = "trap '' TERM QUIT; echo ready; while :; do sleep 0.02; done";
    let child = ChildProcess::spawn(&launched("server", script), ChildListeners::default()).unwrap();
    let _stdout = ready(child.stdout).await;
    drop(child.stdin);
    child.handle.stop();
    child.handle.gone().await;
    assert_eq!(&*child.handle.exited().await, "was terminated by signal 9", "one that does not listen");
}

/// Returns callbacks that record the events of a process, in a few words.
fn heard() -> (ChildListeners, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    let process: ProcessCallback = Arc::new(move |news| {
        told.lock().unwrap().push(match news {
            ProcessEvent::Started { pid } => format!("started {}", pid.is_some()),
            ProcessEvent::NotStarted { why } => format!("not started: {:?}", why.kind()),
            ProcessEvent::Ended { how, was_asked, is_success, .. } => {
                format!("{how}, asked {was_asked}, well {is_success}")
            }
        });
    });
    (ChildListeners { stderr: None, process: Some(process) }, heard)
}

#[tokio::test]
async fn the_start_and_the_end_of_each_process_are_told_before_anybody_acts_on_them() {
    let (listeners, heard) = heard();
    let child = ChildProcess::spawn(&sh("cat >/dev/null; exit 7"), listeners.clone()).unwrap();
    drop(child.stdin);
    child.handle.exited().await;
    assert_eq!(*heard.lock().unwrap(), ["started true", "exited with status 7, asked false, well false"]);
    heard.lock().unwrap().clear();
    let child = ChildProcess::spawn(&sh("cat >/dev/null"), listeners.clone()).unwrap();
    child.handle.stop();
    drop(child.stdin);
    child.handle.gone().await;
    assert_eq!(*heard.lock().unwrap(), ["started true", "exited with status 0, asked true, well true"]);
    heard.lock().unwrap().clear();
    ChildProcess::spawn(&Target::command("/no/such/program"), listeners).unwrap_err();
    assert_eq!(*heard.lock().unwrap(), ["not started: NotFound"]);
}

#[test]
fn a_process_that_ends_with_the_runtime_is_told_of_as_well() {
    let (listeners, heard) = heard();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let child = runtime.block_on(async { ChildProcess::spawn(&sh("cat >/dev/null"), listeners).unwrap() });
    drop(runtime);
    drop(child);
    let heard = heard.lock().unwrap();
    assert_eq!(
        *heard,
        ["started true", "was killed when the program that started it ended, asked true, well false"]
    );
}
