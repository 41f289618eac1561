//! End of an application's input, marked by a byte.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Byte after the last message. It is no part of a message, because JSON has no control characters in it.
pub(super) const END_MARK: u8 = 0x04;

/// Input that ends at [`END_MARK`], or with its connection.
pub(super) struct UntilEndMark<R> {
    inner: R,
    has_ended: bool,
}

impl<R> UntilEndMark<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, has_ended: false }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilEndMark<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.has_ended {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        // `contains` compares many bytes at once, and nearly all reads have no mark.
        let read = &buffer.filled()[before..];
        if read.contains(&END_MARK)
            && let Some(at) = read.iter().position(|byte| *byte == END_MARK)
        {
            buffer.set_filled(before + at);
            self.has_ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(input: &[u8]) -> Vec<u8> {
        let mut read = Vec::new();
        UntilEndMark::new(input).read_to_end(&mut read).await.unwrap();
        read
    }

    #[tokio::test]
    async fn input_ends_at_the_mark_or_with_the_connection() {
        assert_eq!(read(b"{}\n{}\n\x04more").await, b"{}\n{}\n");
        assert_eq!(read(b"\x04").await, b"");
        assert_eq!(read(b"{}\n").await, b"{}\n");
        // With the mark at each place of a read.
        let (mut writer, reader) = tokio::io::duplex(2);
        let written = async move {
            tokio::io::AsyncWriteExt::write_all(&mut writer, b"abc\x04d").await.unwrap();
            // Kept open: only the mark ends the input.
            writer
        };
        let mut input = UntilEndMark::new(reader);
        let mut read = Vec::new();
        let (_writer, end) = tokio::join!(written, input.read_to_end(&mut read));
        assert_eq!((end.unwrap(), read.as_slice()), (3, b"abc".as_slice()));
    }
}
