//! Descriptions of mistakes in a tool's arguments, so that a model can correct them: each path, the expected value, and
//! the given one (TOOL-18).

use std::fmt::Write as _;

#[cfg(feature = "validate")]
use serde_json::Value;

/// Maximum number of mistakes reported at once.
pub(crate) const MAX_REPORTED_MISTAKES: usize = 20;
/// The most characters of a wrong value that are shown.
const MAX_SHOWN_CHARS: usize = 80;

/// Something wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ToolArgumentMistake {
    /// `a.b[0]`; empty for the whole.
    pub(super) path: String,
    pub(super) text: String,
}

impl ToolArgumentMistake {
    /// At a JSON pointer.
    pub(crate) fn at(pointer: &str, text: String) -> Self {
        Self { path: format_pointer(pointer), text }
    }

    /// At a member of what is at a JSON pointer.
    pub(crate) fn at_member(pointer: &str, name: &str, text: String) -> Self {
        let mut path = format_pointer(pointer);
        push_name(&mut path, name);
        Self { path, text }
    }

    /// A value that is not what was wanted.
    #[cfg(feature = "validate")]
    pub(crate) fn wrong(pointer: &str, wanted: &str, given: &Value) -> Self {
        Self::at(
            pointer,
            format!("expected {wanted}, got {}", shortened(&given.to_string(), MAX_SHOWN_CHARS)),
        )
    }
}

/// At most `most` characters of `text`.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `/a/0/b~1c` as `a[0].b/c`.
fn format_pointer(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        // In this order (RFC 6901, section 4): `~01` stands for `~1`, and not for `/`.
        let name = part.replace("~1", "/").replace("~0", "~");
        if !path.is_empty() && !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
            let _ = write!(path, "[{name}]");
        } else {
            push_name(&mut path, &name);
        }
    }
    path
}

fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(&shortened(name, MAX_SHOWN_CHARS));
}
