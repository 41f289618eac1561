//! Outside programs, on a short lead.
//!
//! Each program leads its own process group and has a time limit. It is ended with all processes it has started, by its
//! number and never by its name. Output goes to files. A helper that outlives its parent and holds the parent's pipes,
//! as several MCP servers do, then delays nothing.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::paths;

/// Time a server may take to end after it was asked to.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Number of lines of a log that an error message repeats.
const TAIL_LINES: usize = 25;

/// The signal for a program that has computed for as long as it may.
pub(crate) const OUT_OF_TIME: i32 = Signal::XCPU.as_raw();

/// Result of a program that has ended.
#[derive(Debug)]
pub(crate) struct FinishedProcess {
    /// Its exit code; none if a signal ended it, or the time limit did.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// True if it was ended because its time was up.
    pub(crate) overdue: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    took: Duration,
}

impl FinishedProcess {
    /// Describes how the program ended.
    pub(crate) fn ending(&self) -> String {
        match self.code {
            Some(code) => format!("exit code {code}"),
            None if self.overdue => format!("ended after its time limit of {} s", self.took.as_secs()),
            None => "ended by a signal".to_owned(),
        }
    }

    /// The last lines of what it said.
    pub(crate) fn tail(&self) -> String {
        tail(&format!("{}{}", self.stdout, self.stderr))
    }

    /// An error unless the exit code is 0.
    pub(crate) fn success(self) -> Result<Self> {
        if self.code == Some(0) { Ok(self) } else { bail!("{}\n{}", self.ending(), self.tail()) }
    }
}

/// Runs a program to its end, or to the end of its time. Its output is kept under `label` among the logs.
pub(crate) fn run(mut command: Command, label: &str, limit: Duration) -> Result<FinishedProcess> {
    let (out, err) = (log(label, "out")?, log(label, "err")?);
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
    let begun = Instant::now();
    let mut group = ProcessGroup::start(command)?;
    let status = group.wait(limit);
    group.end();
    let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(FinishedProcess {
        code: status.and_then(|status| status.code()),
        signal: status.and_then(|status| status.signal()),
        overdue: status.is_none(),
        stdout: read(out)?,
        stderr: read(err)?,
        took: begun.elapsed(),
    })
}

/// A program that runs in the background and says where it listens.
#[derive(Debug)]
pub(crate) struct BackgroundServer {
    group: ProcessGroup,
    log: PathBuf,
    /// Its endpoint, `http://127.0.0.1:PORT/mcp`.
    pub(crate) url: String,
}

impl BackgroundServer {
    /// Starts the program and waits until it prints the URL of an endpoint, on either stream.
    pub(crate) fn start(mut command: Command, label: &str, limit: Duration) -> Result<Self> {
        let log = log(label, "log")?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = ProcessGroup::start(command)?;
        let (urls, found) = mpsc::channel();
        let file = File::create(&log)?;
        if let Some(stdout) = group.leader.stdout.take() {
            follow(stdout, file.try_clone()?, urls.clone());
        }
        if let Some(stderr) = group.leader.stderr.take() {
            follow(stderr, file, urls);
        }
        match found.recv_timeout(limit) {
            Ok(url) => Ok(Self { group, log, url }),
            Err(trouble) => {
                group.end();
                let said = tail(&fs::read_to_string(&log).unwrap_or_default());
                let what = match trouble {
                    RecvTimeoutError::Timeout => format!("named no endpoint within {} s", limit.as_secs()),
                    RecvTimeoutError::Disconnected => "ended without naming an endpoint".to_owned(),
                };
                Err(anyhow!("{label} {what}; it said:\n{said}"))
            }
        }
    }

    /// Starts a program that does not name its endpoint, and waits until it takes connections there.
    pub(crate) fn start_at(mut command: Command, label: &str, url: &str, limit: Duration) -> Result<Self> {
        let log = log(label, "log")?;
        let file = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let group = ProcessGroup::start(command)?;
        let server = Self { group, log, url: url.to_owned() };
        let address = url.split('/').nth(2).context("a URL with a host and a port")?;
        let begun = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            ensure!(
                begun.elapsed() < limit,
                "{label} does not listen at {address}; it said:\n{}",
                server.said()
            );
            thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Returns the last lines of its output so far.
    pub(crate) fn said(&self) -> String {
        tail(&fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// Process id of the program.
    pub(crate) fn id(&self) -> u32 {
        self.group.leader.id()
    }

    /// Waits until the program has ended by itself and says how.
    pub(crate) fn wait(mut self, limit: Duration) -> Result<ExitStatus> {
        let status = self.group.wait(limit);
        self.group.end();
        status.with_context(|| format!("the program was still there after {} s", limit.as_secs()))
    }

    /// Asks the server to end, as Ctrl-C would, and says how it went if that is not as it should be.
    pub(crate) fn stop(mut self) -> Result<()> {
        let _gone = kill_process(Pid::from_child(&self.group.leader), Signal::INT);
        let status = self.group.wait(SHUTDOWN_GRACE);
        self.group.end();
        match status {
            Some(_) => Ok(()),
            None => {
                bail!("the server was still there {} s after it was asked to end", SHUTDOWN_GRACE.as_secs())
            }
        }
    }
}

/// Copies a stream to the log and reports the first endpoint in it.
fn follow(stream: impl std::io::Read + Send + 'static, mut log: File, urls: Sender<String>) {
    thread::spawn(move || {
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let _full = log.write_all(&line);
            if let Some(url) = endpoint(&String::from_utf8_lossy(&line)) {
                let _taken = urls.send(url);
            }
            line.clear();
        }
    });
}

/// The first URL of an MCP endpoint in a line.
fn endpoint(line: &str) -> Option<String> {
    let starts = line.match_indices("http").map(|(at, _)| &line[at..]);
    let urls = starts.filter(|rest| rest.starts_with("http://") || rest.starts_with("https://"));
    let ends = |c: char| {
        c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '`' | ',' | ')' | '>' | '<')
    };
    let mut urls = urls.map(|rest| rest.split(ends).next().unwrap_or(rest));
    urls.find(|url| url.ends_with("/mcp")).map(str::to_owned)
}

/// Process group of a started program. Dropping it ends every process in it.
#[derive(Debug)]
struct ProcessGroup {
    leader: Child,
    /// Ends the group if this program dies first: it sees its standard input close.
    guard: Option<Child>,
}

impl ProcessGroup {
    fn start(mut command: Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let leader = command.process_group(0).spawn().with_context(|| format!("starting {name}"))?;
        let mut group = Self { leader, guard: None };
        let script = "read -r _; kill -s KILL -- \"-$1\"";
        let mut guard = Command::new("sh");
        guard.args(["-c", script, "guard", &group.leader.id().to_string()]);
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        group.guard = Some(guard.spawn().context("starting sh")?);
        Ok(group)
    }

    /// Waits for the leader's end; none if the time is up first. It stays a zombie, so that its number still
    /// means our group when the group is ended.
    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let pid = Pid::from_child(&self.leader);
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let _done = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let _late = ended.send(());
        });
        end.recv_timeout(limit).ok()?;
        self.kill();
        self.leader.wait().ok()
    }

    fn kill(&mut self) {
        let _empty = kill_process_group(Pid::from_child(&self.leader), Signal::KILL);
        if let Some(mut guard) = self.guard.take() {
            let _gone = guard.kill();
            let _reaped = guard.wait();
        }
    }

    /// Ends whatever is left of the group.
    fn end(&mut self) {
        // Without a guard the leader has been reaped already, and its number may be another's by now.
        if self.guard.is_some() {
            self.kill();
            let _reaped = self.leader.wait();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the path of the file that keeps a program's output.
pub(crate) fn log(label: &str, end: &str) -> Result<PathBuf> {
    let folder = paths::tools()?.join("logs");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let plain: String = label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Ok(folder.join(format!("{plain}.{end}")))
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// A process that is gone, or only waits to be reaped.
    fn gone(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.trim_start().starts_with('Z'))
    }

    fn becomes_gone(pid: &str) -> bool {
        let begun = Instant::now();
        while !gone(pid) && begun.elapsed() < Duration::from_secs(5) {
            thread::yield_now();
        }
        gone(pid)
    }

    #[test]
    fn output_and_exit_code_come_back() {
        let done = run(shell("echo out; echo err >&2; exit 3"), "test output", SHUTDOWN_GRACE).unwrap();
        assert_eq!((done.code, done.overdue), (Some(3), false));
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(done.ending(), "exit code 3");
    }

    #[test]
    fn a_helper_left_behind_holds_up_nobody_and_is_ended() {
        let done = run(shell("sleep 60 & echo $!"), "test helper", SHUTDOWN_GRACE).unwrap();
        assert_eq!((done.code, done.overdue), (Some(0), false));
        assert!(becomes_gone(done.stdout.trim()));
    }

    #[test]
    fn the_time_limit_ends_the_whole_group() {
        let done = run(shell("sleep 60 & echo $!; wait"), "test limit", Duration::from_millis(300)).unwrap();
        assert_eq!((done.code, done.overdue), (None, true));
        assert!(becomes_gone(done.stdout.trim()));
    }

    #[test]
    fn a_server_is_found_by_the_url_it_prints() {
        let script = "echo starting; echo 'listening on http://127.0.0.1:80/mcp' >&2; exec sleep 60";
        let server = BackgroundServer::start(shell(script), "test server", SHUTDOWN_GRACE).unwrap();
        assert_eq!(server.url, "http://127.0.0.1:80/mcp");
        server.stop().unwrap();
        let dead = BackgroundServer::start(shell("echo oh dear"), "test dead", SHUTDOWN_GRACE)
            .unwrap_err()
            .to_string();
        assert!(dead.contains("ended without naming") && dead.contains("oh dear"), "{dead}");
    }

    #[test]
    fn endpoints_are_found_in_prose() {
        for line in
            ["see http://a/x and http://b:1/mcp", "\"url\": \"http://b:1/mcp\",", "on http://b:1/mcp\n"]
        {
            assert_eq!(endpoint(line).as_deref(), Some("http://b:1/mcp"), "{line}");
        }
        assert_eq!(endpoint("http://b:1/mcpx https:/ http"), None);
    }
}
