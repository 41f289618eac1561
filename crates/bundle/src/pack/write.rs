//! Writing the archive.

use std::fs;
use std::io::{self, BufReader, Read as _, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use rawzip::time::UtcDateTime;
use rawzip::{CompressionMethod, ZipArchiveWriter};

use super::collect::CollectedFile;
use super::{CollectedFiles, PackError};
use crate::Bundle;

/// Result of writing.
pub(super) struct Written {
    pub(super) size: u64,
    pub(super) sha256: String,
}

/// Writes an archive through a temporary file beside it, which is opened as any bundle before it takes its place.
pub(super) fn write(files: &CollectedFiles, output: &Path) -> Result<Written, PackError> {
    let action = || format!("write {}", output.display());
    check_place(output)?;
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let mut builder = tempfile::Builder::new();
    // As any new file: a bundle is there to be handed on.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut temporary = builder.prefix(".packing-").tempfile_in(folder).map_err(PackError::io(action()))?;
    let mut archive = ZipArchiveWriter::new(io::BufWriter::new(temporary.as_file_mut()));
    for file in &files.files {
        add(&mut archive, file)?;
    }
    let zip_failed =
        |error: rawzip::Error| PackError::Io { action: action(), source: io::Error::other(error) };
    let mut written = archive.finish().map_err(zip_failed)?;
    written.flush().map_err(PackError::io(action()))?;
    drop(written);
    temporary.as_file().sync_all().map_err(PackError::io(action()))?;
    let bundle = Bundle::open(temporary.path())?;
    let written = Written { size: bundle.size(), sha256: bundle.sha256()? };
    hospes_fs::persist(temporary, output).map_err(PackError::io(action()))?;
    Ok(written)
}

fn add<W: io::Write>(archive: &mut ZipArchiveWriter<W>, file: &CollectedFile) -> Result<(), PackError> {
    /// The earliest time that a ZIP can state. Times would make each bundle another.
    const TIME: Option<UtcDateTime> = UtcDateTime::from_components(1980, 1, 1, 0, 0, 0, 0);

    let read_failed = || format!("read {}", file.path.display());
    let failed = |source: io::Error| PackError::Io { action: format!("pack {:?}", file.name), source };
    let opened = fs::File::open(&file.path).map_err(PackError::io(read_failed()))?;
    let mut entry = archive
        .new_file(file.name.as_str())
        .compression_method(CompressionMethod::DEFLATE)
        .unix_permissions(0o100_000 | file.mode);
    if let Some(time) = TIME {
        entry = entry.last_modified(time);
    }
    let (mut entry, config) = entry.start().map_err(|error| failed(io::Error::other(error)))?;
    let encoder = DeflateEncoder::new(&mut entry, Compression::best());
    let mut writer = config.wrap(encoder);
    let mut content = BufReader::new(opened).take(file.size + 1);
    let copied = io::copy(&mut content, &mut writer).map_err(failed)?;
    if copied != file.size {
        return Err(PackError::File { name: file.name.clone(), why: "it was changed meanwhile".to_owned() });
    }
    let (encoder, descriptor) = writer.finish().map_err(|error| failed(io::Error::other(error)))?;
    encoder.finish().map_err(failed)?;
    entry.finish(descriptor).map(drop).map_err(|error| failed(io::Error::other(error)))
}

/// A file that is no bundle is not replaced.
fn check_place(output: &Path) -> Result<(), PackError> {
    let refused = || PackError::NoBundle { path: output.display().to_string() };
    match fs::metadata(output) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(PackError::Io { action: format!("write {}", output.display()), source: error }),
        Ok(about) if !about.is_file() => Err(refused()),
        Ok(_) => {
            let head = super::read_bounded(output, 4)
                .map_err(PackError::io(format!("read {}", output.display())))?;
            if head.is_empty() || head == b"PK\x03\x04" { Ok(()) } else { Err(refused()) }
        }
    }
}
