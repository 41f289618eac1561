//! Every transport of the SDK passes the suite.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc;
use hospes::client::{Client, ClientBuilder, ConnectError, Target};
use hospes::model::Revision;
use hospes::server::Server;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes::transport::memory;
use hospes::transport::messages::{MessageReader, MessageWriter};
use hospes::transport::stdio_server::StdioServer;
use hospes_testkit::transport::{RawConnection, TestTransport, TransportSite};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

/// Byte streams in memory, messages one a line. A task for each connection, which ends with the site.
struct Bytes;

struct InMemory {
    server: StdioServer,
    connections: std::sync::Mutex<Vec<AbortHandle>>,
}

impl InMemory {
    fn serve(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) {
        let serving = tokio::spawn(self.server.clone().serve_io(input, output));
        self.connections.lock().unwrap().push(serving.abort_handle());
    }

    fn open(&self) -> (impl AsyncRead + Unpin + use<>, impl AsyncWrite + Unpin + use<>) {
        let (ours, theirs) = memory::pair();
        let (input, output) = tokio::io::split(ours);
        self.serve(input, output);
        tokio::io::split(theirs)
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        self.connections.lock().unwrap().iter().for_each(AbortHandle::abort);
    }
}

impl TestTransport for Bytes {
    type Site = InMemory;

    async fn serve(&self, server: Server) -> InMemory {
        // The handlers that hang do so for as long as they may.
        let server = StdioServer::new(server).shutdown_timeout(Duration::from_millis(50));
        InMemory { server, connections: std::sync::Mutex::default() }
    }
}

impl TransportSite for InMemory {
    async fn connect(&self, client: ClientBuilder) -> Result<Client, ConnectError> {
        client.dial("memory", || std::future::ready(Ok(self.open()))).await
    }

    async fn wire(&self) -> Option<RawConnection> {
        let (read, write) = self.open();
        Some(RawConnection::new(read, write))
    }
}

/// Whole messages over channels.
struct Messages;

struct Channels(InMemory);

impl Channels {
    fn open(&self) -> (impl AsyncRead + Unpin + use<>, impl AsyncWrite + Unpin + use<>) {
        let (to_server, from_client) = mpsc::channel(4);
        let (to_client, from_server) = mpsc::channel(4);
        let input = MessageReader::new(from_client.map(Ok::<_, Infallible>));
        self.0.serve(input, MessageWriter::new(to_client));
        (MessageReader::new(from_server.map(Ok::<_, Infallible>)), MessageWriter::new(to_server))
    }
}

impl TestTransport for Messages {
    type Site = Channels;

    async fn serve(&self, server: Server) -> Channels {
        Channels(Bytes.serve(server).await)
    }
}

impl TransportSite for Channels {
    async fn connect(&self, client: ClientBuilder) -> Result<Client, ConnectError> {
        client.dial("channels", || std::future::ready(Ok(self.open()))).await
    }

    async fn wire(&self) -> Option<RawConnection> {
        let (read, write) = self.open();
        Some(RawConnection::new(read, write))
    }
}

/// A child process for each client.
struct Stdio;

struct Program(&'static str);

impl TestTransport for Stdio {
    type Site = Program;

    const SHARED: bool = false;

    async fn serve(&self, _: Server) -> Program {
        Program(env!("CARGO_BIN_EXE_hospes-suite-server"))
    }
}

impl TransportSite for Program {
    async fn connect(&self, client: ClientBuilder) -> Result<Client, ConnectError> {
        client.connect(Target::command(self.0)).await
    }

    async fn wire(&self) -> Option<RawConnection> {
        let mut child = tokio::process::Command::new(self.0)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        Some(RawConnection::new(child.stdout.take().unwrap(), child.stdin.take().unwrap()))
    }
}

/// Streamable HTTP.
struct Http;

struct Listening {
    url: String,
    serving: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl TestTransport for Http {
    type Site = Listening;

    async fn serve(&self, server: Server) -> Listening {
        let server = HttpServer::bind("127.0.0.1:0", Endpoint::new(server)).await.unwrap();
        let url = server.url();
        Listening { url, serving: tokio::spawn(server.serve()).abort_handle() }
    }

    fn revisions(&self) -> &[Revision] {
        // Before 2025-03-26 HTTP was another transport.
        &Revision::ALL[1..]
    }
}

impl TransportSite for Listening {
    async fn connect(&self, client: ClientBuilder) -> Result<Client, ConnectError> {
        client.connect(Target::url(&self.url)).await
    }
}

mod bytes {
    use super::Bytes;

    hospes_testkit::transport_tests!(Bytes);
}

mod messages {
    use super::Messages;

    hospes_testkit::transport_tests!(Messages);
}

mod stdio {
    use super::Stdio;

    hospes_testkit::transport_tests!(Stdio);
}

mod http {
    use super::Http;

    hospes_testkit::transport_tests!(Http);
}
