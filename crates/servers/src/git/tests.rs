use std::fs;
use std::path::Path;
use std::process::Command;

use hospes::Server;
use hospes::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use super::{GitConfig, git};
use crate::testing::{call, done, is_well_described, refusal, text};

mod confined;
mod ended;
mod hostile;
mod submodules;

/// A folder `served`, with a repository `code` in it, and one `elsewhere` beside it.
struct House {
    folder: TempDir,
}

impl House {
    fn new() -> Self {
        let this = Self { folder: TempDir::new().unwrap() };
        for repository in ["served/code", "elsewhere"] {
            fs::create_dir_all(this.folder.path().join(repository)).unwrap();
            this.git(repository, &["init", "--quiet", "--initial-branch=main"]);
            this.git(repository, &["config", "user.name", "Ada"]);
            this.git(repository, &["config", "user.email", "ada@example.org"]);
        }
        this.write("served/code/a.txt", "alpha\nbeta\ngamma\n");
        this.write("served/code/docs/b.txt", "one\n");
        this.git("served/code", &["add", "."]);
        this.git("served/code", &["commit", "--quiet", "--message=First\n\nWith a body."]);
        this.write("elsewhere/secret.txt", "the key\n");
        this.git("elsewhere", &["add", "."]);
        this.git("elsewhere", &["commit", "--quiet", "--message=Secret"]);
        this
    }

    fn at(&self, path: &str) -> String {
        self.folder.path().canonicalize().unwrap().join(path).display().to_string()
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Git as a person has it, for what has to be there first.
    fn git(&self, repository: &str, arguments: &[&str]) -> String {
        let done = self.command(repository, arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn command(&self, repository: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(self.folder.path().join(repository));
        command
            .env("HOME", self.folder.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0");
        command
            .env("GIT_AUTHOR_DATE", "2026-03-01T12:00:00Z")
            .env("GIT_COMMITTER_DATE", "2026-03-01T12:00:00Z");
        command
    }

    fn config(&self) -> GitConfig {
        GitConfig::new([self.folder.path().join("served")])
    }

    fn reading(&self) -> Server {
        git(self.config()).unwrap()
    }

    fn writing(&self) -> Server {
        git(self.config().write(true)).unwrap()
    }
}

/// Arguments for the repository `code`.
fn code(mut more: Value) -> Value {
    more["repository"] = json!("code");
    more
}

#[tokio::test]
async fn tools_are_described_and_only_writers_write() {
    let house = House::new();
    is_well_described(&house.writing()).await;
    let listed = crate::testing::result(&house.reading(), hospes::model::Method::ToolsList, json!({})).await;
    for tool in listed["tools"].as_array().unwrap() {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
    }
}

#[tokio::test]
async fn the_state_of_files_is_told() {
    let house = House::new();
    let server = house.reading();
    let status = done(&server, "status", code(json!({}))).await;
    assert_eq!((&status["branch"], &status["clean"]), (&json!("main"), &json!(true)), "{status}");
    house.write("served/code/a.txt", "alpha\nBETA\ngamma\n");
    house.write("served/code/new file ü.txt", "new\n");
    house.git("served/code", &["mv", "docs/b.txt", "docs/c d.txt"]);
    let status = done(&server, "status", json!({ "repository": house.at("served/code/docs") })).await;
    assert_eq!(status["repository"], json!(house.at("served/code")));
    assert_eq!(status["unstaged"], json!([{ "path": "a.txt", "change": "modified" }]));
    assert_eq!(
        status["staged"],
        json!([{ "path": "docs/c d.txt", "change": "renamed", "from": "docs/b.txt" }])
    );
    assert_eq!(status["untracked"], json!(["new file ü.txt"]));
    assert_eq!(status["clean"], false);
    // A status writes nothing, not even what git has just found out about the files.
    let why = refusal(&server, "status", json!({})).await;
    assert!(why.contains("not a git repository"), "{why}");
}

#[tokio::test]
async fn differences_are_shown() {
    let house = House::new();
    let server = house.reading();
    assert_eq!(text(&server, "diff", code(json!({}))).await, "(no differences)");
    house.write("served/code/a.txt", "alpha\nBETA\ngamma\n");
    let unstaged = text(&server, "diff", code(json!({}))).await;
    assert!(unstaged.contains("-beta\n+BETA\n gamma"), "{unstaged}");
    assert_eq!(text(&server, "diff", code(json!({ "staged": true }))).await, "(no differences)");
    house.git("served/code", &["add", "."]);
    assert_eq!(text(&server, "diff", code(json!({}))).await, "(no differences)");
    assert_eq!(text(&server, "diff", code(json!({ "staged": true }))).await, unstaged);
    house.git("served/code", &["commit", "--quiet", "--message=Second"]);
    let between =
        text(&server, "diff", code(json!({ "from": "HEAD~1", "to": "main", "context_lines": 0 }))).await;
    assert!(between.contains("-beta\n+BETA\n") && !between.contains("gamma"), "{between}");
    let summary = text(&server, "diff", code(json!({ "from": "HEAD~1", "summary": true }))).await;
    assert!(summary.contains("a.txt | 2 +-"), "{summary}");
    let other = text(&server, "diff", code(json!({ "from": "HEAD~1", "paths": ["docs"] }))).await;
    assert_eq!(other, "(no differences)");
    let why = refusal(&server, "diff", code(json!({ "to": "main" }))).await;
    assert!(why.contains("requires `from`"), "{why}");
}

#[tokio::test]
async fn commits_are_listed_and_shown() {
    let house = House::new();
    let server = house.reading();
    for number in 2..=5 {
        house.write("served/code/a.txt", &format!("{number}\n"));
        house.git("served/code", &["commit", "--quiet", "--all", &format!("--message=Number {number}")]);
    }
    let log = done(&server, "log", code(json!({ "count": 2 }))).await;
    let subjects = |log: &Value| -> Vec<String> {
        let commits = log["commits"].as_array().unwrap();
        commits.iter().map(|commit| commit["subject"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (subjects(&log), &log["next"]),
        (vec!["Number 5".to_owned(), "Number 4".to_owned()], &json!(2))
    );
    let log = done(&server, "log", code(json!({ "skip": 4 }))).await;
    assert_eq!(log.get("next"), None);
    let first = &log["commits"][0];
    assert_eq!((&first["subject"], &first["body"]), (&json!("First"), &json!("With a body.")));
    assert_eq!((&first["author"], &first["email"]), (&json!("Ada"), &json!("ada@example.org")));
    assert_eq!((&first["date"], &first["parents"]), (&json!("2026-03-01T12:00:00Z"), &json!([])));
    assert_eq!(subjects(&done(&server, "log", code(json!({ "message": "number 3" }))).await), ["Number 3"]);
    assert_eq!(subjects(&done(&server, "log", code(json!({ "paths": ["docs"] }))).await), ["First"]);
    assert_eq!(subjects(&done(&server, "log", code(json!({ "without": "HEAD~1" }))).await), ["Number 5"]);
    assert_eq!(subjects(&done(&server, "log", code(json!({ "author": "Eve" }))).await), [] as [&str; 0]);
    assert_eq!(
        subjects(&done(&server, "log", code(json!({ "since": "2026-03-02" }))).await),
        [] as [&str; 0]
    );
    let shown = text(&server, "show", code(json!({}))).await;
    assert!(
        shown.contains("Number 5") && shown.contains("-4\n+5\n") && shown.contains("a.txt | 2 +-"),
        "{shown}"
    );
    let old = text(&server, "show", code(json!({ "revision": "HEAD~4", "path": "a.txt" }))).await;
    assert_eq!(old, "alpha\nbeta\ngamma\n");
    let why = refusal(&server, "show", code(json!({ "revision": "nothing" }))).await;
    assert_eq!(why, "no such commit: \"nothing\"");
    let blame = text(&server, "blame", code(json!({ "path": "a.txt" }))).await;
    assert!(blame.contains("(Ada 2026-03-01 1) 5"), "{blame}");
    let blame = text(
        &server,
        "blame",
        code(json!({ "path": "a.txt", "revision": "HEAD~4", "from_line": 2, "lines": 1 })),
    )
    .await;
    assert!(blame.contains("2) beta") && !blame.contains("gamma"), "{blame}");
    house.git("served/code", &["branch", "other", "HEAD~1"]);
    let branches = done(&server, "branches", code(json!({}))).await;
    let names: Vec<_> = branches["branches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| (b["name"].clone(), b["current"].clone()))
        .collect();
    assert!(
        names.contains(&(json!("main"), json!(true))) && names.contains(&(json!("other"), json!(false))),
        "{names:?}"
    );
}

#[tokio::test]
async fn what_is_long_is_cut_and_gone_on_with() {
    let house = House::new();
    let long: String = (0..5000).map(|line| format!("line {line} ü\n")).collect();
    house.write("served/code/long.txt", &long);
    house.git("served/code", &["add", "."]);
    house.git("served/code", &["commit", "--quiet", "--message=Long"]);
    let server = git(house.config().max_output(20_000)).unwrap();
    let (mut start, mut whole, mut parts) = (0, String::new(), 0);
    loop {
        let part = text(&server, "show", code(json!({ "path": "long.txt", "start": start }))).await;
        parts += 1;
        let Some((said, note)) = part.split_once("\n(cut here; continue with start = ") else {
            whole.push_str(&part);
            break;
        };
        whole.push_str(said);
        start = note.trim().trim_end_matches(')').parse().unwrap();
    }
    assert_eq!(whole, long);
    assert_eq!(parts, 4);
    let why = refusal(&server, "show", code(json!({ "path": "long.txt", "start": 1_000_000 }))).await;
    assert!(why.contains("no more output"), "{why}");
}

#[tokio::test]
async fn work_is_staged_committed_and_branched() {
    let house = House::new();
    let server = house.writing();
    house.write("served/code/a.txt", "changed\n");
    fs::remove_file(house.at("served/code/docs/b.txt")).unwrap();
    let why = refusal(&server, "commit", code(json!({ "message": "x" }))).await;
    assert_eq!(why, "nothing is staged: use `add` first");
    let status = done(&server, "add", code(json!({ "paths": ["."] }))).await;
    let staged =
        json!([{ "path": "a.txt", "change": "modified" }, { "path": "docs/b.txt", "change": "deleted" }]);
    assert_eq!(status["staged"], staged);
    let status = done(&server, "reset", code(json!({ "paths": ["docs"] }))).await;
    assert_eq!(status["unstaged"], json!([{ "path": "docs/b.txt", "change": "deleted" }]));
    let message = "--amend\n\n#1 \"quoted\" $(words)";
    let made = done(&server, "commit", code(json!({ "message": message }))).await;
    assert_eq!((&made["branch"], made["hash"].as_str().unwrap().len()), (&json!("main"), 40));
    assert!(made["summary"].as_str().unwrap().contains("1 file changed"), "{made}");
    assert_eq!(house.git("served/code", &["log", "-1", "--format=%B"]), message);
    assert_eq!(house.git("served/code", &["rev-list", "--count", "HEAD"]), "2");
    let branch = done(&server, "create_branch", code(json!({ "name": "topic", "start": "HEAD~1" }))).await;
    assert_eq!(branch["branch"], "topic");
    let why = refusal(&server, "switch", code(json!({ "branch": "nothing" }))).await;
    assert!(why.starts_with("no such branch"), "{why}");
    house.write("served/code/a.txt", "not committed\n");
    let why = refusal(&server, "switch", code(json!({ "branch": "topic" }))).await;
    assert!(why.contains("would be overwritten"), "{why}");
    house.write("served/code/a.txt", "changed\n");
    done(&server, "switch", code(json!({ "branch": "topic" }))).await;
    assert_eq!(house.git("served/code", &["branch", "--show-current"]), "topic");
    assert_eq!(fs::read_to_string(house.at("served/code/a.txt")).unwrap(), "alpha\nbeta\ngamma\n");
}

#[test]
fn folders_must_be_there() {
    let house = House::new();
    let why = git(GitConfig::new([house.at("absent")])).unwrap_err().to_string();
    assert!(why.starts_with("cannot serve repositories from"), "{why}");
    assert_eq!(
        git(GitConfig::new([] as [&str; 0])).unwrap_err().to_string(),
        "no folder with repositories to serve"
    );
}
