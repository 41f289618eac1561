//! Runs `git` so that it starts no other programs.
//!
//! A repository can name programs: hooks, file system monitors, pagers, filters, text converters, signing programs,
//! network helpers. An attacker who can place a `.git` in a served folder could have them run. Therefore this server
//! sets the environment, and its configuration overrides that of the repository. Settings that can have any name (such
//! as filters) are looked up and disabled by name.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use hospes::{Error, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::platform::{GIT, ProcessGroup, SYSTEM_VARIABLES};

/// Maximum size of git's error output that is read.
const MAX_COMPLAINT: usize = 4096;
/// Settings that override the configuration of the repository.
const CONFIG_OVERRIDES: [(&str, &str); 39] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("sequence.editor", "false"),
    ("core.askPass", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", "false"),
    ("core.quotePath", "false"),
    ("protocol.allow", "never"),
    ("credential.helper", ""),
    ("safe.bareRepository", "explicit"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", "false"),
    ("commit.gpgSign", "false"),
    ("commit.verbose", "false"),
    ("tag.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("log.mailmap", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // Git in a submodule would not know these overrides.
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.submodule", "short"),
    ("diff.ignoreSubmodules", "dirty"),
    ("diff.noprefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("diff.orderFile", "/dev/null"),
    ("diff.external", ""),
    ("blame.ignoreRevsFile", ""),
    // They may name any file, whose content would be shown.
    ("mailmap.file", "/dev/null"),
    ("mailmap.blob", ""),
    ("color.ui", "false"),
    ("i18n.logOutputEncoding", "UTF-8"),
    ("i18n.commitEncoding", "UTF-8"),
];

/// Path of git, with its limits.
#[derive(Clone, Debug)]
pub(super) struct GitProgram {
    pub(super) file: PathBuf,
    pub(super) time: Duration,
    pub(super) max_output: usize,
}

/// Arguments and limits of one run of git.
#[derive(Default)]
pub(super) struct GitJob<'a> {
    pub(super) arguments: Vec<OsString>,
    /// Additional settings by name.
    pub(super) settings: &'a [(OsString, &'static str)],
    /// Folders above which no repository is searched for.
    pub(super) ceilings: OsString,
    /// True if paths contain pathspec magic. Otherwise they are taken literally.
    pub(super) has_magic: bool,
    pub(super) input: Option<&'a str>,
    /// Number of bytes of the output to skip.
    pub(super) start: usize,
    /// Maximum size of an output that must be complete, in bytes.
    pub(super) whole: Option<usize>,
}

/// Output of git.
pub(super) struct GitOutput {
    pub(super) bytes: Vec<u8>,
    /// True if there is more output.
    pub(super) is_cut: bool,
}

impl GitProgram {
    /// Finds the installed `git`.
    pub(super) fn find() -> Option<PathBuf> {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders)
            // A relative folder in `PATH` could find a `git` inside a repository.
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(GIT))
            .find(|file| file.is_file())
    }

    /// Runs git in a folder. Dropping the future kills it.
    pub(super) async fn run(&self, folder: &Path, job: GitJob<'_>) -> Result<GitOutput> {
        let name = job.arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let run = tokio::time::timeout(self.time, self.run_to_end(folder, &job, &name));
        run.await.unwrap_or_else(|_| {
            let seconds = self.time.as_secs_f64();
            Err(Error::msg(format!(
                "git {name} took longer than {seconds} seconds (timeout) and was stopped"
            )))
        })
    }

    async fn run_to_end(&self, folder: &Path, job: &GitJob<'_>, name: &str) -> Result<GitOutput> {
        let mut command = Command::new(&self.file);
        // Without optional locks, because reading must not block a git that a person runs concurrently.
        command.args(["--no-pager", "--no-optional-locks"]);
        command.args((!job.has_magic).then_some("--literal-pathspecs")).args(&job.arguments);
        // Inherited variables such as `GIT_DIR` or `GIT_EXTERNAL_DIFF` would override these settings.
        command.current_dir(folder).env_clear();
        for name in SYSTEM_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let fixed = CONFIG_OVERRIDES.iter().map(|(name, value)| (OsStr::new(name), *value));
        let settings = fixed.chain(job.settings.iter().map(|(name, value)| (name.as_os_str(), *value)));
        let mut count = 0;
        for (name, value) in settings {
            command
                .env(format!("GIT_CONFIG_KEY_{count}"), name)
                .env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command
            .env("GIT_CONFIG_COUNT", count.to_string())
            .env("GIT_CEILING_DIRECTORIES", &job.ceilings)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "false")
            .env("GIT_EDITOR", "false")
            .env("GIT_SSH_COMMAND", "false")
            // Objects missing in a partial clone are not fetched.
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ALLOW_PROTOCOL", "none")
            .env("LC_ALL", "C.UTF-8");
        command.stdin(if job.input.is_some() { Stdio::piped() } else { Stdio::null() });
        // A process group of its own, so that processes started by git are killed with it.
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = ProcessGroup::spawn(command)
            .map_err(|why| Error::msg(format!("cannot start {}: {why}", self.file.display())))?;
        let (input, output, complaint) = group.take_pipes();
        let write = async {
            if let (Some(mut input), Some(text)) = (input, job.input) {
                // If git does not read its input, its exit status shows it.
                let _ = input.write_all(text.as_bytes()).await;
            }
        };
        let most = job.whole.unwrap_or(self.max_output);
        let read = async {
            let said = read(output, job.start, most).await;
            // There may be more output than needed.
            if !matches!(said, Ok(GitOutput { is_cut: false, .. })) {
                group.kill();
            }
            said
        };
        // Concurrently, because git blocks when one of its pipes is full.
        let ((), said, complaint) = tokio::join!(write, read, read_some(complaint));
        let said = said?;
        let status = group.wait().await?;
        // Checked before the status, because git has been killed then.
        if said.is_cut {
            if job.whole.is_some() {
                return Err(Error::msg(format!("git {name} printed more than {most} bytes")));
            }
            return Ok(said);
        }
        if !status.success() {
            let complaint = String::from_utf8_lossy(&complaint);
            let complaint = complaint.trim().trim_start_matches("fatal: ").trim_start_matches("error: ");
            return Err(match complaint {
                _ if is_of_configuration(complaint) => Error::msg(format!(
                    "git {name}: the repository's configuration cannot be read; run `git config --list` there for the \
                     reason"
                )),
                "" => Error::msg(format!("git {name} failed ({status})")),
                complaint => Error::msg(format!("git {name}: {complaint}")),
            });
        }
        Ok(said)
    }
}

/// Returns true if git reports an error in its configuration. The configuration may include any file, so the message
/// must not reveal whether a file exists or what it contains.
fn is_of_configuration(complaint: &str) -> bool {
    // Git prints this in English, because `LC_ALL` is set above.
    let of_file = ["bad config", "bad numeric config", "bad boolean config", "maximum include depth"];
    of_file.iter().any(|words| complaint.contains(words))
        || (complaint.contains("config") && complaint.contains(" in file "))
}

async fn read(output: Option<impl AsyncRead + Unpin>, start: usize, most: usize) -> Result<GitOutput> {
    let mut said = GitOutput { bytes: Vec::new(), is_cut: false };
    let Some(mut output) = output else { return Ok(said) };
    let (mut passed, mut chunk) = (0, vec![0; 64 * 1024]);
    loop {
        let length = output.read(&mut chunk).await?;
        if length == 0 {
            return Ok(said);
        }
        let skip = start.saturating_sub(passed).min(length);
        passed += skip;
        said.bytes.extend_from_slice(&chunk[skip..length]);
        if said.bytes.len() > most {
            said.bytes.truncate(most);
            said.is_cut = true;
            return Ok(said);
        }
    }
}

async fn read_some(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let Some(mut stream) = stream else { return Vec::new() };
    let (mut kept, mut chunk) = (Vec::new(), [0; 1024]);
    // Everything is read, so that git does not block on the pipe, but only the beginning is kept.
    while let Ok(length @ 1..) = stream.read(&mut chunk).await {
        let left = MAX_COMPLAINT.saturating_sub(kept.len()).min(length);
        kept.extend_from_slice(&chunk[..left]);
    }
    kept
}
