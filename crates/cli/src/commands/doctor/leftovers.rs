//! Check that a server leaves no process behind. Processes of a check carry a mark in their environment, which they pass
//! on to theirs, whatever becomes of their parents and their groups.

use std::time::{Duration, Instant};

use super::check::{DoctorChain, DoctorFinding, S05};

/// Environment variable of the mark.
pub(super) const MARK: &str = "HOSPES_DOCTOR_CHECK";
/// Time that processes get to end after their server.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which they are looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Makes a mark that no other check has.
pub(super) fn new_mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Reports processes with the mark that do not end.
pub(super) async fn check(mark: &str, chain: &mut DoctorChain) {
    let until = Instant::now() + END_TIMEOUT;
    let left = loop {
        let left = marked(mark);
        if left.is_empty() || Instant::now() >= until {
            break left;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    };
    let Some((pid, _)) = left.first() else { return chain.ok(&S05, "") };
    let names: Vec<String> = left.iter().map(|(pid, name)| format!("{name} ({pid})")).collect();
    let finding =
        DoctorFinding::new(format!("processes of the server stay after its end: {}", names.join(", ")))
            .why("the server starts helpers and does not end them")
            .mend(format!("kill {pid}; and update the server, or give it a sandbox"));
    chain.warn(&S05, finding);
}

/// Returns the processes with the mark: their ids and names.
#[cfg(target_os = "linux")]
fn marked(mark: &str) -> Vec<(u32, String)> {
    let wanted = format!("{MARK}={mark}");
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // Environments of processes of others cannot be read. That of a zombie is empty.
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        let is_marked = environment.split(|byte| *byte == 0).any(|pair| pair == wanted.as_bytes());
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        is_marked.then(|| (pid, crate::output::printable(name.trim())))
    });
    processes.collect()
}

#[cfg(not(target_os = "linux"))]
fn marked(_: &str) -> Vec<(u32, String)> {
    Vec::new()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[tokio::test]
    async fn a_process_with_the_mark_is_found_until_it_ends() {
        let mark = new_mark();
        let mut child =
            Command::new("sleep").arg("600").env(MARK, &mark).stdin(Stdio::null()).spawn().unwrap();
        let mut chain = DoctorChain::new("server");
        check(&mark, &mut chain).await;
        let found = &chain.checks[0];
        assert!(found.what.contains("sleep") && found.what.contains(&child.id().to_string()), "{found:?}");
        assert_eq!(found.mend.as_deref().unwrap().split(';').next(), Some(&*format!("kill {}", child.id())));
        child.kill().and_then(|()| child.wait()).unwrap();
        let mut chain = DoctorChain::new("server");
        check(&mark, &mut chain).await;
        assert_eq!(chain.status(), super::super::check::CheckStatus::Ok);
    }
}
