//! Packages of npm: installed with a lock file, and without the scripts of packages.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hospes_registry::{RegistryPackage, npm_programs};
use serde_json::{Value, json};

use super::process::InstallerRun;
use super::{InstalledPackage, PackageFolder, choose_program, files, text};
use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::progress::StepBar;

/// Maximum time of an installation.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum number of names that are recorded of packages with scripts or without a hash.
const MAX_NAMES: usize = 20;

fn package_folder(folder: &Path, package: &RegistryPackage) -> PathBuf {
    folder.join("node_modules").join(&package.identifier)
}

/// Returns the command that is likely, by the programs that the registry names.
pub(super) fn expected_command(
    folder: &Path,
    package: &RegistryPackage,
    programs: &[(String, String)],
) -> Vec<String> {
    let names: Vec<String> = programs.iter().map(|(name, _)| name.clone()).collect();
    let chosen = choose_program(package, &names).ok();
    let path = programs.iter().find(|(name, _)| Some(name) == chosen).map_or("index.js", |(_, path)| path);
    let place = package_folder(folder, package);
    let file = files::below(&place, path).unwrap_or(place);
    vec!["node".to_owned(), text(&file)]
}

pub(super) async fn install(folder: &PackageFolder, bar: &StepBar) -> CliResult<InstalledPackage> {
    let package = &folder.package;
    let version = package.version.as_deref().unwrap_or("latest");
    let manifest = json!({
        "name": "hospes-server", "private": true, "dependencies": { (package.identifier.as_str()): version },
    });
    files::write_json(&folder.path.join("package.json"), &manifest)
        .map_err(|error| CliError::usage("the package cannot be installed").with_cause(&error))?;
    // The options win over those of the user's `.npmrc`, which names mirrors and their credentials.
    let mut run = InstallerRun::new("npm", &folder.path, INSTALL_TIMEOUT).args([
        "install",
        "--ignore-scripts",
        "--global=false",
        "--package-lock=true",
        "--install-strategy=hoisted",
        "--omit=dev",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--no-progress",
        "--loglevel=error",
    ]);
    if let Some(registry) = &folder.registry {
        run = run.args(["--registry", registry]);
    }
    run.run(bar).await?;
    let mut installed = check_lock(folder, version)?;
    installed.command = command(folder)?;
    Ok(installed)
}

/// Checks the lock file: the package is the one of the recorded hash.
fn check_lock(folder: &PackageFolder, version: &str) -> CliResult<InstalledPackage> {
    let package = &folder.package;
    let name = printable(&package.identifier);
    let lock: Value = files::read_json(&folder.path.join("package-lock.json"))
        .ok_or_else(|| CliError::usage("npm has written no lock file that can be read"))?;
    let packages = lock["packages"].as_object().cloned().unwrap_or_default();
    let own = packages.get(&format!("node_modules/{}", package.identifier));
    let own = own.ok_or_else(|| CliError::usage(format!("npm has not installed {name}")))?;
    if own["version"].as_str() != Some(version) {
        return Err(CliError::usage(format!(
            "npm has installed another version of {name} than {}",
            printable(version)
        )));
    }
    let integrity = own["integrity"].as_str().unwrap_or_default();
    if let Some(digest) = &folder.digest
        && !integrity.split_whitespace().any(|one| one == digest)
    {
        return Err(CliError::usage(format!(
            "the archive of {name} is not the one that its registry names: expected {}, got {}",
            printable(digest),
            printable(if integrity.is_empty() { "no hash" } else { integrity })
        ))
        .hint("nothing was added; the package was changed or exchanged on the way"));
    }
    let mut installed = InstalledPackage::default();
    for (path, entry) in packages.iter().filter(|(path, _)| !path.is_empty()) {
        let short = path.rsplit("node_modules/").next().unwrap_or(path).to_owned();
        if entry["hasInstallScript"] == true && installed.skipped_scripts.len() < MAX_NAMES {
            installed.skipped_scripts.push(short.clone());
        }
        let has_hash = entry["integrity"].is_string() || entry["inBundle"] == true;
        if !has_hash && installed.unhashed.len() < MAX_NAMES {
            installed.unhashed.push(short);
        }
    }
    Ok(installed)
}

/// Returns the command of the installed package: that of its program, by its first line.
fn command(folder: &PackageFolder) -> CliResult<Vec<String>> {
    let package = &folder.package;
    let place = package_folder(&folder.path, package);
    let manifest: Value = files::read_json(&place.join("package.json")).unwrap_or_default();
    let programs = npm_programs(&manifest);
    let names: Vec<String> = programs.iter().map(|(name, _)| name.clone()).collect();
    let chosen = choose_program(package, &names)?;
    let path = programs.iter().find(|(name, _)| name == chosen).map_or("", |(_, path)| path);
    let wrong = || {
        CliError::usage(format!(
            "the package {} names the program {}, which is no file in it",
            printable(&package.identifier),
            printable(path)
        ))
    };
    let file = files::below(&place, path).filter(|file| file.is_file()).ok_or_else(wrong)?;
    let mut command = match interpreter(&first_line(&file)) {
        Some(words) => words,
        None if is_script_of_node(&file) => vec!["node".to_owned()],
        // A program of its own, or a script of another interpreter: npm has made it executable.
        None => Vec::new(),
    };
    command.push(text(&file));
    Ok(command)
}

fn first_line(file: &Path) -> String {
    use std::io::Read as _;
    let mut start = Vec::new();
    let opened = std::fs::File::open(file);
    let _length = opened.and_then(|file| file.take(512).read_to_end(&mut start));
    String::from_utf8_lossy(&start).lines().next().unwrap_or_default().to_owned()
}

fn is_script_of_node(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "js" || extension == "mjs" || extension == "cjs")
}

/// Reads the first line of a script for Node: `#!/usr/bin/env node`, also with options after `-S`.
fn interpreter(line: &str) -> Option<Vec<String>> {
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let mut program = words.next()?;
    if program.ends_with("/env") {
        program = words.next()?;
        if program == "-S" {
            program = words.next()?;
        }
    }
    let is_node = program == "node" || program.ends_with("/node");
    is_node.then(|| std::iter::once("node").chain(words).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_node_are_started_with_node_and_its_options() {
        let words = |line: &str| interpreter(line).map(|words| words.join(" "));
        assert_eq!(words("#!/usr/bin/env node").as_deref(), Some("node"));
        assert_eq!(words("#!/usr/bin/env -S node --no-warnings").as_deref(), Some("node --no-warnings"));
        assert_eq!(words("#!/usr/local/bin/node").as_deref(), Some("node"));
        for other in ["#!/usr/bin/env bun", "#!/bin/sh", "\"use strict\";", ""] {
            assert_eq!(words(other), None, "{other}");
        }
    }
}
