//! Tests as they stand in the source, whether or not a system compiles them.

use std::fmt;
use std::fs;
use std::path::Path;

/// A test function and the module of its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourceTest {
    /// Path of the file's module, such as `store::file`. Empty for the root.
    module: String,
    name: String,
}

impl SourceTest {
    /// Returns the tests below a folder of source.
    pub(super) fn all_below(source: &Path) -> Vec<Self> {
        let mut tests = Vec::new();
        add_folder(source, "", &mut tests);
        tests.sort();
        tests
    }

    /// Returns true if a test program calls this test by the name. The file may have modules of its own. A file such as
    /// `era_tests.rs` is named by an attribute of a module elsewhere in its folder.
    pub(super) fn is(&self, name: &str) -> bool {
        let Some((module, function)) = name.rsplit_once("::") else {
            return self.module.is_empty() && name == self.name;
        };
        let own = match self.module.ends_with("_tests") {
            true => self.module.rsplit_once("::").map_or("", |(folder, _)| folder),
            false => &self.module,
        };
        let below = module.strip_prefix(own);
        function == self.name
            && below.is_some_and(|rest| own.is_empty() || rest.is_empty() || rest.starts_with("::"))
    }
}

impl fmt::Display for SourceTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::…::{}", self.module, self.name)
    }
}

fn add_folder(folder: &Path, module: &str, tests: &mut Vec<SourceTest>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let within =
            |name: &str| if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") };
        if path.is_dir() {
            // Each file there is the root of a program.
            let is_programs = module.is_empty() && stem == "bin";
            add_folder(&path, &if is_programs { String::new() } else { within(&stem) }, tests);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let is_programs = folder.ends_with("src/bin");
            let module = match stem.as_str() {
                "lib" | "main" | "mod" => module.to_owned(),
                _ if is_programs => String::new(),
                stem => within(stem),
            };
            let text = fs::read_to_string(&path).unwrap_or_default();
            tests.extend(
                names(&text).map(|name| SourceTest { module: module.clone(), name: name.to_owned() }),
            );
        }
    }
}

/// Returns the names of the functions with an attribute of a test.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        is_test |= ["#[test]", "#[tokio::test]", "#[tokio::test("].iter().any(|one| line.starts_with(one));
        let (before, rest) = line.split_once("fn ")?;
        let is_function = before.is_empty() || before.ends_with(' ') && !before.contains("//");
        let found = is_test && is_function;
        is_test &= !found;
        found.then(|| rest.split(['(', '<']).next().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_by_their_attributes() {
        let text = "fn helper() {}\n#[test]\n#[cfg(unix)]\nfn one() {}\n    #[tokio::test(start_paused = true)]\n    async fn two() {\n\
            fn inner() {}\n}\n#[test]\n/// A fn of sorts.\nfn three(value in 0..9) {}\n";
        assert_eq!(names(text).collect::<Vec<_>>(), ["one", "two", "three"]);
    }

    #[test]
    fn a_result_belongs_to_the_file_of_its_module() {
        let test = |module: &str| SourceTest { module: module.to_owned(), name: "one".to_owned() };
        assert!(test("a::b").is("a::b::tests::one") && test("a::b").is("a::b::one"));
        assert!(test("").is("one") && test("").is("tests::one"));
        assert!(test("a::b_tests").is("a::b::tests::one") && !test("a::b_tests").is("c::one"));
        for other in ["a::bc::tests::one", "a::one", "a::b::tests::two", "one"] {
            assert!(!test("a::b").is(other), "{other}");
        }
    }

    #[test]
    fn the_tests_of_this_file_are_found() {
        let found = SourceTest::all_below(&crate::paths::root().join("xtask/src"));
        let own = "systems::source_tests::tests::the_tests_of_this_file_are_found";
        assert_eq!(found.iter().filter(|test| test.is(own)).count(), 1);
    }
}
