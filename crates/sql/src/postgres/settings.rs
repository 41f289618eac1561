//! Settings of the connection to PostgreSQL.

use std::fmt;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret as _, SecretString};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// Name of the connections of nodes in the lists of the server.
pub const DEFAULT_APPLICATION_NAME: &str = "hospes";

/// Settings of a database on PostgreSQL 15 or later.
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresSettings {
    /// URL: `postgres://user[:password]@host[:port][,host[:port]]/database`. With several hosts the primary is used,
    /// also after a failover. The connection uses TLS, and the certificate must fit the host, unless the URL ends with
    /// `?sslmode=disable`.
    pub url: SecretString,
    /// Certificates of the authorities that are trusted, in PEM. Default: those of the system.
    pub ca_pem: Option<Vec<u8>>,
    /// Certificate chain and private key of this client, in PEM.
    pub client_identity: Option<(Vec<u8>, SecretString)>,
    /// Maximum number of connections. Default: 8.
    pub max_connections: usize,
    /// Time within which a connection is opened or a free one is found. Default: 2 s.
    pub connect_timeout: Duration,
    /// Time within which a statement is answered and a lock is acquired. Default: 5 s.
    pub statement_timeout: Duration,
    /// Time for which a change is tried again after lost connections and failovers. Default: 15 s.
    pub retry_timeout: Duration,
    /// Interval at which changes by other nodes are looked for. Default: 250 ms.
    pub poll_interval: Duration,
    /// Name of the connections in the lists of the server. Default: `hospes`.
    pub application_name: String,
}

/// Errors in the settings. None contains the URL, which may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresSettingsError {
    /// The URL is not valid.
    #[error("the PostgreSQL URL is not valid; write postgres://user[:password]@host[:port]/database")]
    Url,
    /// Certificates are given for a connection without TLS.
    #[error("certificates are set, but the PostgreSQL URL turns TLS off; remove sslmode=disable")]
    NoTls,
    /// A certificate or key is not valid PEM.
    #[error("a certificate or key for PostgreSQL is not valid PEM")]
    Certificate,
    /// The system has no certificates of authorities.
    #[error("no trusted certificates were found on this system; set those of the server's authority")]
    NoAuthorities,
    /// A number or time must not be zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
}

impl PostgresSettings {
    /// Creates settings with defaults for a URL.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            ca_pem: None,
            client_identity: None,
            max_connections: 8,
            connect_timeout: Duration::from_secs(2),
            statement_timeout: Duration::from_secs(5),
            retry_timeout: Duration::from_secs(15),
            poll_interval: Duration::from_millis(250),
            application_name: DEFAULT_APPLICATION_NAME.to_owned(),
        }
    }

    /// Checks the settings; returns those of the client, and TLS unless it is turned off.
    pub(super) fn client(&self) -> Result<(Config, Option<ClientConfig>), PostgresSettingsError> {
        let times = [
            ("connect_timeout", self.connect_timeout),
            ("statement_timeout", self.statement_timeout),
            ("poll_interval", self.poll_interval),
        ];
        if let Some((name, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Err(PostgresSettingsError::Zero(name));
        }
        if self.max_connections == 0 {
            return Err(PostgresSettingsError::Zero("max_connections"));
        }
        let mut config =
            Config::from_str(self.url.expose_secret()).map_err(|_| PostgresSettingsError::Url)?;
        config
            .application_name(&self.application_name)
            .connect_timeout(self.connect_timeout)
            .tcp_user_timeout(self.statement_timeout)
            .keepalives_idle(self.statement_timeout)
            .target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
        if config.get_ssl_mode() == SslMode::Disable {
            let has_certificates = self.ca_pem.is_some() || self.client_identity.is_some();
            return if has_certificates { Err(PostgresSettingsError::NoTls) } else { Ok((config, None)) };
        }
        // Never "prefer", which would go on without TLS where somebody in between says that there is none.
        config.ssl_mode(SslMode::Require);
        Ok((config, Some(self.tls()?)))
    }

    fn tls(&self) -> Result<ClientConfig, PostgresSettingsError> {
        let certificates = |pem: &[u8]| {
            let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
            read.ok().filter(|read| !read.is_empty()).ok_or(PostgresSettingsError::Certificate)
        };
        let mut roots = RootCertStore::empty();
        match &self.ca_pem {
            Some(pem) => {
                for certificate in certificates(pem)? {
                    roots.add(certificate).map_err(|_| PostgresSettingsError::Certificate)?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err(PostgresSettingsError::NoAuthorities);
                }
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| PostgresSettingsError::Certificate)?
            .with_root_certificates(roots);
        let Some((chain, key)) = &self.client_identity else { return Ok(config.with_no_client_auth()) };
        let key = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes())
            .map_err(|_| PostgresSettingsError::Certificate)?;
        config
            .with_client_auth_cert(certificates(chain)?, key)
            .map_err(|_| PostgresSettingsError::Certificate)
    }
}

impl fmt::Debug for PostgresSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may have a password.
        f.debug_struct("PostgresSettings")
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}
