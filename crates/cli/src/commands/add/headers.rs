//! Headers of a server at a URL, from the command line. Their values are secrets.

use http::{HeaderName, HeaderValue};
use secrecy::SecretString;

use super::answers::{read_secret, split};
use crate::exit::{CliError, CliResult};
use crate::output::printable;

/// Maximum number of headers.
pub(super) const MAX_HEADERS: usize = 32;

/// Reads headers that are given as `NAME=@FILE`, `NAME=$VARIABLE` or `NAME=-`.
///
/// # Errors
/// If a name or a value cannot be sent, or a source cannot be read. The error does not have the value.
pub(super) fn read(given: &[String]) -> CliResult<Vec<(String, SecretString)>> {
    if given.len() > MAX_HEADERS {
        return Err(CliError::usage(format!("--header: at most {MAX_HEADERS} headers are possible")));
    }
    let mut headers: Vec<(String, SecretString)> = Vec::new();
    for text in given {
        let (name, source) = split(text, "--header")
            .map_err(|error| error.hint("write NAME=@FILE, NAME=$VARIABLE, or NAME=- for standard input"))?;
        let invalid = |why: &str| CliError::usage(format!("--header {}: {why}", printable(name)));
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            return Err(invalid("this is not the name of a header"));
        }
        if headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return Err(invalid("the header is given twice"));
        }
        let value = read_secret("--header", name, source)?;
        if let Some(problem) = problem_of(&value) {
            return Err(invalid(problem));
        }
        headers.push((name.to_owned(), value.into()));
    }
    Ok(headers)
}

/// Returns the reason why a value cannot be sent.
pub(super) fn problem_of(value: &str) -> Option<&'static str> {
    HeaderValue::from_str(value)
        .is_err()
        .then_some("the value has a character that a header cannot have, such as a line break")
}
