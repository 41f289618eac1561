//! `cargo xtask package`: the packages of the program, one for each way to get it, below `target/packages`.
//!
//! Everything is made of programs that were built before. What a package claims about its program, such as the target, the
//! oldest C library and the tags of a wheel, is read from the program's own file.

mod archive;
mod container;
mod debian;
mod manifests;
mod npm;
mod program;
mod release;
mod sbom;
mod tar_gz;
mod templates;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::paths;
use crate::report::say;
pub(crate) use manifests::make as make_manifests;
pub(crate) use program::ProgramFile;
pub(crate) use release::{PLATFORMS, Release, hash_file};

/// Options of `cargo xtask package`.
#[derive(Debug, Args)]
pub(crate) struct PackageOptions {
    /// A built program. May be repeated, once for each target.
    #[arg(long = "program", value_name = "FILE", required = true)]
    programs: Vec<PathBuf>,
    /// URL of the folder of the release's files. Without it no manifests for Homebrew, Scoop and winget are made.
    #[arg(long, value_name = "URL")]
    download_url: Option<String>,
    /// URL of the project, for these manifests.
    #[arg(long, value_name = "URL", requires = "download_url")]
    homepage: Option<String>,
    /// Fails if a Linux program requires a newer C library than the packages of a release may: 2.17, or none at all.
    #[arg(long)]
    portable: bool,
    /// Folder for the packages. It is emptied. Default: target/packages.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Compression level of archives, 1 to 9.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=9))]
    compression: u32,
}

/// File that marks a folder of packages, which the next run may empty.
const FOLDER_MARKER: &str = ".hospes-packages";

/// Runs the chore.
pub(crate) fn run(options: &PackageOptions) -> Result<()> {
    let folder = match &options.output {
        Some(folder) => folder.clone(),
        None => paths::target()?.join("packages"),
    };
    let programs: Vec<ProgramFile> =
        options.programs.iter().map(|file| ProgramFile::read(file)).collect::<Result<_>>()?;
    if options.portable {
        for program in &programs {
            program.check_portable()?;
        }
    }
    let release = Release::new(&folder, options.compression)?;
    make(&release, &programs)?;
    if let Some(url) = &options.download_url {
        manifests::make(&release, &programs, url, options.homepage.as_deref().unwrap_or(url))?;
    } else {
        say!("no --download-url: no manifests for Homebrew, Scoop and winget");
    }
    release.write_checksums()?;
    for file in release.files()? {
        say!("{}", file.display());
    }
    Ok(())
}

/// Makes all packages that need no URL.
pub(crate) fn make(release: &Release, programs: &[ProgramFile]) -> Result<()> {
    for (index, program) in programs.iter().enumerate() {
        let twin = programs[..index].iter().find(|other| other.platform.npm == program.platform.npm);
        ensure!(twin.is_none(), "two programs for {}", program.platform.npm);
    }
    let native = programs.iter().find(|program| program.is_native()).context(
        "none of the programs runs on this machine, and one must print the manual and the completions",
    )?;
    prepare_folder(&release.folder)?;
    let work = release.folder.join("work");
    let extras = archive::write_extras(&work, native)?;
    for program in programs {
        say!("packages for {}", program.target());
        archive::make(release, program, &extras)?;
        npm::make_platform(release, program)?;
        wheel::make(release, program, &work)?;
        sbom::make(release, program)?;
        if program.platform.debian.is_some() {
            debian::make(release, program, &extras, &work)?;
        }
    }
    npm::make_wrapper(release)?;
    container::make(release, programs)?;
    fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()))
}

/// Empties the folder, unless it holds files of somebody else.
fn prepare_folder(folder: &Path) -> Result<()> {
    let marker = folder.join(FOLDER_MARKER);
    if folder.exists() {
        let is_empty = fs::read_dir(folder)?.next().is_none();
        ensure!(
            is_empty || marker.exists(),
            "{} is neither empty nor a folder of packages; choose another --output",
            folder.display()
        );
        fs::remove_dir_all(folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    fs::create_dir_all(folder.join("work")).with_context(|| format!("creating {}", folder.display()))?;
    fs::write(marker, "").context("marking the folder of packages")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_somebody_else_is_not_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        prepare_folder(&out).unwrap();
        fs::write(out.join("old"), "").unwrap();
        prepare_folder(&out).unwrap();
        assert!(!out.join("old").exists());
        fs::write(folder.path().join("mine"), "").unwrap();
        let error = prepare_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("choose another --output") && folder.path().join("mine").exists(), "{error}");
    }
}
