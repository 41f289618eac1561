//! Values that several commands accept: times, counts and names of applications.

use std::time::Duration;

use hospes_host::config::{PROFILE_NAME_FORM, is_profile_name};

/// Returns true if a text can be the name of a server.
pub(crate) fn is_server_name(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    !text.is_empty() && text.len() <= 64 && text.chars().all(is_plain)
}

/// Reads the name of a server.
pub(super) fn server_name(text: &str) -> Result<String, &'static str> {
    application_name(text)
}

/// Reads the name of an application, which is shown and recorded.
pub(crate) fn application_name(text: &str) -> Result<String, &'static str> {
    if is_server_name(text) {
        Ok(text.to_owned())
    } else {
        Err("expected up to 64 letters, digits, `-`, `_` or `.`")
    }
}

/// Reads the name of a profile.
pub(crate) fn profile_name(text: &str) -> Result<String, String> {
    match is_profile_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected {PROFILE_NAME_FORM}")),
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, &'static str> {
    // Negative, infinite and too large values are mistakes here; `from_secs_f64` would panic on them.
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or("expected a time in seconds, such as 30 or 0.5")
}

pub(super) fn some_seconds(text: &str) -> Result<Duration, &'static str> {
    seconds(text).and_then(|time| {
        if time.is_zero() { Err("expected a time above zero, in seconds") } else { Ok(time) }
    })
}

pub(super) fn some_count(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|count| *count > 0).ok_or("expected a whole number above zero")
}
