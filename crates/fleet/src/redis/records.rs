//! Sealed records: what they contain, and the place that each opens in.

use crate::keys::{FlowKey, digest, to_hex};
use crate::node::{NodeId, NodeRecord};
use crate::relay::{RelayError, RelayHint};
use crate::sealing::FleetKeys;
use crate::session::{EntryKind, SessionEntry, SessionKey};
use crate::stream::{EventPosition, PendingAnswer, StreamNumber};

use super::reply::{entry_kind_number, entry_kind_of};

/// Number of bytes of a digest that names a field. Fields of one hash do not meet by chance.
const FIELD_BYTES: usize = 16;

pub(super) fn seal_node(keys: &FleetKeys, record: &NodeRecord) -> Vec<u8> {
    let text = serde_json::to_vec(record).expect("a record has only strings and numbers");
    keys.seal(&[b"node", record.id.to_string().as_bytes()], &text)
}

pub(super) fn open_node(keys: &FleetKeys, node: NodeId, sealed: &[u8]) -> Result<NodeRecord, RelayError> {
    let text = keys.open(&[b"node", node.to_string().as_bytes()], sealed)?;
    serde_json::from_slice(&text).map_err(|_| RelayError::Sealed)
}

pub(super) fn seal_body(keys: &FleetKeys, session: &SessionKey, body: &[u8]) -> Vec<u8> {
    keys.seal(&[b"body", session.as_bytes()], body)
}

/// Opens the record of a session; a closed one has none.
pub(super) fn open_body(
    keys: &FleetKeys,
    session: &SessionKey,
    sealed: &[u8],
) -> Result<Vec<u8>, RelayError> {
    if sealed.is_empty() { Ok(Vec::new()) } else { keys.open(&[b"body", session.as_bytes()], sealed) }
}

/// Field of an entry.
pub(super) fn entry_field(session: &SessionKey, kind: EntryKind, key: &[u8]) -> String {
    field("entry", &[session.as_bytes(), &[entry_kind_number(kind)], key])
}

pub(super) fn seal_entry(keys: &FleetKeys, session: &SessionKey, entry: &SessionEntry) -> Vec<u8> {
    let mut text = vec![entry_kind_number(entry.kind)];
    push_part(&mut text, &entry.key);
    text.extend_from_slice(&entry.value);
    keys.seal(&[b"entry", session.as_bytes()], &text)
}

/// Opens an entry; `None` if it is of a kind that only a later version knows.
pub(super) fn open_entry(
    keys: &FleetKeys,
    session: &SessionKey,
    sealed: &[u8],
) -> Result<Option<SessionEntry>, RelayError> {
    let text = keys.open(&[b"entry", session.as_bytes()], sealed)?;
    let (kind, rest) = text.split_first().ok_or(RelayError::Sealed)?;
    let (key, value) = split_part(rest)?;
    Ok(entry_kind_of(*kind).map(|kind| SessionEntry::new(kind, key, value)))
}

/// Field of a pending answer; it begins with the number of the stream.
pub(super) fn pending_field(session: &SessionKey, stream: StreamNumber, request: &str) -> String {
    let name = stream.to_string();
    format!("{name}:{}", field("request", &[session.as_bytes(), name.as_bytes(), request.as_bytes()]))
}

pub(super) fn seal_pending(
    keys: &FleetKeys,
    session: &SessionKey,
    field: &str,
    pending: &PendingAnswer,
) -> Vec<u8> {
    let mut text = Vec::new();
    push_part(&mut text, pending.request.as_bytes());
    text.extend_from_slice(&pending.detail);
    keys.seal(&[b"pending", session.as_bytes(), field.as_bytes()], &text)
}

pub(super) fn open_pending(
    keys: &FleetKeys,
    session: &SessionKey,
    field: &str,
    sealed: &[u8],
) -> Result<PendingAnswer, RelayError> {
    let text = keys.open(&[b"pending", session.as_bytes(), field.as_bytes()], sealed)?;
    let (request, detail) = split_part(&text)?;
    let request = std::str::from_utf8(request).map_err(|_| RelayError::Sealed)?;
    Ok(PendingAnswer::new(request, detail))
}

/// Place of an event: it cannot be moved, and a message cannot become an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventPlace<'a> {
    pub(super) session: &'a SessionKey,
    pub(super) stream: StreamNumber,
    pub(super) position: EventPosition,
    pub(super) is_answer: bool,
}

impl EventPlace<'_> {
    pub(super) fn seal(&self, keys: &FleetKeys, payload: &[u8]) -> Vec<u8> {
        self.with(|place| keys.seal(place, payload))
    }

    pub(super) fn open(&self, keys: &FleetKeys, sealed: &[u8]) -> Result<Vec<u8>, RelayError> {
        self.with(|place| keys.open(place, sealed))
    }

    fn with<T>(&self, run: impl FnOnce(&[&[u8]]) -> T) -> T {
        let id = format!("{}-{}", self.stream, self.position);
        run(&[b"event", self.session.as_bytes(), id.as_bytes(), &[u8::from(self.is_answer)]])
    }
}

/// Field of a label.
pub(super) fn label_field(flow: &FlowKey, label: &str) -> String {
    field("label", &[&flow.0, label.as_bytes()])
}

pub(super) fn seal_label(keys: &FleetKeys, flow: &FlowKey, label: &str) -> Vec<u8> {
    keys.seal(&[b"label", &flow.0], label.as_bytes())
}

pub(super) fn open_label(keys: &FleetKeys, flow: &FlowKey, sealed: &[u8]) -> Result<Box<str>, RelayError> {
    let text = keys.open(&[b"label", &flow.0], sealed)?;
    String::from_utf8(text).map(String::into_boxed_str).map_err(|_| RelayError::Sealed)
}

pub(super) fn seal_hint(keys: &FleetKeys, hint: &RelayHint) -> Vec<u8> {
    let mut text = Vec::new();
    push_part(&mut text, hint.topic.as_bytes());
    text.extend_from_slice(hint.detail.as_bytes());
    keys.seal(&[b"hint"], &text)
}

/// Opens a hint; `None` for one that does not open, which is as good as lost.
pub(super) fn open_hint(keys: &FleetKeys, sealed: &[u8]) -> Option<RelayHint> {
    let text = keys.open(&[b"hint"], sealed).ok()?;
    let (topic, detail) = split_part(&text).ok()?;
    Some(RelayHint::new(std::str::from_utf8(topic).ok()?, std::str::from_utf8(detail).ok()?))
}

fn field(domain: &str, parts: &[&[u8]]) -> String {
    to_hex(&digest(domain, parts)[..FIELD_BYTES])
}

/// Appends a part with its length.
fn push_part(text: &mut Vec<u8>, part: &[u8]) {
    text.extend_from_slice(&(part.len() as u64).to_be_bytes());
    text.extend_from_slice(part);
}

/// Splits a part off that was written with its length.
fn split_part(text: &[u8]) -> Result<(&[u8], &[u8]), RelayError> {
    let (length, rest) = text.split_first_chunk::<8>().ok_or(RelayError::Sealed)?;
    let length = usize::try_from(u64::from_be_bytes(*length)).map_err(|_| RelayError::Sealed)?;
    rest.split_at_checked(length).ok_or(RelayError::Sealed)
}
