//! A copy of the repository to break, its builds, and its tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::switch;
use crate::cargo;
use crate::official::{self, official_schema};
use crate::paths;
use crate::process;

/// Maximum processor time of a mutant's tests, in seconds, so that a busy machine has no effect.
const CPU_SECONDS_LIMIT: u32 = 10;
/// Maximum memory of the tests, in KiB, because an endless loop may fill memory.
const MEMORY_LIMIT_KIB: u32 = 4 << 20;
/// Maximum elapsed time of the tests.
const LIMIT: Duration = Duration::from_secs(300);

/// The tests, as they are run for a mutant.
const SETTINGS: [(&str, &str); 4] = [
    // The properties' own number of cases makes a mutant that is caught slow to catch.
    ("PROPTEST_CASES", "32"),
    ("PROPTEST_MAX_SHRINK_ITERS", "0"),
    // Of one mutant nothing is kept that could catch another.
    ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1"),
    ("PROPTEST_RNG_SEED", "1"),
];

/// A copy of the repository.
#[derive(Debug)]
pub(crate) struct RepositoryCopy {
    pub(crate) folder: PathBuf,
    /// The files as they were, whatever happens to the repository meanwhile.
    originals: BTreeMap<String, Vec<u8>>,
}

/// Result of a build.
pub(crate) enum BuildResult {
    /// The tests' programs, those beside the code first.
    Tests(Vec<PathBuf>),
    /// Compiler errors.
    Broken(Vec<CompileError>),
}

/// A compiler's error.
#[derive(Debug)]
pub(crate) struct CompileError {
    /// True if it is a type error; these are reported before all others.
    pub(crate) of_types: bool,
    /// Files and places in them, in bytes, and whether it is there; the others only have to do with it, and come last.
    pub(crate) places: Vec<(String, usize, bool)>,
    pub(crate) message: String,
}

/// Result of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestRunEnd {
    Passed,
    Failed,
    /// They would not have ended.
    Overdue,
}

impl RepositoryCopy {
    /// Creates the copy or updates it. Unchanged files are not touched, so they are not rebuilt.
    pub(crate) fn make(folder: PathBuf) -> Result<Self> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(paths::root());
        let listed = git.output().context("starting git")?;
        ensure!(
            listed.status.success(),
            "git cannot list the files: {}",
            String::from_utf8_lossy(&listed.stderr)
        );
        let listed = String::from_utf8(listed.stdout)?;
        let files = listed.split('\0').filter(|file| !file.is_empty() && paths::root().join(file).is_file());
        let read = |file: &str| {
            let contents = fs::read(paths::root().join(file)).with_context(|| format!("reading {file}"))?;
            Ok((file.to_owned(), contents))
        };
        let copy = Self { folder, originals: files.map(read).collect::<Result<_>>()? };
        let index = copy.folder.join("files.txt");
        let before = fs::read_to_string(&index).unwrap_or_default();
        for gone in before.lines().filter(|file| !copy.originals.contains_key(*file)) {
            let _gone_already = fs::remove_file(copy.folder.join(gone));
        }
        for file in copy.originals.keys() {
            copy.restore(file)?;
        }
        copy.write("files.txt", copy.originals.keys().cloned().collect::<Vec<_>>().join("\n").as_bytes())?;
        Ok(copy)
    }

    /// Returns the original contents of a file.
    pub(crate) fn original(&self, file: &str) -> Result<&str> {
        let contents =
            self.originals.get(file).with_context(|| format!("{file} is not in the repository"))?;
        std::str::from_utf8(contents).with_context(|| format!("reading {file}"))
    }

    /// Restores the original contents of a file.
    pub(crate) fn restore(&self, file: &str) -> Result<()> {
        self.write(file, self.originals.get(file).context("no such file")?)
    }

    /// Writes a file of the copy.
    pub(crate) fn write(&self, file: &str, contents: &[u8]) -> Result<()> {
        let path = self.folder.join(file);
        if fs::read(&path).is_ok_and(|there| there == contents) {
            return Ok(());
        }
        let folder = path.parent().context("a file in no folder")?;
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        fs::write(&path, contents).with_context(|| format!("writing {}", path.display()))
    }

    /// Builds a package's tests.
    pub(crate) fn build(&self, package: &str) -> Result<BuildResult> {
        let mut command =
            cargo::command(&["test", "--no-run", "--message-format=json", "--package", package]);
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", paths::target()?.join("mutants/build"));
        // What a debugger wants is only in the way.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").stderr(Stdio::piped());
        let built = command.output().context("starting cargo")?;
        let messages: Vec<Value> = String::from_utf8(built.stdout)?
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .context("cargo said something else")?;
        if built.status.success() {
            let mut tests: Vec<_> = messages
                .iter()
                .filter(|said| said["profile"]["test"] == true)
                .filter_map(|said| Some((said["target"]["kind"][0] != "lib", said["executable"].as_str()?)))
                .collect();
            tests.sort_unstable();
            return Ok(BuildResult::Tests(tests.into_iter().map(|(_, path)| PathBuf::from(path)).collect()));
        }
        let mistakes: Vec<_> = messages.iter().filter_map(CompileError::read).collect();
        ensure!(!mistakes.is_empty(), "cargo failed: {}", String::from_utf8_lossy(&built.stderr));
        Ok(BuildResult::Broken(mistakes))
    }

    /// Runs tests with this mutant alive, one program after the other until one fails.
    pub(crate) fn test(&self, tests: &[PathBuf], package: &str, mutant: u32) -> Result<TestRunEnd> {
        let schema = official_schema(&paths::root(), "2024-11-05").ok();
        // `schema/2024-11-05.json` or `schema/2024-11-05/schema.json`.
        let specification = schema
            .as_deref()
            .and_then(|file| file.ancestors().skip(1).find(|folder| folder.ends_with("schema")))
            .and_then(|folder| folder.parent()?.canonicalize().ok());
        for test in tests {
            let mut command = Command::new("sh");
            let script = r#"ulimit -S -t "$1"; ulimit -v "$2"; exec "$3" --quiet"#;
            command
                .args(["-c", script, "sh", &CPU_SECONDS_LIMIT.to_string(), &MEMORY_LIMIT_KIB.to_string()])
                .arg(test);
            command.current_dir(self.folder.join(package)).envs(SETTINGS);
            command.env(switch::VARIABLE, mutant.to_string());
            // The copy stands elsewhere, where the schemas are not beside it.
            if let Some(specification) = &specification {
                command.env(official::VARIABLE, specification);
            }
            let done = process::run(command, "mutant", LIMIT)?;
            match done.code {
                Some(0) => {}
                None if done.overdue || done.signal == Some(process::OUT_OF_TIME) => {
                    return Ok(TestRunEnd::Overdue);
                }
                _ => return Ok(TestRunEnd::Failed),
            }
        }
        Ok(TestRunEnd::Passed)
    }
}

impl CompileError {
    fn read(said: &Value) -> Option<Self> {
        let error = &said["message"];
        if said["reason"] != "compiler-message" || error["level"] != "error" {
            return None;
        }
        // The summary at the end has no place.
        let mut spans: Vec<&Value> = error["spans"].as_array()?.iter().collect();
        spans.sort_by_key(|span| span["is_primary"] != true);
        let place = |mut span: &Value| {
            let main = span["is_primary"] == true;
            while span["expansion"].is_object() {
                span = &span["expansion"]["span"];
            }
            let at = usize::try_from(span["byte_start"].as_u64()?).ok()?;
            Some((span["file_name"].as_str()?.to_owned(), at, main))
        };
        let places: Vec<_> = spans.into_iter().filter_map(place).collect();
        // Mismatched types, a trait or an operator that a type has not, a name that is not there.
        let types = [
            "E0277", "E0308", "E0369", "E0599", "E0425", "E0433", "E0061", "E0600", "E0604", "E0606", "E0614",
        ];
        let of_types = error["code"]["code"].as_str().is_some_and(|code| types.contains(&code));
        (!places.is_empty()).then(|| Self {
            of_types,
            places,
            message: error["rendered"].as_str().unwrap_or_default().chars().take(2000).collect(),
        })
    }
}
