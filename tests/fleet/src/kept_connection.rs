//! HTTP/1.1 connection for many requests, written for little cost: what the load itself needs is not left for the nodes.

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Maximum size of a head, of an answer and of a chunk.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Connection that is kept for the next request.
#[derive(Debug)]
pub(crate) struct KeptConnection {
    stream: TcpStream,
    /// Bytes that were received and not read yet.
    received: BytesMut,
    sent: Vec<u8>,
}

/// Head of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    length: Option<usize>,
    is_chunked: bool,
}

impl KeptConnection {
    /// Connects to a port of this machine.
    pub(crate) async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.context("connecting")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: BytesMut::new(), sent: Vec::new() })
    }

    /// Sends a request and reads its whole response, whose body replaces `body`. The head ends with the last of its
    /// headers; the length and the empty line are added.
    pub(crate) async fn post(
        &mut self,
        head: &str,
        content: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<ResponseHead> {
        self.sent.clear();
        self.sent.extend_from_slice(head.as_bytes());
        self.sent.extend_from_slice(format!("content-length: {}\r\n\r\n", content.len()).as_bytes());
        self.sent.extend_from_slice(content);
        self.stream.write_all(&self.sent).await?;
        let head = self.read_head().await?;
        body.clear();
        if head.is_chunked {
            while self.read_chunk(body).await? {}
        } else {
            let length = head.length.unwrap_or_default();
            ensure!(length <= MAX_BYTES, "an answer has more than {MAX_BYTES} bytes");
            while self.received.len() < length {
                self.fill().await?;
            }
            body.extend_from_slice(&self.received[..length]);
            self.received.advance(length);
        }
        Ok(head)
    }

    /// Sends a GET request and reads the head of its response.
    pub(crate) async fn start_stream(&mut self, head: &str) -> Result<ResponseHead> {
        self.stream.write_all(format!("{head}\r\n").as_bytes()).await?;
        let head = self.read_head().await?;
        // Few bytes arrive from now on, and there are many streams.
        self.sent = Vec::new();
        Ok(head)
    }

    async fn read_head(&mut self) -> Result<ResponseHead> {
        loop {
            if let Some(end) = find(&self.received, b"\r\n\r\n") {
                let head = parse_head(std::str::from_utf8(&self.received[..end])?)?;
                self.received.advance(end + 4);
                if (100..200).contains(&head.status) {
                    continue;
                }
                return Ok(head);
            }
            self.fill().await?;
        }
    }

    /// Appends a chunk of a body; returns false at its end.
    pub(crate) async fn read_chunk(&mut self, body: &mut Vec<u8>) -> Result<bool> {
        let (start, size) = loop {
            if let Some(end) = find(&self.received, b"\r\n") {
                break (end + 2, parse_size(&self.received[..end])?);
            }
            self.fill().await?;
        };
        while self.received.len() < start + size + 2 {
            self.fill().await?;
        }
        body.extend_from_slice(&self.received[start..start + size]);
        self.received.advance(start + size + 2);
        Ok(size > 0)
    }

    async fn fill(&mut self) -> Result<()> {
        ensure!(self.received.len() <= MAX_BYTES + 64, "more than {MAX_BYTES} bytes without an end");
        if self.stream.read_buf(&mut self.received).await? == 0 {
            bail!("the connection was closed");
        }
        Ok(())
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn parse_head(text: &str) -> Result<ResponseHead> {
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let mut head = ResponseHead {
        status: status.with_context(|| format!("not the head of a response: {text}"))?,
        ..ResponseHead::default()
    };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            head.length = Some(value.parse()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            head.is_chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("mcp-session-id") {
            head.session = Some(value.to_owned());
        }
    }
    Ok(head)
}

/// Reads the size of a chunk, in front of extensions.
fn parse_size(line: &[u8]) -> Result<usize> {
    let text = std::str::from_utf8(line)?;
    let digits = text.split(';').next().unwrap_or_default().trim();
    let size =
        usize::from_str_radix(digits, 16).with_context(|| format!("not the size of a chunk: {text}"))?;
    ensure!(size <= MAX_BYTES, "a chunk has more than {MAX_BYTES} bytes");
    Ok(size)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Serves these bytes, in pieces of a few, to one connection.
    async fn connect_to(answer: &'static str) -> KeptConnection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for piece in answer.as_bytes().chunks(7) {
                stream.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            stream.shutdown().await.unwrap();
            // A connection that is closed with requests unread takes the answers with it.
            while stream.read(&mut [0; 1024]).await.is_ok_and(|count| count > 0) {}
        });
        KeptConnection::open(port).await.unwrap()
    }

    #[tokio::test]
    async fn answers_of_both_kinds_are_read_one_after_the_other() {
        let mut connection = connect_to(
            "HTTP/1.1 200 OK\r\nMcp-Session-Id: s1\r\nContent-Length: 5\r\n\r\nhello\
             HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n\
             HTTP/1.1 202 Accepted\r\n\r\n",
        )
        .await;
        let mut body = Vec::new();
        let head = connection.post("POST / HTTP/1.1\r\n", b"{}", &mut body).await.unwrap();
        assert_eq!((head.status, head.session.as_deref(), &*body), (200, Some("s1"), &b"hello"[..]));
        let head = connection.post("POST / HTTP/1.1\r\n", b"{}", &mut body).await.unwrap();
        assert_eq!((head.status, &*body), (200, &b"abcde"[..]));
        let head = connection.post("POST / HTTP/1.1\r\n", b"{}", &mut body).await.unwrap();
        assert_eq!((head.status, body.len()), (202, 0));
        assert!(connection.post("POST / HTTP/1.1\r\n", b"{}", &mut body).await.is_err());
    }

    #[test]
    fn sizes_that_are_none_are_refused() {
        assert_eq!(parse_size(b"1f").unwrap(), 31);
        assert!(parse_size(b"").is_err() && parse_size(b"x").is_err() && parse_size(b"ffffffff").is_err());
        assert!(parse_head("HTTP/1.1").is_err());
    }
}
