//! Manual pages, as two programs that format them judge them.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they skip")]

use crate::support;

use std::path::PathBuf;
use std::process::Command;

use support::{House, installed, text};

/// Writes all pages.
fn pages(house: &House) -> Vec<PathBuf> {
    let ran = house.run(&["man", "--output", "pages/man1"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    let files = std::fs::read_dir(house.path("pages/man1")).unwrap();
    let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    assert!(files.len() > 30, "{files:?}");
    files
}

#[test]
fn the_page_of_the_program_is_printed_and_all_are_written() {
    let house = House::new();
    let page = house.run(&["man"]);
    assert_eq!(page.code, Some(0));
    assert!(page.stdout.contains(".TH HOSPES 1") && page.stdout.contains(".SH NOTES"), "{page:?}");
    pages(&house);
    let call = house.read("pages/man1/hospes-call.1");
    assert!(call.contains("outer.inner=x    a member of an object"), "{call}");
    house.write("taken", "");
    let ran = house.run(&["man", "--output", "taken"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cannot write taken"), "{ran:?}");
}

#[test]
fn mandoc_finds_no_mistake() {
    let Some(mandoc) = installed("mandoc") else { return };
    let house = House::new();
    for page in pages(&house) {
        let ran = Command::new(&mandoc).args(["-T", "lint", "-W", "style"]).arg(&page).output().unwrap();
        let said = String::from_utf8(ran.stdout).unwrap();
        let findings: Vec<&str> = said.lines().filter(|line| !is_accepted(line)).collect();
        assert!(findings.is_empty(), "{findings:#?}");
    }
}

/// Returns true for what is meant so.
fn is_accepted(finding: &str) -> bool {
    // Pages have no date, so that the same version always gives the same files. Long lines are those of the help, and
    // one line break too many in a list of values is clap_mangen's.
    ["missing date", "input text line longer than 80 bytes", "skipping paragraph macro"]
        .iter()
        .any(|known| finding.contains(known))
}

#[test]
fn man_formats_each_page_without_a_warning() {
    let Some(man) = installed("man") else { return };
    let house = House::new();
    for page in pages(&house) {
        let mut command = house.program(&text(&man), &["--warnings", "-E", "UTF-8", "-l"]);
        let ran = command.arg(&page).env("MANWIDTH", "100").env("MANPAGER", "cat").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && said.is_empty(), "{}: {said}", page.display());
        assert!(!ran.stdout.is_empty());
    }
}
