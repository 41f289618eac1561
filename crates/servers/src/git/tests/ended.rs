//! Tests with a git that does not end.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::super::program::{GitJob, GitProgram};
use super::*;

/// A program that starts another, says both numbers, and waits.
fn endless(house: &House) -> GitProgram {
    let (file, pids) = (house.folder.path().join("endless"), house.at("pids"));
    let script = format!("#!/bin/sh\nsleep 1000 &\necho $! $$ > {pids}.new\nmv {pids}.new {pids}\nwait\n");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    GitProgram { file, time: Duration::from_secs(600), max_output: 100 }
}

async fn pids(house: &House) -> Vec<i32> {
    loop {
        if let Ok(text) = fs::read_to_string(house.at("pids")) {
            return text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn are_gone(pids: &[i32]) {
    let is_there = |pid: &i32| {
        // A zombie that nobody has waited for yet is gone.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !(stat.is_empty() || stat.contains(") Z "))
    };
    while pids.iter().any(is_there) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_cancelled_call_ends_git_and_what_it_started() {
    let house = House::new();
    let program = endless(&house);
    let folder = house.folder.path().to_owned();
    let call = tokio::spawn(async move { program.run(&folder, GitJob::default()).await.map(|_| ()) });
    let pids = pids(&house).await;
    assert_eq!(pids.len(), 2);
    call.abort();
    are_gone(&pids).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn git_has_so_much_time() {
    let house = House::new();
    let program = GitProgram { time: Duration::from_millis(300), ..endless(&house) };
    let job = GitJob { arguments: vec!["status".into()], ..GitJob::default() };
    let why = program.run(house.folder.path(), job).await.err().unwrap().to_string();
    assert_eq!(why, "git status took longer than 0.3 seconds (timeout) and was stopped");
    are_gone(&pids(&house).await).await;
}

/// One that says more than anybody reads, and one that complains without end.
#[tokio::test]
async fn what_git_says_is_limited() {
    let house = House::new();
    let file = house.folder.path().join("loud");
    fs::write(&file, "#!/bin/sh\nyes complaint >&2 &\nyes\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let program = GitProgram { file, time: Duration::from_secs(60), max_output: 1000 };
    let said = program.run(house.folder.path(), GitJob { start: 500, ..GitJob::default() }).await.unwrap();
    assert_eq!((said.bytes.len(), said.is_cut), (1000, true));
    let why = program
        .run(house.folder.path(), GitJob { whole: Some(100), ..GitJob::default() })
        .await
        .err()
        .unwrap();
    assert!(why.to_string().contains("printed more than 100 bytes"), "{why}");
}
