use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// The folder beside it holds what it held.
fn nothing_got_out(house: &House) {
    let secret: Vec<_> =
        fs::read_dir(house.at("secret")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(secret, ["key.txt"]);
    assert_eq!(fs::read_to_string(house.at("secret/key.txt")).unwrap(), "the key");
}

fn writing(house: &House) -> Server {
    files(house.config().write(true).delete(true)).unwrap()
}

async fn done(server: &Server, tool: &str, arguments: Value) -> Value {
    let result = call(server, tool, arguments.clone()).await;
    assert_eq!(result.get("isError"), None, "{tool} {arguments}: {result}");
    result["structuredContent"].clone()
}

#[tokio::test]
async fn nothing_is_written_unless_the_server_was_made_so() {
    let house = House::new();
    let tools = async |server: &Server| -> Vec<String> {
        let listed = result(server, Method::ToolsList, json!({})).await;
        let tools = listed["tools"].as_array().unwrap();
        let writes = tools.iter().filter(|tool| tool["annotations"]["readOnlyHint"] != true);
        writes.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(tools(&house.server()).await, Vec::<String>::new());
    let writes = ["write_file", "edit_file", "create_directory", "move_file"];
    assert_eq!(tools(&files(house.config().write(true)).unwrap()).await, writes);
    assert_eq!(tools(&writing(&house)).await.last().unwrap(), "delete_file");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_written_file_is_closed() {
    let house = House::new();
    let server = writing(&house);
    for number in 0..3 {
        let name = format!("{number}.txt");
        done(&server, "write_file", json!({ "path": name, "content": "x" })).await;
    }
    let links =
        fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let open: Vec<_> = links.filter(|file| file.starts_with(house.folder.path()) && file.is_file()).collect();
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test]
async fn files_are_written() {
    let house = House::new();
    let server = writing(&house);
    let new = done(&server, "write_file", json!({ "path": "docs/new.txt", "content": "one\n" })).await;
    assert_eq!((&new["created"], &new["bytes"]), (&json!(true), &json!(4)));
    assert_eq!(new["path"], json!(house.at("served/docs/new.txt")));
    assert_eq!(fs::read_to_string(house.at("served/docs/new.txt")).unwrap(), "one\n");
    let file = house.at("served/docs/a.txt");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4750)).unwrap();
    let old = done(&server, "write_file", json!({ "path": file, "content": "two" })).await;
    assert_eq!(old["created"], false);
    // Permissions stay, but for the bit that would let it run as somebody else.
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o750);
    // Behind a link that stays inside, the file is written and the link is left.
    done(&server, "write_file", json!({ "path": "within", "content": "three" })).await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "three");
    assert!(fs::symlink_metadata(house.at("served/within")).unwrap().is_symlink());
    let why = refusal(&server, "write_file", json!({ "path": file, "content": "", "only_new": true })).await;
    assert!(why.contains("already"), "{why}");
    let left: Vec<_> =
        fs::read_dir(house.at("served/docs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".part")), "{left:?}");
}

#[tokio::test]
async fn what_cannot_be_written_says_why() {
    let house = House::new();
    let pipe = house.folder.path().join("served/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let server = files(house.config().write(true).max_write_bytes(10)).unwrap();
    for (path, wanted) in [
        ("docs", "is a folder"),
        (".", "is a folder"),
        ("pipe", "not a regular file"),
        ("absent/new.txt", "no such file or folder"),
        ("readme.md/new.txt", "a file, not a folder"),
        ("new\0.txt", "NUL"),
        ("circle", "cannot be found"),
        (&"x".repeat(300), "longer than 255 bytes"),
    ] {
        let why = refusal(&server, "write_file", json!({ "path": path, "content": "x" })).await;
        assert!(why.contains(wanted), "{path:?}: {why}");
    }
    let why = refusal(&server, "write_file", json!({ "path": "long.txt", "content": "x".repeat(11) })).await;
    assert!(why.contains("max_write_bytes"), "{why}");
    let edit = json!({ "path": "docs/old/b.txt", "edits": [{ "old_text": "Beta", "new_text": "x" }] });
    let why = refusal(&server, "edit_file", edit).await;
    assert!(why.contains("limit of 10 bytes"), "{why}");
    assert!(!Path::new(&house.at("served/long.txt")).exists());
}

/// covers: RES-27
#[tokio::test]
async fn nothing_outside_is_written_moved_or_deleted() {
    let house = House::new();
    symlink(house.at("secret/new.txt"), house.at("served/to-be")).unwrap();
    let server = writing(&house);
    for path in [
        "../secret/key.txt".to_owned(),
        "../secret/new.txt".to_owned(),
        "docs/../../secret/new.txt".to_owned(),
        "way-out/new.txt".to_owned(),
        "way-out/key.txt".to_owned(),
        house.at("secret/new.txt"),
        house.at("served/../secret/new.txt"),
        house.at("served-too/new.txt"),
        "/etc/hospes-new".to_owned(),
        format!("file://{}", house.at("served/%2e%2e/secret/new.txt")),
        format!("file://{}", house.at("served/..%2fsecret/new.txt")),
        format!("file://elsewhere{}", house.at("served/new.txt")),
    ] {
        for (tool, arguments) in [
            ("write_file", json!({ "path": path, "content": "x" })),
            ("edit_file", json!({ "path": path, "edits": [{ "old_text": "the", "new_text": "x" }] })),
            ("create_directory", json!({ "path": path })),
            ("move_file", json!({ "source": "readme.md", "destination": path })),
            ("move_file", json!({ "source": path, "destination": "mine" })),
            ("delete_file", json!({ "path": path })),
        ] {
            let why = refusal(&server, tool, arguments).await;
            let outside =
                why.contains("is outside the served folders") || why.contains("are not served here");
            assert!(outside, "{tool} {path}: {why}");
        }
    }
    // Links that lead out are not written through, and are their own when moved or deleted.
    for link in ["out", "to-be"] {
        refusal(&server, "write_file", json!({ "path": link, "content": "x" })).await;
        done(&server, "move_file", json!({ "source": link, "destination": format!("docs/{link}") })).await;
        assert_eq!(
            done(&server, "delete_file", json!({ "path": format!("docs/{link}") })).await["kind"],
            "link"
        );
    }
    // On this system a share is a name like any other, and a backslash a letter of it.
    let unc = done(&server, "write_file", json!({ "path": r"\\host\share\x.txt", "content": "x" })).await;
    assert_eq!(unc["path"], json!(house.at(r"served/\\host\share\x.txt")));
    for whole in [house.at("served"), ".".to_owned(), "/".to_owned()] {
        refusal(&server, "delete_file", json!({ "path": whole })).await;
        refusal(&server, "move_file", json!({ "source": whole, "destination": "x" })).await;
    }
    nothing_got_out(&house);
    assert!(Path::new(&house.at("served/readme.md")).exists());
}

/// A folder that becomes a link to the outside, and a folder again, all the while calls run.
///
/// covers: RES-27
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_link_slipped_in_between_leads_nowhere() {
    let house = House::new();
    let server = writing(&house);
    let stop = Arc::new(AtomicBool::new(false));
    symlink(house.at("secret"), house.at("served/link")).unwrap();
    let swapper = {
        let (stop, docs, link) = (Arc::clone(&stop), house.at("served/docs"), house.at("served/link"));
        std::thread::spawn(move || {
            let swap = || {
                let (here, exchange) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
                rustix::fs::renameat_with(here, &docs, here, &link, exchange).unwrap();
            };
            while !stop.load(Ordering::Relaxed) {
                swap();
            }
        })
    };
    let (mut wrote, mut refused) = (0, 0);
    while wrote < 200 || refused < 200 {
        for (tool, arguments) in [
            ("write_file", json!({ "path": "docs/key.txt", "content": "mine" })),
            (
                "edit_file",
                json!({ "path": "docs/key.txt", "edits": [{ "old_text": "e", "new_text": "f", "all": true }] }),
            ),
            ("create_directory", json!({ "path": "docs/deep/er" })),
            ("move_file", json!({ "source": "docs/key.txt", "destination": "docs/moved.txt" })),
            ("delete_file", json!({ "path": "docs/key.txt" })),
            ("delete_file", json!({ "path": "docs/moved.txt" })),
            ("read", json!({ "path": "docs/key.txt" })),
            ("stat", json!({ "path": "docs/key.txt" })),
        ] {
            let result = call(&server, tool, arguments).await;
            assert!(!result.to_string().contains("the key"), "{tool}: {result}");
            // The key has seven bytes, what is written here has four.
            assert_ne!(result["structuredContent"]["size"], 7, "{tool}: {result}");
            if result["isError"] == true { refused += 1 } else { wrote += 1 }
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    nothing_got_out(&house);
}

#[tokio::test]
async fn files_are_edited_word_for_word() {
    let house = House::new();
    let server = writing(&house);
    let file = house.at("served/docs/a.txt");
    let edit = |edits: Value, dry: bool| json!({ "path": "docs/a.txt", "edits": edits, "dry_run": dry });
    let edits = json!([{ "old_text": "beta\ngamma", "new_text": "BETA\ngamma" }, { "old_text": "BETA", "new_text": "B" }]);
    let shown = text(&server, "edit_file", edit(edits.clone(), true)).await;
    assert!(
        shown.starts_with("(not written: dry_run)\n--- a/") && shown.contains("\n-beta\n+B\n gamma"),
        "{shown}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "alpha\nbeta\ngamma\n");
    let edited = done(&server, "edit_file", edit(edits, false)).await;
    assert_eq!((&edited["replaced"], &edited["written"]), (&json!(2), &json!(true)));
    assert_eq!(fs::read_to_string(&file).unwrap(), "alpha\nB\ngamma\n");
    for (edits, wanted) in [
        (json!([{ "old_text": "a", "new_text": "x" }]), "occurs 4 times (lines 1, 1, 3, 3)"),
        (json!([{ "old_text": "alpha\n  B", "new_text": "x" }]), "only with different whitespace (line 1)"),
        (
            json!([{ "old_text": "B", "new_text": "x" }, { "old_text": "delta", "new_text": "x" }]),
            "edit 2 has an old_text that was not found",
        ),
        (json!([{ "old_text": "", "new_text": "x" }]), "an empty old_text"),
        (json!([]), "edits"),
    ] {
        let why = refusal(&server, "edit_file", edit(edits, false)).await;
        assert!(why.contains(wanted), "{why}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "alpha\nB\ngamma\n");
    }
    let all = json!([{ "old_text": "a", "new_text": "o", "all": true }]);
    assert_eq!(done(&server, "edit_file", edit(all, false)).await["replaced"], 4);
    // Line ends stay as they are.
    fs::write(&file, "one\r\ntwo\r\nthree\r\n").unwrap();
    done(&server, "edit_file", edit(json!([{ "old_text": "one\ntwo\n", "new_text": "1\n2\n" }]), false))
        .await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "1\r\n2\r\nthree\r\n");
    let why = refusal(
        &server,
        "edit_file",
        json!({ "path": "blob.bin", "edits": [{ "old_text": "a", "new_text": "b" }] }),
    )
    .await;
    assert!(why.contains("not UTF-8 text"), "{why}");
}

#[test]
fn a_file_that_somebody_else_changed_is_not_overwritten() {
    use super::super::atomic_write::{OverwriteMode, save};
    use super::super::closed_folders::ClosedFolders;
    use super::super::served_folders::ServedFolders;

    let house = House::new();
    let roots = ServedFolders::open(&[house.at("served").into()], ClosedFolders::default()).unwrap();
    let (_, read) = super::super::read::text(&roots.find("readme.md").unwrap(), 1000).unwrap();
    fs::write(house.at("served/readme.md"), "theirs, and longer").unwrap();
    let spot = roots.resolve_write_target("readme.md").unwrap();
    let why = save(&spot, b"ours", &OverwriteMode::This(read)).unwrap_err().to_string();
    assert!(why.contains("was changed in the meantime"), "{why}");
    assert_eq!(fs::read_to_string(house.at("served/readme.md")).unwrap(), "theirs, and longer");
    assert_eq!(
        fs::read_dir(house.at("served"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".part"))
            .count(),
        0
    );
}

#[tokio::test]
async fn folders_are_made_and_things_moved_and_deleted() {
    let house = House::new();
    let server = writing(&house);
    for created in [true, false] {
        let made = done(&server, "create_directory", json!({ "path": "new/er/est" })).await;
        assert_eq!(made, json!({ "path": house.at("served/new/er/est"), "created": created }));
    }
    let why = refusal(&server, "create_directory", json!({ "path": "readme.md/x" })).await;
    assert!(why.contains("a file, not a folder"), "{why}");
    done(&server, "move_file", json!({ "source": "docs", "destination": "new/er/docs" })).await;
    assert!(Path::new(&house.at("served/new/er/docs/a.txt")).exists());
    for (from, to, wanted) in [
        ("readme.md", "pixel.png", "already"),
        ("readme.md", "new", "already"),
        ("absent", "x", "cannot move"),
        ("new", "new/er/itself", "into itself"),
    ] {
        let why = refusal(&server, "move_file", json!({ "source": from, "destination": to })).await;
        assert!(why.contains(wanted), "{from} {to}: {why}");
    }
    let why = refusal(&server, "delete_file", json!({ "path": "new" })).await;
    assert!(why.contains("is not empty"), "{why}");
    done(&server, "delete_file", json!({ "path": "new/er/docs/a.txt" })).await;
    assert_eq!(done(&server, "delete_file", json!({ "path": "new/er/est" })).await["kind"], "folder");
    assert!(!Path::new(&house.at("served/new/er/docs/a.txt")).exists());
}

#[tokio::test]
async fn with_several_folders_a_new_file_says_where() {
    let house = House::new();
    let both = [house.folder.path().join("served"), house.folder.path().join("served-too")];
    let server = files(FilesConfig::new(both).write(true)).unwrap();
    done(&server, "write_file", json!({ "path": "near.txt", "content": "there already" })).await;
    assert_eq!(fs::read_to_string(house.at("served-too/near.txt")).unwrap(), "there already");
    for (tool, arguments) in [
        ("write_file", json!({ "path": "new.txt", "content": "x" })),
        ("create_directory", json!({ "path": "new" })),
    ] {
        let why = refusal(&server, tool, arguments).await;
        assert!(why.contains("in one of the served folders"), "{why}");
    }
    done(&server, "write_file", json!({ "path": house.at("served-too/new.txt"), "content": "x" })).await;
}

/// covers: ROOT-12 ROOT-13 ROOT-14
#[tokio::test]
async fn without_folders_the_clients_roots_are_served() {
    let house = House::new();
    let server = files(FilesConfig::of_client().write(true)).unwrap();
    let tool = async |name: &str, arguments: Value, roots: &[String]| {
        let params = json!({ "name": name, "arguments": arguments });
        within(&server, &Method::ToolsCall, params, roots).await
    };
    let uri = |path: &str| format!("file://{}", house.at(path));
    let write = json!({ "path": house.at("served/docs/new.txt"), "content": "x" });
    let refused = tool("write_file", write.clone(), &[uri("served-too")]).await;
    assert_eq!(refused["isError"], true, "{refused}");
    // The roots are asked for each time: what the client takes away is gone with the next call.
    let written = tool("write_file", write.clone(), &[uri("served/docs"), uri("gone")]).await;
    assert_eq!(written["structuredContent"]["created"], true, "{written}");
    let listed = tool("folders", json!({}), &[uri("served/docs"), uri("gone")]).await;
    assert_eq!(listed["structuredContent"]["folders"], json!([house.at("served/docs")]));
    assert_eq!(tool("write_file", write.clone(), &[]).await["isError"], true);
    // Who has no roots gets nothing.
    let why = refusal(&server, "write_file", write).await;
    assert!(why.contains("the client provides no roots"), "{why}");
}
