//! Insertion into YAML, and removal from it, by lines. Positions come from the parsed document, and every result is parsed
//! again, so that a line that is part of a longer text is noticed.

use super::super::applications::{EntryShape, ServerListing};
use super::super::document::{ConfigNode, ConfigValue};
use super::super::export_value::ExportValue;
use super::json::one_line;
use super::{ENTRY_NAME, EntrySplice, line_break, nested};

/// Finds the places at which an entry can be inserted, the best first.
pub(super) fn insertions(
    body: &str,
    root: &ConfigNode,
    shape: &EntryShape,
    entry: &ExportValue,
) -> Result<Vec<EntrySplice>, String> {
    let [key] = shape.key else { return Err("the servers are not at the top".to_owned()) };
    let line_break = line_break(body);
    let lines = Lines::of(body);
    let is_list = shape.listing == ServerListing::List;
    let servers = match is_list {
        true => ExportValue::List(vec![entry.clone()]),
        false => ExportValue::Object(vec![(ENTRY_NAME.to_owned(), entry.clone())]),
    };
    let block = |indent: &str| {
        let text = servers.yaml(0);
        text.lines().map(|line| format!("{indent}{line}{line_break}")).collect::<String>()
    };
    let after_line = |line: usize, text: String| {
        let offset = lines.end(line);
        let before = &body[..offset];
        if before.is_empty() || before.ends_with('\n') {
            return EntrySplice::insertion(offset, text);
        }
        // A file without a final line break stays one.
        let text = text.strip_suffix(line_break).unwrap_or(&text);
        EntrySplice::insertion(offset, format!("{line_break}{text}"))
    };
    let entries = match &root.value {
        ConfigValue::Object(entries) => entries.as_slice(),
        ConfigValue::Null => &[],
        _ => return Err("the file is not a mapping".to_owned()),
    };
    if !entries.is_empty() && body.get(lines.offset(&root.at)..).is_some_and(|text| text.starts_with('{')) {
        return Err("the file is written in braces".to_owned());
    }
    let Some(index) = entries.iter().position(|one| one.key == *key) else {
        let text: String = nested(shape.key, servers).yaml(0).replace('\n', line_break);
        return Ok(vec![after_line(lines.count(), text)]);
    };
    let found = &entries[index];
    let key_line = line_of(&found.at);
    let end =
        entries.get(index + 1).map_or_else(|| lines.count(), |next| line_of(&next.at).saturating_sub(1));
    let (first, is_empty) = match &found.node.value {
        ConfigValue::Null => {
            return null_value(body, &lines, found.at.column() as usize, key_line, &block, line_break);
        }
        ConfigValue::Object(inner) if !is_list => (inner.first().map(|first| &first.at), inner.is_empty()),
        ConfigValue::Array(items) if is_list => (items.first().map(|first| &first.at), items.is_empty()),
        _ => return Err(format!("`{key}` is not a {}", if is_list { "list" } else { "mapping" })),
    };
    let value_offset = lines.offset(&found.node.at);
    let opening = body.get(value_offset..).and_then(|text| text.chars().next());
    if let Some(opening @ ('{' | '[')) = opening {
        let closing = if opening == '{' { '}' } else { ']' };
        let region = &body[..lines.end(end)];
        let close = region.rfind(closing).filter(|close| *close > value_offset);
        let close = close.ok_or_else(|| format!("the end of `{key}` was not found"))?;
        let inside = body[..close].trim_end();
        let member = if is_list { one_line(entry) } else { format!("{ENTRY_NAME}: {}", one_line(entry)) };
        let inserted = if is_empty {
            member
        } else if inside.ends_with(',') {
            format!(" {member},")
        } else {
            format!(", {member}")
        };
        return Ok(vec![EntrySplice::insertion(inside.len(), inserted)]);
    }
    let first = first.ok_or_else(|| format!("the end of `{key}` was not found"))?;
    let line = lines.text(line_of(first));
    let indent: String = line.chars().take_while(|letter| *letter == ' ').collect();
    // After the last line with content; comments after it may belong to what follows. A line that looks like a comment
    // may be the end of a longer text, in which case the second place is right.
    let last = |is_content: &dyn Fn(&str) -> bool| {
        (key_line..=end).rev().find(|number| is_content(lines.text(*number).trim())).unwrap_or(end)
    };
    let with_content =
        last(&|line| !line.is_empty() && !line.starts_with('#') && line != "..." && line != "---");
    let with_text = last(&|line| !line.is_empty());
    let mut places = vec![with_content, with_text, end];
    places.dedup();
    Ok(places.into_iter().map(|line| after_line(line, block(&indent))).collect())
}

/// Finds the insertion after a key without a value, or in place of its `null`.
fn null_value(
    body: &str,
    lines: &Lines<'_>,
    column: usize,
    line: usize,
    block: &dyn Fn(&str) -> String,
    line_break: &str,
) -> Result<Vec<EntrySplice>, String> {
    let text = lines.text(line).trim_end_matches(['\n', '\r']);
    let block = block("  ");
    let block = block.strip_suffix(line_break).unwrap_or(&block);
    let start = lines.start(line);
    let colon = text.char_indices().skip(column.saturating_sub(1)).find(|(_, letter)| *letter == ':');
    let (colon, _) = colon.ok_or("the value of the key was not found")?;
    let value = &text[colon + 1..];
    let content = value.split(" #").next().unwrap_or(value).trim();
    if !["", "~", "null", "Null", "NULL"].contains(&content) {
        return Err("the value of the key was not found".to_owned());
    }
    if content.is_empty() {
        let inserted = format!("{line_break}{block}");
        return Ok(vec![EntrySplice::insertion(start + text.len(), inserted)]);
    }
    let from = start + colon + 1 + value.find(content).unwrap_or_default();
    let begin = body[..from].trim_end_matches(' ').len();
    let removed = body[begin..from + content.len()].to_owned();
    Ok(vec![EntrySplice { offset: begin, removed, inserted: format!("{line_break}{block}") }])
}

/// Removes the lines of the entry.
pub(super) fn removal(body: &str, root: &ConfigNode, shape: &EntryShape) -> Result<String, String> {
    let [key] = shape.key else { return Err("the servers are not at the top".to_owned()) };
    let lines = Lines::of(body);
    let entries = root.as_object().unwrap_or_default();
    let index = entries.iter().position(|one| one.key == *key).ok_or("the entry is not there")?;
    let limit =
        entries.get(index + 1).map_or_else(|| lines.count(), |next| line_of(&next.at).saturating_sub(1));
    let node = &entries[index].node;
    let starts: Vec<(usize, bool)> = match &node.value {
        ConfigValue::Object(inner) => {
            inner.iter().map(|one| (line_of(&one.at), one.key == ENTRY_NAME)).collect()
        }
        ConfigValue::Array(items) => {
            let is_entry =
                |item: &ConfigNode| item.get("name").and_then(ConfigNode::as_str) == Some(ENTRY_NAME);
            items.iter().map(|item| (line_of(&item.at), is_entry(item))).collect()
        }
        _ => return Err("the entry is not there".to_owned()),
    };
    let place = starts.iter().position(|(_, is_entry)| *is_entry).ok_or("the entry is not there")?;
    let first = starts[place].0;
    let end = starts.get(place + 1).map_or(limit, |(next, _)| next.saturating_sub(1));
    let shares_a_line = starts.iter().filter(|(line, _)| *line == first).count() > 1;
    if shares_a_line || first == line_of(&entries[index].at) || end < first {
        return Err("the entry shares a line with something else".to_owned());
    }
    let is_content = |line: &usize| {
        let text = lines.text(*line).trim();
        !text.is_empty() && !text.starts_with('#')
    };
    let last = (first..=end).rev().find(is_content).unwrap_or(end);
    Ok([&body[..lines.start(first)], &body[lines.end(last)..]].concat())
}

fn line_of(at: &super::super::ConfigSource) -> usize {
    at.line() as usize
}

/// Lines of a text, counted from 1.
struct Lines<'a> {
    body: &'a str,
    /// Offsets of the beginnings.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(body: &'a str) -> Self {
        let mut starts = vec![0];
        starts
            .extend(body.match_indices('\n').map(|(index, _)| index + 1).filter(|start| *start < body.len()));
        Self { body, starts }
    }

    fn count(&self) -> usize {
        self.starts.len()
    }

    fn start(&self, line: usize) -> usize {
        self.starts.get(line.saturating_sub(1)).copied().unwrap_or(self.body.len())
    }

    /// Returns the end of a line, after its line break.
    fn end(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(self.body.len())
    }

    fn text(&self, line: usize) -> &'a str {
        self.body.get(self.start(line)..self.end(line)).unwrap_or_default()
    }

    fn offset(&self, at: &super::super::ConfigSource) -> usize {
        let line = self.text(line_of(at));
        let skipped = (at.column() as usize).saturating_sub(1);
        let column = line.char_indices().nth(skipped).map_or(line.len(), |(index, _)| index);
        self.start(line_of(at)) + column
    }
}
