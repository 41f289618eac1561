//! Views of pins for people and programs.

use hospes_policy::visible;
use hospes_store::pins::{
    ItemKind, ItemPinState, RecordedDefinition, ServerFingerprint, ServerPinState, Sha256Digest, StoredItem,
    StoredServer,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lint::{
    Lint, NeighbourTools, command_lints, lints, safer_annotations_lint, split_instruction_lint,
};

/// Pin state of a server, or of one of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PinState {
    /// Never accepted.
    New,
    /// Accepted with this definition.
    Accepted,
    /// Accepted with another definition. For a server: an item waits for a decision.
    Changed,
    /// Rejected.
    Rejected,
}

impl PinState {
    /// Returns its serialized name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Accepted => "accepted",
            Self::Changed => "changed",
            Self::Rejected => "rejected",
        }
    }
}

/// A server with all that it offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PinnedServer {
    /// Name of the server in the configuration.
    pub server: String,
    /// Pin state of the server.
    pub state: PinState,
    /// True if the server is built into the program and trusted as the program is.
    pub is_builtin: bool,
    /// Hash to pass in order to accept the server with all of its current items.
    pub hash: Sha256Digest,
    /// Fingerprint of the server: its command line or URL, and its program.
    pub fingerprint: ServerFingerprint,
    /// Fingerprint that was accepted, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ServerFingerprint>,
    /// Lints of the fingerprint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lints: Vec<Lint>,
    /// Time of the decision, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<i64>,
    /// Author of the decision, or `first use`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Items of the server, as last seen.
    pub items: Vec<PinnedItem>,
}

/// An item that a server offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PinnedItem {
    /// Kind of the item.
    pub kind: ItemKind,
    /// Name of the item at the server; empty for instructions.
    pub name: String,
    /// Pin state of the item.
    pub state: PinState,
    /// Hash to pass in order to accept the item.
    pub hash: Sha256Digest,
    /// Hash that was accepted last, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Sha256Digest>,
    /// Lints of the definition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lints: Vec<Lint>,
    /// Time at which this definition was first seen, in microseconds since 1970.
    pub seen_at: i64,
    /// Time of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<i64>,
    /// Author of the decision, or `first use`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
}

/// Difference between the current and the accepted definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DefinitionDifference {
    /// The item.
    pub item: PinnedItem,
    /// Definition that was last accepted. `None` if there is none or it is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Current definition. `None` if it was too long to be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// Locations at which the two differ.
    pub changes: Vec<DefinitionChange>,
}

/// One place where two definitions differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DefinitionChange {
    /// Location: `description`, `inputSchema.properties.path`.
    pub at: String,
    /// Previous value, with hidden characters made visible. `None` if it was absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Current value. `None` if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Maximum number of differences of one item.
const MAX_CHANGES: usize = 200;

impl PinnedServer {
    /// Creates the entry of a built-in server.
    pub(super) fn builtin(server: &str, fingerprint: ServerFingerprint) -> Self {
        Self {
            server: server.to_owned(),
            state: PinState::Accepted,
            is_builtin: true,
            hash: fingerprint.target,
            fingerprint,
            before: None,
            lints: Vec::new(),
            decided_at: None,
            decided_by: None,
            items: Vec::new(),
        }
    }

    /// Creates the view of a server. `same` are all servers seen under its name.
    pub(super) fn of(
        server: &StoredServer,
        history: &[RecordedDefinition],
        same: &[StoredServer],
        neighbours: &NeighbourTools,
    ) -> Self {
        let items: Vec<PinnedItem> = server
            .items
            .iter()
            .filter(|item| item.is_current)
            .map(|item| item_of(item, history, neighbours))
            .collect();
        let replaced = server.is_replaced().then(|| {
            server
                .fingerprint
                .clone()
                .with_program(server.fingerprint.program.clone(), server.accepted_program)
        });
        // Under one name there may have been other command lines; an accepted one is what this one would replace.
        let other = same.iter().filter(|other| {
            other.state == ServerPinState::Accepted && other.fingerprint.target != server.fingerprint.target
        });
        let other = other.max_by_key(|other| other.decided_at).map(|other| other.fingerprint.clone());
        let before = replaced.or_else(|| other.filter(|_| server.state == ServerPinState::New));
        let waits = items.iter().any(|item| matches!(item.state, PinState::New | PinState::Changed));
        let state = match server.state {
            ServerPinState::Rejected => PinState::Rejected,
            ServerPinState::Accepted if before.is_none() && !waits => PinState::Accepted,
            ServerPinState::Accepted => PinState::Changed,
            _ if before.is_some() => PinState::Changed,
            _ => PinState::New,
        };
        Self {
            server: server.name.clone(),
            state,
            is_builtin: false,
            hash: server.hash,
            fingerprint: server.fingerprint.clone(),
            before,
            lints: server_lints(server, history),
            decided_at: server.decided_at,
            decided_by: server.decided_by.clone(),
            items,
        }
    }
}

/// Returns the lints of a server: of its command line, and of its tools together.
fn server_lints(server: &StoredServer, history: &[RecordedDefinition]) -> Vec<Lint> {
    let mut lints = command_lints(&server.fingerprint.shown);
    let tools = server.items.iter().filter(|item| item.is_current && item.kind == ItemKind::Tool);
    let definitions = tools.filter_map(|item| {
        let same = |one: &&RecordedDefinition| {
            one.item.kind == item.kind && one.item.name == item.name && one.item.hash == item.hash
        };
        let definition = history.iter().find(same)?.definition.as_deref()?;
        let definition: Value = serde_json::from_str(definition).ok()?;
        definition.get("description")?.as_str().map(str::to_owned)
    });
    let descriptions: Vec<String> = definitions.collect();
    lints.extend(split_instruction_lint(descriptions.iter().map(String::as_str)));
    lints
}

fn item_of(item: &StoredItem, history: &[RecordedDefinition], neighbours: &NeighbourTools) -> PinnedItem {
    let same = |one: &&RecordedDefinition| one.item.kind == item.kind && one.item.name == item.name;
    let text = history.iter().filter(same).find(|one| one.item.hash == item.hash);
    let text = text.and_then(|one| one.definition.as_deref());
    let accepted = accepted_before(item, history);
    let before = accepted.map(|one| one.item.hash);
    let mut lints = lints(&item.name, text, neighbours);
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    if let (Some(before), Some(after)) =
        (accepted.and_then(|one| read(one.definition.as_deref()?)), text.and_then(read))
    {
        lints.extend(safer_annotations_lint(&before, &after));
    }
    PinnedItem {
        kind: item.kind,
        name: item.name.clone(),
        state: match item.state {
            ItemPinState::Accepted => PinState::Accepted,
            ItemPinState::Rejected => PinState::Rejected,
            _ if before.is_some() => PinState::Changed,
            _ => PinState::New,
        },
        hash: item.hash,
        before,
        lints,
        seen_at: item.seen_at,
        decided_at: item.decided_at,
        decided_by: item.decided_by.clone(),
    }
}

/// Returns the definition that was accepted last under the name of an item that is not accepted.
fn accepted_before<'h>(
    item: &StoredItem,
    history: &'h [RecordedDefinition],
) -> Option<&'h RecordedDefinition> {
    let same = history
        .iter()
        .filter(|one| one.item.kind == item.kind && one.item.name == item.name && one.item.hash != item.hash);
    // Several may have been accepted in turn; the person compares with the latest.
    same.filter(|one| one.item.state == ItemPinState::Accepted).max_by_key(|one| one.item.decided_at)
}

impl DefinitionDifference {
    pub(super) fn of(item: &StoredItem, history: &[RecordedDefinition], neighbours: &NeighbourTools) -> Self {
        let read = |one: &RecordedDefinition| {
            let text = one.definition.as_deref()?;
            Some(serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())))
        };
        let now = history
            .iter()
            .find(|one| (one.item.kind, &one.item.name, one.item.hash) == (item.kind, &item.name, item.hash));
        let (before, after) = (accepted_before(item, history).and_then(read), now.and_then(read));
        let mut changes = Vec::new();
        compare("", before.as_ref(), after.as_ref(), &mut changes);
        Self { item: item_of(item, history, neighbours), before, after, changes }
    }
}

/// Returns the locations at which two definitions differ; `None` for one that is not offered.
#[must_use]
pub fn definition_changes(before: Option<&Value>, after: Option<&Value>) -> Vec<DefinitionChange> {
    let mut changes = Vec::new();
    compare("", before, after, &mut changes);
    changes
}

/// Finds the differences between two values at the deepest possible level.
fn compare(at: &str, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<DefinitionChange>) {
    if before == after || changes.len() >= MAX_CHANGES {
        return;
    }
    let below = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    match (before, after) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            for (name, value) in one {
                compare(&below(name), Some(value), other.get(name), changes);
            }
            for (name, value) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                compare(&below(name), None, Some(value), changes);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                compare(&format!("{at}[{index}]"), one.get(index), other.get(index), changes);
            }
        }
        // What was not there at all is told member by member.
        (None, Some(Value::Object(members))) if at.is_empty() => {
            for (name, value) in members {
                compare(name, None, Some(value), changes);
            }
        }
        _ => changes.push(DefinitionChange {
            at: visible(at),
            before: before.map(text),
            after: after.map(text),
        }),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text),
        other => visible(&serde_json::to_string_pretty(other).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_told_where_it_is_with_what_hides() {
        let before =
            json!({ "name": "x", "description": "a", "inputSchema": { "p": { "q": [1, 2] }, "r": 1 } });
        let after = json!({ "name": "x", "description": "a\u{202e}", "inputSchema": { "p": { "q": [1, 3, 4] } }, "title": "T" });
        let mut changes = Vec::new();
        compare("", Some(&before), Some(&after), &mut changes);
        let told: Vec<_> = changes
            .iter()
            .map(|one| (one.at.as_str(), one.before.as_deref(), one.after.as_deref()))
            .collect();
        let expected = [
            ("description", Some("a"), Some("a\\u{202e}")),
            ("inputSchema.p.q[1]", Some("2"), Some("3")),
            ("inputSchema.p.q[2]", None, Some("4")),
            ("inputSchema.r", Some("1"), None),
            ("title", None, Some("T")),
        ];
        assert_eq!(told, expected);
    }
}
