//! Translation of results between revisions.

use std::fmt;

use super::encode::write_foreign_result;
use super::{EncodeError, PeerResult, PeerResultError, Reply, ServerStamp};
use crate::{Method, RawJson, Revision};

/// Translates raw results from one revision to another.
///
/// The code for all kinds of results takes half a megabyte. A program that forwards no results, as most servers do,
/// never creates a translator and does not contain that code.
#[derive(Clone, Copy)]
pub struct ResultTranslator {
    write: WriteRawResultFn,
    read: DecodeResultFn,
}

type DecodeResultFn = fn(&Method, Revision, &RawJson) -> Result<PeerResult, PeerResultError>;
type WriteRawResultFn =
    fn(&Method, Revision, &RawJson, Revision, &ServerStamp, &mut Vec<u8>) -> Result<(), EncodeError>;

impl Reply {
    /// Creates a result from JSON received from a peer with `revision`, or for a method that the specification does not
    /// define.
    #[must_use]
    pub fn raw(revision: Revision, json: RawJson) -> Self {
        Self::Raw {
            revision,
            json,
            bridge: ResultTranslator { write: write_foreign_result, read: PeerResult::decode },
        }
    }

    /// Decodes the result if it is raw.
    ///
    /// # Errors
    /// The errors of [`PeerResult::decode`].
    pub fn resolved(self, method: &Method) -> Result<PeerResult, PeerResultError> {
        match self {
            Self::Raw { revision, json, bridge } => (bridge.read)(method, revision, &json),
            other => Ok(PeerResult::Complete(other)),
        }
    }
}

impl ResultTranslator {
    pub(super) fn write(
        self,
        method: &Method,
        (from, json): (Revision, &RawJson),
        to: Revision,
        stamp: &ServerStamp,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        (self.write)(method, from, json, to, stamp, out)
    }
}

impl PartialEq for ResultTranslator {
    /// All translators are equal.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for ResultTranslator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResultTranslator")
    }
}
