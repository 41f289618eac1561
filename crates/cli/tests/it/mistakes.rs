//! Tests of common mistakes: each is told by its cause, with a remedy that can be followed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support::{House, Ran};

/// Text of an error without its line breaks.
fn said(ran: &Ran) -> String {
    ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asserts that a command fails with this code, and says all of these texts.
fn assert_refused(ran: &Ran, code: i32, texts: &[&str]) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    let said = said(ran);
    for text in texts {
        assert!(said.contains(text), "`{text}` is missing: {said}");
    }
}

#[test]
fn a_file_that_is_missing_is_said_to_be() {
    let house = House::new();
    let missing = ["No such file or directory", "correct the path"];
    assert_refused(&house.run(&["import", "nofile.json"]), 1, &missing);
    let bundle = house.run(&["add", "./nofile.mcpb", "--yes"]);
    assert_refused(&bundle, 1, &missing);
    assert!(!said(&bundle).contains("--check"), "{bundle:?}");
}
