//! The manifest of a bundle, versions 0.1 to 0.4.

mod decode;
mod error;
mod fields;
mod formats;

use std::fmt;

use serde_json::{Map, Value};

pub use self::error::ManifestError;
pub use self::fields::ManifestIssue;
pub(crate) use self::fields::member as member_path;
use crate::launch::BundlePlatform;

/// Maximum size of a manifest, in bytes.
pub const MAX_MANIFEST_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum number of elements of a list, and of members of an object with any keys.
pub const MAX_ELEMENTS: usize = 10_000;
/// Maximum number of issues that an error lists.
pub const MAX_ISSUES: usize = 20;

/// Decoded manifest of a bundle.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BundleManifest {
    /// Version of the manifest's format: `manifest_version`, or `dxt_version` in older manifests.
    pub manifest_version: ManifestVersion,
    /// Name for programs.
    pub name: String,
    /// Name for people.
    pub display_name: Option<String>,
    /// Version of the bundle. Its form is not checked.
    pub version: String,
    /// Description in one sentence.
    pub description: String,
    /// Description in Markdown.
    pub long_description: Option<String>,
    /// Author as stated by the bundle; nothing proves it.
    pub author: BundleAuthor,
    /// Source code.
    pub repository: Option<BundleRepository>,
    /// URL of the home page.
    pub homepage: Option<String>,
    /// URL of the documentation.
    pub documentation: Option<String>,
    /// URL for support.
    pub support: Option<String>,
    /// Path of the icon in the bundle, or a URL.
    pub icon: Option<String>,
    /// Icons for sizes and themes (since 0.3).
    pub icons: Vec<BundleIcon>,
    /// Paths of screenshots.
    pub screenshots: Vec<String>,
    /// Files with translations (since 0.3).
    pub localization: Option<BundleLocalization>,
    /// How the server is started.
    pub server: ServerConfig,
    /// Tools that the bundle names.
    pub tools: Vec<ToolEntry>,
    /// True if the server has more tools at run time.
    pub tools_generated: bool,
    /// Prompts that the bundle names.
    pub prompts: Vec<PromptEntry>,
    /// True if the server has more prompts at run time.
    pub prompts_generated: bool,
    /// Search words.
    pub keywords: Vec<String>,
    /// Licence identifier.
    pub license: Option<String>,
    /// URLs of the privacy policies of services that receive data (since 0.2).
    pub privacy_policies: Vec<String>,
    /// Systems and runtimes that the bundle is for.
    pub compatibility: BundleCompatibility,
    /// Values that a person is asked for, in the order of the manifest.
    pub user_config: Vec<UserOption>,
    /// Data of platforms (since 0.3). Kept, not used.
    pub meta: Map<String, Value>,
    /// Paths of keys that the format does not have. Only [`BundleManifest::decode_loose`] accepts them.
    pub unknown_keys: Vec<String>,
}

/// Version of the manifest's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ManifestVersion {
    /// 0.1
    V0_1,
    /// 0.2: with `privacy_policies`.
    V0_2,
    /// 0.3: with `icons`, `localization` and `_meta`.
    V0_3,
    /// 0.4: with servers of the type `uv`.
    V0_4,
}

impl ManifestVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 4] = [Self::V0_1, Self::V0_2, Self::V0_3, Self::V0_4];

    /// Returns the version as manifests write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1",
            Self::V0_2 => "0.2",
            Self::V0_3 => "0.3",
            Self::V0_4 => "0.4",
        }
    }
}

impl fmt::Display for ManifestVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Author as a bundle states it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleAuthor {
    /// Name.
    pub name: String,
    /// Email address.
    pub email: Option<String>,
    /// URL.
    pub url: Option<String>,
}

/// Repository of the source code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleRepository {
    /// Kind, usually `git`.
    pub kind: String,
    /// URL.
    pub url: String,
}

/// Icon for a size and a theme.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleIcon {
    /// Path in the bundle, or a URL.
    pub src: String,
    /// Size as `WIDTHxHEIGHT`, in pixels.
    pub size: String,
    /// Theme, for example `light`.
    pub theme: Option<String>,
}

/// Place of the translations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleLocalization {
    /// Path with the placeholder `${locale}`.
    pub resources: String,
    /// Locale of the manifest itself.
    pub default_locale: String,
}

/// Server of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Runtime of the server.
    pub kind: ServerKind,
    /// Path of the main file in the bundle.
    pub entry_point: String,
    /// Command. Absent only for `uv` servers of manifests that are decoded loosely.
    pub mcp_config: Option<McpConfig>,
}

/// Runtime of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerKind {
    /// Node.js, with the packages in the bundle.
    Node,
    /// Python, with the packages in the bundle.
    Python,
    /// A program in the bundle.
    Binary,
    /// Python through uv, which fetches the packages (since 0.4).
    Uv,
}

impl ServerKind {
    /// Returns the kind as manifests write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Python => "python",
            Self::Binary => "binary",
            Self::Uv => "uv",
        }
    }
}

/// Command of a server, with variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpConfig {
    /// Program.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment variables, in the order of the manifest.
    pub env: Vec<(String, String)>,
    /// Replacements by the platform's name (`win32`, `darwin`, `linux`, or a name that no platform has).
    pub platform_overrides: Vec<(String, PlatformOverride)>,
}

/// Replacement of parts of the command on one platform. Each part replaces the other one whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlatformOverride {
    /// Program.
    pub command: Option<String>,
    /// Arguments.
    pub args: Option<Vec<String>>,
    /// Environment variables.
    pub env: Option<Vec<(String, String)>>,
}

/// Tool that a bundle names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolEntry {
    /// Name.
    pub name: String,
    /// Description.
    pub description: Option<String>,
}

/// Prompt that a bundle names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptEntry {
    /// Name.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Names of the arguments.
    pub arguments: Vec<String>,
    /// Text, with `${arguments.NAME}`.
    pub text: String,
}

/// Systems and runtimes that a bundle is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleCompatibility {
    /// Platforms. `None` if the bundle names none: it is for all.
    pub platforms: Option<Vec<BundlePlatform>>,
    /// Range of Python versions.
    pub python: Option<String>,
    /// Range of Node.js versions.
    pub node: Option<String>,
    /// Ranges of applications' versions, by the key of the application.
    pub clients: Vec<(String, String)>,
}

impl BundleCompatibility {
    /// Returns true if the bundle is for this platform.
    #[must_use]
    pub fn supports(&self, platform: BundlePlatform) -> bool {
        self.platforms.as_ref().is_none_or(|platforms| platforms.contains(&platform))
    }
}

/// Value that a person is asked for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UserOption {
    /// Key, as in `${user_config.KEY}`.
    pub key: String,
    /// Type of the value.
    pub kind: OptionKind,
    /// Title for people.
    pub title: String,
    /// Explanation.
    pub description: String,
    /// True if the person must give a value. A default does not replace it.
    pub required: bool,
    /// Default, of any type.
    pub default: Option<crate::launch::UserValue>,
    /// True if several values are possible.
    pub multiple: bool,
    /// True if the value is a secret.
    pub sensitive: bool,
    /// Smallest number.
    pub min: Option<f64>,
    /// Largest number.
    pub max: Option<f64>,
}

/// Type of a value that a person is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// Text.
    String,
    /// Number.
    Number,
    /// True or false.
    Boolean,
    /// Path of a folder.
    Directory,
    /// Path of a file.
    File,
}

impl OptionKind {
    /// Returns the type as manifests write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Directory => "directory",
            Self::File => "file",
        }
    }

    /// Returns true for the path of a folder or a file.
    #[must_use]
    pub const fn is_path(self) -> bool {
        matches!(self, Self::Directory | Self::File)
    }
}

impl BundleManifest {
    /// Decodes a manifest as the format's strict schemas say: unknown keys are refused.
    ///
    /// Stricter than the reference tool in these points: the text must be UTF-8, escapes must not name half of a
    /// surrogate pair, numbers must fit into 64 bits, values are nested at most 128 deep, and the limits of this module
    /// hold.
    ///
    /// # Errors
    /// If the manifest is too large, is no JSON, has an unknown version, or breaks the schema of its version.
    pub fn decode(json: &[u8]) -> Result<Self, ManifestError> {
        decode::decode(json, false)
    }

    /// Decodes a manifest as applications do: unknown keys are kept aside, and a `uv` server needs no command.
    ///
    /// # Errors
    /// If the manifest is too large, is no JSON, has an unknown version, lacks a required key, or has a value of a
    /// wrong type.
    pub fn decode_loose(json: &[u8]) -> Result<Self, ManifestError> {
        decode::decode(json, true)
    }

    /// Returns the name for people, or else the name for programs.
    #[must_use]
    pub fn title(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }

    /// Returns the option of a key.
    #[must_use]
    pub fn user_option(&self, key: &str) -> Option<&UserOption> {
        self.user_config.iter().find(|option| option.key == key)
    }
}
