//! Unified diff of an insertion. Values of the file are not shown, because they may be secrets.

use hospes_host::config::connect::EntrySplice;

use crate::output::printable;

/// Number of unchanged lines shown before and after a change.
const CONTEXT_LINES: usize = 3;
/// Replacement for a value.
const HIDDEN: &str = "…";

/// Formats the change as a unified diff.
pub(super) fn unified(name: &str, before: &str, splice: &EntrySplice) -> String {
    let (head, tail) = before.split_at_checked(splice.offset).unwrap_or((before, ""));
    let tail = tail.strip_prefix(splice.removed.as_str()).unwrap_or(tail);
    let notation = Notation::of(name);
    let (head, tail) = (hide_values(head, notation), hide_values(tail, notation));
    let old = [head.as_str(), &splice.removed, &tail].concat();
    let new = [head.as_str(), &splice.inserted, &tail].concat();
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let first = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let most = old.len().min(new.len()) - first;
    let same = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(old, new)| old == new).count();
    let start = first.saturating_sub(CONTEXT_LINES);
    let (old_end, new_end) = (old.len() - same, new.len() - same);
    let after = same.min(CONTEXT_LINES);
    let range = |length: usize| {
        // An empty range is named by the line before it.
        let begin = if length == 0 { start } else { start + 1 };
        format!("{begin},{length}")
    };
    let mut text = format!(
        "--- {name}\n+++ {name}\n@@ -{} +{} @@\n",
        range(old_end + after - start),
        range(new_end + after - start)
    );
    let mut add = |sign: char, lines: &[&str]| {
        for line in lines {
            text.push(sign);
            text.push_str(&printable(line.trim_end_matches(['\r', '\n'])));
            text.push('\n');
            if !line.ends_with('\n') {
                text.push_str("\\ No newline at end of file\n");
            }
        }
    };
    add(' ', &old[start..first]);
    add('-', &old[first..old_end]);
    add('+', &new[first..new_end]);
    add(' ', &old[old_end..old_end + after]);
    text.pop();
    text
}

/// Notation of a file, which decides what a key is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    Json,
    Toml,
    Yaml,
}

impl Notation {
    fn of(name: &str) -> Self {
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Json,
        }
    }

    /// Returns true if what stands before this text is a key.
    fn follows_key(self, text: &str) -> bool {
        let text = text.trim_start_matches(' ');
        match self {
            Self::Json => text.starts_with(':'),
            // Not the padding at the end of an encoded value.
            Self::Toml => text
                .strip_prefix('=')
                .is_some_and(|value| !value.trim().is_empty() && !value.starts_with('=')),
            Self::Yaml => {
                text.strip_prefix(':').is_some_and(|value| value.is_empty() || value.starts_with(' '))
            }
        }
    }

    /// Returns the length of what stands here without quotes, up to a mark of the notation.
    fn bare_length(self, text: &str) -> usize {
        let is_end = |(index, letter): &(usize, char)| {
            matches!(letter, ',' | '{' | '}' | '[' | ']')
                || self != Self::Json && self.follows_key(&text[*index..])
        };
        text.char_indices().find(is_end).map_or(text.len(), |(index, _)| index)
    }
}

/// Replaces all but keys and punctuation in a part of a file. Each line is read by itself: what is not known to be a key
/// is hidden, also where a value has several lines.
fn hide_values(text: &str, notation: Notation) -> String {
    text.split_inclusive('\n')
        .map(|line| {
            let body = line.trim_end_matches(['\r', '\n']);
            [&*hide_in_line(body, notation), &line[body.len()..]].concat()
        })
        .collect()
}

fn hide_in_line(line: &str, notation: Notation) -> String {
    if notation == Notation::Toml && is_table_header(line) {
        return line.to_owned();
    }
    let start = line.len() - line.trim_start().len();
    let mut shown = line[..start].to_owned();
    let mut rest = &line[start..];
    while notation == Notation::Yaml && rest.starts_with("- ") {
        shown.push_str("- ");
        rest = &rest[2..];
    }
    while let Some(letter) = rest.chars().next() {
        if let Some(mark) = ["//", "#"].into_iter().find(|mark| rest.starts_with(mark)) {
            shown.push_str(mark);
            if rest.len() > mark.len() {
                shown.push(' ');
                shown.push_str(HIDDEN);
            }
            break;
        }
        if matches!(letter, '"' | '\'') {
            let inner = &rest[1..];
            let end = closing(inner, letter);
            let after = inner.get(end + 1..).unwrap_or_default();
            shown.push(letter);
            shown.push_str(if notation.follows_key(after) { &inner[..end] } else { HIDDEN });
            if end < inner.len() {
                shown.push(letter);
            }
            rest = after;
        } else if letter.is_whitespace() || matches!(letter, ',' | ':' | '=' | '{' | '}' | '[' | ']') {
            shown.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            let (word, after) = rest.split_at(notation.bare_length(rest).max(letter.len_utf8()));
            let is_key = notation.follows_key(after) && word.bytes().all(is_key_byte);
            shown.push_str(if is_key { word } else { HIDDEN });
            rest = after;
        }
    }
    shown
}

/// Returns true for `[a.b]` and `[[a.b]]`.
fn is_table_header(line: &str) -> bool {
    let line = line.trim_end();
    line.starts_with('[')
        && line.ends_with(']')
        && line.trim_start_matches('[').bytes().next().is_some_and(is_key_byte)
        && line.bytes().all(|byte| is_key_byte(byte) || matches!(byte, b'[' | b']' | b'"' | b'\'' | b' '))
}

/// Returns true for what keys without quotes consist of.
fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Returns the offset of the quote that ends a text, or the length if it does not end on the line.
fn closing(inner: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (index, letter) in inner.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if letter == '\\' && quote == '"' {
            is_escaped = true;
        } else if letter == quote {
            return index;
        }
    }
    inner.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splice(offset: usize, inserted: &str) -> EntrySplice {
        let text = serde_json::json!({ "offset": offset, "removed": "", "inserted": inserted });
        serde_json::from_value(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn an_insertion_is_shown_without_the_values_around_it() {
        let before =
            "{\n  \"a\": 1,\n  \"mcpServers\": {\n    \"x\": {\"env\": {\"T\": \"s3cret \\\" x\"}}\n  }\n}";
        let offset = before.find("}}\n").unwrap_or_default() + 2;
        let shown = unified("f.json", before, &splice(offset, ",\n    \"hospes\": {}"));
        assert_eq!(
            shown,
            "--- f.json\n+++ f.json\n@@ -1,6 +1,7 @@\n {\n   \"a\": …,\n   \"mcpServers\": {\n\
             -    \"x\": {\"env\": {\"T\": \"…\"}}\n+    \"x\": {\"env\": {\"T\": \"…\"}},\n+    \"hospes\": {}\n   }\n }\n\
             \\ No newline at end of file"
        );
        let shown = unified("f.yml", "a: s3cret\nb:\n", &splice(13, "c: 1\n"));
        assert_eq!(shown, "--- f.yml\n+++ f.yml\n@@ -1,2 +1,3 @@\n a: …\n b:\n+c: 1");
        assert_eq!(unified("f", "", &splice(0, "a\n")), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a");
    }

    #[test]
    fn only_keys_and_punctuation_are_shown() {
        for (notation, line, shown) in [
            (Notation::Yaml, "  - sk-s3cret", "  - …"),
            (Notation::Yaml, "  - name: s3cret", "  - name: …"),
            (Notation::Yaml, "      s3cret", "      …"),
            (Notation::Yaml, "      czNjcmV0Cg==", "      …"),
            (Notation::Yaml, "      https://e.com/s3cret", "      …"),
            (Notation::Yaml, "    token: s3'cret", "    token: …"),
            (Notation::Yaml, "    my s3cret: x", "    …: …"),
            (Notation::Yaml, "args: ['--key', s3cret, \"a: s3cret\"]", "args: ['…', …, \"…\"]"),
            (Notation::Yaml, "  env: {A: s3cret}  # s3cret", "  env: {A: …}  # …"),
            (Notation::Yaml, "  a: |", "  a: …"),
            (Notation::Toml, "token='s3cret'", "token='…'"),
            (Notation::Toml, "pin = 1234", "pin = …"),
            (Notation::Toml, "[mcp_servers.\"a b\"]", "[mcp_servers.\"a b\"]"),
            (Notation::Toml, "[\"s3cret\"]", "[\"…\"]"),
            (Notation::Toml, "czNjcmV0Cg==", "…"),
            (Notation::Toml, "s3cret''' # s3cret", "…"),
            (Notation::Json, "  \"a\": [\"s3cret\", 1, true], // s3cret", "  \"a\": [\"…\", …, …], // …"),
            (Notation::Json, "  s3cret \\", "  …"),
            (Notation::Json, "  \"s3cret", "  \"…"),
        ] {
            let found = hide_in_line(line, notation);
            assert!(!found.contains("s3cret"), "{line}: {found}");
            assert_eq!(found, shown, "{line}");
        }
    }
}
