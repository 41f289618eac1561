//! The archive of a bundle: a ZIP, with or without a signature block behind it.

mod names;
mod open;
mod source;
mod unpack;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use aws_lc_rs::digest;
use rawzip::{CompressionMethod, ZipArchive, ZipArchiveEntryWayfinder};

pub use self::names::NameProblem;
pub(crate) use self::names::{check_name, fold_name};
pub(crate) use self::source::RangeReader;
use self::source::Source;
use crate::manifest::{BundleManifest, MAX_MANIFEST_BYTES, ManifestError};
use crate::signature::{SignatureBlock, SignatureVerdict, TrustRoots};
use crate::{MANIFEST_NAME, signature};

/// Maximum size of a bundle file, in bytes.
pub const MAX_BUNDLE_BYTES: u64 = 512 * 1024 * 1024;
/// Maximum size of all files of a bundle together, in bytes.
pub const MAX_UNPACKED_BYTES: u64 = 512 * 1024 * 1024;
/// Maximum number of files and folders in a bundle.
pub const MAX_FILES: u64 = 20_000;
/// Maximum ratio of the size of all files to that of the bundle.
pub const MAX_RATIO: u64 = 200;
/// Size of all files up to which the ratio does not matter, in bytes.
pub const RATIO_FREE_BYTES: u64 = 1024 * 1024;
/// Maximum length of a name in a bundle, in bytes.
pub const MAX_NAME_BYTES: usize = 512;
/// Maximum number of folders that a name goes down.
pub const MAX_DEPTH: usize = 64;

/// Opened bundle: its records are checked, its files are not read yet.
///
/// The file stays open. A bundle that another program can change meanwhile must be copied first.
#[derive(Debug)]
pub struct Bundle {
    archive: ZipArchive<Source>,
    entries: Vec<BundleEntry>,
    /// Places of the entries by their names.
    places: HashMap<String, usize>,
    size: u64,
    block: SignatureBlock,
}

/// File or folder of a bundle.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BundleEntry {
    /// Name: relative, with `/` between its parts.
    pub name: String,
    /// Size as the archive states it, in bytes. Unpacking fails if it is another.
    pub size: u64,
    /// Size in the archive, in bytes.
    pub compressed_size: u64,
    /// True if this is a folder.
    pub is_folder: bool,
    /// True if the archive says that it is executable.
    pub is_executable: bool,
    method: CompressionMethod,
    wayfinder: ZipArchiveEntryWayfinder,
}

/// Refusal of a bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// A file cannot be read or written.
    #[error("cannot {action}")]
    Io {
        /// Attempted action.
        action: String,
        /// Cause.
        source: io::Error,
    },
    /// Larger than [`MAX_BUNDLE_BYTES`].
    #[error("the bundle has {size} bytes; at most {MAX_BUNDLE_BYTES} are read")]
    TooLarge {
        /// Size, in bytes.
        size: u64,
    },
    /// No ZIP, or a damaged one.
    #[error("the bundle is no intact ZIP archive: {why}")]
    Damaged {
        /// Description of the problem.
        why: String,
    },
    /// More than [`MAX_FILES`].
    #[error("the bundle has {count} files and folders; at most {MAX_FILES} are unpacked")]
    TooManyFiles {
        /// Number as the archive states it.
        count: u64,
    },
    /// Files of more than [`MAX_UNPACKED_BYTES`].
    #[error("the files of the bundle have more than {MAX_UNPACKED_BYTES} bytes; that is the limit")]
    TooMuch,
    /// Files that grow more than [`MAX_RATIO`] times.
    #[error(
        "the files of the bundle have {unpacked} bytes, and the bundle {size}; files may be at most {MAX_RATIO} times larger"
    )]
    Ratio {
        /// Size of all files, in bytes.
        unpacked: u64,
        /// Size of the bundle, in bytes.
        size: u64,
    },
    /// A file that cannot be unpacked safely.
    #[error("{name:?}: {why}")]
    Entry {
        /// Name in the archive.
        name: String,
        /// Reason for the refusal.
        why: EntryProblem,
    },
    /// No manifest.
    #[error("the bundle has no {MANIFEST_NAME}{}", in_folder(.folder.as_deref()))]
    NoManifest {
        /// Folder in which there is one.
        folder: Option<String>,
    },
    /// A manifest that is refused.
    #[error("{MANIFEST_NAME}: {0}")]
    Manifest(#[from] ManifestError),
    /// No file of this name.
    #[error("the bundle has no file {name:?}")]
    NoSuchFile {
        /// The name.
        name: String,
    },
    /// A folder to unpack into that exists.
    #[error("{folder} exists; a bundle is unpacked into a new folder")]
    Exists {
        /// Path of the folder.
        folder: String,
    },
}

fn in_folder(folder: Option<&str>) -> String {
    let hint = |folder| {
        format!(" at its top; there is one in {folder:?}: pack the content of the folder, not the folder")
    };
    folder.map(hint).unwrap_or_default()
}

/// Reason why a file of a bundle is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryProblem {
    /// Its name.
    #[error(transparent)]
    Name(#[from] NameProblem),
    /// Neither a file nor a folder.
    #[error("it is {0}; only files and folders are unpacked")]
    Kind(&'static str),
    /// Encrypted.
    #[error("it is encrypted")]
    Encrypted,
    /// Compressed in another way.
    #[error("it is compressed with method {0}; only 0 (stored) and 8 (deflate) are read")]
    Method(u16),
    /// The same name as another file's, or the same where capitals do not count.
    #[error("it is the same file as {other:?} where capitals do not count")]
    SameName {
        /// The other name.
        other: String,
    },
    /// A file where another one needs a folder.
    #[error("it is a file, and also the folder of {other:?}")]
    FileAndFolder {
        /// The file in the folder.
        other: String,
    },
    /// Data that belongs to another file, too.
    #[error("its data overlaps that of {other:?}")]
    Overlap {
        /// The other file, or the directory of the archive.
        other: String,
    },
    /// Two records that contradict each other.
    #[error("the two records of the file contradict each other: {0}")]
    Contradiction(&'static str),
    /// Data that is not what the records say.
    #[error("its data is damaged: {0}")]
    Data(String),
    /// Larger than the caller wants to read.
    #[error("it has {size} bytes; at most {limit} are read")]
    TooLarge {
        /// Size, in bytes.
        size: u64,
        /// Limit, in bytes.
        limit: u64,
    },
}

impl BundleError {
    pub(crate) fn entry(name: &str, why: impl Into<EntryProblem>) -> Self {
        Self::Entry { name: name.to_owned(), why: why.into() }
    }

    pub(crate) fn damaged(why: impl Into<String>) -> Self {
        Self::Damaged { why: why.into() }
    }

    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action: action.into(), source }
    }
}

impl Bundle {
    /// Opens a bundle and checks its records.
    ///
    /// # Errors
    /// If the file cannot be read, is no intact ZIP, exceeds a limit, has no manifest, or has a file that cannot be
    /// unpacked safely on all platforms. A damaged signature is not an error here: see [`Bundle::signature`].
    pub fn open(path: &Path) -> Result<Self, BundleError> {
        let action = || format!("open {}", path.display());
        // A pipe would block when it is opened.
        let about = std::fs::metadata(path).map_err(BundleError::io(action()))?;
        if !about.is_file() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no file");
            return Err(BundleError::Io { action: action(), source: error });
        }
        let file = File::open(path).map_err(BundleError::io(action()))?;
        let size = file.metadata().map_err(BundleError::io(action()))?.len();
        Self::read(Source::File(file.into()), size)
    }

    /// Reads a bundle in memory, like [`Bundle::open`].
    ///
    /// # Errors
    /// As [`Bundle::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, BundleError> {
        let size = bytes.len() as u64;
        Self::read(Source::Memory(bytes), size)
    }

    fn read(source: Source, size: u64) -> Result<Self, BundleError> {
        open::read(source, size)
    }

    /// Returns the size of the file with its signature, in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the files and folders, in the order of the archive.
    #[must_use]
    pub fn entries(&self) -> &[BundleEntry] {
        &self.entries
    }

    /// Returns the size of all files, in bytes.
    #[must_use]
    pub fn unpacked_size(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size).sum()
    }

    /// Returns the file or folder of a name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&BundleEntry> {
        self.places.get(name).and_then(|place| self.entries.get(*place))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If there is no such file, it has more than `limit` bytes, or its data is damaged.
    pub fn read_file(&self, name: &str, limit: u64) -> Result<Vec<u8>, BundleError> {
        let found = self.entry(name).filter(|entry| !entry.is_folder);
        let entry = found.ok_or_else(|| BundleError::NoSuchFile { name: name.to_owned() })?;
        let size = entry.size;
        if size > limit {
            return Err(BundleError::entry(name, EntryProblem::TooLarge { size, limit }));
        }
        let mut content = Vec::new();
        self.copy_entry_to(entry, &mut content)?;
        Ok(content)
    }

    /// Reads and decodes the manifest as [`BundleManifest::decode`] does.
    ///
    /// # Errors
    /// If it cannot be read or decoded.
    pub fn manifest(&self) -> Result<BundleManifest, BundleError> {
        Ok(BundleManifest::decode(&self.read_file(MANIFEST_NAME, MAX_MANIFEST_BYTES)?)?)
    }

    /// Reads and decodes the manifest as [`BundleManifest::decode_loose`] does.
    ///
    /// # Errors
    /// If it cannot be read or decoded.
    pub fn manifest_loose(&self) -> Result<BundleManifest, BundleError> {
        Ok(BundleManifest::decode_loose(&self.read_file(MANIFEST_NAME, MAX_MANIFEST_BYTES)?)?)
    }

    /// Computes the SHA-256 of the whole file with its signature, in lower-case hexadecimal digits.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn sha256(&self) -> Result<String, BundleError> {
        let digest = self.digest(self.size, &digest::SHA256).map_err(BundleError::io("read the bundle"))?;
        Ok(hex(digest.as_ref()))
    }

    /// Judges the signature. `now` decides about the validity of certificates.
    ///
    /// # Errors
    /// If the file cannot be read. A wrong signature is a verdict.
    pub fn signature(
        &self,
        roots: &TrustRoots,
        now: std::time::SystemTime,
    ) -> Result<SignatureVerdict, BundleError> {
        let digest = |algorithm: &'static digest::Algorithm| self.digest(self.block.content_size, algorithm);
        signature::judge(&self.block, &digest, roots, now).map_err(BundleError::io("read the bundle"))
    }

    /// Returns the signature in DER, if the bundle has an intact signature block.
    #[must_use]
    pub fn signature_der(&self) -> Option<&[u8]> {
        self.block.der()
    }

    /// Computes the digest of the first bytes.
    fn digest(&self, size: u64, algorithm: &'static digest::Algorithm) -> io::Result<digest::Digest> {
        let mut reader = RangeReader::new(self.archive.get_ref(), 0, size);
        let mut context = digest::Context::new(algorithm);
        let mut buffer = vec![0; 64 * 1024];
        let mut done = 0;
        loop {
            let count = reader.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            done += count as u64;
            context.update(&buffer[..count]);
        }
        if done < size {
            // The file has become shorter since it was opened.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(context.finish())
    }
}

/// Formats bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _always = write!(text, "{byte:02x}");
        text
    })
}
