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
    let (head, tail) = (hide_values(head), hide_values(tail));
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

/// Replaces the values in a part of a file: quoted texts that are not keys, and what follows a key without quotes.
fn hide_values(text: &str) -> String {
    text.split_inclusive('\n').map(hide_in_line).collect()
}

fn hide_in_line(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    let mut has_quotes = false;
    while let Some(start) = rest.find(['"', '\'']) {
        has_quotes = true;
        let quote = if rest[start..].starts_with('"') { '"' } else { '\'' };
        let inner = &rest[start + 1..];
        let end = closing(inner, quote);
        let after = inner.get(end + 1..).unwrap_or_default();
        let is_key = after.trim_start().starts_with([':', '=']);
        shown.push_str(&rest[..=start]);
        shown.push_str(if is_key { &inner[..end] } else { HIDDEN });
        if end < inner.len() {
            shown.push(quote);
        }
        rest = after;
    }
    shown.push_str(rest);
    if has_quotes {
        return shown;
    }
    let separator = [": ", " = ", "="].into_iter().find_map(|mark| Some((line.find(mark)?, mark.len())));
    match separator {
        Some((index, length)) if line[index + length..].trim().len() > 1 => {
            let end = &line[line.trim_end_matches(['\r', '\n']).len()..];
            format!("{}{HIDDEN}{end}", &line[..index + length])
        }
        _ => shown,
    }
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
        let shown = unified("f", before, &splice(offset, ",\n    \"hospes\": {}"));
        assert_eq!(
            shown,
            "--- f\n+++ f\n@@ -1,6 +1,7 @@\n {\n   \"a\": 1,\n   \"mcpServers\": {\n\
             -    \"x\": {\"env\": {\"T\": \"…\"}}\n+    \"x\": {\"env\": {\"T\": \"…\"}},\n+    \"hospes\": {}\n   }\n }\n\
             \\ No newline at end of file"
        );
        let shown = unified("f", "a: s3cret\nb:\n", &splice(13, "c: 1\n"));
        assert_eq!(shown, "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a: …\n b:\n+c: 1");
        assert_eq!(unified("f", "", &splice(0, "a\n")), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a");
    }
}
