//! Certificates for engines on loopback.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Authority of a test, with a server's and a client's certificate that it has issued.
#[derive(Debug)]
#[non_exhaustive]
pub struct TestCertificates {
    /// Certificate of the authority, in PEM.
    pub ca_pem: String,
    /// Certificate of the server for these names, in PEM.
    pub server_pem: String,
    /// Its private key.
    pub server_key_pem: String,
    /// Certificate of the client, in PEM.
    pub client_pem: String,
    /// Its private key.
    pub client_key_pem: String,
}

/// Files of the certificates that a server reads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CertificateFiles {
    /// Certificate of the authority.
    pub ca: PathBuf,
    /// Certificate of the server.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl TestCertificates {
    /// Issues certificates; that of the server is for `server_name`, a host or an address.
    ///
    /// # Panics
    /// If the name is not valid.
    #[must_use]
    pub fn issue(server_name: &str) -> Self {
        let ca_key = KeyPair::generate().expect("a key is generated");
        let mut ca = CertificateParams::default();
        // Other names than those of the certificates, which else look as if they had issued themselves.
        ca.distinguished_name.push(DnType::CommonName, "test authority");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_pem = ca.self_signed(&ca_key).expect("the authority signs itself").pem();
        let issuer = Issuer::new(ca, ca_key);
        let issue = |name: &str| {
            let key = KeyPair::generate().expect("a key is generated");
            let mut params = CertificateParams::new([name.to_owned()]).expect("the name is valid");
            params.distinguished_name.push(DnType::CommonName, name);
            let certificate = params.signed_by(&key, &issuer).expect("the authority signs");
            (certificate.pem(), key.serialize_pem())
        };
        let (server_pem, server_key_pem) = issue(server_name);
        let (client_pem, client_key_pem) = issue("node.test");
        Self { ca_pem, server_pem, server_key_pem, client_pem, client_key_pem }
    }

    /// Writes the server's certificates to a folder.
    ///
    /// # Panics
    /// If a file cannot be written.
    #[must_use]
    pub fn write(&self, folder: &Path) -> CertificateFiles {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("the file is written");
            path
        };
        CertificateFiles {
            ca: write("ca.pem", &self.ca_pem),
            certificate: write("server.pem", &self.server_pem),
            key: write("server.key", &self.server_key_pem),
        }
    }
}
