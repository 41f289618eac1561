//! Tests of the project's pages in a real browser, and of sign-in at an external OpenID provider.
//!
//! `cargo xtask browser` (a part of `cargo xtask test`) names the programs in variables and runs the tests of this
//! crate. Without these variables the tests print that they are skipped. A [`TestBrowser`] is Chromium behind its driver,
//! with a profile of its own that knows only this machine.

mod axe;
mod browser;
mod programs;
mod web;

pub use browser::TestBrowser;
pub use programs::{HospesProgram, OpenIdProvider, ProgramOutput, RunningHospes};
pub use web::{RecordingSite, fetch};

use std::time::Duration;

/// Maximum time to wait for anything before a test fails.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(40);

/// A program that the environment names; a line where it does not.
pub(crate) fn program_from_env(variable: &str) -> Option<String> {
    let found = std::env::var(variable).ok().filter(|text| !text.is_empty());
    if found.is_none() {
        skip(variable);
    }
    found
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests is told")]
fn skip(variable: &str) {
    eprintln!("skipped: {variable} names no program; `cargo xtask browser` finds or installs it");
}
