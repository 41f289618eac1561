//! Repositories in a repository: their own configuration names programs, and git would look into them.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, UNIX_EPOCH};

use super::*;

/// A house whose `code` has a submodule `sub`, and `sub/f` is to be looked at anew, by a filter that leaves a mark.
struct Trap {
    house: House,
    mark: String,
}

impl Trap {
    fn new() -> Self {
        let house = House::new();
        let (mark, script) = (house.at("mark"), house.at("evil.sh"));
        fs::write(&script, format!("#!/bin/sh\necho ran >> {mark}\ncat\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        house.write("served/code/sub/f", "one\n");
        house.write("served/code/sub/.gitattributes", "f filter=evil\n");
        for arguments in [
            &["init", "--quiet"][..],
            &["config", "user.name", "Eve"],
            &["config", "user.email", "eve@example.org"],
            &["add", "."],
            &["commit", "--quiet", "--message=Sub"],
            &["config", "filter.evil.clean", &script],
        ] {
            house.git("served/code/sub", arguments);
        }
        // What is committed here is stronger than what is set.
        house.write(
            "served/code/.gitmodules",
            "[submodule \"sub\"]\n path = sub\n url = ./sub\n ignore = none\n",
        );
        house.git("served/code", &["-c", "advice.addEmbeddedRepo=false", "add", "."]);
        house.git("served/code", &["commit", "--quiet", "--message=Submodule"]);
        house.git("served/code", &["branch", "other"]);
        let this = Self { house, mark };
        this.set();
        this
    }

    /// Changes the file's times, so that git has to read it again.
    fn set(&self) {
        let file = fs::File::options().write(true).open(self.house.at("served/code/sub/f")).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        let _ = fs::remove_file(&self.mark);
    }

    fn has_snapped(&self) -> bool {
        Path::new(&self.mark).exists()
    }

    /// Shows that a plain git runs the program there, which proves that the test is effective.
    fn snaps_with(&self, arguments: &[&str]) {
        self.set();
        let _ = self.house.command("served/code", arguments).output().unwrap();
        assert!(self.has_snapped(), "git {arguments:?}: the submodule is not hostile at all");
    }
}

#[tokio::test]
async fn add_does_not_look_into_submodules() {
    let trap = Trap::new();
    let server = trap.house.writing();
    trap.house.write("served/code/new.md", "new\n");
    trap.house.write("served/code/:(exclude)a.txt", "odd\n");
    for paths in [json!(["."]), json!(["new.md", "docs", "a.txt"]), json!([":(exclude)a.txt"])] {
        trap.set();
        let status = done(&server, "add", code(json!({ "paths": paths }))).await;
        assert!(!trap.has_snapped(), "{paths}");
        assert_eq!(status["staged"].as_array().unwrap().len(), 2, "{status}");
    }
    for path in ["sub", "sub/f", "./sub/"] {
        let why = refusal(&server, "add", code(json!({ "paths": ["a.txt", path] }))).await;
        assert!(why.contains("submodule") && why.contains("git itself"), "{why}");
        assert!(!trap.has_snapped(), "{path}");
    }
    trap.snaps_with(&["add", "--all", "."]);
    // One that is gone is taken out as files are.
    fs::remove_dir_all(trap.house.at("served/code/sub")).unwrap();
    let status = done(&server, "add", code(json!({ "paths": ["."] }))).await;
    assert!(status["staged"].as_array().unwrap().iter().any(|change| change["path"] == "sub"), "{status}");
}

#[tokio::test]
async fn switch_does_not_look_into_submodules() {
    let trap = Trap::new();
    let server = trap.house.writing();
    for branch in ["other", "main"] {
        trap.set();
        done(&server, "switch", code(json!({ "branch": branch }))).await;
        assert!(!trap.has_snapped(), "{branch}");
    }
    trap.snaps_with(&["switch", "other"]);
}

/// Git would say how everything stands where nothing is staged.
#[tokio::test]
async fn commit_does_not_look_into_submodules() {
    let trap = Trap::new();
    let server = trap.house.writing();
    let why = refusal(&server, "commit", code(json!({ "message": "Nothing" }))).await;
    assert!(why.contains("nothing is staged"), "{why}");
    assert!(!trap.has_snapped());
    trap.house.write("served/code/new.md", "new\n");
    done(&server, "add", code(json!({ "paths": ["new.md"] }))).await;
    done(&server, "commit", code(json!({ "message": "New" }))).await;
    assert!(!trap.has_snapped());
    trap.snaps_with(&["commit", "--message=Nothing"]);
}

#[tokio::test]
async fn looking_does_not_look_into_submodules() {
    let trap = Trap::new();
    let server = trap.house.writing();
    for (tool, arguments) in [
        ("status", json!({})),
        ("diff", json!({})),
        ("diff", json!({ "from": "HEAD~1" })),
        ("diff", json!({ "staged": true })),
        ("show", json!({})),
        ("blame", json!({ "path": "a.txt" })),
        ("reset", json!({})),
    ] {
        trap.set();
        done_or_text(&server, tool, arguments.clone()).await;
        assert!(!trap.has_snapped(), "{tool} {arguments}");
    }
    trap.snaps_with(&["status"]);
}

async fn done_or_text(server: &Server, tool: &str, arguments: Value) {
    let result = call(server, tool, code(arguments)).await;
    assert_eq!(result.get("isError"), None, "{tool}: {result}");
}

/// A merge may be concluded with the tree as it was.
#[tokio::test]
async fn a_merge_is_committed_though_nothing_is_staged() {
    let house = House::new();
    house.git("served/code", &["switch", "--quiet", "--create", "other"]);
    house.git("served/code", &["commit", "--quiet", "--allow-empty", "--message=Other"]);
    house.git("served/code", &["switch", "--quiet", "main"]);
    house.git("served/code", &["commit", "--quiet", "--allow-empty", "--message=Main"]);
    house.git("served/code", &["merge", "--quiet", "--no-commit", "other"]);
    done(&house.writing(), "commit", code(json!({ "message": "Merge" }))).await;
    assert_eq!(house.git("served/code", &["rev-list", "--count", "--merges", "HEAD"]), "1");
}
