//! HTTP requests outside a browser, and a web server for test pages.

use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::WAIT_TIMEOUT;

/// Sends a request over plain HTTP, on a new connection.
///
/// # Errors
/// When there is no answer within [`WAIT_TIMEOUT`].
pub async fn fetch(request: Request<Bytes>) -> Result<Response<Bytes>, Box<dyn Error + Send + Sync>> {
    tokio::time::timeout(WAIT_TIMEOUT, send(request)).await?
}

async fn send(request: Request<Bytes>) -> Result<Response<Bytes>, Box<dyn Error + Send + Sync>> {
    let (mut parts, body) = request.into_parts();
    let authority = parts.uri.authority().ok_or("a URL with a host")?.to_string();
    let stream = TcpStream::connect(&authority).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    if !parts.headers.contains_key(header::HOST) {
        parts.headers.insert(header::HOST, authority.parse()?);
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    parts.uri = path.parse()?;
    let (parts, body) = sender.send_request(Request::from_parts(parts, Full::new(body))).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    connection.abort();
    Ok(Response::from_parts(parts, body))
}

/// A site that answers every request with one page and remembers what was asked for: an application's place for answers, or
/// an attacker's page.
#[derive(Debug)]
pub struct RecordingSite {
    /// Its origin, `http://127.0.0.1:PORT`.
    pub origin: String,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl RecordingSite {
    /// Serves this page.
    ///
    /// # Panics
    /// When nothing can be listened at.
    pub async fn serve(page: impl Into<Bytes>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let (page, asked) = (page.into(), Arc::<Mutex<Vec<String>>>::default());
        let heard = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (page, heard) = (page.clone(), Arc::clone(&heard));
                tokio::spawn(async move {
                    let answer = service_fn(|request: Request<hyper::body::Incoming>| {
                        heard.lock().unwrap_or_else(PoisonError::into_inner).push(request.uri().to_string());
                        let response =
                            Response::builder().header(header::CONTENT_TYPE, "text/html; charset=utf-8");
                        let response = response.body(Full::new(page.clone()));
                        async move { Ok::<_, Infallible>(response.expect("a response")) }
                    });
                    // Whoever breaks off wanted no answer.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answer)
                        .await;
                });
            }
        });
        Self { origin, asked, serving }
    }

    /// The paths and queries that were asked for, oldest first.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for RecordingSite {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
