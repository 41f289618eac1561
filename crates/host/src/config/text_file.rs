//! Reading of text files of a limited size.

use std::io::{self, Read};
use std::path::Path;

use super::error::{ConfigError, ConfigSource};

/// Maximum size of a configuration file, in bytes. Some applications store their whole history in one.
pub const MAX_FILE: usize = 16 << 20;

/// Reads a text file, but never more than [`MAX_FILE`].
pub(super) fn read_text(file: &Path) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "not valid UTF-8");
    String::from_utf8(read_bytes(file)?).map_err(not_text)
}

/// Reads a file, but never more than [`MAX_FILE`].
pub(super) fn read_bytes(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed shows that there is more, also where there is no length to look at.
    std::fs::File::open(file)?.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// Returns the error for a file that is not valid UTF-8, with its location and a hint.
pub(super) fn invalid_utf8_error(file: &Path, bytes: &[u8], error: &std::str::Utf8Error) -> ConfigError {
    let before = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
    let hint = match bytes {
        // What Windows' shell writes with `>`.
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "; the file looks like UTF-16: save it as UTF-8",
        _ => "; save the file as UTF-8",
    };
    ConfigError::NotText { at: ConfigSource::end_of(&file.into(), before), hint }
}
