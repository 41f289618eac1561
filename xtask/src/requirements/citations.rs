//! Citations of the ledger in tests: comment lines that begin with the word `covers` and a colon.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::ledger::is_id;
use crate::paths;

/// The citations of a tree of files.
#[derive(Debug, Default)]
pub(crate) struct TestCitations {
    /// Id to the places (`path:line`) that cite it.
    pub(crate) places: BTreeMap<String, BTreeSet<String>>,
    /// Errors in citations, with their places.
    pub(crate) mistakes: Vec<String>,
}

impl TestCitations {
    /// Scans every Rust, JavaScript and Python file of the repository.
    pub(crate) fn scan(known: &BTreeSet<&str>) -> Result<Self> {
        let root = paths::root();
        let mut files = Vec::new();
        collect(&root, &mut files)?;
        files.sort();
        let mut citations = Self::default();
        for path in files {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
            citations.scan_text(&name, &text, known);
        }
        Ok(citations)
    }

    fn scan_text(&mut self, file: &str, text: &str, known: &BTreeSet<&str>) {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(list) = comment(line).and_then(|comment| comment.strip_prefix("covers:")) else {
                continue;
            };
            let place = format!("{file}:{}", index + 1);
            let mut any = false;
            for word in list.split([' ', ',', '\t']).filter(|word| !word.is_empty()) {
                any = true;
                if known.contains(word) {
                    self.places.entry(word.to_owned()).or_default().insert(place.clone());
                } else if is_id(word) {
                    self.mistakes.push(format!("{place}: {word} is not in docs/requirements.md"));
                } else {
                    self.mistakes
                        .push(format!("{place}: `{word}` is no id (ids only, as in `LIFE-03 VER-07`)"));
                }
            }
            if !any {
                self.mistakes.push(format!("{place}: cites nothing"));
            }
            if file.ends_with(".rs") && !line.trim_start().starts_with("//!") {
                self.mistakes.extend(misplaced(&lines[index..]).map(|why| format!("{place}: {why}")));
            }
        }
    }
}

/// Returns the reason why a citation in Rust proves nothing: the item under it is not a test, or is a test that never
/// runs.
fn misplaced(lines: &[&str]) -> Option<String> {
    let (mut test, mut ignored) = (false, false);
    for line in lines.iter().map(|line| line.trim()) {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if let Some(attribute) = line.strip_prefix("#[") {
            test |=
                attribute.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == "test");
            ignored |= attribute.starts_with("ignore");
            continue;
        }
        let words = [
            "pub", "fn", "async", "struct", "enum", "impl", "const", "static", "mod", "use", "trait", "type",
        ];
        let first = line.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        if ignored {
            return Some("the test under this citation is ignored".to_owned());
        }
        // Anything else is a line inside some macro that makes tests.
        return (!test && words.contains(&first))
            .then(|| "what stands under this citation is no test".to_owned());
    }
    Some("nothing stands under this citation".to_owned())
}

/// The text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let marked = ["//", "#", "*"].iter().any(|mark| line.starts_with(mark));
    marked.then(|| line.trim_start_matches(['/', '!', '#', '*']).trim_start())
}

/// Source files below `folder`; no build output, no hidden folders, nothing installed.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || name == "node_modules" || entry.path().join("CACHEDIR.TAG").exists() {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() && name != "target" {
            collect(&entry.path(), files)?;
        } else if kind.is_file() && [".rs", ".mjs", ".py"].iter().any(|end| name.ends_with(end)) {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(file: &str, text: &str) -> TestCitations {
        let mut citations = TestCitations::default();
        citations.scan_text(file, text, &BTreeSet::from(["LIFE-03", "VER-07"]));
        citations
    }

    #[test]
    fn citations_above_tests_count() {
        let text = "/// Tells a story.\n/// covers: LIFE-03, VER-07\n#[tokio::test]\nasync fn works() {}\n";
        let found = scan("a.rs", text);
        assert!(found.mistakes.is_empty(), "{:?}", found.mistakes);
        assert_eq!(found.places["LIFE-03"], BTreeSet::from(["a.rs:2".to_owned()]));
        assert_eq!(found.places.len(), 2);
        assert_eq!(scan("b.mjs", "// covers: VER-07\ntest('x')\n").places.len(), 1);
        assert_eq!(scan("c.py", "# covers: VER-07\n").places.len(), 1);
        assert!(scan("d.rs", "//! covers: VER-07\n").mistakes.is_empty());
        assert!(scan("e.rs", "cases! {\n// covers: VER-07\nname => 1,\n}").mistakes.is_empty());
    }

    #[test]
    fn prose_and_strings_are_no_citations() {
        let found = scan("a.rs", "// this covers: nothing\nlet text = \"// covers: LIFE-99\";\n");
        assert!(found.places.is_empty() && found.mistakes.is_empty());
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let mistake = |text: &str| scan("a.rs", text).mistakes.join("; ");
        assert!(mistake("\n/// covers: LIFE-99\n#[test]\nfn x() {}").contains("a.rs:2: LIFE-99 is not in"));
        assert!(mistake("/// covers: LIFE03\n#[test]\nfn x() {}").contains("`LIFE03` is no id"));
        assert!(mistake("/// covers:\n#[test]\nfn x() {}").contains("cites nothing"));
        assert!(mistake("/// covers: VER-07\npub fn x() {}").contains("no test"));
        assert!(mistake("/// covers: VER-07\n#[test]\n#[ignore]\nfn x() {}").contains("ignored"));
        assert!(mistake("/// covers: VER-07\n").contains("nothing stands"));
    }
}
