//! Edits of text by exact replacement.

use std::time::Duration;

use hospes::{Error, Result};
use similar::TextDiff;

use super::writing::Edit;

/// Maximum number of edits in one call.
pub(super) const MAX_EDITS: usize = 100;
/// Maximum size of a difference that is shown.
const MAX_DIFF: usize = 64 * 1024;
/// Maximum time to search for the shortest difference. After that, any difference is used.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// Applies the edits in order. Returns the new text and the number of replacements.
pub(super) fn apply(text: &str, edits: &[Edit], limit: usize) -> Result<(String, usize)> {
    if edits.is_empty() || edits.len() > MAX_EDITS {
        return Err(Error::msg(format!("give between 1 and {MAX_EDITS} edits")));
    }
    // Models write line feeds; a file with other line ends keeps them.
    let returns = text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
    let fitting = |part: &str| {
        if returns && !part.contains('\r') { part.replace('\n', "\r\n") } else { part.to_owned() }
    };
    let (mut text, mut replaced) = (text.to_owned(), 0);
    for (at, edit) in edits.iter().enumerate() {
        let (old, new) = (fitting(&edit.old_text), fitting(&edit.new_text));
        let which = if edits.len() == 1 { "the edit".to_owned() } else { format!("edit {}", at + 1) };
        if old.is_empty() {
            return Err(Error::msg(format!("{which} has an empty old_text; nothing was changed")));
        }
        let found: Vec<usize> = text.match_indices(old.as_str()).map(|(at, _)| at).collect();
        match found.as_slice() {
            [] => {
                return Err(Error::msg(format!(
                    "{which} {}; nothing was changed",
                    explain_missing(&text, &old)
                )));
            }
            [_] => {}
            _ if edit.all => {}
            many => {
                let lines: Vec<String> =
                    many.iter().take(5).map(|at| line_of(&text, *at).to_string()).collect();
                return Err(Error::msg(format!(
                    "{which} has an old_text that occurs {} times (lines {}{}): include more of the surrounding text, \
                     or set all = true; nothing was changed",
                    many.len(),
                    lines.join(", "),
                    if many.len() > lines.len() { ", …" } else { "" },
                )));
            }
        }
        let length = text.len() - found.len() * old.len();
        // Checked before the replacement, which could need far more memory than the limit.
        if found.len().saturating_mul(new.len()).saturating_add(length) > limit {
            return Err(Error::msg(format!(
                "the file would exceed the limit of {limit} bytes that are written at once"
            )));
        }
        text = text.replace(old.as_str(), &new);
        replaced += found.len();
    }
    Ok((text, replaced))
}

/// Returns the difference in the format of `diff -u`.
pub(super) fn diff(name: &str, old: &str, new: &str) -> String {
    let name = name.trim_start_matches('/');
    let difference = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let mut shown = difference
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{name}"), &format!("b/{name}"))
        .to_string();
    if shown.len() > MAX_DIFF {
        let end = shown.floor_char_boundary(MAX_DIFF);
        // Cut at a line end, because half a line could be mistaken for a whole one.
        let end = shown[..end].rfind('\n').map_or(end, |at| at + 1);
        let left = shown.len() - end;
        shown.truncate(end);
        shown.push_str(&format!("(cut here: {left} more bytes of difference)\n"));
    }
    shown
}

/// Returns an explanation why a text was not found, as far as it can be guessed.
fn explain_missing(text: &str, old: &str) -> String {
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted: Vec<String> = old.lines().map(squeezed).filter(|line| !line.is_empty()).collect();
    let lines: Vec<(usize, String)> = text
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, squeezed(line)))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    // `windows` panics for a size of zero.
    let near = lines.windows(wanted.len().max(1)).find(|window| {
        !wanted.is_empty() && window.iter().zip(&wanted).all(|((_, line), wanted)| line == wanted)
    });
    match near {
        Some(window) => format!(
            "has an old_text that occurs only with different whitespace (line {}): read these lines, and copy them \
             exactly",
            window[0].0
        ),
        None => "has an old_text that was not found: it must match the file exactly".to_owned(),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}
