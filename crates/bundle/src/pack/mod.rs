//! Packing a folder into a bundle.

mod collect;
mod patterns;
mod secrets;
mod write;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub(crate) use self::collect::{CollectedFiles, collect};
pub(crate) use self::secrets::{HEAD_BYTES, secret_sign};
use crate::archive::NameProblem;
use crate::manifest::{BundleManifest, MAX_MANIFEST_BYTES, ManifestError};
use crate::review::{FindingLevel, ReviewFinding, review_files};
use crate::{BundleError, MANIFEST_NAME};

/// Name of the file with patterns of what is not packed.
pub const IGNORE_NAME: &str = ".mcpbignore";
/// Maximum size of the file with patterns, in bytes.
pub const MAX_IGNORE_BYTES: u64 = 1024 * 1024;

/// Options of [`pack`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackOptions {
    /// Packs files that look like secrets, instead of refusing.
    pub allow_secrets: bool,
}

impl PackOptions {
    /// Sets whether files that look like secrets are packed.
    #[must_use]
    pub const fn with_allow_secrets(mut self, allow: bool) -> Self {
        self.allow_secrets = allow;
        self
    }
}

/// Bundle that was packed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PackedBundle {
    /// Path of the bundle.
    pub path: PathBuf,
    /// Size of the bundle, in bytes.
    pub size: u64,
    /// SHA-256 of the bundle, in lower-case hexadecimal digits.
    pub sha256: String,
    /// Files, sorted by name.
    pub files: Vec<PackedFile>,
    /// Number of files and folders that the patterns left out. What is in such a folder is not counted.
    pub left_out: usize,
    /// Decoded manifest.
    pub manifest: BundleManifest,
    /// Warnings.
    pub findings: Vec<ReviewFinding>,
}

impl PackedBundle {
    /// Returns the size of all files, in bytes.
    #[must_use]
    pub fn unpacked_size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

/// File in a bundle that was packed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedFile {
    /// Name in the bundle.
    pub name: String,
    /// Size, in bytes.
    pub size: u64,
}

/// Failure to pack a folder. No bundle was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// A file cannot be read or written.
    #[error("cannot {action}")]
    Io {
        /// Attempted action.
        action: String,
        /// Cause.
        source: io::Error,
    },
    /// No manifest in the folder.
    #[error("{folder} has no {MANIFEST_NAME}")]
    NoManifest {
        /// Path of the folder.
        folder: String,
    },
    /// A manifest that the format does not allow.
    #[error("{MANIFEST_NAME}: {0}")]
    Manifest(#[from] ManifestError),
    /// Faults that make the bundle unusable.
    #[error("{}", list_findings(.0))]
    Faults(Vec<ReviewFinding>),
    /// Files that look like secrets.
    #[error("{}", list_secrets(.0))]
    Secrets(Vec<(String, &'static str)>),
    /// A name that a bundle cannot have.
    #[error("{name:?}: {why}")]
    Name {
        /// Name of the file.
        name: String,
        /// Reason.
        why: NameProblem,
    },
    /// A file that cannot be packed.
    #[error("{name:?}: {why}")]
    File {
        /// Name of the file.
        name: String,
        /// Reason.
        why: String,
    },
    /// A file in the place of the bundle that is none.
    #[error("{path} exists and is no bundle; it is not replaced")]
    NoBundle {
        /// Path of the file.
        path: String,
    },
    /// A bundle that would be refused when it is opened.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

fn list_findings(findings: &[ReviewFinding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn list_secrets(secrets: &[(String, &str)]) -> String {
    let list: Vec<String> = secrets.iter().map(|(name, why)| format!("{name:?} {why}")).collect();
    format!("the bundle would have secrets in it, which everybody can read:\n{}", list.join("\n"))
}

impl PackError {
    fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action: action.into(), source }
    }
}

/// Packs a folder into a bundle.
///
/// The files are those that the reference tool packs: everything but version control, lock files, source maps, caches,
/// settings of tools and what `.mcpbignore` names. Links inside the folder are followed; a link that leaves it is an
/// error. The same files, names and modes give the same bytes. An existing bundle is replaced, atomically.
///
/// # Errors
/// If the manifest is invalid, its icon or entry point is missing, a file cannot be packed or looks like a secret, or a
/// limit of [`Bundle`](crate::Bundle) is exceeded. Nothing is written then.
pub fn pack(folder: &Path, output: &Path, options: PackOptions) -> Result<PackedBundle, PackError> {
    let manifest = read_manifest(folder)?;
    let files = collect(folder)?;
    let (faults, findings): (Vec<_>, Vec<_>) =
        review_files(&manifest, &files).into_iter().partition(|finding| finding.level == FindingLevel::Error);
    if !faults.is_empty() {
        return Err(PackError::Faults(faults));
    }
    if !options.allow_secrets && !files.secrets.is_empty() {
        return Err(PackError::Secrets(files.secrets));
    }
    let written = write::write(&files, output)?;
    let sizes = files.files.iter().map(|file| PackedFile { name: file.name.clone(), size: file.size });
    Ok(PackedBundle {
        path: output.to_owned(),
        size: written.size,
        sha256: written.sha256,
        files: sizes.collect(),
        left_out: files.left_out,
        manifest,
        findings,
    })
}

/// Returns the usual name of a bundle's file: name and version, in letters that every file system has.
#[must_use]
pub fn file_name(manifest: &BundleManifest) -> String {
    /// Maximum length of each part, in bytes.
    const MAX_PART: usize = 100;

    let plain = |text: &str| {
        let mut plain = String::new();
        for letter in text.to_lowercase().chars() {
            match letter {
                'a'..='z' | '0'..='9' | '_' | '.' => plain.push(letter),
                _ if (letter == '-' || letter.is_whitespace()) && !plain.ends_with('-') => plain.push('-'),
                _ => {}
            }
        }
        plain.truncate(MAX_PART);
        plain.trim_matches(['-', '.']).to_owned()
    };
    match (plain(&manifest.name).as_str(), plain(&manifest.version).as_str()) {
        ("", _) => "bundle.mcpb".to_owned(),
        (name, "") => format!("{name}.mcpb"),
        (name, version) => format!("{name}-{version}.mcpb"),
    }
}

/// Reads and decodes the manifest of a folder, strictly.
///
/// # Errors
/// If there is none, or it cannot be read or decoded.
pub fn read_manifest(folder: &Path) -> Result<BundleManifest, PackError> {
    Ok(BundleManifest::decode(&read_manifest_bytes(folder)?)?)
}

pub(crate) fn read_manifest_bytes(folder: &Path) -> Result<Vec<u8>, PackError> {
    let path = folder.join(MANIFEST_NAME);
    read_bounded(&path, MAX_MANIFEST_BYTES + 1).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => PackError::NoManifest { folder: folder.display().to_string() },
        _ => PackError::Io { action: format!("read {}", path.display()), source },
    })
}

/// Reads the beginning of a file, at most `limit` bytes. Only a plain file is opened: others could block.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    let mut content = Vec::new();
    fs::File::open(path)?.take(limit).read_to_end(&mut content)?;
    Ok(content)
}
