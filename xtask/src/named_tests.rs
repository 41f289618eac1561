//! Tests that a table of the documentation names, and the table of faults that `hospes doctor` finds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns the tests that a line names: their files and functions, written as `FILE.rs::TEST`.
pub(crate) fn named(line: &str) -> BTreeSet<(String, String)> {
    let quoted = line.split('`').skip(1).step_by(2);
    let names = quoted.filter_map(|text| text.split_once(".rs::"));
    names.map(|(file, test)| (format!("{file}.rs"), test.to_owned())).collect()
}

/// Fails unless the line names a test, and all tests that it names are there.
pub(crate) fn assert_tests_are_there(line: &str) {
    let tests = named(line);
    assert!(!tests.is_empty(), "a row without a test: {line}");
    for (file, test) in tests {
        let text =
            std::fs::read_to_string(root().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let is_test = text.split(&format!("fn {test}(")).next().is_some_and(|before| {
            let mut above = before.lines().rev().take(6).map(str::trim);
            before.len() < text.len() && above.any(|line| line.starts_with("#[") && line.contains("test"))
        });
        assert!(is_test, "{file} has no test `{test}`");
    }
}

#[test]
fn each_code_of_the_doctor_has_a_fault_that_a_test_makes() {
    let page = std::fs::read_to_string(root().join("docs/doctor.md")).unwrap();
    let (checks, faults) = page.split_once("## Faults that the tests make").unwrap();
    let code = |row: &str, column: usize| row.split('|').nth(column).unwrap_or_default().trim().to_owned();
    let checks = checks.split_once("## Checks").unwrap().1;
    // A test of the program compares these rows with its own list.
    let codes: BTreeSet<String> =
        checks.lines().filter(|line| line.starts_with("| ")).skip(1).map(|row| code(row, 1)).collect();
    assert!(codes.len() > 40, "{codes:?}");
    let rows: Vec<&str> = faults.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    rows.iter().copied().for_each(assert_tests_are_there);
    let seeded: BTreeSet<String> = rows.iter().map(|row| code(row, 2)).collect();
    assert_eq!(codes, seeded, "each code has a fault, and each fault a code");
}
