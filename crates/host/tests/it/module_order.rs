//! The order of the crate's modules, as section 3 of `ARCHITECTURE.md` states it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each module and those that it may use. A module may use only modules above it in this table.
const MODULES: [(&str, &[&str]); 17] = [
    ("shell_word", &[]),
    ("callers", &[]),
    ("config", &[]),
    ("metrics", &[]),
    ("server", &["config", "metrics"]),
    ("file_problems", &["server"]),
    ("deciders", &["callers", "config"]),
    ("accounts", &["config", "server", "shell_word"]),
    ("approvals", &["config", "metrics", "server", "deciders"]),
    ("catalogue", &["config", "server"]),
    ("checks", &["config", "server"]),
    ("pins", &["config", "server"]),
    ("upstream", &["config", "server"]),
    ("guard", &["config", "metrics", "server", "approvals", "checks", "upstream"]),
    ("sampling", &["config", "server", "approvals", "guard"]),
    (
        "gateway",
        &[
            "file_problems",
            "config",
            "metrics",
            "server",
            "accounts",
            "approvals",
            "catalogue",
            "checks",
            "upstream",
            "guard",
            "sampling",
        ],
    ),
    (
        "host",
        &[
            "file_problems",
            "config",
            "metrics",
            "server",
            "accounts",
            "approvals",
            "catalogue",
            "pins",
            "upstream",
            "guard",
            "sampling",
            "gateway",
        ],
    ),
];

#[test]
fn modules_depend_one_way() {
    for (at, (module, uses)) in MODULES.iter().enumerate() {
        for used in *uses {
            let is_above = MODULES[..at].iter().any(|(above, _)| above == used);
            assert!(is_above, "`{module}` stands above `{used}` in the table");
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect_sources(&root, &mut files);
    assert!(files.len() > 100, "only {} files found", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let inner = file.strip_prefix(&root).unwrap();
        let first = inner.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let Some((_, uses)) = MODULES.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("`{module}` is missing from the table"));
            continue;
        };
        for used in used_modules(&fs::read_to_string(&file).unwrap()) {
            if used != module && !uses.contains(&used.as_str()) {
                wrong.push(format!("{} uses `{used}`", inner.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "see section 3 of ARCHITECTURE.md:\n{}", wrong.join("\n"));
}

/// Collects the source files below a folder, without those of tests.
fn collect_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_stem().expect("a name");
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            collect_sources(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

/// Returns what follows each `crate::` of a source file, outside of comments and of a module `tests`.
fn used_modules(source: &str) -> BTreeSet<String> {
    let code = source.split("\nmod tests {").next().unwrap_or_default();
    let code: String =
        code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let mut found = BTreeSet::new();
    // `pub(crate)` has no colons behind it.
    for after in code.split("crate::").skip(1) {
        let Some(list) = after.strip_prefix('{') else {
            found.insert(name(after));
            continue;
        };
        let mut depth = 0_usize;
        let mut begins = true;
        for (at, letter) in list.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                _ if letter.is_whitespace() => {}
                _ if begins => {
                    found.insert(name(&list[at..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn imports_are_read_in_each_form() {
    let source = "\
use crate::config::{A, B};
use crate::{pins::C, guard::{D, E}, Root};
// use crate::comment::F;
fn f() { crate::upstream::g(); } // crate::aside::h
#[cfg(test)]
mod tests {
    use crate::inner::I;
}
";
    let expected = ["Root", "config", "guard", "pins", "upstream"];
    assert_eq!(used_modules(source), expected.map(str::to_owned).into());
}
