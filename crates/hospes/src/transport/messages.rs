//! Carriers of whole messages (WebSocket, a queue, a channel) as the byte streams that servers and clients take.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use futures::{Sink, Stream};
use hospes_proto::frame::line::end_line;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads the messages of a stream, each as one line.
///
/// What comes in one item is one message, whatever line ends its JSON is laid out with. The carrier has to bound the
/// length of a message: here it is in memory already.
#[derive(Debug)]
pub struct MessageReader<S> {
    messages: S,
    /// Rest of a message and its line end.
    line: Bytes,
    line_end: bool,
}

impl<S, E> MessageReader<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    /// Reads the messages of `messages`, until that ends or fails.
    pub fn new(messages: S) -> Self {
        Self { messages, line: Bytes::new(), line_end: false }
    }
}

impl<S, E> AsyncRead for MessageReader<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        while self.line.is_empty() && !self.line_end {
            let Some(message) = ready!(Pin::new(&mut self.messages).poll_next(cx)) else {
                return Poll::Ready(Ok(()));
            };
            let message = message.map_err(io::Error::other)?;
            self.line_end = !message.is_empty();
            self.line = one_line(message);
        }
        let fits = self.line.len().min(buffer.remaining());
        buffer.put_slice(&self.line[..fits]);
        self.line.advance(fits);
        if self.line.is_empty() && buffer.remaining() > 0 {
            buffer.put_slice(b"\n");
            self.line_end = false;
        }
        Poll::Ready(Ok(()))
    }
}

/// A line end within a message would make two of it.
fn one_line(message: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &message).is_none() {
        return message;
    }
    let mut line = Vec::from(message);
    end_line(&mut line, 0);
    line.pop();
    line.into()
}

/// Writes lines into a sink, each as one message without its line end.
#[derive(Debug)]
pub struct MessageWriter<K> {
    messages: K,
    /// The beginning of a line whose end has not been written yet.
    line: BytesMut,
}

impl<K, E> MessageWriter<K>
where
    K: Sink<Bytes, Error = E> + Unpin,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    /// Writes into `messages`, no faster than that takes them.
    pub fn new(messages: K) -> Self {
        Self { messages, line: BytesMut::new() }
    }
}

impl<K, E> AsyncWrite for MessageWriter<K>
where
    K: Sink<Bytes, Error = E> + Unpin,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    /// Writes the available part of one line.
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            self.line.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        };
        // Before any byte is taken: after `Pending` the caller writes the same bytes again.
        ready!(Pin::new(&mut self.messages).poll_ready(cx)).map_err(io::Error::other)?;
        let message = if self.line.is_empty() {
            Bytes::copy_from_slice(&bytes[..end])
        } else {
            self.line.extend_from_slice(&bytes[..end]);
            std::mem::take(&mut self.line).freeze()
        };
        Pin::new(&mut self.messages).start_send(message).map_err(io::Error::other)?;
        Poll::Ready(Ok(end + 1))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.messages).poll_flush(cx).map_err(io::Error::other)
    }

    /// A last line may lack its end.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        if !self.line.is_empty() {
            ready!(Pin::new(&mut self.messages).poll_ready(cx)).map_err(io::Error::other)?;
            let message = std::mem::take(&mut self.line).freeze();
            Pin::new(&mut self.messages).start_send(message).map_err(io::Error::other)?;
        }
        Pin::new(&mut self.messages).poll_close(cx).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::channel::mpsc;
    use futures::{StreamExt as _, stream};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn each_message_is_one_line_however_it_is_laid_out() {
        let messages = ["{\"a\":\r\n 1}", "", "{}", "\n"].map(|text| Ok::<_, Infallible>(Bytes::from(text)));
        for room in [1, 2, 7, 1000] {
            let mut reader = MessageReader::new(stream::iter(messages.clone()));
            let mut read = Vec::new();
            let mut piece = vec![0; room];
            loop {
                let bytes = reader.read(&mut piece).await.unwrap();
                if bytes == 0 {
                    break;
                }
                read.extend_from_slice(&piece[..bytes]);
            }
            assert_eq!(String::from_utf8(read).unwrap(), "{\"a\":   1}\n{}\n \n", "{room}");
        }
    }

    #[tokio::test]
    async fn each_line_is_one_message_however_it_is_written() {
        for step in [1, 2, 5, 100] {
            let (sink, messages) = mpsc::channel(16);
            let mut writer = MessageWriter::new(sink);
            for piece in b"{\"a\":1}\n{}\n{\"b\":2}".chunks(step) {
                writer.write_all(piece).await.unwrap();
            }
            writer.shutdown().await.unwrap();
            drop(writer);
            let all: Vec<Bytes> = messages.collect().await;
            assert_eq!(all, ["{\"a\":1}", "{}", "{\"b\":2}"], "{step}");
        }
    }

    #[tokio::test]
    async fn a_carrier_that_takes_nothing_holds_the_writer_up() {
        let (sink, mut messages) = mpsc::channel(0);
        let mut writer = MessageWriter::new(sink);
        let write = tokio::spawn(async move { writer.write_all(&b"{}\n".repeat(50)).await });
        tokio::task::yield_now().await;
        assert!(!write.is_finished());
        for _ in 0..50 {
            assert_eq!(messages.next().await.unwrap(), "{}");
        }
        write.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_carrier_that_fails_says_so() {
        let messages = stream::iter([Err::<Bytes, _>("torn"), Ok(Bytes::new())]);
        let error = MessageReader::new(messages).read_u8().await.unwrap_err();
        assert_eq!(error.to_string(), "torn");
    }
}
