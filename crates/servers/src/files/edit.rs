//! Edits of text by exact replacement.

use std::fmt;

use hospes::prelude::*;
use imara_diff::{Algorithm, Diff, InternedInput, Interner, Token, UnifiedDiffConfig, UnifiedDiffPrinter};

/// Maximum number of edits in one call.
pub(super) const MAX_EDITS: usize = 100;
/// Maximum size of a difference that is shown.
const MAX_DIFF: usize = 64 * 1024;

/// One edit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// What the file says now, word for word, with blanks and line ends: enough of it to be there only once.
    pub(super) old_text: String,
    /// What it is to say instead.
    pub(super) new_text: String,
    /// Whether each place is meant, if the old text is there more than once.
    #[serde(default)]
    pub(super) all: bool,
}

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
    // The histogram algorithm gives up on the shortest difference early, so that no pair of texts takes long.
    let lines = InternedInput::new(old, new);
    let mut difference = Diff::compute(Algorithm::Histogram, &lines);
    difference.postprocess_lines(&lines);
    let printer = UnifiedLinePrinter { lines: &lines.interner };
    let hunks = difference.unified_diff(&printer, UnifiedDiffConfig::default(), &lines).to_string();
    if hunks.is_empty() {
        return hunks;
    }
    let mut shown = format!("--- a/{name}\n+++ b/{name}\n{hunks}");
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

/// Prints hunks as `diff -u` does, also for a last line without a line feed.
struct UnifiedLinePrinter<'a> {
    lines: &'a Interner<&'a str>,
}

impl UnifiedLinePrinter<'_> {
    fn print_line(&self, mut f: impl fmt::Write, sign: char, line: Token) -> fmt::Result {
        let line = self.lines[line];
        write!(f, "{sign}{line}")?;
        if line.ends_with('\n') { Ok(()) } else { f.write_str("\n\\ No newline at end of file\n") }
    }
}

impl UnifiedDiffPrinter for UnifiedLinePrinter<'_> {
    fn display_header(
        &self,
        mut f: impl fmt::Write,
        start_before: u32,
        start_after: u32,
        len_before: u32,
        len_after: u32,
    ) -> fmt::Result {
        // An empty side names the line before it, and a side of one line has no length.
        let range = |start: u32, len: u32| match len {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            _ => format!("{},{len}", start + 1),
        };
        writeln!(f, "@@ -{} +{} @@", range(start_before, len_before), range(start_after, len_after))
    }

    fn display_context_token(&self, f: impl fmt::Write, line: Token) -> fmt::Result {
        self.print_line(f, ' ', line)
    }

    fn display_hunk(&self, mut f: impl fmt::Write, before: &[Token], after: &[Token]) -> fmt::Result {
        before.iter().try_for_each(|line| self.print_line(&mut f, '-', *line))?;
        after.iter().try_for_each(|line| self.print_line(&mut f, '+', *line))
    }
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

#[cfg(test)]
mod tests {
    use super::diff;

    /// The expected texts are what GNU `diff -u` prints, without the times of the files.
    #[test]
    fn differences_have_the_format_of_diff_u() {
        let cases = [
            ("a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"),
            ("", "a\n", "@@ -0,0 +1 @@\n+a\n"),
            ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
            ("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"),
            (
                "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n",
                "2\n3\n4\n5\n6\n7\n8\n9\n10\n11",
                "@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n@@ -8,3 +7,4 @@\n 8\n 9\n 10\n+11\n\\ No newline at end of file\n",
            ),
        ];
        for (old, new, hunks) in cases {
            assert_eq!(diff("/f", old, new), format!("--- a/f\n+++ b/f\n{hunks}"));
        }
        assert_eq!(diff("f", "a\n", "a\n"), "");
    }
}
