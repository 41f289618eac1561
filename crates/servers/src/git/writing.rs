//! Tools that change a repository, available only if enabled.

use std::ffi::OsString;
use std::path::Path;

use hospes::prelude::*;
use hospes::server::Json;

use super::GitServer;
use super::parse;
use super::program::GitJob;
use super::repository::{GitRepository, MAX_LIST, check_name};
use crate::platform::os_string;

/// Maximum length of a commit message, in bytes.
const MAX_MESSAGE: usize = 64 * 1024;
/// Maximum size of the list of all files, in bytes.
const MAX_INDEX: usize = 128 * 1024 * 1024;
/// Prefix of a submodule's index entry.
const GITLINK: &[u8] = b"160000 ";
/// Maximum number of files that an error names.
const MAX_NAMED: usize = 5;

pub(super) struct GitWriteTools(pub(super) GitServer);

/// A commit that was made.
#[derive(Serialize, JsonSchema)]
struct Committed {
    repository: String,
    hash: String,
    /// The branch; none where HEAD is a commit by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// What git says of it: how many files, how many lines.
    summary: String,
}

/// A branch.
#[derive(Serialize, JsonSchema)]
struct OnBranch {
    repository: String,
    branch: String,
    /// The commit it is at.
    hash: String,
}

#[hospes::server]
impl GitWriteTools {
    /// Stages files as they are on disk, deletions among them, for the next commit; submodules are left out. Answers with
    /// the status.
    #[tool(title = "Stage", destructive = false, idempotent, open_world = false)]
    async fn add(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
        /// Files and folders, relative to the repository; `.` for all.
        #[arg(length(min = 1, max = 1000))]
        paths: Vec<String>,
    ) -> Result<Json<parse::Status>> {
        let roots = self.0.roots(ctx).await?;
        let repository = self.0.open(&roots, repository.as_deref()).await?;
        let paths = repository.paths(&paths)?;
        // Rejected before anything is staged.
        refuse_filtered(&repository, &paths).await?;
        let left_out = submodules(&repository, &paths).await?;
        let mut arguments = ["add", "--all", "--"].map(OsString::from).to_vec();
        // Exclusion is pathspec magic, so each of the other paths has to be marked as literal.
        arguments.extend(paths.iter().map(|path| pathspec(":(literal)", path)));
        arguments.extend(left_out.iter().map(|path| pathspec(":(exclude,literal)", path)));
        repository.job(arguments, |job| GitJob { has_magic: true, ..job }).await?;
        status(&repository).await
    }

    /// Takes files out of the index again, all unless said: what was staged no longer is. The files stay as they are.
    /// Answers with the status.
    #[tool(title = "Unstage", destructive = false, idempotent, open_world = false)]
    async fn reset(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
        /// Files and folders, relative to the repository.
        #[arg(default)]
        paths: Vec<String>,
    ) -> Result<Json<parse::Status>> {
        let roots = self.0.roots(ctx).await?;
        let repository = self.0.open(&roots, repository.as_deref()).await?;
        let paths = repository.paths(&paths)?;
        let arguments = ["reset", "--quiet", "--"].map(OsString::from);
        repository.run(arguments.into_iter().chain(paths)).await?;
        status(&repository).await
    }

    /// Commits what is staged. Hooks are not run, and nothing is signed.
    #[tool(title = "Commit", destructive = false, open_world = false)]
    async fn commit(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
        /// A short line, and if there is more to say an empty line and the rest.
        #[arg(length(min = 1))]
        message: String,
    ) -> Result<Json<Committed>> {
        if message.trim().is_empty() || message.len() > MAX_MESSAGE || message.contains('\0') {
            return Err(Error::msg(format!("a message must have between 1 and {MAX_MESSAGE} bytes of text")));
        }
        let roots = self.0.roots(ctx).await?;
        let repository = self.0.open(&roots, repository.as_deref()).await?;
        // Git itself would print the whole status, and run in submodules for it. A merge may be concluded without
        // changes.
        if !has_staged(&repository).await? && repository.commit("MERGE_HEAD").await.is_err() {
            return Err(Error::msg("nothing is staged: use `add` first"));
        }
        let arguments = [
            "commit",
            "--no-verify",
            "--no-gpg-sign",
            // Lines that begin with `#` are text, because no editor has added comments.
            "--cleanup=whitespace",
            "--no-status",
            "--allow-empty",
            "--file=-",
        ];
        let said = repository.job(arguments, |job| GitJob { input: Some(&message), ..job }).await?;
        let summary = String::from_utf8_lossy(&said.bytes);
        // The first line is replaced by the returned members.
        let summary = summary.trim().lines().skip(1).collect::<Vec<_>>().join("\n").trim().to_owned();
        let (hash, branch) = head(&repository).await?;
        Ok(Json(Committed { repository: repository.top.display().to_string(), hash, branch, summary }))
    }

    /// Makes a branch, and leaves the working tree on the one it is on.
    #[tool(title = "Create a branch", destructive = false, open_world = false)]
    async fn create_branch(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
        name: String,
        /// A commit, branch or tag where it is to begin.
        #[arg(default = "HEAD".to_owned())]
        start: String,
    ) -> Result<Json<OnBranch>> {
        check_name(&name, "branch name")?;
        let roots = self.0.roots(ctx).await?;
        let repository = self.0.open(&roots, repository.as_deref()).await?;
        let hash = repository.commit(&start).await?;
        repository.run(["branch", "--no-track", &name, &hash]).await?;
        Ok(Json(OnBranch { repository: repository.top.display().to_string(), branch: name, hash }))
    }

    /// Puts the working tree on another branch. Changes that would be lost keep it from happening.
    #[tool(title = "Switch branches", destructive = false, idempotent, open_world = false)]
    async fn switch(
        &self,
        ctx: &Context,
        /// The repository's folder, or one in it; may be left out where only one folder is served.
        repository: Option<String>,
        branch: String,
    ) -> Result<Json<OnBranch>> {
        check_name(&branch, "branch name")?;
        let roots = self.0.roots(ctx).await?;
        let repository = self.0.open(&roots, repository.as_deref()).await?;
        let hash = repository.commit(&format!("refs/heads/{branch}")).await;
        let hash = hash
            .map_err(|_| Error::msg(format!("no such branch: {branch:?}; `branches` lists all branches")))?;
        // `switch` would print the changes on disk, and run in submodules for it.
        let arguments =
            ["switch", "--quiet", "--no-guess", "--no-recurse-submodules", "--no-progress", &branch];
        repository.run(arguments).await?;
        Ok(Json(OnBranch { repository: repository.top.display().to_string(), branch, hash }))
    }
}

async fn status(repository: &GitRepository<'_>) -> Result<Json<parse::Status>> {
    let arguments =
        ["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignore-submodules=dirty"];
    let mut status = parse::status(&repository.list(arguments).await?);
    status.repository = repository.top.display().to_string();
    Ok(Json(status))
}

/// Returns the checked-out commit and branch.
async fn head(repository: &GitRepository<'_>) -> Result<(String, Option<String>)> {
    let hash = repository.commit("HEAD").await?;
    let said = repository.run(["rev-parse", "--symbolic-full-name", "HEAD"]).await?;
    let name = String::from_utf8_lossy(&said.bytes).trim().to_owned();
    Ok((hash, name.strip_prefix("refs/heads/").map(str::to_owned)))
}

/// Returns true if the next commit would differ from the last.
async fn has_staged(repository: &GitRepository<'_>) -> Result<bool> {
    let mut arguments = vec!["diff", "--cached", "--name-only", "--no-renames", "--no-ext-diff"];
    arguments.push("--ignore-submodules=dirty");
    // The beginning of the output is sufficient.
    let said = repository.run(arguments).await?;
    Ok(!said.bytes.is_empty())
}

/// Returns a literal pathspec with the given magic.
fn pathspec(magic: &str, path: &OsString) -> OsString {
    let mut whole = OsString::from(magic);
    whole.push(path);
    whole
}

/// Returns the checked-out submodules. Git would run in them, with their own configuration, to detect changes. Returns
/// an error for paths in them.
async fn submodules(repository: &GitRepository<'_>, paths: &[OsString]) -> Result<Vec<OsString>> {
    let said =
        repository.job(["ls-files", "--stage", "-z"], |job| GitJob { whole: Some(MAX_INDEX), ..job }).await?;
    let mut found: Vec<OsString> = Vec::new();
    for entry in said.bytes.split(|byte| *byte == 0).filter(|entry| entry.starts_with(GITLINK)) {
        let Some(at) = entry.iter().position(|byte| *byte == b'\t') else { continue };
        let path = os_string(entry[at + 1..].to_vec());
        // A submodule that is gone is empty, and is removed as a file is.
        if repository.top.join(&path).symlink_metadata().is_err() {
            continue;
        }
        if paths.iter().any(|named| Path::new(named).starts_with(&path)) {
            return Err(Error::msg(format!(
                "{} is a submodule, and submodules are not supported here; add it with git itself",
                path.display()
            )));
        }
        found.push(path);
    }
    // The index is sorted, and lists a conflicted path once for each side.
    found.dedup();
    Ok(found)
}

/// Returns an error for files with a filter: filters are not run, and without them wrong content would be committed.
async fn refuse_filtered(repository: &GitRepository<'_>, paths: &[OsString]) -> Result<()> {
    if !repository.has_filters {
        return Ok(());
    }
    let list = ["ls-files", "-z", "--modified", "--others", "--exclude-standard", "--"].map(OsString::from);
    let said = repository
        .job(list.into_iter().chain(paths.iter().cloned()), |job| GitJob { whole: Some(MAX_LIST), ..job })
        .await?;
    // Names that are not UTF-8 are rejected, because their filters cannot be matched.
    let names = String::from_utf8(said.bytes).map_err(|_| Error::msg("some file names are not UTF-8"))?;
    let check = ["check-attr", "-z", "--stdin", "filter"];
    let said =
        repository.job(check, |job| GitJob { input: Some(&names), whole: Some(MAX_LIST), ..job }).await?;
    let fields: Vec<String> = said
        .bytes
        .split(|byte| *byte == 0)
        .map(|field| String::from_utf8_lossy(field).into_owned())
        .collect();
    let filtered = fields
        .chunks_exact(3)
        // These three states name no filter.
        .filter(|fields| !matches!(fields[2].as_str(), "unspecified" | "unset" | "set"));
    let named: Vec<&str> = filtered.map(|fields| fields[0].as_str()).take(MAX_NAMED).collect();
    if named.is_empty() {
        return Ok(());
    }
    Err(Error::msg(format!(
        "these files use a filter (such as Git LFS), which is not run here; add them with git itself: {}",
        named.join(", ")
    )))
}
