//! Whose certificates are taken, and that no proxy of the environment comes between.

use std::path::Path;

use hospes_http_client::TlsFailure;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::TlsAcceptor;

use super::*;

pub(super) const NAME: &str = "as.test";
/// Port of the server that the child process contacts.
const PORT: &str = "HOSPES_TEST_PORT";

/// A server of this name that says `{}` to everybody, and a file with the authority that vouches for it.
pub(super) async fn secured() -> (tempfile::NamedTempFile, u16) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(json("{}").as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    (file, port)
}

/// Creates a client for the server's name, which resolves to this machine.
fn client(port: u16) -> GuardedClient {
    let network = "127.0.0.0/8".parse().unwrap();
    naming(EgressPolicy::public().allow_network(network), &[&["127.0.0.1"]], port)
}

async fn ask(client: &GuardedClient, port: u16) -> Result<StatusCode, FetchError> {
    client.fetch(get(&format!("https://{NAME}:{port}/"))).await.map(|response| response.status)
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_when_it_is_named() {
    let (authority, port) = secured().await;
    assert_eq!(ask(&client(port), port).await, Err(FetchError::Tls(TlsFailure::UnknownAuthority)));
    let trusting = client(port).ca_files([authority.path().to_owned()]);
    assert_eq!(ask(&trusting, port).await, Ok(StatusCode::OK));
    let nowhere = client(port).ca_files([Path::new("/nowhere/ca.pem").to_owned()]);
    let error = ask(&nowhere, port).await.unwrap_err().to_string();
    assert!(error.contains("ca_file: /nowhere/ca.pem"), "{error}");
}

/// covers: SECP-04
#[tokio::test]
async fn the_environment_says_whom_to_trust_and_its_proxies_are_not_asked() {
    if let Ok(port) = std::env::var(PORT) {
        let port = port.parse().unwrap();
        println!("outcome: {:?}", ask(&client(port), port).await);
        return;
    }
    let (authority, port) = secured().await;
    let (proxy, came) = serve(json("{}")).await;
    let proxy = format!("http://127.0.0.1:{proxy}");
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    let test =
        "egress::http_client::tests::trust::the_environment_says_whom_to_trust_and_its_proxies_are_not_asked";
    child.args(["--exact", test, "--nocapture"]).env(PORT, port.to_string()).kill_on_drop(true);
    child.env_remove("SSL_CERT_DIR").env("SSL_CERT_FILE", authority.path());
    for name in ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        child.env(name, &proxy);
    }
    child.env_remove("no_proxy").env_remove("NO_PROXY");
    let output = tokio::time::timeout(hospes_auth_testkit::PATIENCE, child.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("outcome: Ok(200)"), "{output:?}");
    assert_eq!(came.load(Ordering::SeqCst), 0);
}
