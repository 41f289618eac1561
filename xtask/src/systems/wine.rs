//! Wine, set up in a folder of its own, and the compiler of programs for Windows.
//!
//! Wine is not Windows. A test that passes here shows that the calls are right; one that fails may show a gap of Wine.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::installed_targets;
use crate::{paths, tools};

pub(super) const TARGET: &str = "x86_64-pc-windows-gnu";
pub(super) const COMPILER: &str = "x86_64-w64-mingw32-gcc";
/// Random numbers for the Rust standard library, which Wine has only since version 9.
const RANDOM_LIBRARY: &str = "#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
    return SystemFunction036(data, (ULONG)length);
}
";

/// Wine with a folder of its own.
#[derive(Debug)]
pub(super) struct Wine {
    program: PathBuf,
    prefix: PathBuf,
}

/// Finds Wine and the compiler, and creates the folder of Wine.
///
/// # Errors
/// If one of them is not installed; the error names the command that installs it.
pub(super) fn prepare() -> Result<Wine> {
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
        let status = wine.command("cmd").args(["/c", "exit"]).status().context("starting Wine")?;
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
    /// Returns a command that starts a program for Windows. New files are private, because Wine adds the entries of the
    /// folder even to an access list that inherits nothing.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(&self.program).arg(program);
        command.env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all").current_dir(paths::root());
        command
    }
}
