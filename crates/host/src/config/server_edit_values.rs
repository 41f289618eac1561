//! Values of a change of a server's settings.

use std::fmt;
use std::path::{Path, PathBuf};

use hospes_sandbox::{SandboxFiles, SandboxKind, SandboxNetwork};
use serde::{Deserialize, Deserializer};

use super::model::ServerConfig;
use super::secret::Secret;
use super::server_edit::ServerEditError;

/// An argument: one that the server has, or a new text.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_enums, reason = "the body of a request")]
pub enum ArgumentEdit {
    /// Position of an argument that stays as it is.
    Keep(usize),
    /// A new text.
    Text(String),
}

/// Change of a variable or a header.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_enums, reason = "the body of a request")]
pub enum ValueEdit {
    /// A text that is written in the file.
    Text(String),
    /// A value that is stored encrypted. The file refers to it.
    #[serde(deserialize_with = "read_secret")]
    Secret(Secret),
    /// Removal.
    Remove,
}

/// New filter of the tools of a server.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "the body of a request")]
pub struct ToolFilterEdit {
    /// If present, only these are offered.
    pub include: Option<Vec<String>>,
    /// Tools that are never offered.
    #[serde(default)]
    pub exclude: Vec<String>,
}

/// New sandbox of a server.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "the body of a request")]
pub struct SandboxEdit {
    /// `auto`, `bubblewrap`, `landlock` or `off`.
    pub kind: String,
    /// False for no network.
    pub network: bool,
    /// Files that it may use; all that its user may use without them.
    pub files: Option<FilesEdit>,
}

/// New files of a sandbox, as absolute paths.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "the body of a request")]
pub struct FilesEdit {
    /// Paths that may be read and executed.
    pub read: Vec<String>,
    /// Paths that may also be written.
    pub write: Vec<String>,
}

fn read_secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::new)
}

// Values may be secrets, so none is printed.
macro_rules! print_no_value {
    ($($name:ident)*) => { $(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )* };
}

print_no_value!(ArgumentEdit ValueEdit ToolFilterEdit SandboxEdit FilesEdit);

impl SandboxEdit {
    pub(super) fn apply(&self, server: &mut ServerConfig) -> Result<(), ServerEditError> {
        let profile = &mut server.sandbox.profile;
        profile.kind = match self.kind.as_str() {
            "auto" => SandboxKind::Auto,
            "bubblewrap" => SandboxKind::Bubblewrap,
            "landlock" => SandboxKind::Landlock,
            "off" => SandboxKind::Off,
            _ => {
                let expected = "expected `auto`, `bubblewrap`, `landlock` or `off`";
                return Err(ServerEditError::new("sandbox.kind", expected));
            }
        };
        profile.network = if self.network { SandboxNetwork::Host } else { SandboxNetwork::None };
        let paths = |field: &str, paths: &[String]| -> Result<Vec<PathBuf>, ServerEditError> {
            paths.iter().map(|path| absolute_path(field, path.trim())).collect()
        };
        profile.files = match &self.files {
            None => None,
            Some(files) => {
                let mut granted = SandboxFiles::default();
                granted.read = paths("sandbox.files.read", &files.read)?;
                granted.write = paths("sandbox.files.write", &files.write)?;
                Some(granted)
            }
        };
        if profile.kind == SandboxKind::Off && profile.is_demanding() {
            let problem = "`off` enforces nothing; allow all files and the network, or choose another one";
            return Err(ServerEditError::new("sandbox.kind", problem));
        }
        Ok(())
    }
}

/// Reads an absolute path.
pub(super) fn absolute_path(field: &str, text: &str) -> Result<PathBuf, ServerEditError> {
    if Path::new(text).is_absolute() {
        return Ok(PathBuf::from(text));
    }
    Err(ServerEditError::new(field, "expected an absolute path"))
}
