//! Reading and checking the records of an archive.

use std::collections::HashMap;

use rawzip::{CompressionMethod, ZipArchive, ZipFileHeaderRecord};

use super::source::{Source, read_range};
use super::{
    Bundle, BundleEntry, BundleError, EntryProblem, MAX_BUNDLE_BYTES, MAX_FILES, MAX_RATIO,
    MAX_UNPACKED_BYTES, RATIO_FREE_BYTES, check_name, fold_name,
};
use crate::MANIFEST_NAME;
use crate::signature::{BLOCK_HEADER, MAX_BLOCK_BYTES, SignatureBlock};

/// Longest comment of a ZIP, and the record that it belongs to.
const MAX_END_RECORD: u64 = 22 + 65_535;
/// Holds any record: three variable parts of at most 65535 bytes each.
const BUFFER_BYTES: usize = 256 * 1024;

pub(super) fn read(source: Source, size: u64) -> Result<Bundle, BundleError> {
    if size > MAX_BUNDLE_BYTES {
        return Err(BundleError::TooLarge { size });
    }
    let tail = read_range(&source, size.saturating_sub(MAX_BLOCK_BYTES), size)
        .map_err(BundleError::io("read the bundle"))?;
    let mut block = SignatureBlock::find(&tail, size);
    let mut buffer = vec![0; BUFFER_BYTES];
    let locator = ZipArchive::with_max_search_space(MAX_END_RECORD + MAX_BLOCK_BYTES);
    let located = locator.locate_in_reader(source, &mut buffer, block.content_size);
    let archive = located.map_err(|(_, error)| BundleError::damaged(error.to_string()))?;
    let end = archive.end_offset();
    if end != block.content_size {
        check_rest(&archive, end, &mut block)?;
    }
    let entries = entries(&archive, &mut buffer)?;
    check_totals(&entries, size)?;
    check_same_names(&entries)?;
    if !entries.iter().any(|entry| entry.name == MANIFEST_NAME && !entry.is_folder) {
        let nested = |entry: &&BundleEntry| {
            entry.name.strip_suffix(MANIFEST_NAME).is_some_and(|folder| folder.matches('/').count() == 1)
        };
        let folder = entries.iter().find(nested).and_then(|entry| entry.name.split('/').next());
        return Err(BundleError::NoManifest { folder: folder.map(str::to_owned) });
    }
    let places = entries.iter().enumerate().map(|(place, entry)| (entry.name.clone(), place)).collect();
    Ok(Bundle { archive, entries, places, size, block })
}

/// Checks the bytes between the ZIP and the signature block: the beginning of another block, or nothing.
fn check_rest(archive: &ZipArchive<Source>, end: u64, block: &mut SignatureBlock) -> Result<(), BundleError> {
    let count = block.content_size.checked_sub(end);
    let count = count.ok_or_else(|| BundleError::damaged("its end is missing"))?;
    let start = (end + BLOCK_HEADER.len() as u64).min(block.content_size);
    let found = read_range(archive.get_ref(), end, start).map_err(BundleError::io("read the bundle"))?;
    if found != BLOCK_HEADER {
        return Err(BundleError::damaged(format!("{count} bytes follow it")));
    }
    block.reject_rest(end);
    Ok(())
}

fn entries(archive: &ZipArchive<Source>, buffer: &mut [u8]) -> Result<Vec<BundleEntry>, BundleError> {
    let count = archive.entries_hint();
    if count > MAX_FILES {
        return Err(BundleError::TooManyFiles { count });
    }
    let mut found: Vec<(u64, BundleEntry)> = Vec::new();
    let mut records = archive.entries(buffer);
    while let Some(record) = records.next_entry().map_err(|error| BundleError::damaged(error.to_string()))? {
        if found.len() as u64 >= count {
            return Err(BundleError::damaged("it has more files than it states"));
        }
        found.push((record.local_header_offset(), entry(&record)?));
    }
    if found.len() as u64 != count {
        return Err(BundleError::damaged("it has fewer files than it states"));
    }
    check_data(archive, &found, buffer)?;
    Ok(found.into_iter().map(|(_, entry)| entry).collect())
}

fn entry(record: &ZipFileHeaderRecord<'_>) -> Result<BundleEntry, BundleError> {
    let raw = record.file_path();
    let shown = String::from_utf8_lossy(raw.as_bytes());
    let refuse = |why| Err(BundleError::entry(&shown, why));
    let name = check_name(raw.as_bytes()).map_err(|why| BundleError::entry(&shown, why))?;
    let is_folder = raw.as_bytes().ends_with(b"/");
    // The file type of Unix, whatever system the archive says it is of.
    match record.external_attributes() >> 28 {
        0 => {}
        0o10 if !is_folder => {}
        0o04 if is_folder => {}
        0o12 => return refuse(EntryProblem::Kind("a link")),
        0o02 | 0o06 => return refuse(EntryProblem::Kind("a device")),
        0o01 | 0o14 => return refuse(EntryProblem::Kind("a pipe or a socket")),
        _ => return refuse(EntryProblem::Contradiction("one is of a file, the other of a folder")),
    }
    if record.flags().is_encrypted() || record.flags().has_strong_encryption() || record.flags().is_masked() {
        return refuse(EntryProblem::Encrypted);
    }
    let method = record.compression_method();
    if !matches!(method, CompressionMethod::STORE | CompressionMethod::DEFLATE) {
        return refuse(EntryProblem::Method(method.as_u16()));
    }
    let (size, compressed_size) = (record.uncompressed_size_hint(), record.compressed_size_hint());
    if method == CompressionMethod::STORE && size != compressed_size {
        return refuse(EntryProblem::Contradiction("it is stored, with two sizes"));
    }
    if is_folder && size != 0 {
        return refuse(EntryProblem::Contradiction("it is a folder, with data"));
    }
    let is_executable = !is_folder && record.external_attributes() >> 16 & 0o111 != 0;
    let wayfinder = record.wayfinder();
    let name = name.to_owned();
    Ok(BundleEntry { name, size, compressed_size, is_folder, is_executable, method, wayfinder })
}

/// Checks that each file has data of its own, below the record that names it and below no other name.
fn check_data(
    archive: &ZipArchive<Source>,
    found: &[(u64, BundleEntry)],
    buffer: &mut [u8],
) -> Result<(), BundleError> {
    const DIRECTORY: &str = "the list of files";

    let mut ranges: Vec<(u64, u64, &str)> = Vec::with_capacity(found.len() + 1);
    for (start, entry) in found {
        let damaged = |error| BundleError::entry(&entry.name, EntryProblem::Data(format!("{error}")));
        let located = archive.get_entry(entry.wayfinder).map_err(damaged)?;
        let header = located.local_header(buffer).map_err(damaged)?;
        let name = header.file_path();
        let name = name.as_bytes();
        if name.strip_suffix(b"/").unwrap_or(name) != entry.name.as_bytes() {
            return Err(BundleError::entry(&entry.name, EntryProblem::Contradiction("they have two names")));
        }
        if header.compression_method() != entry.method {
            let why = "they are compressed in two ways";
            return Err(BundleError::entry(&entry.name, EntryProblem::Contradiction(why)));
        }
        ranges.push((*start, located.compressed_data_range().1, &entry.name));
    }
    ranges.push((archive.directory_offset(), archive.end_offset(), DIRECTORY));
    ranges.sort_unstable();
    // Programs that read a file from its beginning must find the same archive.
    if ranges.first().is_some_and(|(start, ..)| *start != 0) {
        return Err(BundleError::damaged("it begins with other data"));
    }
    for pair in ranges.windows(2) {
        if let [(_, end, name), (start, _, next)] = pair
            && end > start
        {
            let (name, other) = if *name == DIRECTORY { (next, name) } else { (name, next) };
            return Err(BundleError::entry(name, EntryProblem::Overlap { other: (*other).to_owned() }));
        }
    }
    Ok(())
}

fn check_totals(entries: &[BundleEntry], size: u64) -> Result<(), BundleError> {
    let total = entries.iter().try_fold(0_u64, |total, entry| total.checked_add(entry.size));
    let unpacked = total.filter(|total| *total <= MAX_UNPACKED_BYTES).ok_or(BundleError::TooMuch)?;
    if unpacked > RATIO_FREE_BYTES && unpacked > size.saturating_mul(MAX_RATIO) {
        return Err(BundleError::Ratio { unpacked, size });
    }
    Ok(())
}

/// Checks that no two names are the same file, and that no file is also a folder.
fn check_same_names(entries: &[BundleEntry]) -> Result<(), BundleError> {
    let mut names: HashMap<String, &BundleEntry> = HashMap::with_capacity(entries.len());
    for entry in entries {
        if let Some(other) = names.insert(fold_name(&entry.name), entry) {
            let other = other.name.clone();
            return Err(BundleError::entry(&entry.name, EntryProblem::SameName { other }));
        }
    }
    for entry in entries {
        let folded = fold_name(&entry.name);
        for (end, _) in folded.match_indices('/') {
            if let Some(file) = names.get(&folded[..end]).filter(|file| !file.is_folder) {
                let other = entry.name.clone();
                return Err(BundleError::entry(&file.name, EntryProblem::FileAndFolder { other }));
            }
        }
    }
    Ok(())
}
