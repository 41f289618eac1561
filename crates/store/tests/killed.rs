//! The process that writes is killed in the middle.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, AuditPosition};

/// Marks this process as the child of the test, and names the folder to write to.
const FOLDER: &str = "HOSPES_STORE_TEST_FOLDER";

/// Number of times that the process is killed.
const ROUNDS: usize = 6;

/// Every entry whose place was told is there, and whatever is there is whole.
#[test]
fn nothing_that_was_told_to_be_recorded_is_lost_when_the_process_is_killed() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write(&PathBuf::from(folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut told: Vec<AuditPosition> = Vec::new();
    for round in 1..=ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("nothing_that_was_told_to_be_recorded_is_lost_when_the_process_is_killed")
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let places =
            lines.by_ref().map_while(Result::ok).filter_map(|line| line.parse::<AuditPosition>().ok());
        // A little further each time, so that it is killed at different moments.
        told.extend(places.take(3 * round));
        child.kill().unwrap();
        // What it told before it was killed counts, too. A line may be cut.
        told.extend(lines.map_while(Result::ok).filter_map(|line| line.parse::<AuditPosition>().ok()));
        child.wait().unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let audit = open(folder.path());
        assert!(told.len() >= 3 * ROUNDS);
        audit.verify(None).await.unwrap();
        for place in told {
            let found = audit.after(place.seq - 1, 1).await.unwrap();
            assert!(
                found.iter().any(|one| one.seq == place.seq && one.bound == place.bound),
                "{place} is lost"
            );
        }
        // And it goes on.
        audit.record(AuditEntry::new(AuditEntryKind::Call)).await.unwrap();
        audit.verify(None).await.unwrap();
    });
}

fn open(folder: &Path) -> AuditLog {
    AuditLog::open(folder.join("audit.db"), folder.join("audit.key")).expect("the record opens")
}

/// Writes, and tells what is written, until it is killed.
fn write(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
    runtime.block_on(async {
        let audit = open(folder);
        let mut out = std::io::stdout().lock();
        loop {
            for _ in 0..3 {
                audit
                    .enqueue(AuditEntry::new(AuditEntryKind::Server))
                    .await
                    .expect("what came before was written");
            }
            let place =
                audit.record(AuditEntry::new(AuditEntryKind::Call)).await.expect("the file can be written");
            if writeln!(out, "{place}").is_err() {
                return;
            }
        }
    });
}
