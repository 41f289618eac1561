//! Writer for an output that may be closed while the program runs, such as a terminal whose window is closed.

use std::io::{self, Write};

/// Writer that drops what cannot be written. Libraries report a failed write with `eprintln!`, which panics if standard
/// error is closed, too.
#[derive(Debug)]
pub(crate) struct TolerantWriter<W>(pub(crate) W);

impl<W: Write> Write for TolerantWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(_) => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let _closed = self.0.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ClosedOutput;

    impl Write for ClosedOutput {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            // EIO, as of a terminal whose window is closed.
            Err(io::Error::from_raw_os_error(5))
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::Error::from_raw_os_error(5))
        }
    }

    #[test]
    fn a_closed_output_is_no_error() {
        let mut writer = TolerantWriter(ClosedOutput);
        assert!(writer.write_all(b"x").is_ok() && writer.flush().is_ok());
        assert!(crossterm::execute!(writer, crossterm::cursor::Show).is_ok());
        let mut open = TolerantWriter(Vec::new());
        open.write_all(b"kept").unwrap();
        assert_eq!(open.0, b"kept");
    }
}
