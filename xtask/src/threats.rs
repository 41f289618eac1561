//! The table of threats names tests that are there.

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_test_that_the_table_of_threats_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(root.join("docs/threats.md")).unwrap();
    let named = |line: &str| -> BTreeSet<(String, String)> {
        let quoted = line.split('`').skip(1).step_by(2);
        let names = quoted.filter_map(|text| text.split_once(".rs::"));
        names.map(|(file, test)| (format!("{file}.rs"), test.to_owned())).collect()
    };
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 20, "{} rows", rows.len());
    for row in rows {
        let tests = named(row);
        assert!(!tests.is_empty(), "a row without a test: {row}");
        for (file, test) in tests {
            let text =
                std::fs::read_to_string(root.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let is_test = text.split(&format!("fn {test}(")).next().is_some_and(|before| {
                let mut above = before.lines().rev().take(6).map(str::trim);
                before.len() < text.len() && above.any(|line| line.starts_with("#[") && line.contains("test"))
            });
            assert!(is_test, "{file} has no test `{test}`");
        }
    }
}
