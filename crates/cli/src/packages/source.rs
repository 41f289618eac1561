//! Packages of cargo and Go, which are compiled on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hospes_registry::{InstallStep, RegistryPackage, RegistryType, source_install};

use super::process::InstallerRun;
use super::{InstalledPackage, PackageFolder, choose_program, go, no_program, text};
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::printable;
use crate::progress::StepBar;

/// Maximum time of a compilation.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Returns the program that is likely, by the name of the package.
pub(super) fn expected_program(folder: &Path, package: &RegistryPackage) -> PathBuf {
    source_install(package, folder).0
}

/// Formats the step that compiles the package.
pub(super) fn describe(folder: &Path, package: &RegistryPackage) -> String {
    match source_install(package, folder).1 {
        InstallStep::Run { command, args, env } => {
            let env = env.iter().map(|(name, value)| format!("{name}={value}"));
            env.chain(std::iter::once(command)).chain(args).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

pub(super) async fn install(folder: &PackageFolder, bar: &StepBar) -> CliResult<InstalledPackage> {
    let package = &folder.package;
    let (expected, step) = source_install(package, &folder.path);
    let InstallStep::Run { command, args, env } = step else {
        return Err(CliError::usage("packages of this type are not compiled"));
    };
    let run = InstallerRun::new(&command, &folder.path, COMPILE_TIMEOUT).args(args).envs(env);
    run.env("CARGO_TERM_PROGRESS_WHEN", "never").run(bar).await?;
    let program =
        if expected.is_file() { expected } else { other_program(package, &folder.path.join("bin"))? };
    let digest = match package.registry_type {
        RegistryType::Go => checked_hash(folder, &program).await?,
        _ => None,
    };
    Ok(InstalledPackage { command: vec![text(&program)], digest, ..InstalledPackage::default() })
}

/// Returns the hash of the module that the program was built from. It is the one that was shown, if one was.
async fn checked_hash(folder: &PackageFolder, program: &Path) -> CliResult<Option<String>> {
    let built = go::module_hash(program).await;
    match (&folder.digest, built) {
        (Some(expected), Some(built)) if *expected != built => Err(CliError::new(
            FailureCode::Unreachable,
            format!("Go has built another module: its hash is {}, expected {expected}", printable(&built)),
        )
        .hint("the module was changed or exchanged; ask its publisher")),
        (_, built) => Ok(built),
    }
}

/// Returns the program of a package that is named differently.
fn other_program(package: &RegistryPackage, binaries: &Path) -> CliResult<PathBuf> {
    let entries = std::fs::read_dir(binaries).map_err(|_| no_program(package, &[]))?;
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    Ok(binaries.join(choose_program(package, &names)?))
}
