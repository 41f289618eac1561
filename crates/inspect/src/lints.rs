//! Lints of results: text that reads like instructions to a model, calls for tools of other servers, hosts that look
//! like others, and encoded instructions.
//!
//! A lint is a reason for a notice, not for a refusal: text about instructions looks like instructions. The rules are
//! narrow, so that documentation does not cause notices: an instruction has to be complete (to ignore the previous
//! instructions, not to ignore something), or to address a model. Harmful text need not look like it.

mod encoded;
mod instructions;
mod look_alikes;
mod mentions;

use std::ops::Range;

pub use mentions::ToolNames;

use crate::hidden::without_shapeless;

/// Maximum length of a text that is examined as a whole, in bytes. Of a longer one the start, the middle and the end
/// are.
pub const MAX_LINTED: usize = 256 * 1024;

/// Maximum number of lints of one text.
pub const MAX_LINTS: usize = 8;

/// Maximum length of an excerpt, in characters.
const EXCERPT_CHARACTERS: usize = 120;

/// Kind of a lint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LintKind {
    /// Text that reads like instructions to a model.
    Instructions,
    /// A call for a tool of another server.
    OtherTool,
    /// A host whose letters look like those of another.
    LookAlikeHost,
    /// Encoded text that decodes to instructions.
    Encoded,
}

impl LintKind {
    /// Returns the description, as in "it contains text that …".
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "text that reads like instructions to a model",
            Self::OtherTool => "a request to call a tool of another server",
            Self::LookAlikeHost => "a host whose letters look like those of another",
            Self::Encoded => "encoded text that decodes to instructions to a model",
        }
    }
}

/// A finding in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextLint {
    /// Kind of the lint.
    pub kind: LintKind,
    /// Start of the suspicious text, on one line and without hidden characters.
    pub excerpt: String,
}

/// Lints of one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextLints {
    /// Lints, at most one of each kind and place.
    pub found: Vec<TextLint>,
    /// True if only parts of the text were examined.
    pub is_sampled: bool,
}

/// Returns true if a text may have lints. The text may be JSON. Costs little and decodes nothing.
#[must_use]
pub fn may_have_lints(text: &str, tools: &ToolNames, own_server: &str) -> bool {
    let folded = look_alikes::fold(text);
    instructions::may_instruct(&without_shapeless(&folded))
        || has_foreign_escapes(text)
        || tools.may_mention(text, own_server)
        || look_alikes::may_look_alike(text)
        || encoded::may_be_encoded(text)
}

/// Finds the lints of a decoded text of the server `own_server`.
#[must_use]
pub fn lint_text(text: &str, tools: &ToolNames, own_server: &str) -> TextLints {
    let mut lints = TextLints::default();
    let parts = parts(text);
    lints.is_sampled = parts.len() > 1;
    for part in parts {
        lint_part(&text[part], tools, own_server, &mut lints);
    }
    lints
}

fn lint_part(text: &str, tools: &ToolNames, own_server: &str, lints: &mut TextLints) {
    // As a model reads it: without what hides between the letters.
    let text = without_shapeless(text);
    let folded = look_alikes::fold(&text);
    if let Some(found) = instructions::find_instruction(&folded) {
        lints.add(LintKind::Instructions, excerpt(&folded, found));
    }
    if let Some(found) = tools.find_mention(&folded, own_server) {
        lints.add(LintKind::OtherTool, excerpt(&folded, found));
    }
    if let Some(host) = look_alikes::find_host(&text) {
        lints.add(LintKind::LookAlikeHost, host);
    }
    if let Some(decoded) = encoded::find_encoded_instruction(&text) {
        let found = instructions::find_instruction(&decoded).unwrap_or(0..decoded.len());
        lints.add(LintKind::Encoded, excerpt(&decoded, found));
    }
}

/// Returns true if JSON escapes stand for hidden or look-alike letters, which only decoding shows.
fn has_foreign_escapes(json: &str) -> bool {
    let bytes = json.as_bytes();
    memchr::memmem::find_iter(bytes, b"\\u").any(|at| {
        let digits = bytes.get(at + 2..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        // Letters of Western languages are no look-alikes, and the first control characters end lines.
        unit.is_some_and(|unit| unit > 0x24f || unit == 0xad)
    })
}

impl TextLints {
    fn add(&mut self, kind: LintKind, excerpt: String) {
        let lint = TextLint { kind, excerpt };
        if self.found.len() < MAX_LINTS && !self.found.contains(&lint) {
            self.found.push(lint);
        }
    }
}

/// Parts of a text that are examined.
fn parts(text: &str) -> Vec<Range<usize>> {
    if text.len() <= MAX_LINTED {
        return std::iter::once(0..text.len()).collect();
    }
    let size = MAX_LINTED / 4;
    let middle = text.len() / 2;
    let parts = [0..2 * size, middle - size / 2..middle + size / 2, text.len() - size..text.len()];
    parts.map(|part| floor(text, part.start)..floor(text, part.end)).into()
}

/// Returns the nearest start of a character at or before a place.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn excerpt(text: &str, found: Range<usize>) -> String {
    let start = floor(text, found.start);
    let shown: String = text[start..].chars().take(EXCERPT_CHARACTERS).collect();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    hospes_policy::visible_line(&shown)
}

#[cfg(test)]
mod tests;
