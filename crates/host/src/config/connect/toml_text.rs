//! Insertion into TOML, and removal from it.

use toml::de::{DeTable, DeValue};

use super::super::export_value::{ExportValue, toml_text};
use super::{ENTRY_NAME, EntrySplice, line_break, nested};

/// Finds the insertion of an entry into the table of servers, which is below the top of the file.
pub(super) fn insertions(body: &str, path: &[&str], entry: &ExportValue) -> Result<Vec<EntrySplice>, String> {
    let table = DeTable::parse(body).map_err(|error| error.message().to_owned())?;
    let [key] = path else { return Err("the table of servers is not at the top".to_owned()) };
    if let Some(servers) = table.get_ref().get(*key) {
        let DeValue::Table(inner) = servers.get_ref() else { return Err(format!("`{key}` is not a table")) };
        let span = servers.span();
        let written = body.get(span.clone()).unwrap_or_default();
        // An inline table cannot be extended from outside.
        if written.starts_with('{') && written.ends_with('}') {
            let inside = written[..written.len() - 1].trim_end();
            let member = format!("{ENTRY_NAME} = {}", entry.toml());
            let (offset, inserted) = match inside {
                "{" => (span.start + 1, format!(" {member} ")),
                _ if inside.ends_with(',') => (span.start + inside.len(), format!(" {member},")),
                _ => (span.start + inside.len(), format!(", {member}")),
            };
            // With white space between the braces, one of the two spaces is there.
            let inserted = match inner.is_empty() && written.len() > 2 {
                true => inserted.trim_end().to_owned(),
                false => inserted,
            };
            return Ok(vec![EntrySplice::insertion(offset, inserted)]);
        }
    }
    let line_break = line_break(body);
    let servers = nested(path, ExportValue::Object(vec![(ENTRY_NAME.to_owned(), entry.clone())]));
    let mut inserted = String::new();
    if !body.is_empty() {
        if !body.ends_with('\n') {
            inserted.push_str(line_break);
        }
        inserted.push_str(line_break);
    }
    inserted.push_str(&toml_text(&servers, path).replace('\n', line_break));
    Ok(vec![EntrySplice::insertion(body.len(), inserted)])
}

/// Removes the table of the entry, with those below it.
pub(super) fn removal(body: &str, path: &[&str]) -> Result<String, String> {
    let name = format!("{}.{ENTRY_NAME}", path.join("."));
    let is_own = |line: &str| {
        let header = line.trim_start().strip_prefix('[').and_then(|rest| rest.split(']').next());
        let header: String = header.unwrap_or_default().chars().filter(|c| !c.is_whitespace()).collect();
        header == name || header.strip_prefix(&name).is_some_and(|rest| rest.starts_with('.'))
    };
    let mut left = String::new();
    // Lines after the last one with content: they belong to what follows.
    let mut pending = String::new();
    let (mut inside, mut found) = (false, false);
    for line in body.split_inclusive('\n') {
        let content = line.trim();
        if content.starts_with('[') {
            inside = is_own(line);
            found |= inside;
        }
        if !inside {
            left.push_str(&std::mem::take(&mut pending));
            left.push_str(line);
        } else if content.is_empty() || content.starts_with('#') {
            pending.push_str(line);
        } else {
            pending.clear();
        }
    }
    left.push_str(&pending);
    if found { Ok(left) } else { Err(format!("it is not written as a table `[{name}]`")) }
}
