//! Tests of what all systems have in common, and of names that only Windows refuses.

use std::fs;

use hospes::prelude::*;
use tempfile::TempDir;

use super::{FilesConfig, files};
use crate::testing::{done, refusal, text};

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("served/docs")).unwrap();
    fs::write(folder.path().join("served/docs/a.txt"), "alpha\nbeta\n").unwrap();
    fs::write(folder.path().join("secret.txt"), "the key").unwrap();
    folder
}

fn server(folder: &TempDir) -> hospes::Server {
    files(FilesConfig::new([folder.path().join("served")]).write(true).delete(true)).unwrap()
}

#[tokio::test]
async fn files_are_listed_read_written_moved_and_deleted() {
    let folder = folder();
    let server = server(&folder);
    let on_disk = |path: &str| fs::read_to_string(folder.path().join("served").join(path)).ok();
    assert_eq!(text(&server, "read", json!({ "path": "docs/a.txt" })).await, "alpha\nbeta\n");
    let tree = text(&server, "tree", json!({})).await;
    assert!(tree.contains("└── docs/") && tree.contains("└── a.txt"), "{tree}");
    for (new, content) in [(true, "one"), (false, "two")] {
        let written = done(&server, "write_file", json!({ "path": "new.txt", "content": content })).await;
        assert_eq!((&written["created"], on_disk("new.txt").as_deref()), (&json!(new), Some(content)));
    }
    let only_new = json!({ "path": "new.txt", "content": "x", "only_new": true });
    assert!(refusal(&server, "write_file", only_new).await.contains("already exists"));
    let fresh = json!({ "path": "fresh.txt", "content": "x", "only_new": true });
    assert_eq!(done(&server, "write_file", fresh).await["created"], true);
    let edit = json!({ "path": "docs/a.txt", "edits": [{ "old_text": "beta", "new_text": "gamma" }] });
    text(&server, "edit_file", edit).await;
    assert_eq!(on_disk("docs/a.txt").as_deref(), Some("alpha\ngamma\n"));
    assert_eq!(done(&server, "create_directory", json!({ "path": "b/c" })).await["created"], true);
    done(&server, "move_file", json!({ "source": "new.txt", "destination": "b/c/moved.txt" })).await;
    assert_eq!((on_disk("new.txt"), on_disk("b/c/moved.txt").as_deref()), (None, Some("two")));
    let onto = json!({ "source": "fresh.txt", "destination": "b/c/moved.txt" });
    assert!(refusal(&server, "move_file", onto).await.contains("already exists"));
    done(&server, "move_file", json!({ "source": "b", "destination": "d" })).await;
    assert!(refusal(&server, "delete_file", json!({ "path": "d/c" })).await.contains("not empty"));
    done(&server, "delete_file", json!({ "path": "d/c/moved.txt" })).await;
    done(&server, "delete_file", json!({ "path": "d/c" })).await;
    assert!(!folder.path().join("served/d/c").exists());
    let left = fs::read_dir(folder.path().join("served")).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().ends_with(".part")));
}

#[tokio::test]
async fn nothing_outside_is_reached() {
    let folder = folder();
    let server = server(&folder);
    let outside = folder.path().join("secret.txt");
    for path in ["../secret.txt", "docs/../../secret.txt", outside.to_str().unwrap()] {
        let why = refusal(&server, "read", json!({ "path": path })).await;
        assert!(why.contains("is outside the served folders"), "{path}: {why}");
        refusal(&server, "write_file", json!({ "path": path, "content": "x" })).await;
    }
    assert_eq!(fs::read_to_string(outside).unwrap(), "the key");
}

#[tokio::test]
async fn a_uri_that_was_given_leads_back_to_its_file() {
    let folder = folder();
    let server = server(&folder);
    fs::write(folder.path().join("served/one two%.txt"), "blanks").unwrap();
    for path in ["docs/a.txt", "one two%.txt"] {
        let found = done(&server, "stat", json!({ "path": path })).await;
        assert_eq!(found["kind"], "file", "{found}");
        let uri = found["uri"].as_str().unwrap();
        assert!(uri.starts_with("file:///") && !uri.contains(['\\', ' ']), "{uri}");
        for again in [uri, found["path"].as_str().unwrap()] {
            assert_eq!(done(&server, "stat", json!({ "path": again })).await["path"], found["path"]);
        }
    }
}

#[cfg(windows)]
#[tokio::test]
async fn windows_refuses_devices_and_streams_and_ignores_letter_case() {
    let folder = folder();
    let server = server(&folder);
    for path in ["NUL", "docs/con.txt", "docs/a.txt:hidden", "docs/a.txt.", "docs/a.txt::$DATA"] {
        let why = refusal(&server, "write_file", json!({ "path": path, "content": "x" })).await;
        assert!(why.contains("is not the path of a file on this system"), "{path}: {why}");
    }
    let listed = done(&server, "list", json!({ "path": "docs" })).await;
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1, "{listed}");
    let shown = done(&server, "stat", json!({ "path": "docs/a.txt" })).await["path"].clone();
    let other_case = shown.as_str().unwrap().to_uppercase();
    assert_eq!(done(&server, "stat", json!({ "path": other_case })).await["path"], shown);
    assert!(!shown.as_str().unwrap().starts_with(r"\\?\"), "{shown}");
}
