//! A command of this program whose lines of JSON are read as they come.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;

use super::{MAX_OUTPUT, failure};

/// Maximum time for the end of a command whose lines nobody reads any more. After it, the process is killed.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the messages that are read, in bytes.
const MAX_MESSAGES: u64 = 256 << 10;

/// Runs a command of this program, and sends each line of its output. Once nobody receives them, the command is ended: it
/// watches its standard input, which is then closed, as it is when this process ends.
///
/// The exit code of a command that has printed its report is no failure: `hospes doctor` has one for what it has found.
pub(super) async fn run(
    arguments: &[String],
    limit: Duration,
    lines: mpsc::Sender<Value>,
) -> Result<(), String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("cannot determine the path of the hospes executable: {error}"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start hospes: {error}"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let messages = tokio::spawn(read_messages(stderr));
    let work = async {
        tokio::select! {
            has_report = pass_lines(stdout, &lines) => Some(has_report),
            () = lines.closed() => None,
        }
    };
    let worked = tokio::time::timeout(limit, work).await;
    drop(stdin);
    let ended = tokio::time::timeout(END_TIMEOUT, child.wait()).await;
    if ended.is_err() {
        // It has ended meanwhile, or is killed when it is dropped.
        let _gone = child.start_kill();
    }
    let has_report = match worked {
        Ok(Some(has_report)) => has_report?,
        Ok(None) => return Err("cancelled".to_owned()),
        Err(_) => {
            return Err(format!("the command did not end within {} minutes", limit.as_secs().div_ceil(60)));
        }
    };
    let is_success = matches!(ended, Ok(Ok(status)) if status.success());
    if is_success || has_report {
        return Ok(());
    }
    let messages = tokio::time::timeout(END_TIMEOUT, messages).await.ok().and_then(Result::ok);
    Err(failure(&messages.unwrap_or_default()))
}

/// Passes the lines on, to the end of the output. Returns true if one of them was a report.
async fn pass_lines(
    stdout: Option<impl AsyncRead + Unpin>,
    lines: &mpsc::Sender<Value>,
) -> Result<bool, String> {
    let Some(stdout) = stdout else { return Ok(false) };
    let wrong = |error: std::io::Error| format!("cannot read the output of hospes: {error}");
    let mut read = BufReader::new(stdout.take(MAX_OUTPUT as u64)).lines();
    let mut has_report = false;
    while let Some(line) = read.next_line().await.map_err(wrong)? {
        let value: Value =
            serde_json::from_str(&line).map_err(|error| format!("unexpected output of hospes: {error}"))?;
        has_report |= value["event"] == "report";
        if lines.send(value).await.is_err() {
            break;
        }
    }
    Ok(has_report)
}

async fn read_messages(stderr: Option<impl AsyncRead + Unpin>) -> String {
    let mut text = Vec::new();
    if let Some(stderr) = stderr {
        let mut limited = stderr.take(MAX_MESSAGES);
        // What could be read is said.
        let _partial = limited.read_to_end(&mut text).await;
        // Read on to the end: a program whose output nobody takes would wait.
        let _rest = tokio::io::copy(&mut limited.into_inner(), &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&text).into_owned()
}
