//! `hospes upgrade`, which only prints.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{House, Ran};

/// Runs the program from another place. A hard link, because the path of the program is the one with links resolved.
fn run_at(house: &House, place: &str, args: &[&str]) -> Ran {
    let file = house.path(place);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_hospes"));
    // The temporary folder may be on another file system.
    if !file.exists() && std::fs::hard_link(program, &file).is_err() {
        std::fs::copy(program, &file).unwrap();
    }
    Ran::of(Command::new(file).args(args).env_remove("CARGO_HOME").stdin(Stdio::null()).output().unwrap())
}

#[test]
fn a_program_that_is_no_release_is_not_upgraded_from_a_registry() {
    let house = House::new();
    let npm = run_at(&house, "lib/node_modules/@hospes/linux-x64/bin/hospes", &["upgrade"]);
    assert!(
        npm.code == Some(0) && npm.stdout.starts_with("build the new version from a checkout"),
        "{npm:?}"
    );
    assert!(
        npm.stderr.contains("installed by: npm") && npm.stderr.contains("no published release"),
        "{npm:?}"
    );
    let uv = run_at(&house, "share/uv/tools/hospes/bin/hospes", &["--json", "upgrade"]);
    let known: Value = serde_json::from_str(&uv.stdout).unwrap_or_else(|_| panic!("{uv:?}"));
    assert_eq!((&known["isRelease"], &known["command"]), (&false.into(), &Value::Null), "{known}");
    assert_eq!(known["afterRelease"], "uv tool upgrade hospes");
}

#[test]
fn a_build_is_upgraded_by_a_build() {
    let house = House::new();
    let build = run_at(&house, "src/target/release/hospes", &["upgrade", "--quiet"]);
    assert_eq!((build.stdout.as_str(), build.stderr.as_str()), ("git pull && cargo build --release\n", ""));
}

#[test]
fn a_marker_beside_the_program_names_the_archive() {
    let house = House::new();
    std::fs::create_dir_all(house.path("opt")).unwrap();
    house.write("opt/INSTALLED_BY", "archive 0.1.0\n");
    let ran = run_at(&house, "opt/hospes", &["--json", "upgrade"]);
    let known: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!((&known["installedBy"], &known["command"]), (&"archive".into(), &Value::Null), "{known}");
    assert!(known["afterRelease"].as_str().unwrap().contains("archive"), "{known}");
}
