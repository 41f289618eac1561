//! A built program: what it is for and what it requires, read from its file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Architecture, BinaryFormat, Endianness, Object as _};

use crate::package::release::{PLATFORMS, Platform};

/// Newest minor version of glibc 2 that a program of a release may require.
const MAX_GLIBC: u32 = 17;

/// The C library of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CLibrary {
    /// None: the program is statically linked.
    Static,
    /// glibc 2 of this minor version or later.
    Glibc(u32),
    /// That of the system: macOS, Windows.
    System,
}

/// A built program.
#[derive(Debug)]
pub(crate) struct ProgramFile {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Its platform.
    pub(crate) platform: &'static Platform,
    /// Requirements of the program.
    pub(crate) library: CLibrary,
    /// True if it also requires the library of GCC, which Rust links for unwinding.
    pub(crate) needs_libgcc: bool,
}

impl ProgramFile {
    /// Examines a file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let data = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Self::examine(path, &data).with_context(|| format!("{} cannot be packaged", path.display()))
    }

    fn examine(path: &Path, data: &[u8]) -> Result<Self> {
        let file = object::File::parse(data)?;
        let processor = match file.architecture() {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
            other => bail!("no packages are made for the processor {other:?}"),
        };
        let (system, (library, needs_libgcc)) = match file.format() {
            BinaryFormat::Elf => ("unknown-linux", elf_libraries(data)?),
            BinaryFormat::MachO => ("apple-darwin", (CLibrary::System, false)),
            BinaryFormat::Pe => ("pc-windows-msvc", (CLibrary::System, false)),
            other => bail!("it is a {other:?} file"),
        };
        let rust = format!("{processor}-{system}");
        let platform = PLATFORMS.iter().find(|platform| platform.rust == rust);
        let platform = platform.with_context(|| format!("no packages are made for {rust}"))?;
        Ok(Self { path: path.to_path_buf(), platform, library, needs_libgcc })
    }

    /// A file that stands in for the program of another system, in tests of packages.
    pub(crate) fn stand_in(path: PathBuf, platform: &'static Platform) -> Self {
        let library = if platform.debian.is_some() { CLibrary::Static } else { CLibrary::System };
        Self { path, platform, library, needs_libgcc: false }
    }

    /// The Rust target.
    pub(crate) fn target(&self) -> String {
        match self.library {
            CLibrary::Static => format!("{}-musl", self.platform.rust),
            CLibrary::Glibc(_) => format!("{}-gnu", self.platform.rust),
            CLibrary::System => self.platform.rust.to_owned(),
        }
    }

    /// An error if the program does not run on every Linux that the packages are for.
    pub(crate) fn check_portable(&self) -> Result<()> {
        if let CLibrary::Glibc(minor) = self.library {
            ensure!(
                minor <= MAX_GLIBC,
                "{} requires glibc 2.{minor}, and a release may require 2.{MAX_GLIBC} at most",
                self.path.display()
            );
        }
        Ok(())
    }

    /// Returns true if the program runs on this machine.
    pub(crate) fn is_native(&self) -> bool {
        self.run(&["--version"]).is_ok()
    }

    /// Runs the program and returns its standard output.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        // The extension would be looked for in PATH otherwise.
        let path = fs::canonicalize(&self.path)?;
        let output = Command::new(path).args(arguments).output()?;
        ensure!(output.status.success(), "hospes {}: {}", arguments.join(" "), output.status);
        Ok(output.stdout)
    }
}

/// The C library of an ELF program, and true if it requires the library of GCC.
fn elf_libraries(data: &[u8]) -> Result<(CLibrary, bool)> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    if !segments.iter().any(|segment| segment.p_type(endian) == object::elf::PT_INTERP) {
        return Ok((CLibrary::Static, false));
    }
    let sections = header.sections(endian, data)?;
    let (mut needed, link) =
        sections.gnu_verneed(endian, data)?.context("it names no versions of its libraries")?;
    let strings = sections.strings(endian, data, link)?;
    let (mut newest, mut needs_libgcc) = (None, false);
    while let Some((library, mut versions)) = needed.next()? {
        needs_libgcc |= library.file(endian, strings)? == b"libgcc_s.so.1";
        while let Some(version) = versions.next()? {
            let name = version.name(endian, strings)?;
            let minor = std::str::from_utf8(name).ok().and_then(glibc_minor);
            newest = newest.max(minor);
        }
    }
    let library = newest.map(CLibrary::Glibc).context("it requires a C library other than glibc")?;
    Ok((library, needs_libgcc))
}

/// The minor version in `GLIBC_2.17` or `GLIBC_2.2.5`.
fn glibc_minor(name: &str) -> Option<u32> {
    name.strip_prefix("GLIBC_2.")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_what_it_is_for() {
        let own = std::env::current_exe().unwrap();
        let read = ProgramFile::read(&own).unwrap();
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            assert!(matches!(read.library, CLibrary::Glibc(minor) if minor >= 17), "{read:?}");
            assert_eq!(read.target(), format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
        }
    }

    #[test]
    fn what_is_no_program_is_refused() {
        for data in [&b"#!/bin/sh\n"[..], b"", b"\x7fELF", &[0; 4096]] {
            assert!(ProgramFile::examine(Path::new("x"), data).is_err(), "{data:?}");
        }
    }

    #[test]
    fn a_newer_library_than_a_release_may_require_is_an_error() {
        let program =
            |library| ProgramFile { path: "p".into(), platform: &PLATFORMS[0], library, needs_libgcc: false };
        program(CLibrary::Static).check_portable().unwrap();
        program(CLibrary::Glibc(17)).check_portable().unwrap();
        let error = program(CLibrary::Glibc(34)).check_portable().unwrap_err().to_string();
        assert!(error.contains("requires glibc 2.34"), "{error}");
        assert_eq!(glibc_minor("GLIBC_2.2.5"), Some(2));
        assert_eq!(glibc_minor("GLIBC_PRIVATE"), None);
    }
}
