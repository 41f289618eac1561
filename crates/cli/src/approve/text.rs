//! Rendering of foreign text on the screen: hidden characters are shown, control sequences have no effect, and text
//! stays in its column.

use hospes_policy::{visible, visible_line};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Maximum size of one value on the screen, in bytes. Longer values are marked as cut; `--json` prints them whole.
const MAX_SHOWN: usize = 256 << 10;

/// Breaks a text into lines no wider than `width` columns, at blanks if possible.
pub(crate) fn lines(text: &str, width: usize) -> Vec<String> {
    // Cut before it is escaped, because this runs for each redraw and the text may be of any length.
    let (text, rest) = cut(text);
    let mut lines = Vec::new();
    for line in visible(text).split('\n') {
        // A tab would move the cursor out of the column.
        fold(&line.replace('\t', "    "), width.max(1), &mut lines);
    }
    if rest > 0 {
        fold(&format!("… and {rest} more bytes; see `hospes approve --json`"), width.max(1), &mut lines);
    }
    lines
}

/// Formats a text on one line and cuts it at `width` columns.
pub(crate) fn line(text: &str, width: usize) -> String {
    let whole = visible_line(cut(text).0);
    if whole.width() <= width {
        return whole;
    }
    let mut short = String::new();
    let mut used = 0;
    for character in whole.chars() {
        used += character.width().unwrap_or(0);
        if used >= width {
            break;
        }
        short.push(character);
    }
    short.push('…');
    short
}

fn cut(text: &str) -> (&str, usize) {
    if text.len() <= MAX_SHOWN {
        return (text, 0);
    }
    let end = text.floor_char_boundary(MAX_SHOWN);
    (&text[..end], text.len() - end)
}

fn fold(line: &str, width: usize, lines: &mut Vec<String>) {
    let mut rest = line;
    loop {
        let (mut used, mut end, mut blank) = (0, rest.len(), None);
        for (at, character) in rest.char_indices() {
            used += character.width().unwrap_or(0);
            if used > width {
                end = at;
                break;
            }
            if character == ' ' && at > 0 {
                blank = Some(at);
            }
        }
        if end == rest.len() {
            lines.push(rest.to_owned());
            return;
        }
        // Leading blanks are indentation and no place to break.
        let broken = blank.filter(|at| !rest[..*at].trim().is_empty());
        // At least one character per line, even if it is wider than the column.
        let one = rest.chars().next().map_or(1, char::len_utf8);
        let end = broken.unwrap_or(end).max(one);
        lines.push(rest[..end].to_owned());
        rest = &rest[end + usize::from(broken.is_some())..];
        if rest.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_in_its_column() {
        assert_eq!(lines("one two three", 8), ["one two", "three"]);
        assert_eq!(lines("  abcdefgh", 6), ["  abcd", "efgh"]);
        assert_eq!(lines("ab\n\ncd", 6), ["ab", "", "cd"]);
        assert_eq!(lines("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(lines("漢", 1), ["漢"]);
        assert_eq!(line("one\ntwo", 20), "one\\u{a}two");
        assert_eq!(line("abcdef", 4), "abc…");
    }

    #[test]
    fn what_hides_is_seen() {
        assert_eq!(lines("a\u{1b}[2Jb\u{202e}c\u{200b}", 80), ["a\\u{1b}[2Jb\\u{202e}c\\u{200b}"]);
        let long = "x".repeat(MAX_SHOWN + 10);
        assert!(lines(&long, 1000).last().unwrap().starts_with("… and 10 more bytes"));
    }
}
