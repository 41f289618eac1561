//! Each failure of TLS, of a real server on this machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;

use super::TlsFailure;
use crate::{EgressClient, EgressPolicy, FetchError};

const NAME: &str = "registry.test";

/// An authority, and the file that names it.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), issuer.pem()).unwrap();
        Self { issuer, file }
    }

    fn file(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    fn certify(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

/// Answers 200 to each request over TLS with this certificate. Ends with the runtime of the test.
async fn serve((certificate, key): (Certificate, KeyPair)) -> u16 {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.der().clone()], key.into()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _count = stream.read(&mut [0; 4096]).await;
            let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
            let _gone = stream.shutdown().await;
        }
    });
    port
}

/// Asks the server under its name, which means this machine.
async fn ask(port: u16, ca_file: Option<PathBuf>) -> Result<StatusCode, FetchError> {
    let policy = EgressPolicy::public().allow_network("127.0.0.0/8".parse().unwrap());
    let lookup = Arc::new(|_: String| {
        let found = std::future::ready(Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))]));
        Box::pin(found) as crate::LookupFuture
    });
    let client = EgressClient::new(policy, Duration::from_secs(10)).lookup(lookup).ca_files(ca_file);
    let url = Url::parse(&format!("https://{NAME}:{port}/")).unwrap();
    let request = Request::new(Full::new(Bytes::new()));
    client.send(&url, request).await.map(|response| response.status())
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_told_apart() {
    let authority = Authority::new("a");
    let good = serve(authority.certify(NAME, |_| {})).await;
    assert_eq!(ask(good, Some(authority.file())).await, Ok(StatusCode::OK));
    let expired = authority.certify(NAME, |params| params.not_after = date_time_ymd(2020, 1, 1));
    let early = authority.certify(NAME, |params| {
        params.not_before = date_time_ymd(2090, 1, 1);
        params.not_after = date_time_ymd(2091, 1, 1);
    });
    let wrong_name = authority.certify("other.test", |_| {});
    let root = authority.certify(NAME, |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec![NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
    for (certificate, expected) in [
        (Authority::new("a").certify(NAME, |_| {}), TlsFailure::UnknownAuthority),
        (Authority::new("b").certify(NAME, |_| {}), TlsFailure::UnknownAuthority),
        ((own, key), TlsFailure::UnknownAuthority),
        (expired, TlsFailure::Expired),
        (early, TlsFailure::NotValidYet),
        (wrong_name, TlsFailure::WrongName),
        (root, TlsFailure::Certificate),
    ] {
        let port = serve(certificate).await;
        let failed = ask(port, Some(authority.file())).await;
        assert_eq!(failed, Err(FetchError::Tls(expected)));
        let said = failed.unwrap_err().to_string();
        assert!(!said.contains("127") && !said.contains(NAME), "no address: {said}");
    }
    assert_eq!(ask(good, None).await, Err(FetchError::Tls(TlsFailure::UnknownAuthority)));
}

#[tokio::test]
async fn a_server_without_tls_and_one_that_refuses_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
            let _count = stream.read(&mut [0; 4096]).await;
        }
    });
    assert_eq!(ask(plain, None).await, Err(FetchError::Tls(TlsFailure::NotTls)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _count = stream.read(&mut [0; 4096]).await;
            // A fatal alert: `handshake_failure`.
            let _gone = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]).await;
        }
    });
    assert_eq!(ask(refusing, None).await, Err(FetchError::Tls(TlsFailure::Handshake)));
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    assert_eq!(ask(port, None).await, Err(FetchError::Unreachable));
}
