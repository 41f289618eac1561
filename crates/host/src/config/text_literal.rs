//! Texts as literals of JSON and TOML, on one line and with nothing hidden.

use std::fmt::Write as _;

/// Writes a text as a string of JSON.
pub(super) fn json_literal(text: &str) -> String {
    literal(text, |quoted, letter| {
        for unit in letter.encode_utf16(&mut [0; 2]) {
            let _ = write!(quoted, "\\u{unit:04x}");
        }
    })
}

/// Writes a text as a string of TOML.
pub(super) fn toml_literal(text: &str) -> String {
    literal(text, |quoted, letter| {
        let _ = write!(quoted, "\\U{:08X}", u32::from(letter));
    })
}

/// Writes a text in quotation marks. `escape` writes what is invisible in an editor so that it can be seen.
fn literal(text: &str, escape: impl Fn(&mut String, char)) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            letter if letter.is_control() || hospes_policy::is_hidden(letter) => escape(&mut quoted, letter),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
