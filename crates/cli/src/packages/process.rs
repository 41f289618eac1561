//! Programs that install packages: npm, uv, cargo and go.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::printable;
use crate::program_sources::program_source;
use crate::progress::StepBar;

/// Maximum length of a line of output, in bytes. The rest is read as another line.
const MAX_LINE: u64 = 2000;
/// Maximum number of lines of output that an error shows: the last ones.
const MAX_LINES: usize = 12;

/// Words in the output of installers, and what a person can do about it.
const ADVICE: [(&[&str], &str); 5] = [
    (&["ENOSPC", "No space left", "os error 28"], "the disk is full: free some space, and try again"),
    (
        &["EINTEGRITY", "hash mismatch", "Hash mismatch", "SECURITY ERROR", "checksum"],
        "the package is not the one whose hash was named: it was changed or exchanged; ask its publisher",
    ),
    (
        &["certificate", "CERT_", "SELF_SIGNED", "UNABLE_TO_VERIFY", "x509"],
        "the certificate of the index is not trusted: a proxy may be in between; see the settings of the installer",
    ),
    (
        &[
            "ENOTFOUND",
            "ECONNREFUSED",
            "EAI_AGAIN",
            "ETIMEDOUT",
            "ENETUNREACH",
            "dns error",
            "error sending request",
            "dial tcp",
            "Could not resolve",
            "failed to download",
        ],
        "the index was not reached: check the network, the proxy, and the settings of the installer",
    ),
    (&["EACCES", "Permission denied", "permission denied"], "make the folder writable that is named above"),
];

/// A run of a program that installs a package.
#[derive(Debug)]
pub(super) struct InstallerRun {
    program: String,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
    folder: PathBuf,
    limit: Duration,
}

impl InstallerRun {
    /// Creates a run in a folder, which may take at most `limit`.
    pub(super) fn new(program: &str, folder: &Path, limit: Duration) -> Self {
        Self {
            program: program.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            folder: folder.to_owned(),
            limit,
        }
    }

    pub(super) fn args<T: Into<OsString>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(super) fn env(self, name: &str, value: impl Into<OsString>) -> Self {
        self.envs([(name.to_owned(), value)])
    }

    pub(super) fn envs<T: Into<OsString>>(mut self, env: impl IntoIterator<Item = (String, T)>) -> Self {
        self.env.extend(env.into_iter().map(|(name, value)| (name, value.into())));
        self
    }

    /// Runs the program. The last line of its output is shown on `bar`. If the future is dropped, the program ends, with
    /// all processes of its group.
    ///
    /// # Errors
    /// If the program is not installed, fails, or takes too long.
    pub(super) async fn run(self, bar: &StepBar) -> CliResult {
        let name = self.program.as_str();
        let file = find_program(name)?;
        let mut command = Command::new(file);
        command.args(&self.args).envs(self.env).current_dir(&self.folder).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A group of its own, so that its children can be ended with it.
        #[cfg(unix)]
        command.process_group(0);
        let child = command
            .spawn()
            .map_err(|error| CliError::usage(format!("{name} was not started")).with_cause(&error))?;
        let mut group = ProcessGroup(child);
        let mut last = VecDeque::new();
        let limit = self.limit;
        let ended = tokio::time::timeout(limit, async {
            if let Some(output) = group.0.stderr.take() {
                follow(output, &mut last, bar).await;
            }
            group.0.wait().await
        });
        let Ok(status) = ended.await else {
            let what = format!("took longer than {} minutes", limit.as_secs() / 60);
            return Err(
                failed(name, &what, &last).hint("try again: what was downloaded is kept in its cache")
            );
        };
        let status =
            status.map_err(|error| CliError::usage(format!("{name} was lost")).with_cause(&error))?;
        match status.success() {
            true => Ok(()),
            false => Err(failed(name, &format!("failed ({status})"), &last)),
        }
    }
}

/// Reads the output until its end, and keeps the last lines.
async fn follow(output: impl tokio::io::AsyncRead + Unpin, last: &mut VecDeque<String>, bar: &StepBar) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut output).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = printable(String::from_utf8_lossy(&line).trim());
        if text.is_empty() {
            continue;
        }
        bar.set_text(&text);
        if last.len() == MAX_LINES {
            last.pop_front();
        }
        last.push_back(text);
    }
}

fn failed(program: &str, what: &str, last: &VecDeque<String>) -> CliError {
    let lines: String = last.iter().map(|line| format!("\n  {line}")).collect();
    let error =
        CliError::new(FailureCode::Unreachable, format!("{program} {what}; nothing was installed{lines}"));
    let advice = ADVICE.iter().find(|(words, _)| words.iter().any(|word| lines.contains(word)));
    match advice {
        Some((_, advice)) => error.hint(*advice),
        None => error.hint(format!("the lines above are those of {program}")),
    }
}

/// Returns the file of an installer.
///
/// # Errors
/// If it is not in `PATH`. The error says how to get it.
pub(crate) fn find_program(name: &str) -> CliResult<PathBuf> {
    let path = hospes_sandbox::search_path();
    let found = hospes_sandbox::resolve(name.as_ref(), path.as_deref(), Path::new("/"));
    found.map_err(|error| {
        let problem = CliError::usage(format!("{name} is needed to install this package")).with_cause(&error);
        match program_source(name) {
            Some(source) => problem.hint(source),
            None => problem,
        }
    })
}

/// A child with its process group, which ends on drop.
struct ProcessGroup(Child);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // No id: the child has ended and was waited for, and the id may be that of another process.
        #[cfg(unix)]
        if let Some(id) =
            self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            let _gone = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }
}
