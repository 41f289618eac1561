//! Server for git repositories.

mod parse;
mod program;
mod repository;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod writing;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hospes::prelude::*;
use hospes::server::Json;
use hospes::{IntoServer, Server};

use parse::{Branch, Commit, Status};
use program::{GitJob, GitProgram};
use repository::{GitRepository, MAX_LIST};

/// Default maximum time of git for one call: the setting `timeout`.
const DEFAULT_TIME: Duration = Duration::from_secs(30);
/// Default maximum size of the text of an answer, in bytes: the setting `max_output`.
const DEFAULT_MAX_OUTPUT: usize = 64 * 1024;
/// Maximum number of commits in a log.
const MAX_COMMITS: u16 = 200;

/// Configuration of the git server: the served folders, limits, and whether repositories may be changed.
#[derive(Clone, Debug)]
#[must_use]
pub struct GitConfig {
    folders: Vec<PathBuf>,
    of_client: bool,
    writes: bool,
    time: Duration,
    max_output: usize,
}

impl GitConfig {
    /// Serves the repositories in these folders and below them.
    pub fn new(folders: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            folders: folders.into_iter().map(Into::into).collect(),
            of_client: false,
            writes: false,
            time: DEFAULT_TIME,
            max_output: DEFAULT_MAX_OUTPUT,
        }
    }

    /// Serves to each client the repositories in its roots, without configured folders. The roots are requested in each
    /// call, so that changes take effect immediately.
    pub fn of_client() -> Self {
        Self { of_client: true, ..Self::new([] as [PathBuf; 0]) }
    }

    /// Allows adding, committing, creating branches and switching between them. Off by default.
    pub fn write(mut self, on: bool) -> Self {
        self.writes = on;
        self
    }

    /// Sets the maximum time of git for one call; 30 seconds by default.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Sets the maximum size of the text of one answer, in bytes; 64 KiB by default. The rest can be read by continuing
    /// from the end.
    pub fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }
}

/// Reasons repositories cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// No folder is given.
    #[error("no folder with repositories to serve")]
    NoFolder,
    /// A folder cannot be opened.
    #[error("cannot serve repositories from {}", folder.display())]
    Open {
        /// The folder as given.
        folder: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// `git` was not found.
    #[error("program `git` not found in PATH")]
    NoGit,
}

/// Creates a server for git repositories.
///
/// It shows changes and commits; with [`GitConfig::write`] it also stages, commits, creates branches and switches
/// between them. It runs the installed `git` (2.31 or newer) and prevents git from running other programs: hooks, file
/// system monitors, pagers, editors, filters, text converters, external diff and merge tools, signing programs,
/// credential and network helpers are disabled, regardless of the repository's configuration. So untrusted repositories
/// can be inspected. All parts of a repository must be in the served folders: its working tree, its `.git`, that of the
/// main working tree, and its alternates. Git's own ownership check (`safe.directory`) applies as well.
///
/// ```no_run
/// # async fn example() -> hospes::Result<()> {
/// use hospes_servers::{GitConfig, git};
///
/// hospes::serve(git(GitConfig::new(["/home/me/code"]).write(true))?).await
/// # }
/// ```
///
/// | tool | description |
/// |---|---|
/// | `status` | shows the branch, and staged, changed, untracked and conflicted files |
/// | `diff` | shows unstaged or staged changes, or those since a commit or between two |
/// | `log`, `show`, `blame` | lists commits; shows a commit or an earlier version of a file; shows the author of each line |
/// | `branches` | lists the branches |
/// | `add`, `commit`, `reset` | stages files; commits staged changes; unstages files |
/// | `create_branch`, `switch` | creates a branch; switches to another one |
///
/// Files with a filter (such as Git LFS) are shown as stored, and rejected by `add`. Checked-out submodules are not
/// read, and `add` leaves them unchanged.
///
/// # Errors
/// If there is no folder to serve, one of them is not a folder, or `git` was not found.
pub fn git(config: GitConfig) -> Result<Server, GitError> {
    let GitConfig { folders, of_client, writes, time, max_output } = config;
    if folders.is_empty() && !of_client {
        return Err(GitError::NoFolder);
    }
    let folder = |folder: &PathBuf| {
        let failed = |source| GitError::Open { folder: folder.clone(), source };
        let path = folder.canonicalize().map_err(failed)?;
        if path.is_dir() { Ok(path) } else { Err(failed(io::ErrorKind::NotADirectory.into())) }
    };
    let folders = folders.iter().map(folder).collect::<Result<_, _>>()?;
    let file = GitProgram::find().ok_or(GitError::NoGit)?;
    let git =
        GitServer(Arc::new(GitState { folders, of_client, program: GitProgram { file, time, max_output } }));
    let mut server = git.clone().into_server();
    if writes {
        server = server.add(writing::GitWriteTools(git)).instructions(
            "Git repositories: shows changes, commits and their authors; stages, commits, and creates and switches \
             branches. Check `status` and `diff` before you commit.",
        );
    }
    Ok(server)
}

#[derive(Clone)]
struct GitServer(Arc<GitState>);

struct GitState {
    folders: Vec<PathBuf>,
    of_client: bool,
    program: GitProgram,
}

/// Some commits.
#[derive(Serialize, JsonSchema)]
struct Log {
    repository: String,
    /// The newest first.
    commits: Vec<Commit>,
    /// The `skip` to go on with; missing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// The branches there are.
#[derive(Serialize, JsonSchema)]
struct Branches {
    repository: String,
    /// The last worked on first.
    branches: Vec<Branch>,
    /// Whether there are more.
    more: bool,
}

/// Git repositories: what has changed, what was committed, and by whom. Nothing is changed.
#[hospes::server(name = "git", title = "Git")]
impl GitServer {
    /// How the working tree stands: the branch, and the files that are staged, changed, unknown to git or in conflict.
    #[tool(title = "Status", read_only, idempotent, open_world = false)]
    async fn status(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
    ) -> Result<Json<Status>> {
        let roots = self.roots(ctx).await?;
        let repository = self.open(&roots, repository.as_deref()).await?;
        let arguments = [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
        ];
        let mut status = parse::status(&repository.list(arguments).await?);
        status.repository = repository.top.display().to_string();
        Ok(Json(status))
    }

    /// What has changed, as a patch: in the files since they were added; with `staged`, what the next commit would have;
    /// with `from`, since that commit; with `from` and `to`, between two commits.
    #[tool(title = "Difference", read_only, idempotent, open_world = false)]
    #[expect(clippy::too_many_arguments, reason = "they are the tool's")]
    async fn diff(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
        /// Whether to show what is staged.
        #[arg(default)]
        staged: bool,
        /// A commit, branch or tag to compare with.
        from: Option<String>,
        /// A commit, branch or tag to compare that with, instead of the files.
        to: Option<String>,
        /// Only these files and folders, relative to the repository.
        #[arg(default)]
        paths: Vec<String>,
        /// Only the names of the files, and how many lines changed in each.
        #[arg(default)]
        summary: bool,
        /// How many lines to show around each change.
        #[arg(default = 3, range(max = 100))]
        context_lines: u32,
        /// Where to go on in an answer that was cut, as that says.
        #[arg(default)]
        start: u64,
    ) -> Result<String> {
        if to.is_some() && (from.is_none() || staged) {
            return Err(Error::msg("`to` requires `from` and cannot be combined with `staged`"));
        }
        let roots = self.roots(ctx).await?;
        let repository = self.open(&roots, repository.as_deref()).await?;
        let mut arguments = patch("diff", context_lines, summary);
        if staged {
            arguments.push("--cached".into());
        }
        for revision in [&from, &to].into_iter().flatten() {
            arguments.push(repository.commit(revision).await?.into());
        }
        arguments.push("--".into());
        arguments.extend(repository.paths(&paths)?);
        let text = self.text(&repository, arguments, start).await?;
        Ok(if text.is_empty() { "(no differences)".to_owned() } else { text })
    }

    /// Commits, the newest first.
    #[tool(title = "Log", read_only, idempotent, open_world = false)]
    #[expect(clippy::too_many_arguments, reason = "they are the tool's")]
    async fn log(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
        /// Where to begin: a commit, branch or tag; what is checked out unless said.
        revision: Option<String>,
        /// Leave out what this commit, branch or tag has too.
        without: Option<String>,
        /// Only commits that changed these files and folders.
        #[arg(default)]
        paths: Vec<String>,
        /// Only commits whose author has this in name or address.
        author: Option<String>,
        /// Only commits whose message has this in it.
        message: Option<String>,
        /// Only commits after this moment: a date, or `2 weeks ago`.
        since: Option<String>,
        /// Only commits before this moment.
        until: Option<String>,
        #[arg(default = 20, range(min = 1, max = 200))] count: u16,
        /// How many to pass over.
        #[arg(default)]
        skip: u64,
    ) -> Result<Json<Log>> {
        let roots = self.roots(ctx).await?;
        let repository = self.open(&roots, repository.as_deref()).await?;
        let count = count.min(MAX_COMMITS);
        let mut arguments: Vec<OsString> =
            ["log", "-z", parse::COMMIT, "--no-notes", "--no-show-signature", "--no-color"]
                .map(OsString::from)
                .to_vec();
        arguments.extend(["--no-mailmap", "--fixed-strings", "--regexp-ignore-case"].map(OsString::from));
        // One more than requested, which shows if there are more.
        arguments.push(format!("--max-count={}", count + 1).into());
        arguments.push(format!("--skip={skip}").into());
        let filters = [("author", author), ("grep", message), ("since", since), ("until", until)];
        for (name, value) in filters.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            // The value follows `--name=` in the same argument, so a leading `-` does no harm.
            repository::check_name(value.trim_start_matches('-'), "text to search for")?;
            arguments.push(format!("--{name}={value}").into());
        }
        arguments.push(repository.commit(revision.as_deref().unwrap_or("HEAD")).await?.into());
        if let Some(without) = without {
            arguments.push(format!("^{}", repository.commit(&without).await?).into());
        }
        arguments.push("--".into());
        arguments.extend(repository.paths(&paths)?);
        let said = repository.job(arguments, |job| GitJob { whole: Some(MAX_LIST), ..job }).await?;
        let mut commits = parse::commits(&said.bytes);
        let next = (commits.len() > usize::from(count)).then(|| skip + u64::from(count));
        commits.truncate(count.into());
        Ok(Json(Log { repository: repository.top.display().to_string(), commits, next }))
    }

    /// A commit: who, when, why, and the patch. With `path`, that file as it was then.
    #[tool(title = "Show", read_only, idempotent, open_world = false)]
    async fn show(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
        /// A commit, branch or tag.
        #[arg(default = "HEAD".to_owned())]
        revision: String,
        /// A file, relative to the repository.
        path: Option<String>,
        /// Where to go on in an answer that was cut, as that says.
        #[arg(default)]
        start: u64,
    ) -> Result<String> {
        let roots = self.roots(ctx).await?;
        let repository = self.open(&roots, repository.as_deref()).await?;
        let commit = repository.commit(&revision).await?;
        let arguments = match path {
            Some(path) => {
                // `cat-file` prints the stored bytes without running a converter or filter.
                let mut object = OsString::from(format!("{commit}:"));
                object.push(repository.path(&path)?);
                vec!["cat-file".into(), "blob".into(), object]
            }
            None => {
                let mut arguments = patch("show", 3, false);
                let more = [
                    "--no-notes",
                    "--no-show-signature",
                    "--no-mailmap",
                    "--format=fuller",
                    "--stat",
                    "--patch",
                ];
                arguments.extend(more.map(OsString::from));
                arguments.extend([commit.into(), "--".into()]);
                arguments
            }
        };
        self.text(&repository, arguments, start).await
    }

    /// Who wrote each line of a file, in which commit.
    #[tool(title = "Blame", read_only, idempotent, open_world = false)]
    #[expect(clippy::too_many_arguments, reason = "they are the tool's")]
    async fn blame(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
        /// The file, relative to the repository.
        path: String,
        /// As it was in this commit, branch or tag; as it is on disk unless said.
        revision: Option<String>,
        #[arg(default = 1, range(min = 1))] from_line: u32,
        #[arg(default = 200, range(min = 1, max = 2000))] lines: u32,
        /// Where to go on in an answer that was cut, as that says.
        #[arg(default)]
        start: u64,
    ) -> Result<String> {
        let roots = self.roots(ctx).await?;
        let repository = self.open(&roots, repository.as_deref()).await?;
        let mut arguments: Vec<OsString> =
            ["blame", "--no-textconv", "--no-progress", "--date=short"].map(OsString::from).to_vec();
        arguments.push(format!("-L{from_line},+{lines}").into());
        if let Some(revision) = revision {
            arguments.push(repository.commit(&revision).await?.into());
        }
        arguments.extend(["--".into(), repository.path(&path)?]);
        self.text(&repository, arguments, start).await
    }

    /// The branches there are, the last worked on first.
    #[tool(title = "Branches", read_only, idempotent, open_world = false)]
    async fn branches(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
        /// Whether to list those of other repositories too, as they were last seen.
        #[arg(default)]
        remote: bool,
        #[arg(default = 100, range(min = 1, max = 1000))] count: u32,
    ) -> Result<Json<Branches>> {
        let roots = self.roots(ctx).await?;
        let repository = self.open(&roots, repository.as_deref()).await?;
        let count = count.min(1000);
        let mut arguments: Vec<OsString> =
            ["for-each-ref", parse::BRANCH, "--sort=-committerdate"].map(OsString::from).to_vec();
        arguments.push(format!("--count={}", count + 1).into());
        arguments.push("refs/heads".into());
        if remote {
            arguments.push("refs/remotes".into());
        }
        let said = repository.job(arguments, |job| GitJob { whole: Some(MAX_LIST), ..job }).await?;
        let mut branches = parse::branches(&said.bytes);
        let more = branches.len() > count as usize;
        branches.truncate(count as usize);
        Ok(Json(Branches { repository: repository.top.display().to_string(), branches, more }))
    }
}

impl GitServer {
    /// Returns the folders that are served to this client, with links resolved.
    async fn roots(&self, ctx: &Context) -> Result<Vec<PathBuf>> {
        if !self.0.of_client {
            return Ok(self.0.folders.clone());
        }
        if ctx.peer().capabilities.roots.is_none() {
            return Err(Error::msg(
                "this server was started without folders, and the client provides no roots: start it with the folders \
                 whose repositories to serve",
            ));
        }
        let roots = ctx.roots().await?;
        let roots =
            roots.iter().filter_map(|root| crate::files::parse_path(&root.uri).ok()?.canonicalize().ok());
        let roots: Vec<PathBuf> = roots.filter(|root| root.is_dir()).collect();
        if roots.is_empty() {
            return Err(Error::msg("none of the client's roots can be opened as a folder"));
        }
        Ok(roots)
    }

    async fn open(&self, roots: &[PathBuf], named: Option<&str>) -> Result<GitRepository<'_>> {
        GitRepository::open(&self.0.program, roots, named).await
    }

    /// Returns the output of git from `start`, up to the size of an answer, and a note on how to continue.
    async fn text(
        &self,
        repository: &GitRepository<'_>,
        arguments: Vec<OsString>,
        start: u64,
    ) -> Result<String> {
        let from = usize::try_from(start).unwrap_or(usize::MAX);
        let mut said = repository.job(arguments, |job| GitJob { start: from, ..job }).await?;
        if said.is_cut {
            // At a line end if there is one, so that the next part begins with a whole line.
            let end = said.bytes.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            said.bytes.truncate(end.unwrap_or_else(|| complete_utf8_len(&said.bytes)));
        } else if said.bytes.is_empty() && start > 0 {
            return Err(Error::msg(format!("no more output from {start} on")));
        }
        // In bytes of git's output, which `start` counts; the text below may be longer.
        let length = said.bytes.len();
        let mut text = String::from_utf8_lossy(&said.bytes).into_owned();
        if said.is_cut {
            text.push_str(&format!("\n(cut here; continue with start = {})\n", from.saturating_add(length)));
        }
        Ok(text)
    }
}

/// Returns the arguments that make git print patches with its own code only.
fn patch(what: &str, context_lines: u32, summary: bool) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        [what, "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"]
            .map(OsString::from)
            .to_vec();
    arguments.push(if summary { "--stat=120".into() } else { format!("--unified={context_lines}").into() });
    arguments
}

/// Returns the number of leading bytes that are complete characters.
fn complete_utf8_len(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        // Only a character that is cut moves to the next part; bytes that are not UTF-8 are replaced.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}
