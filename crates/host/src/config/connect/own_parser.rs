//! Check of files by the rules of the applications' own parsers, which accept less than the reader of Hospes.

use std::path::Path;
use std::sync::Arc;

use super::super::applications::Application;
use super::super::document::check_strict_json;
use super::super::error::ConfigError;
use super::EditEntryError;

/// Messages of the parser about extensions of JSON.
const EXTENSIONS: [&str; 2] = ["comments are not allowed", "trailing commas are not allowed"];

/// Checks that an application's own parser accepts a file. An empty file is a new one.
///
/// # Errors
/// If the application reads JSON without extensions and the text has a comment or a trailing comma, or is no JSON at all.
/// The reason has the line.
pub fn check_own_parser(application: &Application, file: &Path, text: &str) -> Result<(), EditEntryError> {
    if !application.shape.is_strict || text.trim().is_empty() {
        return Ok(());
    }
    check_strict_json(&Arc::from(file), text).map_err(|error| {
        let reason = error.to_string();
        match *error {
            ConfigError::Syntax { message, .. } if EXTENSIONS.contains(&message.as_str()) => {
                EditEntryError::Extended { reason }
            }
            _ => EditEntryError::Invalid { reason },
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn only_strict_parsers_refuse_comments_and_trailing_commas() {
        let check = |id: &str, text: &str| {
            let application = Application::find(id).unwrap();
            check_own_parser(application, Path::new("a.json"), text).map_err(|error| error.to_string())
        };
        for (text, place) in [
            ("{\n  // mine\n}", "a.json:2:3: not valid JSON: comments are not allowed"),
            ("{\n  \"a\": 1, /* one */\n}", "a.json:2:11: not valid JSON: comments are not allowed"),
            ("{\"a\": {\n  \"b\": 1,\n}}", "a.json:2:9: not valid JSON: trailing commas are not allowed"),
            ("{\"a\": [1,\n]}", "a.json:1:9: not valid JSON: trailing commas are not allowed"),
            ("// nothing else", "a.json:1:1: not valid JSON: comments are not allowed"),
        ] {
            for id in ["claude-desktop", "claude-code"] {
                assert_eq!(check(id, text).unwrap_err(), place, "{id}: {text}");
            }
            for id in ["cursor", "vscode", "zed", "gemini", "goose", "codex"] {
                check(id, text).unwrap();
            }
        }
        for text in ["", " \n", "{}", "\u{feff}{}", "{\"a\": [1, \"// no comment ,]\"]}\r\n"] {
            check("claude-desktop", text).unwrap();
        }
        // What is no JSON at all is told apart.
        let application = Application::find("claude-code").unwrap();
        for (text, is_extended) in [("{\"a\": 1,}", true), ("{ /* a */ }", true), ("{\"a\":", false)] {
            let error = check_own_parser(application, Path::new("a.json"), text).unwrap_err();
            assert_eq!(matches!(error, EditEntryError::Extended { .. }), is_extended, "{text}: {error}");
        }
        // What both parsers refuse, and what only the standard does.
        let error = check("claude-code", "{\"a\": \"one\ttwo\"}").unwrap_err();
        assert!(error.starts_with("a.json:1:"), "{error}");
        assert!(check("claude-code", "{\"a\"").is_err());
    }
}
