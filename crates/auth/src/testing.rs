//! Helpers of several tests: an HTTP client without automatic behaviour, keys and tokens.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A response whose body has not been read.
pub(crate) struct AuthTestStream {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
}

/// A response.
pub(crate) struct AuthTestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl AuthTestStream {
    /// The next piece of the body; none at its end.
    pub(crate) async fn piece(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("nothing came")?;
        Some(String::from_utf8(frame.ok()?.into_data().ok()?.to_vec()).unwrap())
    }

    pub(crate) async fn whole(self) -> AuthTestResponse {
        let body = tokio::time::timeout(PATIENCE, self.body.collect()).await.expect("the body did not end");
        let body = String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap();
        AuthTestResponse { status: self.status, headers: self.headers, body }
    }
}

impl AuthTestResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// Sends a request on a new connection. Only a missing `Host` header is added.
pub(crate) async fn begin(address: SocketAddr, mut request: Request<Full<Bytes>>) -> AuthTestStream {
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

pub(crate) async fn send(address: SocketAddr, request: Request<Full<Bytes>>) -> AuthTestResponse {
    begin(address, request).await.whole().await
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> AuthTestResponse {
    send(address, Request::get(path).body(Full::default()).unwrap()).await
}

/// Posts a form.
#[expect(dead_code, reason = "for the authorization server")]
pub(crate) async fn form(address: SocketAddr, path: &str, fields: &[(&str, &str)]) -> AuthTestResponse {
    form_with(address, path, fields, &[]).await
}

pub(crate) async fn form_with(
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
pub(crate) struct TestSigningKey {
    pub(crate) id: String,
    der: Vec<u8>,
    key: EncodingKey,
}

impl TestSigningKey {
    pub(crate) fn new(id: &str) -> Self {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let der = pkcs8.as_ref().to_vec();
        Self { id: id.to_owned(), key: EncodingKey::from_ec_der(&der), der }
    }

    pub(crate) fn public(&self) -> Jwk {
        let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(self.id.clone());
        jwk
    }

    /// The public key as bytes, which everybody can know.
    pub(crate) fn public_bytes(&self) -> Vec<u8> {
        use aws_lc_rs::signature::KeyPair as _;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.der).unwrap();
        pair.public_key().as_ref().to_vec()
    }

    /// Returns the key as a client signing key, for client authentication.
    pub(crate) fn of_client(&self) -> crate::client::ClientSigningKey {
        let text = base64::engine::general_purpose::STANDARD.encode(&self.der);
        let (begin, end) = ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----");
        let pem = format!("{begin}\n{text}\n{end}\n");
        crate::client::ClientSigningKey::from_pem(&pem, "ES256").unwrap().key_id(self.id.as_str())
    }

    pub(crate) fn header(&self) -> Header {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some("at+jwt".to_owned());
        header.kid = Some(self.id.clone());
        header
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(&self.header(), claims)
    }

    pub(crate) fn sign_as(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.key).unwrap()
    }
}

pub(crate) fn key_set<'a>(keys: impl IntoIterator<Item = &'a TestSigningKey>) -> JwkSet {
    JwkSet { keys: keys.into_iter().map(TestSigningKey::public).collect() }
}

/// A key by which a client shows who it is.
pub(crate) fn client_key() -> crate::client::ClientSigningKey {
    TestSigningKey::new("k1").of_client()
}

/// Captured log output.
#[derive(Clone, Default)]
pub(crate) struct AuthTestLog(Arc<Mutex<Vec<u8>>>);

impl AuthTestLog {
    /// Listens to everything that this thread says, until what is returned is dropped.
    pub(crate) fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(self.clone())
            .with_ansi(false)
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    pub(crate) fn text(&self) -> String {
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
