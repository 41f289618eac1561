//! Certificates of the nodes, derived from the secret of the fleet.
//!
//! The key of the certificate authority is computed from the secret, so each node has it and nothing is stored. A node
//! signs itself a certificate for its node id, which is valid for a day and replaced in good time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use hospes_fleet::node::NodeId;
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use zeroize::Zeroizing;

/// Protocol between nodes (ALPN).
const PROTOCOL: &[u8] = b"hospes-node/1";
/// Validity of a node's certificate.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);
/// Time before the present from which a certificate is valid, for nodes whose clocks differ.
const BACKDATED: Duration = Duration::from_secs(10 * 60);
/// PKCS #8 of an Ed25519 key before its 32 bytes (RFC 8410).
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Secrets of a fleet: certificates are signed with the first, and those of all are accepted. To rotate the secret, give
/// all nodes the new one behind the old one, then in front of it, then remove the old one.
#[derive(Clone)]
pub struct FleetSecrets(Arc<[Zeroizing<[u8; 32]>]>);

impl FleetSecrets {
    /// Creates secrets; `None` if there is none.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = [u8; 32]>) -> Option<Self> {
        let secrets: Arc<[_]> = secrets.into_iter().map(Zeroizing::new).collect();
        (!secrets.is_empty()).then_some(Self(secrets))
    }

    /// Derives a key for a purpose from each secret. `salt` may be public.
    pub(crate) fn derive(&self, salt: &[u8], purpose: &[u8]) -> Vec<Zeroizing<[u8; 32]>> {
        let derive = |secret: &Zeroizing<[u8; 32]>| {
            let mut key = Zeroizing::new([0; 32]);
            let pseudorandom = Salt::new(HKDF_SHA256, salt).extract(&**secret);
            // 32 bytes are one block, which HKDF always has.
            if let Ok(output) = pseudorandom.expand(&[purpose], HKDF_SHA256) {
                let _ = output.fill(&mut *key);
            }
            key
        };
        self.0.iter().map(derive).collect()
    }
}

impl fmt::Debug for FleetSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetSecrets({} secrets)", self.0.len())
    }
}

/// Error for a certificate that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The certificate cannot be signed.
    #[error("the certificate of this node cannot be made: {0}")]
    Sign(#[from] rcgen::Error),
    /// TLS does not take it.
    #[error("the certificate of this node cannot be used: {0}")]
    Use(#[from] rustls::Error),
}

/// TLS of a node for its present id.
pub(crate) struct NodeTls {
    secrets: FleetSecrets,
    present: Mutex<Option<PresentTls>>,
}

#[derive(Clone)]
struct PresentTls {
    node: NodeId,
    renew_at: Instant,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl NodeTls {
    pub(crate) fn new(secrets: FleetSecrets) -> Self {
        Self { secrets, present: Mutex::new(None) }
    }

    pub(crate) fn secrets(&self) -> &FleetSecrets {
        &self.secrets
    }

    /// Returns the settings of the side that accepts connections.
    pub(crate) fn server(&self, node: NodeId) -> Result<Arc<ServerConfig>, CertificateError> {
        self.present(node).map(|present| present.server)
    }

    /// Returns the settings of the side that opens connections.
    pub(crate) fn client(&self, node: NodeId) -> Result<Arc<ClientConfig>, CertificateError> {
        self.present(node).map(|present| present.client)
    }

    fn present(&self, node: NodeId) -> Result<PresentTls, CertificateError> {
        let mut present = self.present.lock();
        let valid = present.as_ref().filter(|tls| tls.node == node && Instant::now() < tls.renew_at);
        if let Some(valid) = valid {
            return Ok(valid.clone());
        }
        let made = self.issue(node)?;
        *present = Some(made.clone());
        Ok(made)
    }

    fn issue(&self, node: NodeId) -> Result<PresentTls, CertificateError> {
        let mut roots = RootCertStore::empty();
        let mut issuer = None;
        for seed in self.secrets.derive(b"", b"hospes node ca") {
            let (authority, certificate) = authority(&seed)?;
            roots.add(certificate)?;
            // The first one signs.
            issuer.get_or_insert(authority);
        }
        let Some(issuer) = issuer else {
            return Err(CertificateError::Sign(rcgen::Error::KeyGenerationUnavailable));
        };
        let key = KeyPair::generate()?;
        let certificate = leaf(node)?.signed_by(&key, &issuer)?;
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = || PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions = &[&rustls::version::TLS13];
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain.clone(), key())?;
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        let nodes = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_webpki_verifier(nodes)
            .with_client_auth_cert(chain, key())?;
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        let renew_at = Instant::now() + VALIDITY / 2;
        Ok(PresentTls { node, renew_at, server: Arc::new(server), client: Arc::new(client) })
    }
}

/// The certificate authority of a secret. Its certificate differs at each node, and its key and name are the same.
fn authority(
    seed: &[u8; 32],
) -> Result<(Issuer<'static, KeyPair>, CertificateDer<'static>), CertificateError> {
    let mut pkcs8 = Zeroizing::new(ED25519_PKCS8.to_vec());
    pkcs8.extend_from_slice(seed);
    let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8.as_slice());
    let key = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &rcgen::PKCS_ED25519)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "hospes fleet");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let certificate = params.self_signed(&key)?.der().clone();
    Ok((Issuer::new(params, key), certificate))
}

fn leaf(node: NodeId) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::new([node_name(node)])?;
    params.distinguished_name = DistinguishedName::new();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - BACKDATED).into(), (now + VALIDITY).into());
    Ok(params)
}

/// The name of a node in its certificate.
fn node_name(node: NodeId) -> String {
    format!("{node}.node.hospes.internal")
}

/// Returns the name that a peer has to have.
pub(crate) fn server_name(node: NodeId) -> Option<ServerName<'static>> {
    ServerName::try_from(node_name(node)).ok()
}

/// Returns true if a certificate that was verified is that of a node.
pub(crate) fn is_certificate_of(certificate: &CertificateDer<'_>, node: NodeId) -> bool {
    let (Ok(certificate), Some(name)) = (webpki::EndEntityCert::try_from(certificate), server_name(node))
    else {
        return false;
    };
    certificate.verify_is_valid_for_subject_name(&name).is_ok()
}

impl fmt::Debug for NodeTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeTls").field("secrets", &self.secrets).finish_non_exhaustive()
    }
}
