//! Tests of `hospes doctor`: remedies for the files of a project, which name the file to mend.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use serde_json::json;

use crate::support::House;
use crate::support::checks::{assert_found, check, doctor};

const FILE: &str = ".cursor/mcp.json";
const AGAIN: &str = "hospes disconnect cursor --project; hospes connect cursor --project";

/// Connects the application in a project. Returns the text of its file.
fn connected(house: &House) -> String {
    std::fs::create_dir_all(house.path(".cursor")).unwrap();
    std::fs::create_dir_all(house.path("home/.cursor")).unwrap();
    house.write(FILE, "{}");
    let ran = house.run(&["connect", "cursor", "--project"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (_, found) = doctor(house, &["cursor"]);
    assert_eq!(check(&found, "cursor", "A03")["status"], "ok", "{found:#}");
    house.read(FILE)
}

#[test]
fn the_remedy_for_an_entry_of_a_project_is_about_the_project() {
    let house = House::new();
    let before = connected(&house);
    for (entry, what) in [
        (json!({ "command": "other" }), "starts another program"),
        (json!({ "command": 7 }), "cannot be used"),
    ] {
        house.write(FILE, &json!({ "mcpServers": { "hospes": entry } }).to_string());
        let (_, found) = doctor(&house, &["cursor"]);
        assert_found(&found, "cursor", "A03", "fault", what, AGAIN);
    }
    house.write(FILE, &before);

    std::fs::remove_file(house.path(FILE)).unwrap();
    let (_, found) = doctor(&house, &["cursor"]);
    let mend = "hospes connect cursor --project; or, without Cursor on this machine: hospes disconnect cursor --project";
    assert_found(&found, "cursor", "A01", "fault", "is gone", mend);
}

#[test]
fn the_remedy_for_a_missing_profile_of_a_project_is_about_the_project() {
    let house = House::new();
    let before = connected(&house);
    let mut file: serde_json::Value = serde_json::from_str(&before).unwrap();
    file["mcpServers"]["hospes"]["args"] = json!(["stdio", "--profile", "gone"]);
    house.write(FILE, &file.to_string());
    let (_, found) = doctor(&house, &["cursor"]);
    assert_found(
        &found,
        "cursor",
        "A07",
        "fault",
        "the profile `gone` is not configured",
        "or hospes connect cursor --project --profile NAME",
    );
}
