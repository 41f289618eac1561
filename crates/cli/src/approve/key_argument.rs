//! The argument that distinguishes one approval from another on a single line.

use hospes::model::RawJson;
use hospes_host::approvals::{Approval, ApprovalCard};
use serde_json::Value;

use super::card::reach;
use super::text;

/// Names of arguments that identify a call, most specific first.
const KEY_ARGUMENT_NAMES: [&str; 15] = [
    "path",
    "file_path",
    "file",
    "filename",
    "uri",
    "url",
    "command",
    "cmd",
    "query",
    "sql",
    "to",
    "recipient",
    "name",
    "title",
    "id",
];

/// Returns the argument that identifies what an approval is about, no wider than `width` columns. Returns `None` if it
/// has no arguments.
pub(crate) fn key_argument(approval: &Approval, width: usize) -> Option<String> {
    let arguments: &RawJson = match &approval.card {
        ApprovalCard::Call(card) => &card.arguments,
        ApprovalCard::Result(card) => &card.arguments,
        ApprovalCard::Form(card) => return Some(text::line(&card.message, width)),
        ApprovalCard::Url(card) => return Some(text::line(&card.url, width)),
        ApprovalCard::Plan(card) => {
            let groups: Vec<String> = card.groups.iter().map(|group| reach(&group.summary)).collect();
            return Some(text::line(&groups.join(", "), width));
        }
        _ => return None,
    };
    let Ok(Value::Object(members)) = arguments.decode::<Value>() else { return None };
    let rank = |name: &str| {
        KEY_ARGUMENT_NAMES
            .iter()
            .position(|one| one.eq_ignore_ascii_case(name))
            .unwrap_or(KEY_ARGUMENT_NAMES.len())
    };
    // Plain values first, because a nested one is rarely readable on one line.
    let is_nested = |value: &Value| value.is_object() || value.is_array();
    let (name, value) = members.iter().min_by_key(|(name, value)| (is_nested(value), rank(name)))?;
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(text::line(&format!("{name}: {shown}"), width))
}
