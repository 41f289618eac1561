//! Answers of the engine: their parts, and its errors.

use ::redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use crate::node::NodeId;
use crate::relay::{EngineFault, RelayError};
use crate::session::{EntryKind, SessionOwner, SessionState};

/// States by their numbers in records.
const STATES: [SessionState; 4] =
    [SessionState::Pending, SessionState::Active, SessionState::Closing, SessionState::Closed];

/// Kinds of entries by their numbers in records.
const ENTRY_KINDS: [EntryKind; 3] = [EntryKind::Subscription, EntryKind::Task, EntryKind::Upstream];

/// Error for an answer that does not have the expected form.
pub(super) const UNEXPECTED: RelayError = RelayError::Unavailable(EngineFault::Protocol);

/// Answer of a script: a word and its details.
#[derive(Debug)]
pub(super) struct ScriptReply(Vec<Value>);

impl ScriptReply {
    pub(super) fn read(value: Value) -> Result<Self, RelayError> {
        parts(value).map(Self)
    }

    /// Returns the word, or the error that it stands for.
    pub(super) fn word(&self) -> Result<&str, RelayError> {
        match self.text(0)? {
            "gone" => Err(RelayError::Gone),
            "fenced" => Err(RelayError::Fenced { now: self.owner_at(1)? }),
            "order" => Err(RelayError::OutOfOrder { expected: self.number(1)? }),
            word => Ok(word),
        }
    }

    pub(super) fn text(&self, index: usize) -> Result<&str, RelayError> {
        let value = self.0.get(index).ok_or(UNEXPECTED)?;
        match value {
            Value::BulkString(bytes) => std::str::from_utf8(bytes).map_err(|_| UNEXPECTED),
            Value::SimpleString(text) => Ok(text),
            _ => Err(UNEXPECTED),
        }
    }

    pub(super) fn number(&self, index: usize) -> Result<u64, RelayError> {
        self.text(index)?.parse().map_err(|_| UNEXPECTED)
    }

    /// Bytes at this place; empty if there are none.
    pub(super) fn bytes(&self, index: usize) -> Result<&[u8], RelayError> {
        match self.0.get(index) {
            Some(Value::BulkString(bytes)) => Ok(bytes),
            Some(Value::Nil) | None => Ok(&[]),
            Some(_) => Err(UNEXPECTED),
        }
    }

    pub(super) fn take(&mut self, index: usize) -> Value {
        self.0.get_mut(index).map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_nil(&self, index: usize) -> bool {
        matches!(self.0.get(index), Some(Value::Nil) | None)
    }

    /// Owner at this place and the next; `None` if there is none.
    pub(super) fn owner_at(&self, index: usize) -> Result<Option<SessionOwner>, RelayError> {
        if self.is_nil(index) {
            return Ok(None);
        }
        let node = NodeId::parse(self.text(index)?).ok_or(UNEXPECTED)?;
        Ok(Some(SessionOwner { node, epoch: self.number(index + 1)? }))
    }
}

/// Parts of an array.
pub(super) fn parts(value: Value) -> Result<Vec<Value>, RelayError> {
    match value {
        Value::Array(parts) | Value::Set(parts) => Ok(parts),
        Value::Nil => Ok(Vec::new()),
        _ => Err(UNEXPECTED),
    }
}

/// Byte strings of an array.
pub(super) fn byte_strings(value: Value) -> Result<Vec<Vec<u8>>, RelayError> {
    let bytes = |value| match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(UNEXPECTED),
    };
    parts(value)?.into_iter().map(bytes).collect()
}

/// Pairs of an array that lists a hash.
pub(super) fn pairs(value: Value) -> Result<Vec<(String, Vec<u8>)>, RelayError> {
    let mut strings = byte_strings(value)?.into_iter();
    let mut pairs = Vec::with_capacity(strings.len() / 2);
    while let (Some(name), Some(value)) = (strings.next(), strings.next()) {
        pairs.push((String::from_utf8(name).map_err(|_| UNEXPECTED)?, value));
    }
    Ok(pairs)
}

/// Number of a state in records.
pub(super) fn state_number(state: SessionState) -> usize {
    STATES.iter().position(|known| *known == state).expect("the list has all states")
}

/// State of this number. One of a later version counts as closing: nobody uses or adopts it here.
pub(super) fn state_of(number: u64) -> SessionState {
    usize::try_from(number)
        .ok()
        .and_then(|number| STATES.get(number))
        .copied()
        .unwrap_or(SessionState::Closing)
}

pub(super) fn entry_kind_number(kind: EntryKind) -> u8 {
    let number = ENTRY_KINDS.iter().position(|known| *known == kind).expect("the list has all kinds");
    u8::try_from(number).expect("there are few kinds")
}

pub(super) fn entry_kind_of(number: u8) -> Option<EntryKind> {
    ENTRY_KINDS.get(usize::from(number)).copied()
}

/// Cause of a failed command.
pub(super) fn fault_of(error: &RedisError) -> EngineFault {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ReadOnly) => EngineFault::ReadOnly,
        ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown) => EngineFault::Loading,
        ErrorKind::Server(ServerErrorKind::NoPerm) | ErrorKind::AuthenticationFailed => {
            EngineFault::Authentication
        }
        ErrorKind::Io if error.is_timeout() => EngineFault::Timeout,
        ErrorKind::Io if error.is_connection_refusal() => EngineFault::NotConnected,
        ErrorKind::Io => EngineFault::Disconnected,
        _ => match error.code() {
            Some("OOM") => EngineFault::OutOfMemory,
            Some("MISCONF" | "NOREPLICAS") => EngineFault::WritesRefused,
            Some("NOAUTH" | "WRONGPASS") => EngineFault::Authentication,
            _ => EngineFault::Protocol,
        },
    }
}
