//! ZIP archives, right and wrong, record by record.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Manifest that needs no other file than `server.js`.
pub(crate) const MANIFEST: &str = r#"{
    "manifest_version": "0.3", "name": "demo", "version": "1.0.0", "description": "A demo", "author": {"name": "Ada"},
    "server": {"type": "node", "entry_point": "server.js", "mcp_config": {"command": "node", "args": ["${__dirname}/server.js"]}}
}"#;

/// File of an archive. The fields are what the records say; they need not be true.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) local_name: Vec<u8>,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) crc: u32,
    pub(crate) size: u32,
    pub(crate) compressed_size: u32,
    pub(crate) attributes: u32,
    /// Data in the archive.
    pub(crate) data: Vec<u8>,
    /// Place of the local record, if it is not this entry's own.
    pub(crate) offset: Option<u32>,
}

impl Entry {
    pub(crate) fn new(name: &str, content: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).unwrap();
        let data = encoder.finish().unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(content);
        Self {
            name: name.into(),
            local_name: name.into(),
            method: 8,
            flags: 0x800,
            crc: crc.sum(),
            size: content.len() as u32,
            compressed_size: data.len() as u32,
            attributes: 0o100_644 << 16,
            data,
            offset: None,
        }
    }

    pub(crate) fn stored(name: &str, content: &[u8]) -> Self {
        let data = content.to_vec();
        Self { method: 0, compressed_size: data.len() as u32, data, ..Self::new(name, content) }
    }

    pub(crate) fn mode(self, mode: u32) -> Self {
        Self { attributes: mode << 16, ..self }
    }
}

/// Archive with a manifest, the file that it starts, and more.
pub(crate) fn bundle(more: &[Entry]) -> Vec<u8> {
    let mut entries =
        vec![Entry::new("manifest.json", MANIFEST.as_bytes()), Entry::new("server.js", b"1;\n")];
    entries.extend_from_slice(more);
    archive(&entries)
}

/// Archive of these files.
pub(crate) fn archive(entries: &[Entry]) -> Vec<u8> {
    let count = entries.len();
    with_count(entries, count as u16)
}

/// Archive that states another number of files.
pub(crate) fn with_count(entries: &[Entry], count: u16) -> Vec<u8> {
    let mut zip: Vec<u8> = Vec::new();
    let mut directory: Vec<u8> = Vec::new();
    for entry in entries {
        let offset = entry.offset.unwrap_or(zip.len() as u32);
        let fields = |record: &mut Vec<u8>| {
            for half in [20, entry.flags, entry.method, 0, 0x21] {
                record.extend(half.to_le_bytes());
            }
            for word in [entry.crc, entry.compressed_size, entry.size] {
                record.extend(word.to_le_bytes());
            }
        };
        if entry.offset.is_none() {
            zip.extend(b"PK\x03\x04");
            fields(&mut zip);
            zip.extend((entry.local_name.len() as u16).to_le_bytes());
            zip.extend([0; 2]);
            zip.extend(&entry.local_name);
            zip.extend(&entry.data);
        }
        directory.extend(b"PK\x01\x02\x14\x03");
        fields(&mut directory);
        directory.extend((entry.name.len() as u16).to_le_bytes());
        directory.extend([0; 8]);
        directory.extend(entry.attributes.to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(&entry.name);
    }
    let start = zip.len() as u32;
    zip.extend(&directory);
    zip.extend(b"PK\x05\x06\0\0\0\0");
    zip.extend(count.to_le_bytes());
    zip.extend(count.to_le_bytes());
    zip.extend((directory.len() as u32).to_le_bytes());
    zip.extend(start.to_le_bytes());
    zip.extend([0; 2]);
    zip
}
