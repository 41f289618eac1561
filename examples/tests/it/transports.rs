//! The transports of the examples pass the suite, and their programs run.
#![allow(clippy::unwrap_used, reason = "a test")]

use hospes::Server;
use hospes::client::{Client, ClientBuilder, ConnectError};
use hospes_examples::websocket;
use hospes_testkit::transport::{TestTransport, TransportSite};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// A server in a task, gone with this.
struct Serving(AbortHandle);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct WebSocket;

struct AtAddress {
    address: String,
    _serving: Serving,
}

impl TestTransport for WebSocket {
    type Site = AtAddress;

    // A close frame ends both directions.
    const HALF_CLOSE: bool = false;

    async fn serve(&self, server: Server) -> AtAddress {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move { websocket::serve(&listener, server).await });
        AtAddress { address, _serving: Serving(serving.abort_handle()) }
    }
}

impl TransportSite for AtAddress {
    async fn connect(&self, client: ClientBuilder) -> Result<Client, ConnectError> {
        websocket::connect(&self.address, client).await
    }
}

mod over_websocket {
    use super::WebSocket;

    // covers: CUST-01 CUST-02 CUST-04
    hospes_testkit::transport_tests!(WebSocket);
}

#[cfg(unix)]
mod over_unix_socket {
    use std::path::PathBuf;
    use std::sync::Arc;

    use hospes_examples::unix::{self, SocketListener};
    use hospes_testkit::transport::RawConnection;
    use tokio::net::UnixStream;

    use super::*;

    struct UnixSocket;

    struct AtPath {
        path: PathBuf,
        _serving: Serving,
        _folder: tempfile::TempDir,
    }

    impl TestTransport for UnixSocket {
        type Site = AtPath;

        async fn serve(&self, server: Server) -> AtPath {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("mcp.sock");
            let listener = SocketListener::bind(&path).unwrap();
            let serving = tokio::spawn(async move { listener.serve(server).await });
            AtPath { path, _serving: Serving(serving.abort_handle()), _folder: folder }
        }
    }

    impl TransportSite for AtPath {
        async fn connect(&self, client: ClientBuilder) -> Result<Client, ConnectError> {
            unix::connect(&self.path, client).await
        }

        async fn wire(&self) -> Option<RawConnection> {
            let (read, write) = UnixStream::connect(&self.path).await.unwrap().into_split();
            Some(RawConnection::new(read, write))
        }
    }

    // covers: CUST-01 CUST-02 CUST-04 CUST-05 CUST-06
    hospes_testkit::transport_tests!(UnixSocket);

    /// An older server that hangs up on what it does not know is called again; `over` could not do that.
    #[tokio::test]
    async fn a_server_that_hangs_up_on_being_probed_is_called_again() {
        use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

        let folder = tempfile::tempdir().unwrap();
        let path = Arc::new(folder.path().join("old.sock"));
        let listener = tokio::net::UnixListener::bind(&*path).unwrap();
        tokio::spawn(async move {
            loop {
                let (read, mut write) = listener.accept().await.unwrap().0.into_split();
                let mut lines = BufReader::new(read).lines();
                while let Some(line) = lines.next_line().await.unwrap() {
                    if !line.contains("\"initialize\"") {
                        break;
                    }
                    let id = hospes::serde_json::from_str::<hospes::serde_json::Value>(&line).unwrap()["id"]
                        .clone();
                    let answer = format!(
                        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"protocolVersion\":\"2024-11-05\",\
                         \"capabilities\":{{}},\"serverInfo\":{{\"name\":\"old\",\"version\":\"1\"}}}}}}\n"
                    );
                    write.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        });
        let client = unix::connect(&path, Client::builder()).await.unwrap();
        assert_eq!(client.revision().as_str(), "2024-11-05");
    }

    #[tokio::test]
    async fn a_socket_that_was_left_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.sock");
        drop(tokio::net::UnixListener::bind(&path).unwrap());
        let listener = SocketListener::bind(&path).unwrap();
        SocketListener::bind(&path).unwrap_err();
        drop(listener);
        assert!(!path.exists());
    }
}

/// A page of a browser may open a WebSocket anywhere; it is turned away by its `Origin`.
#[tokio::test]
async fn a_page_is_turned_away_from_the_websocket() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let site = WebSocket.serve(hospes_testkit::transport::server()).await;
    for (headers, status) in [
        ("Sec-WebSocket-Protocol: mcp\r\n", "HTTP/1.1 101"),
        ("Sec-WebSocket-Protocol: mcp\r\nOrigin: http://evil.example\r\n", "HTTP/1.1 403"),
        ("Sec-WebSocket-Protocol: chat\r\n", "HTTP/1.1 400"),
    ] {
        let mut stream = tokio::net::TcpStream::connect(&site.address).await.unwrap();
        let request = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&start), status, "{headers}");
    }
}
