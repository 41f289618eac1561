//! Archives of packages: tar with gzip for npm, ZIP for wheels and bundles. Files are stored in the given order and with
//! fixed times, so that the same files have the same hash.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Block of a tar archive, in bytes.
const TAR_BLOCK: usize = 512;

/// Creates a tar archive with gzip.
pub(crate) fn tar_gz(files: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, content) in files {
        tar.extend_from_slice(&tar_header(name, content.len()));
        tar.extend_from_slice(content.as_bytes());
        tar.resize(tar.len().next_multiple_of(TAR_BLOCK), 0);
    }
    tar.resize(tar.len() + 2 * TAR_BLOCK, 0);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&tar).and_then(|()| encoder.finish()).expect("memory can be written")
}

/// Header of a file in the format ustar: fields have fixed places.
fn tar_header(name: &str, length: usize) -> [u8; TAR_BLOCK] {
    let mut header = [0; TAR_BLOCK];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000755\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{length:011o}\0"));
    put(136, "00000000000\0");
    // The sum is computed with spaces in its own place.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\0");
    put(263, "00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// Creates a ZIP archive of stored files.
pub(crate) fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    /// 1980-01-01, the earliest date of the format.
    const DATE: u16 = 0x21;

    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for (name, content) in files {
        let mut crc = flate2::Crc::new();
        crc.update(content.as_bytes());
        let length = u32::try_from(content.len()).expect("files are small");
        let mut common = Vec::new();
        for half in [20, 0, 0, 0, DATE] {
            common.extend_from_slice(&u16::to_le_bytes(half));
        }
        for word in [crc.sum(), length, length] {
            common.extend_from_slice(&u32::to_le_bytes(word));
        }
        common.extend_from_slice(&u16::try_from(name.len()).expect("names are short").to_le_bytes());
        common.extend_from_slice(&0_u16.to_le_bytes());
        let offset = u32::try_from(archive.len()).expect("archives are small");
        archive.extend_from_slice(b"PK\x03\x04");
        archive.extend_from_slice(&common);
        archive.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(content.as_bytes());
        directory.extend_from_slice(b"PK\x01\x02");
        // Made on Unix, so that the attributes are a mode.
        directory.extend_from_slice(&0x0314_u16.to_le_bytes());
        directory.extend_from_slice(&common);
        for half in [0_u16, 0, 0] {
            directory.extend_from_slice(&half.to_le_bytes());
        }
        directory.extend_from_slice(&(0o100_755_u32 << 16).to_le_bytes());
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let count = u16::try_from(files.len()).expect("there are few files");
    let (start, length) = (archive.len(), directory.len());
    archive.extend_from_slice(&directory);
    archive.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    archive.extend_from_slice(&count.to_le_bytes());
    archive.extend_from_slice(&count.to_le_bytes());
    for number in [length, start] {
        archive.extend_from_slice(&u32::try_from(number).expect("archives are small").to_le_bytes());
    }
    archive.extend_from_slice(&0_u16.to_le_bytes());
    archive
}
