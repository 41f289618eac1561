//! The dated revisions of the specification, and the conversion of the newest one's types to older ones.
//!
//! The domain types have the form of [`Revision::LATEST`]. Every older revision has one module here with its
//! differences from the next newer one. *Lowering* converts a value to an older revision step by step, *lifting*
//! converts a received value to the newest one. Values that a revision does not support are never sent: they are
//! lowered to the nearest supported form or left out. A difference that is missing in these modules is a bug.
//!
//! # What is lost
//!
//! | What | in | becomes |
//! |---|---|---|
//! | `ttlMs`, `cacheScope`, `resultType` | 2025-11-25 and older | left out |
//! | the `_meta` keys of stateless requests (`protocolVersion`, `clientInfo`, `clientCapabilities`, `logLevel`, `serverInfo`, `subscriptionId`) | 2025-11-25 and older | left out |
//! | `inputResponses`, `requestState` | 2025-11-25 and older | left out; an input-required result cannot be said |
//! | the tasks extension among the capabilities' `extensions` | 2025-11-25 and older | left out, and not read; 2025-11-25 has `tasks` |
//! | an `outputSchema` whose root excludes objects | 2025-11-25 and older | that of an object with the member `result` |
//! | an `outputSchema` whose root may be an object or something else, or refers to its own places | 2025-11-25 and older | left out |
//! | a `structuredContent` that is not an object | 2025-11-25 and older | the member `result` of one; a block of text too if there is no other content |
//! | `true` and `false` for the schema of a property | 2025-11-25 and older | `{}` and `{"not":{}}` |
//! | content of an unknown type | 2025-11-25 and older | a block of text with its JSON |
//! | a task's `inputRequests`, `result`, `error` | 2025-11-25 | left out; 2025-11-25 has `tasks/result` |
//! | a completed task whose result says `isError` | 2025-11-25 | a failed one, with a line of the failure |
//! | `execution` of a tool, `task` in params, `tasks` among the capabilities, `related-task` in `_meta` | all but 2025-11-25 | left out |
//! | tasks as results | 2025-06-18 and older | cannot be said |
//! | `roots.listChanged` of a client | 2026-07-28 | left out |
//! | `elicitationId` | all but 2025-11-25 | left out; 2025-11-25 requires it |
//! | `_meta` of an elicitation, of its result, of sampling params, of a list of roots | 2026-07-28 | left out |
//! | icons; an implementation's description and website | 2025-06-18 and older | left out |
//! | `sampling.tools`, `sampling.context`, `elicitation.form`, `elicitation.url` | 2025-06-18 and older | left out; a client that only opens URLs has no elicitation |
//! | tools in sampling, URL elicitation, a required multi-select field | 2025-06-18 and older | cannot be said |
//! | a multi-select field that may stay empty | 2025-06-18 | left out |
//! | the default of a text, a number, a choice | 2025-06-18 | left out |
//! | a titled choice (`oneOf`) | 2025-06-18 | `enum` with `enumNames` |
//! | a list of strings in an elicitation's result | 2025-06-18 | one string |
//! | several blocks in a sampling message | 2025-06-18 and older | several messages |
//! | several blocks in a sampling result | 2025-06-18 and older | their texts, joined; of pictures and sounds alone, the first |
//! | `tool_use`, `tool_result` | 2025-06-18 and older | a block of text |
//! | `_meta` of a sampling message | 2025-06-18 and older | left out |
//! | elicitation | 2025-03-26 and older | cannot be said |
//! | titles | 2025-03-26 and older | left out; a tool's moves into its annotations |
//! | `outputSchema`, `structuredContent` | 2025-03-26 and older | left out; a block of text if there is no other content |
//! | a resource link | 2025-03-26 and older | a block of text with name, URI and description |
//! | `_meta` of tools, prompts, resources, roots, content | 2025-03-26 and older | left out |
//! | `lastModified` | 2025-03-26 and older | left out |
//! | `context` of a completion | 2025-03-26 and older | left out |
//! | a tool's annotations | 2024-11-05 | left out |
//! | a sound in a result or a prompt | 2024-11-05 | an embedded resource with its bytes |
//! | a sound in sampling | 2024-11-05 | a block of text that names it |
//! | `completions` among the capabilities | 2024-11-05 | left out; lifted as present |
//! | the message of a progress notification | 2024-11-05 | left out |
//!
//! Error codes are in [`encode_error`](crate::encode_error) and [`decode_error`](crate::decode_error), messages that a
//! revision does not have in [`METHODS`](crate::METHODS).

pub(crate) mod errors;
pub(crate) mod lift;
pub(crate) mod step;
pub(crate) mod v2024_11_05;
pub(crate) mod v2025_03_26;
pub(crate) mod v2025_06_18;
pub(crate) mod v2025_11_25;
pub(crate) mod v2026_07_28;
mod wrapped_output;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One dated revision of the Model Context Protocol, oldest first.
///
/// Parsing fails for a string that is not a supported revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a new revision must be met at every place that tells them apart"
)]
pub enum Revision {
    /// 2024-11-05: the first revision; HTTP+SSE.
    V2024_11_05,
    /// 2025-03-26: Streamable HTTP, batches, audio, tool annotations.
    V2025_03_26,
    /// 2025-06-18: elicitation, structured output, titles, resource links.
    V2025_06_18,
    /// 2025-11-25: tasks, icons, URL elicitation, tools in sampling.
    V2025_11_25,
    /// 2026-07-28: no sessions; every request is complete in itself.
    V2026_07_28,
}

/// Era of a revision: with a handshake, or without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has had exactly two ways to open a conversation")]
pub enum Era {
    /// Up to 2025-11-25: `initialize`, a session, requests in both directions.
    Legacy,
    /// From 2026-07-28: every request is complete in itself.
    Modern,
}

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// Newest revision, whose form the domain types have.
    pub const LATEST: Self = Self::V2026_07_28;
    /// Newest revision that is opened by `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// Returns the date used in messages, `YYYY-MM-DD`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the era of the revision.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// Returns true if a session of this revision begins with `initialize`.
    #[must_use]
    pub const fn is_legacy(self) -> bool {
        matches!(self.era(), Era::Legacy)
    }

    /// Returns the index in [`Revision::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Error for a string that is not a supported revision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol version {0:?}")]
pub struct UnknownRevision(pub(crate) String);

impl FromStr for Revision {
    type Err = UnknownRevision;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|r| r.as_str() == text).ok_or_else(|| UnknownRevision(text.to_owned()))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Revision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Error for a value that a revision cannot express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("protocol revision {revision} does not support {kind}")]
#[non_exhaustive]
pub struct LoweringError {
    /// The revision.
    pub revision: Revision,
    /// Feature that the revision does not support.
    pub kind: LoweringErrorKind,
}

impl LoweringError {
    pub(crate) fn new(revision: Revision, kind: LoweringErrorKind) -> Self {
        Self { revision, kind }
    }
}

/// Features that a revision does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoweringErrorKind {
    /// Elicitation, before 2025-06-18.
    #[error("elicitation")]
    Elicitation,
    /// URL elicitation, before 2025-11-25.
    #[error("URL elicitation")]
    ElicitationByUrl,
    /// URL elicitation without the id that 2025-11-25 requires.
    #[error("URL elicitation without an elicitation id")]
    ElicitationWithoutId,
    /// A form with a required multi-select field, before 2025-11-25.
    #[error("required multi-select fields")]
    MultiSelect,
    /// Sampling with tools, before 2025-11-25.
    #[error("sampling with tools")]
    SamplingWithTools,
    /// An input request that no revision defines.
    #[error("this request")]
    Question,
    /// A task, before 2025-11-25.
    #[error("tasks")]
    Task,
    /// An input-required result, before 2026-07-28.
    #[error("input_required results")]
    InputRequired,
    /// A result that belongs to another revision.
    #[error("this result")]
    Result,
}

#[cfg(test)]
mod lost_tests;
#[cfg(test)]
mod tests;
