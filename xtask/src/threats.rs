//! The table of threats names tests that are there.

use crate::named_tests::{assert_tests_are_there, root};

#[test]
fn every_test_that_the_table_of_threats_names_is_there() {
    let page = std::fs::read_to_string(root().join("docs/threats.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 20, "{} rows", rows.len());
    rows.into_iter().for_each(assert_tests_are_there);
}
