//! MCP over WebSocket.
//!
//! *Connection set-up.* A WebSocket handshake with the subprotocol `mcp`. A page in a browser may open a WebSocket to
//! any server, including this machine. Therefore clients that send an `Origin` are rejected. Each connection is one
//! client (in the older revisions one session).
//!
//! *Messages.* Each text message is one JSON-RPC message (in 2025-03-26 it may be a batch); binary messages are an error.
//! `notifications/cancelled` cancels. A close frame ends the connection, and with it what still runs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::ready;
use futures::{SinkExt as _, StreamExt as _};
use hospes::IntoService;
use hospes::client::{Client, ClientBuilder, ConnectError};
use hospes::transport::messages::{MessageReader, MessageWriter};
use hospes::transport::stdio_server::StdioServer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config, client_async_with_config};

use crate::MAX_CONNECTIONS;

/// The longest message that is taken.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Maximum time of a client's handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

const SUBPROTOCOL: &str = "Sec-WebSocket-Protocol";

/// Serves every client that connects. Dropping the future ends their connections.
///
/// # Errors
/// When no connection can be accepted any more.
pub async fn serve(listener: &TcpListener, service: impl IntoService) -> io::Result<()> {
    let server = StdioServer::new(service);
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, _) = listener.accept().await?;
        let server = server.clone();
        connections.spawn(async move {
            // It ends with its client; why is nobody else's business.
            let _ = serve_one(stream, server).await;
            drop(permit);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_one(stream: TcpStream, server: StdioServer) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = accept_hdr_async_with_config(stream, admit, Some(config()));
    let socket = timeout(HANDSHAKE_TIMEOUT, socket).await?.map_err(io::Error::other)?;
    let (input, output) = messages(socket);
    server.serve_io(input, output).await
}

/// Lets in who speaks `mcp` and is no page.
#[expect(clippy::result_large_err, reason = "what the handshake wants")]
fn admit(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    let refuse = |status, why: &str| {
        let mut refusal = ErrorResponse::new(Some(why.to_owned()));
        *refusal.status_mut() = status;
        Err(refusal)
    };
    if request.headers().contains_key("Origin") {
        return refuse(StatusCode::FORBIDDEN, "pages may not connect");
    }
    let offered = request.headers().get_all(SUBPROTOCOL).iter().filter_map(|value| value.to_str().ok());
    if !offered.flat_map(|value| value.split(',')).any(|name| name.trim() == "mcp") {
        return refuse(StatusCode::BAD_REQUEST, "the subprotocol is mcp");
    }
    response.headers_mut().insert(SUBPROTOCOL, HeaderValue::from_static("mcp"));
    Ok(response)
}

/// Connects to the server at `address`, as in `127.0.0.1:8000`.
///
/// # Errors
/// When no server listens there, or the peer is not an MCP server.
pub async fn connect(address: &str, client: ClientBuilder) -> Result<Client, ConnectError> {
    let url = format!("ws://{address}/");
    client.dial(&url, || async { Ok(messages(handshake(address, &url).await?)) }).await
}

async fn handshake(address: &str, url: &str) -> io::Result<WebSocketStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut request = url.into_client_request().map_err(io::Error::other)?;
    request.headers_mut().insert(SUBPROTOCOL, HeaderValue::from_static("mcp"));
    let opened = client_async_with_config(request, stream, Some(config())).await;
    Ok(opened.map_err(io::Error::other)?.0)
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES))
}

/// Returns the streams from which a server or a client reads and to which it writes.
fn messages(
    socket: WebSocketStream<TcpStream>,
) -> (impl AsyncRead + Send + Unpin, impl AsyncWrite + Send + Unpin) {
    let (sink, stream) = socket.split();
    let texts = stream.filter_map(|message| {
        ready(match message {
            Ok(Message::Text(text)) => Some(Ok(Bytes::from(text))),
            Ok(Message::Binary(_)) => Some(Err(io::Error::other("messages are text here"))),
            // The library answers pings, and ends the stream after a close frame.
            Ok(_) => None,
            // One who leaves without a close frame has left all the same.
            Err(Error::Protocol(_)) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        })
    });
    let sink = sink.with(|message: Bytes| {
        ready(Utf8Bytes::try_from(message).map(Message::Text).map_err(|error| Error::Utf8(error.to_string())))
    });
    (MessageReader::new(texts), MessageWriter::new(sink))
}
