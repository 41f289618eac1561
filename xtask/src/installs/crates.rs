//! The crates as `cargo publish` would upload them. They are not built here: that is `cargo xtask crates`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use flate2::read::GzDecoder;

use super::{Bench, LIMIT};
use crate::checks::CheckList;
use crate::crates::{WorkspaceCrate, workspace_crates};
use crate::{cargo, paths, process};

/// Maximum size of one package. The registry accepts 10 MiB; ours have less than a tenth of it.
const MAX_BYTES: u64 = 1024 * 1024;
/// Files of each package.
const REQUIRED: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// The program.
const PROGRAM: &str = "hospes-cli";

pub(super) fn examine(bench: &Bench, checks: &mut CheckList) -> Result<()> {
    let crates = workspace_crates()?;
    checks.add("crates: all that the program needs are published", check_needed(&crates));
    let published: Vec<&WorkspaceCrate> = crates.iter().filter(|one| one.is_published).collect();

    let target = bench.home("crates")?;
    // The working copy is packaged as it is, from what cargo has already downloaded.
    let mut package =
        cargo::command(&["package", "--no-verify", "--allow-dirty", "--offline", "--locked", "--quiet"]);
    package.args(published.iter().flat_map(|one| ["--package", &one.name]));
    package.env("CARGO_TARGET_DIR", &target);
    process::run(package, "installs cargo package", LIMIT)?.success().context("cargo package")?;

    let used = files_of_program(&paths::program("hospes")?.with_extension("d"))?;
    ensure!(!used.is_empty(), "the program lists no sources");
    for one in published {
        let file = target.join(format!("package/{}-{}.crate", one.name, bench.release.version));
        checks.add(&format!("crates: {}", one.name), check_package(&file, one, &used));
    }
    Ok(())
}

/// Checks that each crate that the program is built of is published, and no crate that only tests use.
fn check_needed(crates: &[WorkspaceCrate]) -> Result<String> {
    let by_name: BTreeMap<&str, &WorkspaceCrate> =
        crates.iter().map(|one| (one.name.as_str(), one)).collect();
    let (mut needed, mut next) = (BTreeSet::new(), vec![PROGRAM]);
    while let Some(name) = next.pop() {
        let one = by_name.get(name).with_context(|| format!("no crate {name}"))?;
        ensure!(one.is_published, "{name} is not published");
        if needed.insert(name) {
            next.extend(one.dependencies.iter().map(String::as_str));
        }
    }
    let of_tests = |one: &&WorkspaceCrate| one.is_published && !needed.contains(one.name.as_str());
    let extra: Vec<&str> = crates.iter().filter(of_tests).map(|one| one.name.as_str()).collect();
    ensure!(extra.is_empty(), "published, but no part of the program: {}", extra.join(", "));
    Ok(format!("{} crates", needed.len()))
}

/// Checks size, files and manifest of a package.
fn check_package(file: &Path, one: &WorkspaceCrate, used: &BTreeSet<PathBuf>) -> Result<String> {
    let size = fs::metadata(file).with_context(|| file.display().to_string())?.len();
    ensure!(size <= MAX_BYTES, "{size} bytes are more than {MAX_BYTES}");
    let files = read_package(file)?;
    for name in REQUIRED {
        ensure!(files.get(Path::new(name)).is_some_and(|text| !text.is_empty()), "no {name}");
    }
    let tests = files.keys().find(|path| path.starts_with("tests"));
    ensure!(tests.is_none(), "it has tests, which need crates that are not published: {tests:?}");
    let folder = one.manifest.parent().context("a manifest has no folder")?;
    let missing: Vec<_> = used
        .iter()
        .filter_map(|path| path.strip_prefix(folder).ok())
        .filter(|path| !files.contains_key(*path))
        .collect();
    ensure!(missing.is_empty(), "files that the program is built of are missing: {missing:?}");
    let manifest: toml::Table =
        files.get(Path::new("Cargo.toml")).map(String::as_str).unwrap_or_default().parse()?;
    for key in ["description", "license", "readme", "rust-version"] {
        ensure!(manifest["package"].get(key).is_some_and(toml::Value::is_str), "no `{key}`");
    }
    Ok(format!("{} files, {} KiB", files.len(), size / 1024))
}

/// Returns the files of a package, by their paths in its folder.
fn read_package(file: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(file)?));
    let mut files = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path: PathBuf = entry.path()?.components().skip(1).collect();
        ensure!(entry.header().entry_type().is_file(), "{} is no file", path.display());
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(files)
}

/// Reads which files of the workspace a program was built of, with all that it includes, from the list of cargo.
fn files_of_program(list: &Path) -> Result<BTreeSet<PathBuf>> {
    let text = fs::read_to_string(list).with_context(|| list.display().to_string())?;
    Ok(parse_list(&text).collect())
}

/// Parses `PROGRAM: FILE FILE`, as make reads it.
fn parse_list(text: &str) -> impl Iterator<Item = PathBuf> {
    let files = text.lines().filter_map(|line| line.split_once(": ")).map(|(_, files)| files.trim());
    let words = files.flat_map(|files| {
        // A blank of a path has a backslash before it.
        files.replace("\\ ", "\0").split(' ').map(|word| word.replace('\0', " ")).collect::<Vec<_>>()
    });
    words.filter(|word| !word.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, is_published: bool, dependencies: &[&str]) -> WorkspaceCrate {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        WorkspaceCrate { name: name.to_owned(), manifest: PathBuf::new(), is_published, dependencies }
    }

    #[test]
    fn the_program_needs_published_crates_and_nothing_else_is_published() {
        let mut crates = vec![one(PROGRAM, true, &["a"]), one("a", true, &[]), one("testkit", false, &["a"])];
        assert_eq!(check_needed(&crates).unwrap(), "2 crates");
        crates[1].is_published = false;
        assert!(check_needed(&crates).unwrap_err().to_string().contains("a is not published"));
        crates[1].is_published = true;
        crates[2].is_published = true;
        assert!(check_needed(&crates).unwrap_err().to_string().contains("testkit"));
    }

    #[test]
    fn lists_of_cargo_are_read() {
        let files: Vec<_> = parse_list("/t/hospes: /a/b.rs /with\\ blank/c.rs\n").collect();
        assert_eq!(files, [PathBuf::from("/a/b.rs"), PathBuf::from("/with blank/c.rs")]);
    }
}
