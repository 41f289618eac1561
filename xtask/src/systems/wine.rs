//! The unit tests of the program for Windows, under Wine.
//!
//! Wine is not Windows. What passes here shows that the calls are right; what fails may be a gap of Wine.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::installed_targets;
use crate::report::PartOutcome;
use crate::{cargo, paths, tools};

const TARGET: &str = "x86_64-pc-windows-gnu";
const COMPILER: &str = "x86_64-w64-mingw32-gcc";
/// Crates whose unit tests run there.
const PACKAGES: [&str; 14] = [
    "hospes",
    "hospes-bundle",
    "hospes-cli",
    "hospes-console",
    "hospes-fs",
    "hospes-host",
    "hospes-model",
    "hospes-oauth",
    "hospes-policy",
    "hospes-proto",
    "hospes-registry",
    "hospes-sandbox",
    "hospes-servers",
    "hospes-store",
];
/// Random numbers for the Rust standard library, which Wine has only since version 9.
const RANDOM_LIBRARY: &str = "#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
    return SystemFunction036(data, (ULONG)length);
}
";

/// Builds the unit tests for Windows and runs them.
pub(super) fn part() -> PartOutcome {
    match prepare() {
        Ok(wine) => wine.run_tests(),
        Err(error) => PartOutcome::CannotRun(format!("{error:#}")),
    }
}

/// Wine with a folder of its own.
struct Wine {
    program: PathBuf,
    prefix: PathBuf,
}

fn prepare() -> Result<Wine> {
    ensure!(installed_targets().contains(TARGET), "the target is not installed: rustup target add {TARGET}");
    ensure!(
        tools::find_command(COMPILER).is_some(),
        "{COMPILER} is not installed: apt-get install gcc-mingw-w64-x86-64"
    );
    let Some(program) = find_wine() else {
        bail!("Wine is not installed: apt-get install wine64");
    };
    let prefix = paths::target()?.join("wine");
    fs::create_dir_all(&prefix).with_context(|| format!("creating {}", prefix.display()))?;
    let wine = Wine { program, prefix };
    let system = wine.prefix.join("drive_c/windows/system32");
    if !system.is_dir() {
        let status = wine
            .command(&[wine.program.as_os_str(), "cmd".as_ref(), "/c".as_ref(), "exit".as_ref()])
            .status();
        let status = status.context("starting Wine")?;
        ensure!(system.is_dir(), "Wine has not created {}: {status}", wine.prefix.display());
    }
    let library = system.join("bcryptprimitives.dll");
    if !library.exists() {
        build_random_library(&wine.prefix, &library)?;
    }
    Ok(wine)
}

fn build_random_library(folder: &Path, library: &Path) -> Result<()> {
    let source = folder.join("random.c");
    fs::write(&source, RANDOM_LIBRARY).with_context(|| format!("writing {}", source.display()))?;
    let mut compiler = Command::new(COMPILER);
    let status = compiler.arg("-shared").arg("-o").arg(library).arg(&source).arg("-ladvapi32").status();
    ensure!(status.context(COMPILER)?.success(), "{COMPILER} cannot compile {}", source.display());
    Ok(())
}

/// Returns the program without the wrapper of Debian, which asks for a 32-bit Wine at each start.
fn find_wine() -> Option<PathBuf> {
    let debian = PathBuf::from("/usr/lib/wine/wine64");
    tools::find_command("wine64")
        .or_else(|| debian.is_file().then_some(debian))
        .or_else(|| tools::find_command("wine"))
}

impl Wine {
    /// A command with the variables of Wine. New files are private, because Wine adds the entries of the folder even to an
    /// access list that inherits nothing.
    fn command(&self, words: &[&std::ffi::OsStr]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 077; exec \"$@\"", "sh"]).args(words);
        command.env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all").current_dir(paths::root());
        command
    }

    fn run_tests(&self) -> PartOutcome {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut arguments = vec!["test", "--locked", "--no-fail-fast", "--target", TARGET, "--lib", "--bins"];
        for package in PACKAGES {
            arguments.extend(["--package", package]);
        }
        let mut command = self.command(&[cargo.as_os_str()]);
        cargo::in_repository(&mut command, &arguments);
        command
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", COMPILER)
            .env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", &self.program);
        match command.status() {
            Ok(status) if status.success() => {
                PartOutcome::Passed(format!("{} crates under Wine", PACKAGES.len()))
            }
            Ok(status) => PartOutcome::Failed(format!("unit tests under Wine: {status}")),
            Err(error) => PartOutcome::CannotRun(format!("cargo: {error}")),
        }
    }
}
