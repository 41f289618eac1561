//! Insertion into JSON with comments, and removal from it.

use jsonc_parser::{CollectOptions, ast, parse_to_ast};

use super::super::document::JSON_OPTIONS;
use super::super::export_value::ExportValue;
use super::super::text_literal::json_literal;
use super::{ENTRY_NAME, EntrySplice, indentation, line_break, nested};

/// Indentation of a new object if the file shows none.
const DEFAULT_INDENTATION: &str = "  ";

/// Finds the insertion of an entry into the object of servers.
pub(super) fn insertion(body: &str, path: &[&str], entry: &ExportValue) -> Result<EntrySplice, String> {
    let root = parse(body)?;
    let mut object = &root;
    let mut rest = path;
    while let Some((key, tail)) = rest.split_first() {
        match property(object, key)?.map(|(_, property)| &property.value) {
            None => break,
            Some(ast::Value::Object(inner)) => (object, rest) = (inner, tail),
            Some(ast::Value::NullKeyword(null)) => {
                let value = nested(tail, ExportValue::Object(vec![(ENTRY_NAME.to_owned(), entry.clone())]));
                let style = Style::of(body, &root);
                let indent = indentation(body, null.range.start);
                let inserted = match style.is_one_line {
                    true => one_line(&value),
                    false => pretty(&value, indent, style.unit, style.line_break),
                };
                let removed = body[null.range.start..null.range.end].to_owned();
                return Ok(EntrySplice { offset: null.range.start, removed, inserted });
            }
            Some(_) => return Err(format!("`{key}` is not an object")),
        }
    }
    let (key, value) = match rest.split_first() {
        None => (ENTRY_NAME, entry.clone()),
        Some((key, tail)) => {
            (*key, nested(tail, ExportValue::Object(vec![(ENTRY_NAME.to_owned(), entry.clone())])))
        }
    };
    Ok(add_member(body, &root, object, key, &value))
}

fn add_member(
    body: &str,
    root: &ast::Object<'_>,
    object: &ast::Object<'_>,
    key: &str,
    value: &ExportValue,
) -> EntrySplice {
    let style = Style::of(body, root);
    let (first_offset, end) = (object.range.start + 1, object.range.end - 1);
    let compact = format!("{}: {}", json_literal(key), one_line(value));
    let (Some(first), Some(last)) = (object.properties.first(), object.properties.last()) else {
        // An empty file is written as a new one would be.
        let is_root = object.range.start == root.range.start;
        if style.is_one_line && !is_root {
            return EntrySplice::insertion(first_offset, compact);
        }
        let outer = indentation(body, object.range.start);
        let inner = format!("{outer}{}", style.unit);
        let member = style.member(key, value, &inner);
        let needs_break = !body[first_offset..end].contains('\n');
        let tail = if needs_break { format!("{}{outer}", style.line_break) } else { String::new() };
        return EntrySplice::insertion(first_offset, format!("{}{inner}{member}{tail}", style.line_break));
    };
    let comma = find_comma(body, last.range.end, end);
    let line_start = body[..last.range.start].rfind('\n').map_or(0, |index| index + 1);
    let inner = &body[line_start..last.range.start];
    if !inner.trim().is_empty() || line_start < object.range.start {
        return match comma {
            Some(comma) => EntrySplice::insertion(comma + 1, format!(" {compact},")),
            None => EntrySplice::insertion(last.range.end, format!(", {compact}")),
        };
    }
    let member = style.member(key, value, inner);
    if let Some(comma) = comma {
        let offset = end_of_comments(body, comma + 1, end);
        return EntrySplice::insertion(offset, format!("{}{inner}{member},", style.line_break));
    }
    // A comment on the line of the last member stays with it if the entry goes to the front.
    let is_noted = end_of_comments(body, last.range.end, end) > last.range.end;
    if is_noted && end_of_comments(body, first_offset, first.range.start) == first_offset {
        return EntrySplice::insertion(first_offset, format!("{}{inner}{member},", style.line_break));
    }
    EntrySplice::insertion(last.range.end, format!(",{}{inner}{member}", style.line_break))
}

/// Removes the entry and the comma that belongs to it.
pub(super) fn removal(body: &str, path: &[&str]) -> Result<String, String> {
    let root = parse(body)?;
    let mut object = &root;
    for key in path {
        object = match property(object, key)? {
            Some((_, ast::ObjectProp { value: ast::Value::Object(inner), .. })) => inner,
            _ => return Err(format!("`{key}` is not an object")),
        };
    }
    let (index, found) = property(object, ENTRY_NAME)?.ok_or("the entry is not there")?;
    let end = object.range.end - 1;
    let next = object.properties.get(index + 1).map_or(end, |next| next.range.start);
    // The white space before the entry, back to the end of the line before.
    let before = body[..found.range.start].trim_end_matches([' ', '\t']);
    let before = before.strip_suffix('\n').map_or(before, |line| line.strip_suffix('\r').unwrap_or(line));
    let start = before.len();
    if let Some(comma) = find_comma(body, found.range.end, next) {
        return Ok([&body[..start], &body[comma + 1..]].concat());
    }
    let previous = index.checked_sub(1).and_then(|previous| object.properties.get(previous));
    let Some(previous) = previous else { return Ok([before, &body[found.range.end..]].concat()) };
    let comma = find_comma(body, previous.range.end, found.range.start).ok_or("a comma is missing")?;
    let between = body.get(comma + 1..start).unwrap_or_default();
    Ok([&body[..comma], between, &body[found.range.end..]].concat())
}

fn parse(body: &str) -> Result<ast::Object<'_>, String> {
    let parsed = parse_to_ast(body, &CollectOptions::default(), &JSON_OPTIONS);
    match parsed.map_err(|error| error.kind().to_string())?.value {
        Some(ast::Value::Object(root)) => Ok(root),
        _ => Err("the file is not an object".to_owned()),
    }
}

/// Finds a property. Readers differ in which of two they take, so two are an error.
fn property<'a, 'b>(
    object: &'a ast::Object<'b>,
    key: &str,
) -> Result<Option<(usize, &'a ast::ObjectProp<'b>)>, String> {
    let mut found = object.properties.iter().enumerate().filter(|(_, one)| one.name.as_str() == key);
    match (found.next(), found.next()) {
        (found, None) => Ok(found),
        _ => Err(format!("`{key}` is there more than once")),
    }
}

/// Returns the offset of the first comma outside of comments.
fn find_comma(body: &str, from: usize, to: usize) -> Option<usize> {
    let text = body.get(..to)?;
    let mut at = from;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        at += match rest.as_bytes() {
            [b',', ..] => return Some(at),
            [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    None
}

/// Returns the end of the comments that follow an offset on its line, or the offset if there are none.
fn end_of_comments(body: &str, from: usize, to: usize) -> usize {
    let text = &body[..to];
    let (mut at, mut end) = (from, from);
    while let Some(rest) = text.get(at..) {
        match rest.as_bytes() {
            [b' ' | b'\t', ..] => at += 1,
            [b'/', b'/', ..] => {
                let line = rest.split('\n').next().unwrap_or(rest);
                return at + line.strip_suffix('\r').unwrap_or(line).len();
            }
            [b'/', b'*', ..] => {
                let length = rest.find("*/").map_or(rest.len(), |end| end + 2);
                at += length;
                end = at;
                if rest[..length].contains('\n') {
                    break;
                }
            }
            _ => break,
        }
    }
    end
}

/// Form in which a file is written.
struct Style<'a> {
    is_one_line: bool,
    unit: &'a str,
    line_break: &'static str,
}

impl<'a> Style<'a> {
    fn of(body: &'a str, root: &ast::Object<'_>) -> Self {
        let first = root.properties.first().map(|first| first.range.start);
        let unit = first.map(|first| {
            let indent = indentation(body, first);
            let line_start = body[..first].rfind('\n').map_or(0, |index| index + 1);
            if line_start + indent.len() == first { indent } else { "" }
        });
        Self {
            is_one_line: !body[root.range.start..root.range.end].contains('\n'),
            unit: unit.filter(|unit| !unit.is_empty()).unwrap_or(DEFAULT_INDENTATION),
            line_break: line_break(body),
        }
    }

    fn member(&self, key: &str, value: &ExportValue, indent: &str) -> String {
        format!("{}: {}", json_literal(key), pretty(value, indent, self.unit, self.line_break))
    }
}

/// Writes a value over several lines. `indent` is the indentation of the line on which it begins.
pub(super) fn pretty(value: &ExportValue, indent: &str, unit: &str, line_break: &str) -> String {
    match value {
        ExportValue::Object(members) if !members.is_empty() => {
            let inner = format!("{indent}{unit}");
            let members: Vec<String> = members
                .iter()
                .map(|(key, value)| {
                    format!("{inner}{}: {}", json_literal(key), pretty(value, &inner, unit, line_break))
                })
                .collect();
            let members = members.join(&format!(",{line_break}"));
            format!("{{{line_break}{members}{line_break}{indent}}}")
        }
        other => one_line(other),
    }
}

/// Writes a value on one line.
pub(super) fn one_line(value: &ExportValue) -> String {
    match value {
        ExportValue::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{}: {}", json_literal(key), one_line(value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        ExportValue::List(items) => {
            format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", "))
        }
        ExportValue::Text(text) => json_literal(text),
        ExportValue::Boolean(value) => value.to_string(),
        ExportValue::Number(number) => number.clone(),
    }
}
