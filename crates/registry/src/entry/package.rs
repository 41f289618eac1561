//! Packages and remote endpoints of an entry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::input::{EntryArgument, EntryInput, KeyValueInput};
use super::read;

/// A package that runs on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RegistryPackage {
    /// Kind of the package.
    pub registry_type: RegistryType,
    /// Name of the package, reference of an image, or URL of a bundle.
    pub identifier: String,
    /// Exact version. Images have it in their reference.
    #[serde(default, deserialize_with = "read::scalar_text", skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Package registry, if it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_base_url: Option<String>,
    /// SHA-256 of the file, 64 hexadecimal digits. Bundles must have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_sha256: Option<String>,
    /// Program that the publisher suggests: `npx`, `uvx`, `docker`, `python`. It is a hint, not a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_hint: Option<String>,
    /// How the server communicates.
    #[serde(default, deserialize_with = "read::null_as_default")]
    pub transport: PackageTransport,
    /// Arguments of the program that runs the package.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub runtime_arguments: Vec<EntryArgument>,
    /// Arguments of the package.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub package_arguments: Vec<EntryArgument>,
    /// Environment variables of the server.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub environment_variables: Vec<KeyValueInput>,
    /// Steps that the publisher asks for after installing. They are shown and never run.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub post_install_instructions: Vec<PostInstallInstruction>,
    /// Fields that this version of the format does not define.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A step that a publisher asks for after installing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PostInstallInstruction {
    /// Instruction.
    #[serde(default, deserialize_with = "read::null_as_default")]
    pub description: String,
    /// Command that does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Page about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// Fields that this version of the format does not define.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Kind of a package.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RegistryType {
    /// Package of npm, run by Node.
    Npm,
    /// Package of PyPI.
    Pypi,
    /// Package of NuGet, run by .NET.
    Nuget,
    /// Container image.
    Oci,
    /// MCP bundle: an archive with a manifest.
    Mcpb,
    /// Crate, which is compiled.
    Cargo,
    /// Module of Go, which is compiled.
    Go,
    /// A kind that this version does not know. It cannot be started here.
    #[serde(untagged)]
    Other(String),
}

impl RegistryType {
    /// Returns the word of the format.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Nuget => "nuget",
            Self::Oci => "oci",
            Self::Mcpb => "mcpb",
            Self::Cargo => "cargo",
            Self::Go => "go",
            Self::Other(other) => other,
        }
    }
}

/// Kind of a transport.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TransportKind {
    /// Standard input and output.
    #[default]
    Stdio,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP with Server-Sent Events, of 2024-11-05.
    Sse,
    /// A kind that this version does not know.
    #[serde(untagged)]
    Other(String),
}

impl TransportKind {
    /// Returns the word of the format.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stdio => "stdio",
            Self::StreamableHttp => "streamable-http",
            Self::Sse => "sse",
            Self::Other(other) => other,
        }
    }
}

/// How the server of a package communicates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PackageTransport {
    /// Kind of the transport. Without it, `stdio` is assumed.
    #[serde(rename = "type", default, deserialize_with = "read::null_as_default")]
    pub kind: TransportKind,
    /// URL template of a server that listens on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of requests to it.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<KeyValueInput>,
    /// Fields that this version of the format does not define.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// An endpoint elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RegistryRemote {
    /// Kind of the transport.
    #[serde(rename = "type")]
    pub kind: TransportKind,
    /// URL template: `{name}` stands for a variable.
    pub url: String,
    /// Headers of requests.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<KeyValueInput>,
    /// Variables of the URL, by name.
    #[serde(default, deserialize_with = "read::null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, EntryInput>,
    /// Fields that this version of the format does not define.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}
