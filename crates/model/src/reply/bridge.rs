//! From the words of one revision into those of another.

use std::fmt;

use super::encode::foreign;
use super::{Answer, AnswerError, EncodeError, Reply, Stamp};
use crate::{Method, RawJson, Revision};

/// Writes a raw result of one revision as another has it.
///
/// It reads every kind of result. A program that forwards none, as most servers do, never makes one, and so does not
/// carry the code: half a megabyte.
#[derive(Clone, Copy)]
pub struct Bridge {
    write: Write,
    read: Read,
}

type Read = fn(&Method, Revision, &RawJson) -> Result<Answer, AnswerError>;
type Write = fn(&Method, Revision, &RawJson, Revision, &Stamp, &mut Vec<u8>) -> Result<(), EncodeError>;

impl Reply {
    /// A result as it came from a peer that speaks `revision`, or of a method that the specification does not define.
    #[must_use]
    pub fn raw(revision: Revision, json: RawJson) -> Self {
        Self::Raw { revision, json, bridge: Bridge { write: foreign, read: Answer::decode } }
    }

    /// Decodes the result if it is raw.
    ///
    /// # Errors
    /// As [`Answer::decode`].
    pub fn resolved(self, method: &Method) -> Result<Answer, AnswerError> {
        match self {
            Self::Raw { revision, json, bridge } => (bridge.read)(method, revision, &json),
            other => Ok(Answer::Complete(other)),
        }
    }
}

impl Bridge {
    pub(super) fn write(
        self,
        method: &Method,
        (from, json): (Revision, &RawJson),
        to: Revision,
        stamp: &Stamp,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        (self.write)(method, from, json, to, stamp, out)
    }
}

impl PartialEq for Bridge {
    /// There is only one way.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bridge")
    }
}
