//! Lenient decoding of lists: invalid entries are left out.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hospes_model::{
    Meta, Method, PeerResult, PeerResultError, Prompt, RawJson, Reply, Resource, ResourceTemplate, Revision,
    Tool,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Key in a list's `_meta` under which [`read_list`] describes the entries that were left out, one sentence each. It is
/// never sent.
pub const UNREADABLE_ENTRIES: &str = "hospes/unreadable";
/// Maximum number of omitted entries that are named.
const MAX_NAMED_ENTRIES: usize = 20;
/// Maximum length of a name or a path in a description, in characters.
const MAX_LABEL_LENGTH: usize = 100;

/// Decodes a page of a list as [`PeerResult::decode`] does, without invalid entries.
///
/// # Errors
/// If the result is invalid apart from entries.
pub fn read_list(method: &Method, from: Revision, json: &RawJson) -> Result<PeerResult, PeerResultError> {
    PeerResult::decode(method, from, json).or_else(|error| {
        let read =
            matches!(error, PeerResultError::Shape { .. }).then(|| decode_valid_entries(method, from, json));
        read.flatten().ok_or(error)
    })
}

/// Returns the member of a result that contains the list.
fn list_member(method: &Method) -> Option<&'static str> {
    match method {
        Method::ToolsList => Some("tools"),
        Method::PromptsList => Some("prompts"),
        Method::ResourcesList => Some("resources"),
        Method::ResourceTemplatesList => Some("resourceTemplates"),
        _ => None,
    }
}

fn decode_valid_entries(method: &Method, from: Revision, json: &RawJson) -> Option<PeerResult> {
    let member = list_member(method)?;
    let mut members: BTreeMap<Cow<'_, str>, &RawValue> = json.decode().ok()?;
    let entries: Vec<&RawValue> = serde_json::from_str(members.remove(member)?.get()).ok()?;
    // The rest of the result comes along because the entry may be read differently with it.
    let with = |entries: &[&RawValue]| {
        let mut result: BTreeMap<Cow<'_, str>, RawJson> = BTreeMap::new();
        for (key, value) in &members {
            result.insert(key.clone(), RawJson::parse(value.get().to_owned()).ok()?);
        }
        result.insert(member.into(), RawJson::from_serialize(&entries).ok()?);
        RawJson::from_serialize(&result).ok()
    };
    let (mut good, mut faults) = (Vec::new(), Vec::new());
    for (number, entry) in entries.iter().enumerate() {
        match PeerResult::decode(method, from, &with(&[entry])?) {
            Ok(_) => good.push(*entry),
            Err(error) => {
                let why = misfit(method, entry).unwrap_or_else(|| error_text(&error));
                faults.push(format!("{} was left out: {why}", entry_label(entry, number)));
            }
        }
    }
    if faults.len() > MAX_NAMED_ENTRIES {
        let more = faults.len() - MAX_NAMED_ENTRIES;
        faults.truncate(MAX_NAMED_ENTRIES);
        faults.push(format!("{more} more entries were left out"));
    }
    let mut answer = PeerResult::decode(method, from, &with(&good)?).ok()?;
    let PeerResult::Complete(reply) = &mut answer else { return None };
    let meta: &mut Meta = match reply {
        Reply::ListTools(list) => &mut list.meta,
        Reply::ListPrompts(list) => &mut list.meta,
        Reply::ListResources(list) => &mut list.meta,
        Reply::ListResourceTemplates(list) => &mut list.meta,
        _ => return None,
    };
    meta.insert(UNREADABLE_ENTRIES, RawJson::from_serialize(&faults).ok()?);
    Some(answer)
}

/// Returns a label for an entry: its name, its URI or its number.
fn entry_label(entry: &RawValue, number: usize) -> String {
    #[derive(Deserialize)]
    struct EntryNamePeek {
        name: Option<String>,
        uri: Option<String>,
    }
    let named: Option<EntryNamePeek> = serde_json::from_str(entry.get()).ok();
    match named.and_then(|named| named.name.or(named.uri)) {
        // The name is the server's, and has no bound.
        Some(name) => format!("`{}`", name.chars().take(MAX_LABEL_LENGTH).collect::<String>()),
        None => format!("entry {}", number + 1),
    }
}

/// Returns the path of the first value of an entry that does not fit, with the expected type. `None` if the entry itself
/// fits. It is read again, because the ordinary reader does not keep track of paths.
fn misfit(method: &Method, entry: &RawValue) -> Option<String> {
    match method {
        Method::ToolsList => misfit_of::<Tool>(entry),
        Method::PromptsList => misfit_of::<Prompt>(entry),
        Method::ResourcesList => misfit_of::<Resource>(entry),
        Method::ResourceTemplatesList => misfit_of::<ResourceTemplate>(entry),
        _ => None,
    }
}

fn misfit_of<T: DeserializeOwned>(entry: &RawValue) -> Option<String> {
    let mut reader = serde_json::Deserializer::from_str(entry.get());
    let error = serde_path_to_error::deserialize::<_, T>(&mut reader).err()?;
    let path = error.path().to_string();
    let why = error.into_inner();
    // The place in the entry, which nobody has as a text of its own.
    let place = format!(" at line {} column {}", why.line(), why.column());
    let text = why.to_string();
    let text = text.strip_suffix(&place).unwrap_or(&text);
    if path == "." {
        return Some(text.to_owned());
    }
    // Keys of the server's have no bound.
    let path: String = path.chars().take(MAX_LABEL_LENGTH).collect();
    Some(format!("`{path}`: {text}"))
}

fn error_text(error: &PeerResultError) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_that_is_none_costs_only_itself() {
        let json = r#"{"nextCursor":"n","tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":7},{"name":"b"},"c"]}"#;
        let json = RawJson::parse(json).unwrap();
        for revision in Revision::ALL {
            let Ok(PeerResult::Complete(Reply::ListTools(list))) =
                read_list(&Method::ToolsList, revision, &json)
            else {
                panic!("{revision}")
            };
            let names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
            assert_eq!((names, list.next_cursor.as_deref()), (vec!["a"], Some("n")), "{revision}");
            let faults: Vec<String> = list.meta.read(UNREADABLE_ENTRIES).unwrap();
            assert_eq!(faults.len(), 3);
            assert!(faults[0].starts_with("entry 2 was left out: "), "{faults:?}");
            assert!(
                faults[1].starts_with("`b` was left out: ") && faults[1].contains("inputSchema"),
                "{faults:?}"
            );
        }
    }

    #[test]
    fn the_value_that_does_not_fit_is_named_with_its_path() {
        let faults = |method: &Method, json: &str| {
            let json = RawJson::parse(json.to_owned()).unwrap();
            let Ok(PeerResult::Complete(reply)) = read_list(method, Revision::LATEST_LEGACY, &json) else {
                panic!("{json}")
            };
            let meta = match reply {
                Reply::ListTools(list) => list.meta,
                Reply::ListPrompts(list) => list.meta,
                Reply::ListResources(list) => list.meta,
                Reply::ListResourceTemplates(list) => list.meta,
                _ => panic!("{json}"),
            };
            meta.read::<Vec<String>>(UNREADABLE_ENTRIES).unwrap()
        };
        for (method, json, expected) in [
            (
                Method::ToolsList,
                r#"{"tools":[{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}]}"#,
                "`a` was left out: `annotations.readOnlyHint`: invalid type: string \"yes\", expected a boolean",
            ),
            (
                Method::ToolsList,
                r#"{"tools":[{"name":["a"],"inputSchema":{}}]}"#,
                "entry 1 was left out: `name`: invalid type: sequence, expected a string",
            ),
            (
                Method::PromptsList,
                r#"{"prompts":[{"name":"p","arguments":[{"name":"x"},{"name":1}]}]}"#,
                "`p` was left out: `arguments[1].name`: invalid type: integer `1`, expected a string",
            ),
            (
                Method::ResourcesList,
                r#"{"resources":[{"uri":"a://x","name":"r","size":"large"}]}"#,
                "`r` was left out: `size`: invalid type: string \"large\", expected u64",
            ),
            (
                Method::ResourceTemplatesList,
                r#"{"resourceTemplates":[{"name":"t"}]}"#,
                "`t` was left out: missing field `uriTemplate`",
            ),
        ] {
            assert_eq!(faults(&method, json), [expected], "{json}");
        }
    }

    #[test]
    fn what_is_no_list_stays_an_error() {
        for json in [r#"{"tools":7}"#, r#"{"tool":[]}"#, "[]"] {
            let json = RawJson::parse(json).unwrap();
            assert!(read_list(&Method::ToolsList, Revision::LATEST_LEGACY, &json).is_err());
        }
    }
}
