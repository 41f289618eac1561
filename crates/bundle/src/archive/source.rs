//! Where the bytes of a bundle are.

use std::io::{self, Read};

use rawzip::{FileReader, ReaderAt};

/// File, or bytes in memory.
#[derive(Debug)]
pub(super) enum Source {
    File(FileReader),
    Memory(Vec<u8>),
}

impl ReaderAt for Source {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read_at(buffer, offset),
            Self::Memory(bytes) => bytes.read_at(buffer, offset),
        }
    }
}

/// Reader of a range of a source.
#[derive(Debug)]
pub(crate) struct RangeReader<'s, R> {
    source: &'s R,
    position: u64,
    end: u64,
}

impl<'s, R> RangeReader<'s, R> {
    pub(crate) fn new(source: &'s R, start: u64, end: u64) -> Self {
        Self { source, position: start, end }
    }
}

impl<R: ReaderAt> Read for RangeReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_sub(self.position);
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.source.read_at(&mut buffer[..most], self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

/// Reads a range whole.
pub(super) fn read_range(source: &Source, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    RangeReader::new(source, start, end).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != end.saturating_sub(start) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}
