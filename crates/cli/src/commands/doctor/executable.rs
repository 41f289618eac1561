//! Check that the system can start a file: its format, the processor for which it was built, and its interpreter.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::check::DoctorFinding;
use crate::program_sources::program_source;

/// Number of bytes of the file that are read.
const HEAD_BYTES: u64 = 64 * 1024;
/// Maximum number of program headers that are examined.
const MAX_PROGRAM_HEADERS: usize = 128;

/// Returns the reason why the system cannot start the file. `None` if nothing is found, or if it cannot be read.
pub(super) fn check(file: &Path, path: Option<&OsStr>) -> Option<DoctorFinding> {
    if cfg!(windows) {
        return None;
    }
    let mut opened = File::open(file).ok()?;
    let length = opened.seek(SeekFrom::End(0)).and_then(|end| opened.rewind().map(|()| end)).ok()?;
    let mut head = Vec::new();
    opened.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let shown = file.display();
    let again = format!("install the server again, so that {shown} is complete");
    if head.is_empty() {
        return Some(DoctorFinding::new(format!("{shown} is empty")).mend(again));
    }
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        return interpreter(file, std::str::from_utf8(line).ok()?, path);
    }
    let other_system = match head.get(..4) {
        Some([b'M', b'Z', ..]) => Some("Windows"),
        Some([0xCF | 0xCE, 0xFA, 0xED, 0xFE]) if !cfg!(target_os = "macos") => Some("macOS"),
        Some(b"\x7fELF") if cfg!(target_os = "macos") => Some("Linux"),
        _ => None,
    };
    let here = format!("{} on {}", system_name(), std::env::consts::ARCH);
    if let Some(system) = other_system {
        let finding = DoctorFinding::new(format!("{shown} is a program for {system}"));
        return Some(finding.mend(format!("install the build of the server for {here}")));
    }
    let program = ElfProgram::parse(&head)?;
    if let Some(machine) = program.other_machine() {
        let finding = DoctorFinding::new(format!("{shown} is built for another processor: {machine}"));
        return Some(finding.mend(format!("install the build of the server for {here}")));
    }
    if program.loaded_end > length {
        let finding = DoctorFinding::new(format!("{shown} is incomplete"))
            .why(format!("it has {length} bytes of {}", program.loaded_end));
        return Some(finding.mend(again));
    }
    let loader = program.loader.filter(|loader| loader.is_absolute() && !loader.exists())?;
    let finding = DoctorFinding::new(format!("{shown} needs {}", loader.display()))
        .why("it was built for a system with another C library");
    Some(finding.mend(format!("install the build of the server for {here}, or the C library that it needs")))
}

fn system_name() -> &'static str {
    match std::env::consts::OS {
        "macos" => "macOS",
        "linux" => "Linux",
        other => other,
    }
}

/// Checks the interpreter that the first line of a script names.
fn interpreter(file: &Path, line: &str, path: Option<&OsStr>) -> Option<DoctorFinding> {
    let shown = file.display();
    if line.ends_with('\r') {
        let finding = DoctorFinding::new(format!("{shown} has the line breaks of Windows (CRLF)"))
            .why(format!("the system looks for an interpreter `{}\\r`", line.trim()));
        return Some(finding.mend(format!("sed -i 's/\\r$//' {shown}")));
    }
    let mut words = line.split_whitespace();
    let interpreter = PathBuf::from(words.next()?);
    if !interpreter.is_file() {
        let finding = DoctorFinding::new(format!("{shown} needs {}", interpreter.display()))
            .why("the first line of the file names an interpreter that does not exist");
        return Some(finding.mend(other_interpreter(file, &interpreter, path)));
    }
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return None;
    }
    // `env -S NAME=VALUE program`
    let program = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    hospes_sandbox::resolve(OsStr::new(program), path, Path::new("/")).err()?;
    let finding = DoctorFinding::new(format!("{shown} needs `{program}`"))
        .why(format!("the first line of the file names it, and there is no program {program} in PATH"));
    Some(finding.mend(other_interpreter(file, Path::new(program), path)))
}

/// Returns what to do about a missing interpreter: name one that is here, or install it.
fn other_interpreter(file: &Path, interpreter: &Path, path: Option<&OsStr>) -> String {
    let name = interpreter.file_name().unwrap_or_default().to_string_lossy();
    // Without its version: `python9` is `python`.
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let names = [name.clone().into_owned(), stem.to_owned(), format!("{stem}3")];
    let is_here = |name: &&String| {
        !stem.is_empty() && hospes_sandbox::resolve(OsStr::new(name), path, Path::new("/")).is_ok()
    };
    match names.iter().find(is_here) {
        Some(found) => {
            format!("correct line 1 of {}: #!/usr/bin/env {found}", file.display())
        }
        None => get_interpreter(interpreter),
    }
}

fn get_interpreter(interpreter: &Path) -> String {
    let name = interpreter.file_name().unwrap_or_default().to_string_lossy();
    program_source(&name).map_or_else(
        || format!("install the interpreter {}, or install the server again", interpreter.display()),
        str::to_owned,
    )
}

/// Part of the header of an ELF file with 64-bit little-endian fields. Other forms are only read as far as the machine.
#[derive(Debug)]
struct ElfProgram {
    machine: u16,
    /// End of the bytes of the file that are needed to start it.
    loaded_end: u64,
    /// Program that loads it, for one that is linked dynamically.
    loader: Option<PathBuf>,
}

impl ElfProgram {
    fn parse(head: &[u8]) -> Option<Self> {
        if !head.starts_with(b"\x7fELF") {
            return None;
        }
        let is_wide = head.get(4) == Some(&2);
        let number = |at: usize, size: usize| -> Option<u64> {
            let bytes = head.get(at..at.checked_add(size)?)?;
            let is_little = head[5] == 1;
            let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            Some(match is_little {
                true => bytes.iter().rev().fold(0, add),
                false => bytes.iter().fold(0, add),
            })
        };
        let machine = u16::try_from(number(18, 2)?).ok()?;
        let mut program = Self { machine, loaded_end: 0, loader: None };
        let table = (number(32, 8), number(54, 2), number(56, 2));
        let (true, (Some(offset), Some(size), Some(count))) = (is_wide, table) else { return Some(program) };
        program.loaded_end = size.saturating_mul(count).saturating_add(offset);
        let headers = usize::try_from(count).unwrap_or_default().min(MAX_PROGRAM_HEADERS);
        for header in 0..headers as u64 {
            let Some(at) = size.checked_mul(header).and_then(|at| at.checked_add(offset)) else { break };
            let Ok(at) = usize::try_from(at) else { break };
            let fields = (number(at, 4), at.checked_add(8), at.checked_add(32));
            let (Some(kind), Some(offset), Some(length)) = fields else { break };
            let (Some(offset), Some(length)) = (number(offset, 8), number(length, 8)) else { break };
            match kind {
                1 => program.loaded_end = program.loaded_end.max(offset.saturating_add(length)),
                3 => {
                    let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
                    let text = range.and_then(|(from, length)| head.get(from..from.checked_add(length)?));
                    let text = text.and_then(|text| std::str::from_utf8(text).ok());
                    program.loader = text.map(|text| PathBuf::from(text.trim_end_matches('\0')));
                }
                _ => {}
            }
        }
        Some(program)
    }

    /// Name of the processor for which the file is built, if this is another one.
    fn other_machine(&self) -> Option<String> {
        let (name, runs_on): (&str, &[&str]) = match self.machine {
            // A processor for x86-64 runs the older ones, too.
            3 => ("x86", &["x86", "x86_64"]),
            40 => ("ARM (32 bits)", &["arm", "aarch64"]),
            62 => ("x86-64", &["x86_64"]),
            183 => ("ARM64", &["aarch64"]),
            243 => ("RISC-V", &["riscv64", "riscv32"]),
            _ => return None,
        };
        (!runs_on.contains(&std::env::consts::ARCH)).then(|| name.to_owned())
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn found(content: &[u8]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        std::fs::write(&file, content).unwrap();
        let finding = check(&file, Some(OsStr::new("/usr/bin:/bin")))?;
        let mend = finding.mend.expect("each finding has a remedy");
        Some(format!("{} {} {mend}", finding.what, finding.why.unwrap_or_default()))
    }

    #[test]
    fn files_that_cannot_be_started_are_explained() {
        for (content, expected) in [
            (&b""[..], "is empty"),
            (b"MZ\x90\0", "a program for Windows"),
            (b"\xCF\xFA\xED\xFE\0", "a program for macOS"),
            (b"#!/bin/sh\r\necho\r\n", "sed -i"),
            (b"#!/none/dnx\n", "install the .NET"),
            (b"#!/none/sh\n", "correct line 1 of /"),
            (b"#!/none/sh9.1\n", ": #!/usr/bin/env sh"),
            (b"#!/none/own\n", "install the interpreter /none/own"),
            (b"#!/usr/bin/env -S A=1 none-such --flag\n", "there is no program none-such in PATH"),
        ] {
            let said = found(content).unwrap_or_else(|| panic!("{expected}"));
            assert!(said.contains(expected), "{said}");
        }
        for content in [&b"#!/bin/sh\n"[..], b"#!/usr/bin/env sh", b"echo no first line\n", b"\x7fELF"] {
            assert_eq!(found(content), None);
        }
    }

    /// This test is a program that runs here: with other fields in its header it is not.
    #[test]
    fn a_program_is_refused_for_its_processor_its_length_and_its_loader() {
        let whole = std::fs::read("/bin/sh").unwrap();
        assert_eq!(found(&whole), None);
        for length in [100, 4096] {
            assert!(found(&whole[..length]).unwrap().contains("is incomplete"));
        }
        let mut other = whole.clone();
        let machine: u8 = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
        other[18] = machine;
        assert!(found(&other).unwrap().contains("another processor"));
        let mut loader = whole;
        let at = loader.windows(7).position(|bytes| bytes == b"ld-linu").unwrap();
        loader[at] = b'x';
        assert!(found(&loader).unwrap().contains("C library"));
        // No content of a header is a reason to panic.
        for at in 0..256.min(loader.len()) {
            let mut changed = loader.clone();
            changed[at] = 0xFF;
            let _any = found(&changed);
            let _any = ElfProgram::parse(&loader[..at]);
        }
    }
}
