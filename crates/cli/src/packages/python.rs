//! Packages of PyPI: a virtual environment, filled by a lock file with hashes. Nothing is built, so no code of a package
//! runs before the server is started.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::process::InstallerRun;
use super::{InstalledPackage, PackageFolder, choose_program, files, text};
use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::progress::StepBar;

/// Maximum time of each step: the environment, the lock file, the installation.
const STEP_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Name of the virtual environment.
const ENVIRONMENT: &str = "venv";
/// Name of the lock file.
const LOCK_FILE: &str = "requirements.txt";

fn scripts(folder: &Path) -> PathBuf {
    folder.join(ENVIRONMENT).join(if cfg!(windows) { "Scripts" } else { "bin" })
}

/// Returns the file of a script.
pub(super) fn script(folder: &Path, name: &str) -> PathBuf {
    scripts(folder).join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

pub(super) async fn install(folder: &PackageFolder, bar: &StepBar) -> CliResult<InstalledPackage> {
    let package = &folder.package;
    let version = package.version.as_deref().unwrap_or_default();
    let requirement = format!("{}=={version}\n", package.identifier);
    std::fs::write(folder.path.join("requirements.in"), requirement)
        .map_err(|error| CliError::usage("the package cannot be installed").with_cause(&error))?;
    let python = text(&script(&folder.path, "python"));
    let uv = || InstallerRun::new("uv", &folder.path, STEP_TIMEOUT).env("UV_NO_PROGRESS", "1");
    let index: Vec<String> =
        folder.registry.iter().flat_map(|base| ["--default-index".to_owned(), base.clone()]).collect();
    let without_builds = |error: CliError| {
        match error.hint {
        Some(_) => error,
        None => error.hint(
            "nothing was added; if a package has to be built from its sources, which runs its code, use --no-install",
        ),
    }
    };
    uv().args(["venv", "--no-project", "--quiet", ENVIRONMENT]).run(bar).await?;
    let lock =
        ["pip", "compile", "requirements.in", "--output-file", LOCK_FILE, "--generate-hashes", "--quiet"];
    let locking = uv()
        .args(lock)
        .args(["--no-build", "--no-header", "--no-annotate", "--python", &python])
        .args(&index);
    locking.run(bar).await.map_err(without_builds)?;
    check_lock(folder)?;
    // Copies: a change in the cache of uv must not change what is installed.
    let install = ["pip", "install", "--requirement", LOCK_FILE, "--require-hashes", "--no-build", "--quiet"];
    let installing = uv()
        .args(install)
        .args(["--link-mode", "copy", "--compile-bytecode", "--python", &python])
        .args(&index);
    installing.run(bar).await.map_err(without_builds)?;
    let metadata = metadata_folder(folder)
        .ok_or_else(|| CliError::usage(format!("uv has not installed {}", printable(&package.identifier))))?;
    let names = script_names(&files::read_text(&metadata.join("entry_points.txt")).unwrap_or_default());
    let chosen = choose_program(package, &names)?;
    let file = files::below(&scripts(&folder.path), chosen)
        .map(|_| script(&folder.path, chosen))
        .filter(|file| file.is_file())
        .ok_or_else(|| super::no_program(package, &[]))?;
    Ok(InstalledPackage {
        command: vec![text(&file)],
        digest: installed_digest(folder, &metadata),
        ..InstalledPackage::default()
    })
}

/// Checks the lock file: all hashes of the package are among those that the index named before.
fn check_lock(folder: &PackageFolder) -> CliResult {
    let lock = files::read_text(&folder.path.join(LOCK_FILE))
        .ok_or_else(|| CliError::usage("uv has written no lock file that can be read"))?;
    let locked = locked_hashes(&lock, &folder.package.identifier);
    let known: BTreeSet<&str> = folder.files.iter().map(|(_, digest)| digest.as_str()).collect();
    let name = printable(&folder.package.identifier);
    if locked.is_empty() {
        return Err(CliError::usage(format!("the lock file of uv has no hash of {name}")));
    }
    match locked.iter().find(|hash| !known.is_empty() && !known.contains(hash.as_str())) {
        None => Ok(()),
        Some(hash) => Err(CliError::usage(format!(
            "the index offers a file of {name} that it did not name before: {}",
            printable(hash)
        ))
        .hint("nothing was added; the package was changed or exchanged on the way")),
    }
}

/// Returns the hashes of a package in a lock file, as `sha256:HEX`.
fn locked_hashes(lock: &str, package: &str) -> Vec<String> {
    let mut is_meant = false;
    let mut hashes = Vec::new();
    for line in lock.lines() {
        let line = line.trim_end_matches('\\').trim_end();
        match line.trim_start().strip_prefix("--hash=") {
            Some(hash) if is_meant => hashes.push(hash.to_owned()),
            Some(_) => {}
            None => {
                let name = line.split("==").next().unwrap_or_default().trim();
                is_meant = files::normalized(name) == files::normalized(package);
            }
        }
    }
    hashes
}

/// Returns the folder with the metadata of the installed package.
fn metadata_folder(folder: &PackageFolder) -> Option<PathBuf> {
    let library = folder.path.join(ENVIRONMENT).join(if cfg!(windows) { "Lib" } else { "lib" });
    let mut places = vec![library.join("site-packages")];
    places
        .extend(std::fs::read_dir(&library).ok()?.flatten().map(|entry| entry.path().join("site-packages")));
    let wanted = files::normalized(&folder.package.identifier);
    let folders = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
    folders.map(|entry| entry.path()).find(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = name.strip_suffix(".dist-info").and_then(|stem| stem.split('-').next());
        stem.is_some_and(|stem| files::normalized(stem) == wanted)
    })
}

/// Returns the names of the programs in a file `entry_points.txt`.
fn script_names(text: &str) -> Vec<String> {
    let mut is_meant = false;
    let mut names = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_meant = line == "[console_scripts]";
        } else if let Some((name, _)) = line.split_once('=').filter(|_| is_meant) {
            names.push(name.trim().to_owned());
        }
    }
    names
}

/// Returns the hash of the wheel that was installed: the one with the tags of its metadata.
fn installed_digest(folder: &PackageFolder, metadata: &Path) -> Option<String> {
    let wheel = files::read_text(&metadata.join("WHEEL"))?;
    let installed: BTreeSet<&str> =
        wheel.lines().filter_map(|line| line.strip_prefix("Tag:")).map(str::trim).collect();
    let mut same = folder.files.iter().filter(|(name, _)| {
        let tags = wheel_tags(name);
        !tags.is_empty() && tags.iter().map(String::as_str).collect::<BTreeSet<_>>() == installed
    });
    // Builds of one version have the same tags.
    match (same.next(), same.next()) {
        (Some((_, digest)), None) => Some(digest.clone()),
        _ => None,
    }
}

/// Returns the tags in the name of a wheel: `x-1-py2.py3-none-any.whl` has two.
fn wheel_tags(file: &str) -> Vec<String> {
    let Some(stem) = file.strip_suffix(".whl") else { return Vec::new() };
    let parts: Vec<&str> = stem.rsplitn(4, '-').collect();
    let [platforms, abis, pythons, _] = parts.as_slice() else { return Vec::new() };
    let mut tags = Vec::new();
    for python in pythons.split('.') {
        for abi in abis.split('.') {
            tags.extend(platforms.split('.').map(|platform| format!("{python}-{abi}-{platform}")));
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_one_package_are_read_from_a_lock_file() {
        let lock = "anyio==4.1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\ntime-mcp==1.0 \\\n    --hash=sha256:cc\n";
        assert_eq!(locked_hashes(lock, "Time_MCP"), ["sha256:cc"]);
        assert_eq!(locked_hashes(lock, "anyio"), ["sha256:aa", "sha256:bb"]);
        assert!(locked_hashes(lock, "time").is_empty());
    }

    #[test]
    fn programs_and_tags_are_read() {
        let text = "[gui_scripts]\nw = a:b\n\n[console_scripts]\nrun = a:main\nother=b:c\n";
        assert_eq!(script_names(text), ["run", "other"]);
        assert_eq!(wheel_tags("x-1.0-py2.py3-none-any.whl"), ["py2-none-any", "py3-none-any"]);
        assert!(wheel_tags("x-1.0.tar.gz").is_empty());
    }
}
