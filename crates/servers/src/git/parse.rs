//! Parsers for the output of git. Fields end with NUL, which no field can contain.

use std::ffi::{OsStr, OsString};

use hospes::prelude::*;

/// Maximum number of files of one kind in a status.
const MAX_FILES: usize = 500;

/// How the working tree stands.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Status {
    /// The repository's folder; paths are relative to it.
    pub(super) repository: String,
    /// The branch; none where HEAD is a commit by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) branch: Option<String>,
    /// The commit; none before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) upstream: Option<String>,
    /// How many commits the branch has that its upstream has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ahead: Option<u64>,
    /// How many commits its upstream has that the branch has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) behind: Option<u64>,
    /// Whether there is nothing to add or to commit.
    pub(super) clean: bool,
    /// What the next commit would have.
    pub(super) staged: Vec<Change>,
    /// What has changed since it was added.
    pub(super) unstaged: Vec<Change>,
    /// What git does not know.
    pub(super) untracked: Vec<String>,
    /// What a merge left to be decided.
    pub(super) conflicted: Vec<String>,
    /// How many more files there are than these lists have.
    pub(super) left_out: usize,
}

/// A changed file.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Change {
    pub(super) path: String,
    pub(super) change: &'static str,
    /// What it was called before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
}

/// A commit.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Commit {
    pub(super) hash: String,
    /// The commits before it.
    pub(super) parents: Vec<String>,
    pub(super) author: String,
    pub(super) email: String,
    /// When it was written, as in RFC 3339.
    pub(super) date: String,
    pub(super) subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) body: String,
}

/// The fields of a commit, for `--format`.
pub(super) const COMMIT: &str = "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%aI%x00%s%x00%b";

/// A branch.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Branch {
    pub(super) name: String,
    /// Whether it is the one that is worked on.
    pub(super) current: bool,
    /// Whether it stands for a branch of another repository.
    pub(super) remote: bool,
    pub(super) commit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) upstream: Option<String>,
    /// When its last commit was made.
    pub(super) date: String,
    pub(super) subject: String,
}

/// The fields of a branch, for `--format`.
pub(super) const BRANCH: &str = "--format=%(refname)%00%(objectname)%00%(HEAD)%00%(upstream:short)%00%(committerdate:iso-strict)%00%(subject)";

pub(super) fn text(bytes: impl AsRef<OsStr>) -> String {
    bytes.as_ref().to_string_lossy().into_owned()
}

/// Parses the output of `git status --porcelain=v2 --branch -z`.
pub(super) fn status(listed: &[OsString]) -> Status {
    let mut status = Status::default();
    let mut items = listed.iter();
    while let Some(item) = items.next() {
        let item = text(item);
        let (kind, rest) = item.split_once(' ').unwrap_or((&item, ""));
        match kind {
            "#" => header(&mut status, rest),
            "1" => {
                // The fields are `XY sub mH mI mW hH hI path`; the path is last, because it may contain blanks.
                if let Some((codes, path)) = entry(rest, 7) {
                    changed(&mut status, codes, path, None);
                }
            }
            "2" => {
                // With `-z`, the old path is a separate item and must be consumed in any case.
                let from = items.next().map(text);
                if let Some((codes, path)) = entry(rest, 8) {
                    changed(&mut status, codes, path, from.as_deref());
                }
            }
            "u" => {
                if let Some((_, path)) = entry(rest, 9) {
                    push_limited(&mut status.conflicted, path.to_owned(), &mut status.left_out);
                }
            }
            "?" => push_limited(&mut status.untracked, rest.to_owned(), &mut status.left_out),
            _ => {}
        }
    }
    status.clean = status.staged.is_empty()
        && status.unstaged.is_empty()
        && status.untracked.is_empty()
        && status.conflicted.is_empty();
    status
}

fn header(status: &mut Status, text: &str) {
    match text.split_once(' ') {
        Some(("branch.oid", "(initial)")) | Some(("branch.head", "(detached)")) => {}
        Some(("branch.oid", hash)) => status.head = Some(hash.to_owned()),
        Some(("branch.head", name)) => status.branch = Some(name.to_owned()),
        Some(("branch.upstream", name)) => status.upstream = Some(name.to_owned()),
        Some(("branch.ab", counts)) => {
            // Both numbers have a sign: `+2 -1`.
            let mut counts = counts.split(' ').map(|count| count[1..].parse().ok());
            (status.ahead, status.behind) = (counts.next().flatten(), counts.next().flatten());
        }
        _ => {}
    }
}

/// Returns the first of some fields and the text after them.
fn entry(text: &str, fields: usize) -> Option<(&str, &str)> {
    let mut parts = text.splitn(fields + 1, ' ');
    let first = parts.next()?;
    Some((first, parts.nth(fields - 1)?))
}

fn changed(status: &mut Status, codes: &str, path: &str, from: Option<&str>) {
    let word = |code: Option<char>| match code? {
        'M' => Some("modified"),
        'T' => Some("type changed"),
        'A' => Some("added"),
        'D' => Some("deleted"),
        'R' => Some("renamed"),
        'C' => Some("copied"),
        _ => None,
    };
    let mut codes = codes.chars();
    let (staged, unstaged) = (word(codes.next()), word(codes.next()));
    for (list, change) in [(&mut status.staged, staged), (&mut status.unstaged, unstaged)] {
        if let Some(change) = change {
            let from = from.filter(|_| matches!(change, "renamed" | "copied")).map(str::to_owned);
            push_limited(list, Change { path: path.to_owned(), change, from }, &mut status.left_out);
        }
    }
}

fn push_limited<T>(list: &mut Vec<T>, item: T, left_out: &mut usize) {
    if list.len() < MAX_FILES { list.push(item) } else { *left_out += 1 }
}

/// Parses the output of `git log -z` with the format [`COMMIT`].
pub(super) fn commits(bytes: &[u8]) -> Vec<Commit> {
    let fields: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields
        // Each of the seven fields ends with NUL; the empty rest after the last one is not a commit.
        .chunks_exact(7)
        .map(|fields| Commit {
            hash: text(fields[0]),
            parents: text(fields[1]).split_whitespace().map(str::to_owned).collect(),
            author: text(fields[2]),
            email: text(fields[3]),
            date: text(fields[4]),
            subject: text(fields[5]),
            body: text(fields[6]).trim_end().to_owned(),
        })
        .collect()
}

/// Parses the output of `git for-each-ref` with the format [`BRANCH`].
pub(super) fn branches(bytes: &[u8]) -> Vec<Branch> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Neither ref names nor subjects can contain a line feed.
    let lines =
        bytes.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == 0).collect::<Vec<_>>());
    lines
        .filter(|fields| fields.len() == 6)
        .filter_map(|fields| {
            let name = text(fields[0]);
            let (name, remote) = match (name.strip_prefix("refs/heads/"), name.strip_prefix("refs/remotes/"))
            {
                (Some(name), _) => (name.to_owned(), false),
                (_, Some(name)) => (name.to_owned(), true),
                _ => return None,
            };
            Some(Branch {
                name,
                current: fields[2] == b"*",
                remote,
                commit: text(fields[1]),
                upstream: Some(text(fields[3])).filter(|name| !name.is_empty()),
                date: text(fields[4]),
                subject: text(fields[5]),
            })
        })
        .collect()
}
