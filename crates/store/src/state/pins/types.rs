use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hex::{KEY_BYTES, from_hex, to_hex};

/// Name recorded for what is accepted without a decision of a person.
pub(super) const FIRST_USE: &str = "first use";

/// A SHA-256 hash, displayed in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Digest([u8; KEY_BYTES]);

impl Sha256Digest {
    /// Creates a hash from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Sha256Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        from_hex(text).map(|bytes| Self(*bytes)).ok_or(ParseDigestError)
    }
}

impl Serialize for Sha256Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Error for text that is not a [`Sha256Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid hash: expected {} hexadecimal digits", 2 * KEY_BYTES)]
#[non_exhaustive]
pub struct ParseDigestError;

/// Kind of a pinned item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ItemKind {
    /// Instructions of the server for the model. They have no name.
    Instructions,
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource template; its name is the URI template.
    Template,
    /// A resource as listed; its name is the URI.
    Resource,
}

impl ItemKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Instructions, Self::Tool, Self::Prompt, Self::Template, Self::Resource];

    /// Returns the stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Template => "template",
            Self::Resource => "resource",
        }
    }
}

/// State of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServerPinState {
    /// Not decided yet.
    New,
    /// Accepted by a person or on first use.
    Accepted,
    /// Rejected by a person.
    Rejected,
}

/// State of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ItemPinState {
    /// Not decided yet.
    Waiting,
    /// Accepted by a person or on first use.
    Accepted,
    /// Rejected by a person.
    Rejected,
}

/// Fingerprint of the command or the address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerFingerprint {
    /// Hash of the whole target. Another command line or URL is another target.
    pub target: Sha256Digest,
    /// Command line or URL for display, without secrets.
    pub shown: String,
    /// The file that is executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Hash of that file, if it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_hash: Option<Sha256Digest>,
}

impl ServerFingerprint {
    /// Creates a fingerprint without an executed file.
    pub fn new(target: Sha256Digest, shown: impl Into<String>) -> Self {
        Self { target, shown: shown.into(), program: None, program_hash: None }
    }

    /// Sets the file that is executed and its hash.
    #[must_use]
    pub fn with_program(mut self, program: Option<String>, hash: Option<Sha256Digest>) -> Self {
        (self.program, self.program_hash) = (program, hash);
        self
    }
}

/// An item that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ItemDefinition {
    /// Kind of the item.
    pub kind: ItemKind,
    /// Name of the item at the server.
    pub name: String,
    /// Hash of everything that a model or a person receives about the item.
    pub hash: Sha256Digest,
    /// Content of the definition, as JSON.
    pub text: String,
    /// Hash that an earlier version computed for the same definition from fewer members. Decisions on it apply to this
    /// definition, which replaces it.
    pub earlier: Option<Sha256Digest>,
    /// True if only a person may accept the definition, also in [`TrustMode::FirstUse`].
    pub needs_review: bool,
    /// True if the definition differs from one that was accepted in details alone. [`TrustMode::FirstUse`] accepts it.
    pub is_small_change: bool,
}

/// Author of the acceptance of a definition that differs from an accepted one in details alone.
pub const SMALL_CHANGE: &str = "small change";

impl ItemDefinition {
    /// Creates a definition with its hash.
    pub fn new(kind: ItemKind, name: impl Into<String>, hash: Sha256Digest, text: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            hash,
            text: text.into(),
            earlier: None,
            needs_review: false,
            is_small_change: false,
        }
    }

    /// Sets the hash that an earlier version computed.
    #[must_use]
    pub fn with_earlier(mut self, hash: Sha256Digest) -> Self {
        self.earlier = Some(hash);
        self
    }

    /// Leaves the acceptance of the definition to a person.
    #[must_use]
    pub fn needing_review(mut self) -> Self {
        self.needs_review = true;
        self
    }
}

/// Offer of a server, seen on one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerSighting {
    /// Name of the server in the configuration.
    pub server: String,
    /// Fingerprint of its command or address.
    pub fingerprint: ServerFingerprint,
    /// Audience: servers may offer different items to different users and applications.
    pub sight: String,
    /// Definitions that the server offers.
    pub definitions: Vec<ItemDefinition>,
    /// True if the sighting is complete: all lists could be read.
    pub is_whole: bool,
}

impl ServerSighting {
    /// Creates a sighting of a server without items.
    pub fn new(server: impl Into<String>, fingerprint: ServerFingerprint, sight: impl Into<String>) -> Self {
        let (server, sight) = (server.into(), sight.into());
        Self { server, fingerprint, sight, definitions: Vec::new(), is_whole: true }
    }
}

/// Items that are trusted without a decision of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TrustMode {
    /// No item.
    Ask,
    /// A server that is seen for the first time, and a replaced program.
    FirstUse,
}

/// State of a server after it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SightingReport {
    /// The server and all stored data about it.
    pub server: StoredServer,
    /// True if the server was never seen before.
    pub is_first: bool,
    /// True if its program has changed since the last time.
    pub is_replaced: bool,
    /// New items: kind, name, and true if the name was known with another definition.
    pub news: Vec<(ItemKind, String, bool)>,
}

/// A stored server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredServer {
    /// Name of the server in the configuration.
    pub name: String,
    /// Fingerprint when it was last seen.
    pub fingerprint: ServerFingerprint,
    /// Hash of the accepted program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_program: Option<Sha256Digest>,
    /// State of the server.
    pub state: ServerPinState,
    /// True if this is the server that was started last among those with its name.
    pub is_current: bool,
    /// Hash of everything that is to be decided. A decision refers to it.
    pub hash: Sha256Digest,
    /// Time when it was first seen, in microseconds since 1970.
    pub seen_at: i64,
    /// Time of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<i64>,
    /// Name of the person who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Items that the server offers or offered.
    pub items: Vec<StoredItem>,
}

impl StoredServer {
    /// Returns true if the program differs from the accepted one.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.state == ServerPinState::Accepted && self.accepted_program != self.fingerprint.program_hash
    }

    /// Returns the items of which a person has accepted each accepted definition. None if the server itself, or the
    /// program that it runs now, was not accepted by a person.
    pub fn items_accepted_by_person(&self) -> impl Iterator<Item = (ItemKind, &str)> {
        let is_accepted = self.state == ServerPinState::Accepted && !self.is_replaced();
        let is_by_person =
            |by: &Option<String>| by.as_deref().is_some_and(|by| by != FIRST_USE && by != SMALL_CHANGE);
        let accepted = || self.items.iter().filter(|item| item.state == ItemPinState::Accepted);
        let without: HashSet<(ItemKind, &str)> = accepted()
            .filter(|item| !is_by_person(&item.decided_by))
            .map(|item| (item.kind, item.name.as_str()))
            .collect();
        let items = accepted().filter(move |_| is_accepted && is_by_person(&self.decided_by));
        items.map(|item| (item.kind, item.name.as_str())).filter(move |item| !without.contains(item))
    }
}

/// One definition of an item that a server offers or offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredItem {
    /// Kind of the item.
    pub kind: ItemKind,
    /// Name of the item at the server.
    pub name: String,
    /// Hash of the definition.
    pub hash: Sha256Digest,
    /// State of the definition.
    pub state: ItemPinState,
    /// True if the server offered this definition when it was last seen.
    pub is_current: bool,
    /// Time when the definition was first seen, in microseconds since 1970.
    pub seen_at: i64,
    /// Time of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<i64>,
    /// Name of the person who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
}

impl StoredItem {
    /// Returns true if the definition was accepted without a person: on first use, or as a small change.
    #[must_use]
    pub fn is_unreviewed(&self) -> bool {
        let by = self.decided_by.as_deref();
        self.state == ItemPinState::Accepted && by.is_some_and(|by| by == FIRST_USE || by == SMALL_CHANGE)
    }
}

/// A definition with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedDefinition {
    /// The item with its state.
    #[serde(flatten)]
    pub item: StoredItem,
    /// Definition as JSON. `None` if it was too long to be stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}
