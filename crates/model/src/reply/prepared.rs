//! Results that are encoded once and sent many times, such as a list of tools.

use std::sync::OnceLock;

use bytes::Bytes;

use super::{EncodeError, Reply, ServerStamp};
use crate::{Method, Revision};

/// A result and its bytes in each revision, encoded on first use.
///
/// The bytes include the stamp of the first use, so a prepared result belongs to one server and one method.
#[derive(Debug)]
pub struct PreparedResult {
    reply: Reply,
    bytes: [OnceLock<Bytes>; Revision::ALL.len()],
}

impl PreparedResult {
    /// Wraps a result. Nothing is encoded yet.
    #[must_use]
    pub fn new(reply: impl Into<Reply>) -> Self {
        Self { reply: reply.into(), bytes: Default::default() }
    }

    /// Returns the result.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// Returns the value of `result` in revision `to`. All responses share the same memory.
    ///
    /// # Errors
    /// The errors of [`Reply::encode`]. A failure is not cached.
    pub fn bytes(&self, method: &Method, to: Revision, stamp: &ServerStamp) -> Result<Bytes, EncodeError> {
        let slot = &self.bytes[to.index()];
        if let Some(bytes) = slot.get() {
            return Ok(bytes.clone());
        }
        // Encoded outside the slot, because encoding may fail. If two threads do so at the same time, the first bytes
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
