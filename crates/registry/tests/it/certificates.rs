//! Certificates that are not trusted, of real servers on this machine.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use hospes_registry::{ArtifactClient, PackageRegistries, RegistryClient, RegistryPackage};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto};

/// Accepts connections with a certificate of its own. Ends with the runtime of the test.
fn serve() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()));
    let config = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.der().clone()], key.into()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _refused = acceptor.accept(stream).await;
        }
    });
    url
}

fn npm_package() -> RegistryPackage {
    let entry = hospes_registry::ServerEntry::read(
        r#"{"name": "a.b/c", "description": "x", "version": "1", "packages": [
            {"registryType": "npm", "identifier": "x", "version": "1.0.0", "transport": {"type": "stdio"}}]}"#,
    );
    entry.unwrap().packages.remove(0)
}

/// Errors of a registry and of an index of packages at this URL.
async fn errors(url: &str) -> [String; 2] {
    let registry = RegistryClient::new(url, None).unwrap();
    let mut registries = PackageRegistries::default();
    url.clone_into(&mut registries.npm);
    [
        registry.entry("com.acme/analytics", None).await.unwrap_err().to_string(),
        ArtifactClient::new(registries).resolve(&npm_package()).await.unwrap_err().to_string(),
    ]
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_not_a_refused_connection() {
    let url = serve();
    for error in errors(&url).await {
        let reason =
            "could not be reached: its certificate is issued by an authority that is not trusted here; ";
        assert!(error.starts_with("127.0.0.1") && error.contains(reason), "{error}");
        assert!(error.contains("SSL_CERT_FILE=FILE"), "{error}");
    }
    let refused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("https://{}", refused.local_addr().unwrap());
    drop(refused);
    for error in errors(&url).await {
        assert!(
            error.contains("could not be reached: no connection was opened; check the network"),
            "{error}"
        );
    }
}
