//! Helpers that the tests of the OAuth crates share: an HTTP client without automatic behaviour, keys and tokens, and
//! captured log output. It knows none of these crates, so that their unit tests can use it.
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test ends with a panic")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fmt, io};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::Value;
use tokio::net::TcpStream;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum time that a test waits for an expected event.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A response whose body has not been read.
#[derive(Debug)]
#[non_exhaustive]
pub struct AuthTestStream {
    /// Status of the response.
    pub status: StatusCode,
    /// Headers of the response.
    pub headers: HeaderMap,
    body: Incoming,
}

/// A response.
#[derive(Debug)]
#[non_exhaustive]
pub struct AuthTestResponse {
    /// Status of the response.
    pub status: StatusCode,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// Body of the response.
    pub body: String,
}

impl AuthTestStream {
    /// The next piece of the body; none at its end.
    pub async fn piece(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("nothing came")?;
        Some(String::from_utf8(frame.ok()?.into_data().ok()?.to_vec()).unwrap())
    }

    /// Reads the rest of the body.
    pub async fn whole(self) -> AuthTestResponse {
        let body = tokio::time::timeout(PATIENCE, self.body.collect()).await.expect("the body did not end");
        let body = String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap();
        AuthTestResponse { status: self.status, headers: self.headers, body }
    }
}

impl AuthTestResponse {
    /// Decodes the body.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }

    /// Returns the value of a header; empty without the header.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// Sends a request on a new connection. Only a missing `Host` header is added.
pub async fn begin(address: SocketAddr, mut request: Request<Full<Bytes>>) -> AuthTestStream {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    if !request.headers().contains_key("host") {
        request.headers_mut().insert("host", address.to_string().parse().unwrap());
    }
    let sent = tokio::time::timeout(PATIENCE, sender.send_request(request)).await;
    let (parts, body) = sent.expect("no response came").unwrap().into_parts();
    AuthTestStream { status: parts.status, headers: parts.headers, body }
}

/// Sends a request on a new connection and reads the whole response.
pub async fn send(address: SocketAddr, request: Request<Full<Bytes>>) -> AuthTestResponse {
    begin(address, request).await.whole().await
}

/// Gets the page at this path.
pub async fn get(address: SocketAddr, path: &str) -> AuthTestResponse {
    send(address, Request::get(path).body(Full::default()).unwrap()).await
}

/// Posts a form with these headers.
pub async fn form_with(
    address: SocketAddr,
    path: &str,
    fields: &[(&str, &str)],
    headers: &[(&str, &str)],
) -> AuthTestResponse {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let mut request = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(address, request.body(Full::new(body.into())).unwrap()).await
}

/// A key that tokens are signed with.
#[non_exhaustive]
pub struct TestSigningKey {
    /// Its `kid`.
    pub id: String,
    der: Vec<u8>,
    key: EncodingKey,
}

impl TestSigningKey {
    /// A new key with this id.
    #[must_use]
    pub fn new(id: &str) -> Self {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let der = pkcs8.as_ref().to_vec();
        Self { id: id.to_owned(), key: EncodingKey::from_ec_der(&der), der }
    }

    /// Returns the public key.
    #[must_use]
    pub fn public(&self) -> Jwk {
        let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(self.id.clone());
        jwk
    }

    /// The public key as bytes, which everybody can know.
    #[must_use]
    pub fn public_bytes(&self) -> Vec<u8> {
        use aws_lc_rs::signature::KeyPair as _;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.der).unwrap();
        pair.public_key().as_ref().to_vec()
    }

    /// Returns the private key as PEM, in PKCS #8.
    #[must_use]
    pub fn pem(&self) -> String {
        let text = base64::engine::general_purpose::STANDARD.encode(&self.der);
        let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
        format!("{begin}\n{text}\n{end}\n")
    }

    /// Header of an access token of this key.
    #[must_use]
    pub fn header(&self) -> Header {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some("at+jwt".to_owned());
        header.kid = Some(self.id.clone());
        header
    }

    /// Signs an access token with these claims.
    #[must_use]
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as(&self.header(), claims)
    }

    /// Signs a token with this header and these claims.
    #[must_use]
    pub fn sign_as(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.key).unwrap()
    }
}

/// Returns the public keys as a set.
pub fn key_set<'a>(keys: impl IntoIterator<Item = &'a TestSigningKey>) -> JwkSet {
    JwkSet { keys: keys.into_iter().map(TestSigningKey::public).collect() }
}

impl fmt::Debug for TestSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestSigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Captured log output.
#[derive(Clone, Debug, Default)]
pub struct AuthTestLog(Arc<Mutex<Vec<u8>>>);

impl AuthTestLog {
    /// Listens to everything that this thread says, until what is returned is dropped.
    pub fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(self.clone())
            .with_ansi(false)
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// Returns everything that was captured.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for AuthTestLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for AuthTestLog {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
