//! Strings of a call, matched against the destinations of a rule.

use std::sync::OnceLock;

use serde_json::Value;

use crate::arguments::CallArguments;
use crate::destination::Destination;
use crate::destination_pattern::DestinationPattern;
use crate::paths;
use crate::pattern::{AmbiguityBias, PatternMatch};
use crate::readings::{self, DestinationCandidates};

/// Result of matching the destinations of a call against those of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DestinationMatch {
    /// The strings match: all of them for an allow rule, one of them for a deny rule.
    There,
    /// The strings do not match. Contains the reason if an allow rule needed a less ambiguous string.
    Elsewhere(Option<String>),
    /// The strings may match, with the reason. Only for ask and deny rules.
    Unclear(String),
}

/// Strings of a call's arguments with their readings, computed when the first rule needs them.
#[derive(Clone, Debug, Default)]
pub struct ArgumentStrings(OnceLock<Vec<LocatedString>>);

impl ArgumentStrings {
    pub(crate) fn of(&self, arguments: &CallArguments) -> &[LocatedString] {
        self.0.get_or_init(|| collect_strings(arguments))
    }
}

/// Matches the strings of a call against destinations. An allow rule needs at least one string and all of them to
/// match; a deny rule needs any.
pub(crate) fn match_destinations(
    places: &[DestinationPattern],
    strings: &[LocatedString],
    doubt: AmbiguityBias,
) -> DestinationMatch {
    match doubt {
        AmbiguityBias::Refuses => {
            let elsewhere = strings.iter().find_map(|LocatedString { at, text, read }| {
                let why = match (&read.exact, read.is_name) {
                    (Ok(found), _) if places.iter().any(|place| place.permits(found)) => return None,
                    (_, true) if is_identifier(text) => return None,
                    (Err(why), _) => why.clone(),
                    (Ok(found), _) => format!("it may be the {}", found.described()),
                };
                let shown = paths::visible_line(&text.chars().take(60).collect::<String>());
                Some(format!("`{at}` is `{shown}`: {why}; use `arguments.NAME` to check a single argument"))
            });
            let is_any = strings.iter().any(|one| !one.read.is_name);
            match elsewhere {
                None if is_any => DestinationMatch::There,
                why => DestinationMatch::Elsewhere(why),
            }
        }
        AmbiguityBias::Counts => {
            let mut unclear = None;
            for LocatedString { at, read, .. } in strings {
                let held = places.iter().map(|place| place.holds(&read.candidates)).max();
                match (held, &read.candidates.unclear) {
                    (Some(PatternMatch::Yes), _) => return DestinationMatch::There,
                    (_, Some(why)) => unclear = unclear.or_else(|| Some(format!("`{at}`: {why}"))),
                    (Some(PatternMatch::Maybe), _) => {
                        unclear = unclear.or_else(|| {
                            Some(format!("`{at}` contains a word that may be such a destination"))
                        });
                    }
                    _ => (),
                }
            }
            unclear.map_or(DestinationMatch::Elsewhere(None), DestinationMatch::Unclear)
        }
    }
}

/// Returns true if the name of a member is a plain identifier and points nowhere.
fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|one| one.is_ascii_alphanumeric() || b"_-".contains(&one))
}

/// One string of a call and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocatedString {
    at: String,
    text: String,
    read: StringReadings,
}

/// The readings of one string.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StringReadings {
    exact: Result<Destination, String>,
    candidates: DestinationCandidates,
    /// True if the string is the name of a member and not a value.
    is_name: bool,
}

/// Collects the strings of a call's arguments and their readings: at most [`MAX_STRINGS`], followed by an unclear entry
/// if there are more.
pub(crate) fn collect_strings(arguments: &CallArguments) -> Vec<LocatedString> {
    let mut all = Vec::new();
    for (name, value) in arguments.as_map() {
        locate("arguments", name, true, &mut all);
        locate_value(&format!("arguments.{name}"), value, &mut all);
    }
    all
}

/// Strings of the URI of a resource, with their readings.
pub(crate) fn collect_uri_strings(uri: &str) -> Vec<LocatedString> {
    let mut all = Vec::new();
    locate("resource", uri, false, &mut all);
    all
}

/// Maximum number of strings of one call whose readings are computed.
const MAX_STRINGS: usize = 512;
/// Maximum total length of these strings, in bytes.
const MAX_TOTAL: usize = 128 * 1024;

fn locate(at: &str, text: &str, is_name: bool, to: &mut Vec<LocatedString>) {
    if text.is_empty() && !is_name {
        return;
    }
    // Nothing is added after the entry that marks the list as incomplete.
    let is_over = to.len() > MAX_STRINGS
        || to.iter().any(|one| one.text.is_empty() && one.read.candidates.unclear.is_some());
    if is_over {
        return;
    }
    let total = text.len() + to.iter().map(|one| one.text.len()).sum::<usize>();
    if to.len() == MAX_STRINGS || total > MAX_TOTAL {
        let why = format!("there are more than {MAX_STRINGS} strings, or more than 128 KiB of them");
        let candidates =
            DestinationCandidates { unclear: Some(why.clone()), ..DestinationCandidates::default() };
        let read = StringReadings { exact: Err(why), candidates, is_name: false };
        to.push(LocatedString { at: at.to_owned(), text: String::new(), read });
        return;
    }
    let read = StringReadings {
        exact: readings::parse_exact(text),
        candidates: DestinationCandidates::of(text),
        is_name,
    };
    to.push(LocatedString { at: at.to_owned(), text: text.to_owned(), read });
}

fn locate_value(at: &str, value: &Value, to: &mut Vec<LocatedString>) {
    match value {
        Value::String(text) => locate(at, text, false, to),
        // Some readers take a number for an address; small numbers are counts and ports.
        Value::Number(number) if number.as_u64().is_some_and(|number| number >= 1 << 24) => {
            locate(at, &number.to_string(), false, to);
        }
        Value::Array(items) => items.iter().for_each(|item| locate_value(at, item, to)),
        Value::Object(members) => {
            for (name, value) in members {
                locate(at, name, true, to);
                locate_value(&format!("{at}.{name}"), value, to);
            }
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::PolicyEnvironment;
    use crate::paths::MAX_TEXT;

    fn at(places: &[&str], arguments: &str, doubt: AmbiguityBias) -> bool {
        let reading = PolicyEnvironment::at_home("/home/me");
        let places: Vec<DestinationPattern> =
            places.iter().map(|place| DestinationPattern::new(place, &reading).unwrap()).collect();
        let strings = collect_strings(&CallArguments::read(arguments).unwrap());
        matches!(
            match_destinations(&places, &strings, doubt),
            DestinationMatch::There | DestinationMatch::Unclear(_)
        )
    }

    #[test]
    fn every_address_of_a_word_is_seen() {
        for text in [
            "e@evil.example,me@good.example",
            "e@evil.example;me@good.example",
            "mailto:e@evil.example,me@good.example",
            "mailto:me@good.example?cc=e@evil.example",
            "mailto:me@good.example?cc=x@good.example&bcc=e@evil.example",
            "https://good.example/x,e@evil.example",
            "me@good.example@evil.example",
            "me@evil.example@good.example",
        ] {
            let arguments = serde_json::json!({ "to": text }).to_string();
            assert!(at(&["evil.example"], &arguments, AmbiguityBias::Counts), "{text}");
            assert!(!at(&["good.example"], &arguments, AmbiguityBias::Refuses), "{text}");
        }
    }

    #[test]
    fn a_destination_in_another_spelling_is_seen() {
        let forbidden =
            |arguments: &str| at(&["db.internal.example", "~/.ssh"], arguments, AmbiguityBias::Counts);
        for text in [
            "//db.internal.example/x",
            "\\\\db.internal.example\\x",
            "db.internal.example/x",
            "https%3A%2F%2Fdb.internal.example%2Fx",
            "%2Fhome%2Fme%2F.ssh%2Fid",
            "\u{200b}/home/me/.ssh/id",
            "cat $HOME/.ssh/id",
            "${HOME}/.ssh/id",
            "~me/.ssh/id",
            ".ssh/id",
            "../.ssh/id",
            "--file=.ssh/id",
            "-f/home/me/.ssh/id",
        ] {
            let permitted = |arguments: &str| at(&["good.example"], arguments, AmbiguityBias::Refuses);
            let value = serde_json::json!({ "x": text, "u": "https://good.example/" }).to_string();
            assert!(forbidden(&value) && !permitted(&value), "{text}");
            let key = serde_json::json!({ "x": { text: 1 }, "u": "https://good.example/" }).to_string();
            assert!(forbidden(&key) && !permitted(&key), "{text}");
        }
        assert!(!forbidden(r#"{ "x": "https://good.example/db", "y": "src/main.rs", "z": "and/or" }"#));
    }

    #[test]
    fn a_place_is_the_host_that_a_url_would_make_of_it() {
        for (place, text) in [
            ("bücher.example", "https://bücher.example/"),
            ("a.example:443", "https://a.example/"),
            ("a.example:80", "http://a.example/"),
            ("[::1]:8080", "http://[::1]:8080/"),
            ("::1", "http://[::1]/"),
        ] {
            let arguments = serde_json::json!({ "u": text }).to_string();
            assert!(at(&[place], &arguments, AmbiguityBias::Refuses), "{place}");
        }
        assert!(!at(&["a.example:443"], r#"{ "u": "http://a.example/" }"#, AmbiguityBias::Refuses));
        assert!(!at(&["a.example:443"], r#"{ "u": "me@a.example" }"#, AmbiguityBias::Refuses));
        assert!(at(&["a.example:443"], r#"{ "u": "me@a.example" }"#, AmbiguityBias::Counts));
    }

    #[test]
    fn a_word_too_long_to_be_looked_at_may_point_anywhere() {
        let arguments = serde_json::json!({ "x": "a".repeat(MAX_TEXT + 1) }).to_string();
        assert!(at(&["nowhere"], &arguments, AmbiguityBias::Counts));
    }

    #[test]
    fn a_permission_wants_all_destinations_and_one_at_least() {
        let places = ["example.com", "*.example.com", "~/work", "localhost:8080"];
        let permitted = |arguments: &str| at(&places, arguments, AmbiguityBias::Refuses);
        assert!(permitted(r#"{ "u": "https://example.com/", "p": "/home/me/work/a" }"#));
        assert!(permitted(r#"{ "u": "https://a.example.com:8443/" }"#));
        assert!(permitted(r#"{ "u": "http://localhost:8080" }"#));
        for arguments in [
            "{}",
            r#"{ "u": "https://example.com.evil/" }"#,
            r#"{ "u": "https://evilexample.com/" }"#,
            r#"{ "u": "http://localhost:8081" }"#,
            r#"{ "u": "https://example.com/", "p": "/etc" }"#,
            r#"{ "p": "/home/me/work/../x" }"#,
            r#"{ "p": "work/a" , "q": "./a" }"#,
        ] {
            assert!(!permitted(arguments), "{arguments}");
        }
    }

    #[test]
    fn a_prohibition_wants_any() {
        let forbidden = |arguments: &str| at(&["*.evil.example", "/etc"], arguments, AmbiguityBias::Counts);
        assert!(forbidden(r#"{ "u": "https://example.com/", "v": "see https://a.evil.example/x" }"#));
        assert!(forbidden(r#"{ "p": "/home/../etc/passwd" }"#));
        assert!(!forbidden(r#"{ "u": "https://example.com/" }"#));
    }

    #[test]
    fn more_than_can_be_told_apart_fits_no_permission_and_every_prohibition() {
        let many: Vec<String> = (0..=MAX_STRINGS).map(|n| format!("https://h{n}.example/")).collect();
        let arguments = serde_json::json!({ "urls": many }).to_string();
        assert!(!at(&["*.example"], &arguments, AmbiguityBias::Refuses));
        assert!(at(&["nowhere"], &arguments, AmbiguityBias::Counts));
    }
}
