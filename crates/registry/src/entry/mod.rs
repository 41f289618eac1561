//! Entries of a registry: `server.json` of schema 2025-12-11, and what the registry adds to it.

mod input;
mod package;
mod read;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::input::{ArgumentKind, EntryArgument, EntryInput, InputFormat, KeyValueInput};
pub use self::package::{
    PackageTransport, PostInstallInstruction, RegistryPackage, RegistryRemote, RegistryType, TransportKind,
};
pub(crate) use self::read::escape as read_escape;
use self::read::read_json;
pub use self::read::{EntryError, MAX_ENTRY_BYTES};

/// Key of the official registry's data in `_meta`.
pub(crate) const OFFICIAL_META: &str = "io.modelcontextprotocol.registry/official";
/// Key of the publisher's data in `_meta`.
pub(crate) const PUBLISHER_META: &str = "io.modelcontextprotocol.registry/publisher-provided";

/// A server as a registry describes it: one version of one `server.json`. Fields that this version of the format does
/// not have are kept in `extra`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerEntry {
    /// URL of the JSON Schema, which contains the date of the format.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Name with a namespace: `io.github.owner/server` or `com.example/server`.
    pub name: String,
    /// One sentence about the server.
    #[serde(default, deserialize_with = "read::null_as_default")]
    pub description: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Version of the server, usually a semantic version.
    pub version: String,
    /// Where the source code is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<EntryRepository>,
    /// Page about the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Icons in several sizes.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<EntryIcon>,
    /// Packages that run on this machine.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<RegistryPackage>,
    /// Endpoints elsewhere.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub remotes: Vec<RegistryRemote>,
    /// Data of the publisher and of others, by reverse domain names.
    #[serde(
        rename = "_meta",
        default,
        deserialize_with = "read::null_as_default",
        skip_serializing_if = "Map::is_empty"
    )]
    pub meta: Map<String, Value>,
    /// Fields that this version of the format does not define.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
    /// Statement of the registry about the entry. A sub-registry may leave it out. It is not part of `server.json`.
    #[serde(skip)]
    pub official: Option<OfficialMeta>,
}

/// Additions of the official registry to an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OfficialMeta {
    /// State of the entry.
    #[serde(default, deserialize_with = "read::null_as_default")]
    pub status: EntryStatus,
    /// Reason for the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// Time of the last change of the state.
    #[serde(default, deserialize_with = "read::lenient_time", skip_serializing_if = "Option::is_none")]
    pub status_changed_at: Option<Timestamp>,
    /// Time of publishing.
    #[serde(default, deserialize_with = "read::lenient_time", skip_serializing_if = "Option::is_none")]
    pub published_at: Option<Timestamp>,
    /// Time of the last change.
    #[serde(default, deserialize_with = "read::lenient_time", skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// Is true for the newest version of a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_latest: Option<bool>,
}

/// State of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EntryStatus {
    /// In use. Assumed where a registry says nothing.
    #[default]
    Active,
    /// Still there, but replaced or no longer maintained.
    Deprecated,
    /// Removed. Such entries are never shown.
    Deleted,
    /// A state that this version does not know.
    #[serde(untagged)]
    Other(String),
}

/// Where the source code of a server is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EntryRepository {
    /// URL of the repository.
    #[serde(default, deserialize_with = "read::null_as_default")]
    pub url: String,
    /// Hosting service, such as `github`.
    #[serde(default, deserialize_with = "read::null_as_default")]
    pub source: String,
    /// Identifier that the hosting service has assigned.
    #[serde(default, deserialize_with = "read::scalar_text", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Folder of the server in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subfolder: Option<String>,
    /// Fields that this version of the format does not define.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// An icon of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EntryIcon {
    /// URL of the picture.
    #[serde(default, deserialize_with = "read::null_as_default")]
    pub src: String,
    /// Media type, such as `image/png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Sizes, such as `48x48`, or `any`.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// `light` or `dark`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
    /// Fields that this version of the format does not define.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl ServerEntry {
    /// Reads an entry: a `server.json`, or a registry's answer `{"server": …, "_meta": …}`.
    ///
    /// # Errors
    /// If it is not JSON, a field has a wrong type, a limit is exceeded, or a field has the name of before 2025-09-16.
    /// The error names the field.
    pub fn read(text: &str) -> Result<Self, EntryError> {
        Self::from_value(read_json(text.as_bytes())?)
    }

    /// Reads an entry from JSON, as [`Self::read`] does.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn from_value(value: Value) -> Result<Self, EntryError> {
        read::entry(value)
    }

    /// Returns the entry as a registry answers: `{"server": …, "_meta": …}`.
    #[must_use]
    pub fn to_response(&self) -> Value {
        let mut meta = Map::new();
        if let Some(official) = &self.official {
            meta.insert(OFFICIAL_META.to_owned(), to_value(official));
        }
        serde_json::json!({ "server": to_value(self), "_meta": meta })
    }

    /// Returns the namespace: the part of the name before the slash.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.name.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// Returns the last part of the name, after the slash.
    #[must_use]
    pub fn last_part(&self) -> &str {
        self.name.rsplit_once('/').map_or(self.name.as_str(), |(_, last)| last)
    }

    /// Returns the state of the entry. It is active where the registry says nothing.
    #[must_use]
    pub fn status(&self) -> EntryStatus {
        self.official.as_ref().map(|official| official.status.clone()).unwrap_or_default()
    }

    /// Returns the time of publishing, if the registry says it.
    #[must_use]
    pub fn published_at(&self) -> Option<Timestamp> {
        self.official.as_ref()?.published_at
    }

    /// Returns what kinds the entry offers, without repetition: `npm`, `oci`, `remote` and so on.
    #[must_use]
    pub fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = Vec::new();
        let remote = self.remotes.iter().map(|_| "remote");
        for kind in self.packages.iter().map(|package| package.registry_type.as_str()).chain(remote) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }
}

impl EntryStatus {
    /// Returns the word of the format: `active`, `deprecated`, `deleted`, or another one.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Active => "active",
            Self::Deprecated => "deprecated",
            Self::Deleted => "deleted",
            Self::Other(other) => other,
        }
    }
}

fn to_value(value: &impl Serialize) -> Value {
    // Only maps with keys that are not strings fail, and the entry has none.
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
