//! Closed folders that lie in a served one.

use super::*;
use crate::files::FilesError;

/// The house with a closed folder in what is served, and a key in it.
fn house() -> House {
    let house = House::new();
    fs::create_dir_all(house.at("served/settings/own/deep")).unwrap();
    fs::write(house.at("served/settings/own/key.txt"), "the key of the house").unwrap();
    fs::write(house.at("served/settings/own/deep/key.txt"), "the key below").unwrap();
    fs::write(house.at("served/settings/other.txt"), "the key is elsewhere").unwrap();
    symlink("settings/own", house.at("served/by-the-way")).unwrap();
    house
}

fn closed(house: &House) -> FilesConfig {
    // One of them is not there yet.
    house.config().except([house.at("served/settings/own"), house.at("served/docs/later")])
}

/// covers: SECP-02
#[tokio::test]
async fn nobody_gets_into_a_closed_folder() {
    let house = house();
    let server = files(closed(&house)).unwrap();
    for path in
        ["settings/own/key.txt", "settings/own/deep/key.txt", "by-the-way/key.txt", "settings/own/nothing"]
    {
        let why = refusal(&server, "read", json!({ "path": path })).await;
        assert!(!why.contains("the key"), "{why}");
        refusal(&server, "stat", json!({ "path": path })).await;
        refusal(&server, "read", json!({ "path": house.at(&format!("served/{path}")) })).await;
    }
    for path in ["settings/own", "settings/own/deep", "by-the-way"] {
        refusal(&server, "list", json!({ "path": path })).await;
        refusal(&server, "tree", json!({ "path": path })).await;
        refusal(&server, "search", json!({ "path": path, "pattern": "**" })).await;
    }
    let tree = text(&server, "tree", json!({ "path": "settings", "depth": 9 })).await;
    assert!(tree.contains("own/") && !tree.contains("key.txt") && !tree.contains("deep"), "{tree}");
    let found = text(&server, "search", json!({ "pattern": "**", "text": "the key" })).await;
    assert!(found.contains("other.txt") && !found.contains("own"), "{found}");
    assert!(text(&server, "read", json!({ "path": "settings/other.txt" })).await.contains("elsewhere"));
    let params = json!({ "uri": format!("file://{}", house.at("served/settings/own/key.txt")) });
    assert!(matches!(outcome(&server, &Method::ResourcesRead, params).await, Outcome::Failed(_)));
}

/// A folder is what it is, and not its name: neither is it got at under another, nor taken away, nor made anew.
#[tokio::test]
async fn a_closed_folder_stays_closed_and_where_it_is() {
    let house = house();
    let server = files(closed(&house).write(true).delete(true)).unwrap();
    for (tool, arguments) in [
        ("write_file", json!({ "path": "settings/own/key.txt", "content": "mine" })),
        ("write_file", json!({ "path": "settings/own/new.txt", "content": "mine" })),
        (
            "edit_file",
            json!({ "path": "settings/own/key.txt", "edits": [{ "old_text": "the", "new_text": "my" }] }),
        ),
        ("create_directory", json!({ "path": "settings/own/new" })),
        ("move_file", json!({ "source": "settings/own/key.txt", "destination": "mine.txt" })),
        ("move_file", json!({ "source": "readme.md", "destination": "settings/own/readme.md" })),
        ("move_file", json!({ "source": "settings/own", "destination": "mine" })),
        ("move_file", json!({ "source": "settings", "destination": "mine" })),
        ("delete_file", json!({ "path": "settings/own/key.txt" })),
        ("delete_file", json!({ "path": "settings/own" })),
    ] {
        refusal(&server, tool, arguments).await;
    }
    let inside = |path: &str| fs::read_to_string(house.at(&format!("served/settings/own/{path}"))).unwrap();
    assert_eq!(
        (inside("key.txt"), inside("deep/key.txt")),
        ("the key of the house".into(), "the key below".into())
    );
    assert_eq!(fs::read_dir(house.at("served/settings/own")).unwrap().count(), 2);

    // Somebody else moves it: it is still the same folder.
    fs::rename(house.at("served/settings"), house.at("served/moved")).unwrap();
    refusal(&server, "read", json!({ "path": "moved/own/key.txt" })).await;
    // What comes into being in its place is closed too, as is what was not there at first.
    fs::create_dir_all(house.at("served/docs/later")).unwrap();
    fs::write(house.at("served/docs/later/key.txt"), "a later key").unwrap();
    refusal(&server, "read", json!({ "path": "docs/later/key.txt" })).await;
    refusal(&server, "create_directory", json!({ "path": "docs/later/deeper" })).await;
}

#[tokio::test]
async fn a_closed_folder_is_not_served_by_itself_or_as_a_root() {
    let house = house();
    for folder in ["served/settings/own", "served/settings/own/deep", "served/by-the-way"] {
        let config = FilesConfig::new([house.at(folder)]).except([house.at("served/settings/own")]);
        assert!(matches!(files(config), Err(FilesError::Closed { .. })), "{folder}");
    }
    let config = FilesConfig::of_client().except([house.at("served/settings/own")]);
    let server = files(config).unwrap();
    let read = async |root: &str| {
        let roots = [format!("file://{}", house.at(root))];
        let path = house.at("served/settings/own/key.txt");
        let params = json!({ "name": "read", "arguments": { "path": path } });
        within(&server, &Method::ToolsCall, params, &roots).await
    };
    for root in ["served", "served/settings", "served/settings/own"] {
        let answer = read(root).await.to_string();
        assert!(!answer.contains("the key of the house"), "{root}: {answer}");
    }
}
