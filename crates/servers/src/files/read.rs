//! Reading of files up to a size limit.

use std::io::{BufRead as _, BufReader, Read as _};

use hospes::prelude::*;

use super::served_folders::ServedPath;
use crate::platform::EntryStat;

/// Returns the whole content of a file.
pub(super) fn whole(place: &ServedPath<'_>, limit: u64) -> Result<Vec<u8>> {
    let (file, size) = place.open_file()?;
    let too_large = |size: u64| {
        let path = place.shown();
        Error::msg(format!(
            "{path} has {size} bytes, and at most {limit} are read at once: read a range of lines with from_line and \
             lines"
        ))
    };
    if size > limit {
        return Err(too_large(size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // One byte more than the limit reveals a file that is too long.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|why| place.failed("read", &why))?;
    // The file may have grown, or its size may not be known in advance.
    let size = bytes.len() as u64;
    if size > limit { Err(too_large(size)) } else { Ok(bytes) }
}

/// Returns the whole text of a file, and its metadata at the time of reading.
pub(super) fn text(place: &ServedPath<'_>, limit: u64) -> Result<(String, EntryStat)> {
    let (file, size) = place.open_file()?;
    // Of the file that is read, so that content and metadata belong to the same file.
    let stat = EntryStat::of_file(&file).map_err(|why| place.failed("inspect", &why))?;
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(limit)).unwrap_or(0));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(|why| place.failed("read", &why))?;
    if bytes.len() as u64 > limit {
        return Err(Error::msg(format!("{} exceeds the limit of {limit} bytes for editing", place.shown())));
    }
    let text = String::from_utf8(bytes);
    Ok((text.map_err(|_| Error::msg(format!("{} is not UTF-8 text", place.shown())))?, stat))
}

/// Returns some lines of a text file, starting at line `from`, counted from 1.
pub(super) fn lines(place: &ServedPath<'_>, from: u64, count: Option<u64>, limit: u64) -> Result<String> {
    let (file, _) = place.open_file()?;
    let mut reader = BufReader::new(file);
    let failed = |why| place.failed("read", &why);
    for line in 1..from {
        if skip_line(&mut reader).map_err(failed)? == 0 {
            return Err(Error::msg(format!("{} has only {} lines", place.shown(), line - 1)));
        }
    }
    let mut text = Vec::new();
    let mut read = 0;
    while count.is_none_or(|count| read < count) {
        let left = limit.saturating_sub(text.len() as u64);
        let before = text.len();
        // One byte over the limit distinguishes a line that ends there from a longer one.
        reader.by_ref().take(left.saturating_add(1)).read_until(b'\n', &mut text).map_err(failed)?;
        if text.len() == before {
            break;
        }
        if text.len() as u64 > limit {
            return Err(Error::msg(format!(
                "these lines exceed the limit of {limit} bytes that are read at once: use from_line {from} with lines \
                 {read}"
            )));
        }
        read += 1;
    }
    String::from_utf8(text).map_err(|_| Error::msg(format!("{} is not UTF-8 text", place.shown())))
}

/// Skips a line of any length and returns its length in bytes.
fn skip_line(reader: &mut impl std::io::BufRead) -> std::io::Result<usize> {
    let mut passed = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(passed);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let used = end.unwrap_or(buffer.len());
        reader.consume(used);
        passed += used;
        if end.is_some() {
            return Ok(passed);
        }
    }
}

/// Returns the content for a tool's result: text as text, images and audio as such, other bytes as a resource.
pub(super) fn as_content(place: &ServedPath<'_>, bytes: Vec<u8>) -> ContentBlock {
    let media = place.media_type().unwrap_or_default();
    match media.split('/').next() {
        // An SVG image is XML, which is text to a model.
        Some("image") if media != "image/svg+xml" => return ContentBlock::image(bytes, media),
        Some("audio") => return ContentBlock::audio(bytes, media),
        _ => {}
    }
    match String::from_utf8(bytes) {
        Ok(text) => ContentBlock::text(text),
        Err(bytes) => ContentBlock::embedded(as_contents(place, place.uri(), bytes.into_bytes())),
    }
}

/// Returns the contents of a resource, as text if the bytes are text.
pub(super) fn as_contents(place: &ServedPath<'_>, uri: String, bytes: Vec<u8>) -> ResourceContents {
    let media = place.media_type();
    match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(uri, text).with_mime_type(media.unwrap_or("text/plain")),
        Err(bytes) => ResourceContents::bytes(uri, bytes.as_bytes())
            .with_mime_type(media.unwrap_or("application/octet-stream")),
    }
}
