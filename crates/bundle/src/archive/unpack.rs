//! Unpacking into a new folder: all of it or nothing.

use std::fs;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::DeflateDecoder;
use rawzip::CompressionMethod;

use super::source::RangeReader;
use super::{Bundle, BundleEntry, BundleError, EntryProblem};
use crate::manifest::ServerKind;

impl Bundle {
    /// Unpacks all files into a new folder. Its parent folders are created.
    ///
    /// The files are written into a temporary folder beside it, which is renamed at the end: on failure nothing is left.
    /// Files are read-only. Those that the archive says are executable are executable, and so is the entry point of a
    /// bundle with a program, because archives from Windows do not say it. Folders stay writable, so that they can be
    /// deleted.
    ///
    /// # Errors
    /// If the folder exists, a file cannot be written, or its data is not what the archive states.
    pub fn unpack(&self, folder: &Path) -> Result<(), BundleError> {
        let exists = || BundleError::Exists { folder: folder.display().to_string() };
        if folder.symlink_metadata().is_ok() {
            return Err(exists());
        }
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or_else(|| Path::new("."));
        let action = || format!("create {}", parent.display());
        fs::create_dir_all(parent).map_err(BundleError::io(action()))?;
        let temporary = tempfile::Builder::new()
            .prefix(".unpacking-")
            .tempdir_in(parent)
            .map_err(BundleError::io(action()))?;
        // The temporary folder itself is accessible to its owner alone; the bundle need not be.
        let root = temporary.path().join("bundle");
        fs::create_dir(&root).map_err(BundleError::io(action()))?;
        let program = self.program();
        for entry in &self.entries {
            let is_executable = entry.is_executable || program.as_deref() == Some(entry.name.as_str());
            self.unpack_entry(entry, &root, is_executable)?;
        }
        if folder.symlink_metadata().is_ok() {
            return Err(exists());
        }
        hospes_fs::rename(&root, folder).map_err(BundleError::io(format!("create {}", folder.display())))
    }

    /// Returns the name of the bundle's program, if it has one.
    fn program(&self) -> Option<String> {
        let server = self.manifest_loose().ok()?.server;
        let entry_point = server.entry_point.trim_start_matches("./").to_owned();
        (server.kind == ServerKind::Binary).then_some(entry_point)
    }

    fn unpack_entry(&self, entry: &BundleEntry, root: &Path, is_executable: bool) -> Result<(), BundleError> {
        let path: PathBuf = root.join(&entry.name);
        let action = || format!("write {:?}", entry.name);
        if entry.is_folder {
            return fs::create_dir_all(&path).map_err(BundleError::io(action()));
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(BundleError::io(action()))?;
        }
        let file = fs::File::create_new(&path).map_err(BundleError::io(action()))?;
        self.copy_entry_to(entry, &mut io::BufWriter::new(&file))?;
        set_read_only(&file, is_executable).map_err(BundleError::io(action()))
    }

    /// Writes the content of a file, and checks its size and checksum.
    pub(crate) fn copy_entry_to(&self, entry: &BundleEntry, out: &mut impl Write) -> Result<(), BundleError> {
        let damaged = |why: String| BundleError::entry(&entry.name, EntryProblem::Data(why));
        let located = self.archive.get_entry(entry.wayfinder).map_err(|error| damaged(error.to_string()))?;
        let (start, end) = located.compressed_data_range();
        let data = BufReader::new(RangeReader::new(self.archive.get_ref(), start, end));
        let mut data = match entry.method {
            CompressionMethod::DEFLATE => Data::Deflated(DeflateDecoder::new(data)),
            _ => Data::Stored(data),
        };
        copy(&mut located.verifying_reader(&mut data), out).map_err(|error| match error {
            CopyError::Read(error) => damaged(error.to_string()),
            CopyError::Write(source) => BundleError::Io { action: format!("write {:?}", entry.name), source },
        })?;
        match data {
            Data::Deflated(data) if data.total_in() != end - start => {
                Err(damaged("other data follows it".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// Content of a file in the archive.
enum Data<R: io::BufRead> {
    Stored(R),
    Deflated(DeflateDecoder<R>),
}

impl<R: io::BufRead> io::Read for Data<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stored(data) => data.read(buffer),
            Self::Deflated(data) => data.read(buffer),
        }
    }
}

enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies all data. Unlike `io::copy`, it tells a damaged archive from a full disk.
fn copy(from: &mut impl io::Read, to: &mut impl Write) -> Result<(), CopyError> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).map_err(CopyError::Read)?;
        if count == 0 {
            return to.flush().map_err(CopyError::Write);
        }
        to.write_all(&buffer[..count]).map_err(CopyError::Write)?;
    }
}

#[cfg(unix)]
fn set_read_only(file: &fs::File, is_executable: bool) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    file.set_permissions(fs::Permissions::from_mode(if is_executable { 0o555 } else { 0o444 }))
}

#[cfg(not(unix))]
fn set_read_only(file: &fs::File, _is_executable: bool) -> io::Result<()> {
    let mut permissions = file.metadata()?.permissions();
    permissions.set_readonly(true);
    file.set_permissions(permissions)
}
