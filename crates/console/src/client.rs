//! Client of the console's API for programs of the same user, over the local socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use hospes_host::callers::local_socket;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;

use crate::browser_auth::TERMINAL_HEADER;

/// Maximum time to wait for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// Error of a request to the console.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No server answers at the socket, or its response is invalid.
    #[error("no console answers at {}", .socket.display())]
    Unreachable {
        /// Path of the socket.
        socket: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The console refused the request.
    #[error("{message}")]
    Refused {
        /// Stable error code: `nothing`, `misread`, …
        code: String,
        /// Message for people.
        message: String,
    },
}

/// Client of the console of a running host, for programs of the same user.
#[derive(Clone, Debug)]
pub struct LocalConsole {
    socket: PathBuf,
    /// Value of the `Authorization` header with the decision token, marked as sensitive.
    token: Option<HeaderValue>,
    is_at_terminal: bool,
}

impl LocalConsole {
    /// Creates a client for the console at this socket.
    #[must_use]
    pub fn at(socket: impl AsRef<Path>) -> Self {
        Self { socket: socket.as_ref().to_owned(), token: None, is_at_terminal: false }
    }

    /// Sets whether a person uses this program at a terminal. It matters on systems that do not report that.
    #[must_use]
    pub fn at_terminal(mut self, is_at_terminal: bool) -> Self {
        self.is_at_terminal = is_at_terminal;
        self
    }

    /// Sets the token of a program that decides for the person. A token that cannot be part of a header is ignored.
    #[must_use]
    pub fn with_token(mut self, token: Option<&str>) -> Self {
        let value = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
        self.token = value.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        self
    }

    /// Reads the resource at a path below `/api/`, such as `servers`.
    ///
    /// # Errors
    /// If the console cannot be reached or refuses the request.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let request = Request::get(format!("/api/{path}"));
        self.request_json(request, Bytes::new()).await
    }

    /// Posts a request to a path below `/api/`.
    ///
    /// # Errors
    /// If the console cannot be reached or refuses the request.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| self.unreachable(io::Error::other(error)))?;
        let request = Request::post(format!("/api/{path}")).header(CONTENT_TYPE, "application/json");
        self.request_json(request, body.into()).await
    }

    /// Subscribes to events.
    ///
    /// # Errors
    /// If the console cannot be reached.
    pub async fn follow(&self) -> Result<ConsoleEventStream, ClientError> {
        let (body, connection) = self.send(Request::get("/api/events"), Bytes::new()).await?;
        Ok(ConsoleEventStream { body, connection, text: Vec::new() })
    }

    async fn request_json<T: DeserializeOwned>(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let work = async {
            let (body, connection) = self.send(request, body).await?;
            let body = Limited::new(body, MAX_ANSWER).collect().await;
            connection.abort();
            let body = body.map_err(|error| self.unreachable(io::Error::other(error)))?.to_bytes();
            serde_json::from_slice(&body).map_err(|error| self.unreachable(error.into()))
        };
        let late = || self.unreachable(io::ErrorKind::TimedOut.into());
        tokio::time::timeout(RESPONSE_TIMEOUT, work).await.map_err(|_| late())?
    }

    async fn send(
        &self,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<(Incoming, AbortHandle), ClientError> {
        let wrong = |error: hyper::Error| self.unreachable(io::Error::other(error));
        let stream = local_socket::connect(&self.socket).await.map_err(|error| self.unreachable(error))?;
        let (mut sender, connection) =
            http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await.map_err(wrong)?;
        // hyper needs the connection to be polled beside the request.
        let connection = tokio::spawn(connection).abort_handle();
        let request = match &self.token {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        };
        let request = match self.is_at_terminal {
            true => request.header(TERMINAL_HEADER, "yes"),
            false => request,
        };
        // HTTP/1.1 requires a `Host` (RFC 9112 §3.2), but a socket has no name.
        let request = request.header(HOST, "localhost").body(Full::new(body));
        let request = request.map_err(|error| self.unreachable(io::Error::other(error)))?;
        let response = sender.send_request(request).await.map_err(wrong)?;
        let status = response.status();
        let body = response.into_body();
        if status == StatusCode::OK {
            return Ok((body, connection));
        }
        let body =
            Limited::new(body, MAX_ANSWER).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        connection.abort();
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |name: &str| said["error"][name].as_str().map(str::to_owned);
        Err(ClientError::Refused {
            code: text("code").unwrap_or_else(|| status.as_u16().to_string()),
            message: text("message").unwrap_or_else(|| status.to_string()),
        })
    }

    fn unreachable(&self, source: io::Error) -> ClientError {
        ClientError::Unreachable { socket: self.socket.clone(), source }
    }
}

/// A stream of event names. Dropping it closes the connection.
#[derive(Debug)]
pub struct ConsoleEventStream {
    body: Incoming,
    connection: AbortHandle,
    text: Vec<u8>,
}

impl ConsoleEventStream {
    /// Waits for the next event and returns its name: `hello` first, then the names in the table above. Returns `None`
    /// when the console is gone.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            // A frame may hold a part of a line or several of them.
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                // The stream has only events of the console.
                if let Some(name) = line.strip_prefix(b"event: ") {
                    return Some(String::from_utf8_lossy(name).trim().to_owned());
                }
                continue;
            }
            let frame = self.body.frame().await?.ok()?;
            // A frame without data holds trailers, which end the response.
            self.text.extend_from_slice(frame.data_ref()?);
        }
    }
}

impl Drop for ConsoleEventStream {
    fn drop(&mut self) {
        self.connection.abort();
    }
}
