//! A result that is written once and sent often: a list of tools.

use std::sync::OnceLock;

use bytes::Bytes;

use super::{EncodeError, Reply, ServerStamp};
use crate::{Method, Revision};

/// A result with the bytes it has in each revision, written when they are first asked for.
///
/// The bytes hold the stamp of that first time: a prepared result belongs to one server and to one method.
#[derive(Debug)]
pub struct PreparedResult {
    reply: Reply,
    bytes: [OnceLock<Bytes>; Revision::ALL.len()],
}

impl PreparedResult {
    /// Keeps a result; nothing is written yet.
    #[must_use]
    pub fn new(reply: impl Into<Reply>) -> Self {
        Self { reply: reply.into(), bytes: Default::default() }
    }

    /// The result itself.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// The value of `result` as `to` has it, sharing memory with every other answer.
    ///
    /// # Errors
    /// As [`Reply::encode`]; a failure is not remembered.
    pub fn bytes(&self, method: &Method, to: Revision, stamp: &ServerStamp) -> Result<Bytes, EncodeError> {
        let slot = &self.bytes[to.index()];
        if let Some(bytes) = slot.get() {
            return Ok(bytes.clone());
        }
        // Written outside of the slot, because it may fail. Two threads may do so at once; the first bytes
        // stay.
        let mut out = Vec::new();
        self.reply.encode(method, to, stamp, &mut out)?;
        Ok(slot.get_or_init(|| out.into()).clone())
    }
}

impl PartialEq for PreparedResult {
    /// Compares the results; bytes that were already encoded do not matter.
    fn eq(&self, other: &Self) -> bool {
        self.reply == other.reply
    }
}
