//! Paths of the repository, the build output and the tools below it.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    // `cargo run` sets the variable; the compiled-in value serves a program started by hand.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf)
}

/// Cargo's target directory: the marked folder that this very program was built into.
pub(crate) fn target() -> Result<PathBuf> {
    let program = env::current_exe().context("this program's own path is unknown")?;
    let marked = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    Ok(marked.map_or_else(|| root().join("target"), Path::to_path_buf))
}

/// The folder for outside programs, their scratch homes and their logs.
pub(crate) fn tools() -> Result<PathBuf> {
    Ok(target()?.join("tools"))
}

/// A program of the workspace, where `cargo build` puts it.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    Ok(target()?.join("debug").join(format!("{name}{}", env::consts::EXE_SUFFIX)))
}

/// Returns true if a check that could not be run is a failure.
pub(crate) fn is_ci() -> bool {
    env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}
