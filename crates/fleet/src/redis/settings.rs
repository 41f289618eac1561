//! Settings of the connection to Redis.

use std::fmt;
use std::time::Duration;

use ::redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, TlsCertificates,
};
use secrecy::{ExposeSecret as _, SecretString};

use crate::settings::RelaySettings;

/// Settings of a [`RedisRelay`](super::RedisRelay).
#[derive(Clone)]
#[non_exhaustive]
pub struct RedisSettings {
    /// URL of the server: `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS. The certificate must
    /// fit the host.
    pub url: SecretString,
    /// Certificates of the authorities that are trusted, in PEM. Default: the public ones that Mozilla trusts.
    pub ca_pem: Option<Vec<u8>>,
    /// Certificate chain and private key of this client, in PEM.
    pub client_identity: Option<RedisClientIdentity>,
    /// Prefix of all keys and channels. Default: `h:`.
    pub prefix: String,
    /// Time within which a connection is opened. Default: 1 s.
    pub connect_timeout: Duration,
    /// Time within which an operation is answered. Default: 2 s.
    pub response_timeout: Duration,
    /// Time between two probes of a connection. Default: 1 s.
    pub probe_interval: Duration,
    /// First pause between attempts to connect; it doubles with each. Default: 50 ms.
    pub reconnect_min: Duration,
    /// Longest pause between attempts to connect. Default: 1 s.
    pub reconnect_max: Duration,
    /// Number of connections for sessions, beside one each for leases, hints and received hints. Default: 2.
    pub data_connections: usize,
    /// Maximum number of operations of a connection that wait for their answers. Default: 1,024.
    pub max_in_flight: usize,
    /// Leaves failed connections out of the log, because the caller reports them. Default: false.
    pub is_quiet: bool,
    /// Times and limits that all engines use.
    pub relay: RelaySettings,
}

/// Certificate chain and private key of a client.
#[derive(Clone)]
#[non_exhaustive]
pub struct RedisClientIdentity {
    /// Certificate chain in PEM.
    pub certificate_pem: Vec<u8>,
    /// Private key in PEM.
    pub key_pem: SecretString,
}

impl RedisClientIdentity {
    /// Creates an identity.
    #[must_use]
    pub fn new(certificate_pem: Vec<u8>, key_pem: SecretString) -> Self {
        Self { certificate_pem, key_pem }
    }
}

/// Errors in the settings. None contains the URL, which may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisSettingsError {
    /// The URL is not valid.
    #[error(
        "the Redis URL is not valid; write redis://[user:password@]host[:port][/database], or rediss:// for TLS"
    )]
    Url,
    /// Certificates are given for a connection without TLS.
    #[error("certificates are set, but the Redis URL does not use TLS; write rediss://")]
    NoTls,
    /// The connection is not verified.
    #[error("the Redis URL turns off the verification of certificates; remove #insecure")]
    Insecure,
    /// A certificate or key is not valid PEM.
    #[error("a certificate or key for Redis is not valid PEM")]
    Certificate,
    /// A number or time must not be zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
}

impl RedisSettings {
    /// Creates settings with defaults for a URL.
    #[must_use]
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            ca_pem: None,
            client_identity: None,
            prefix: "h:".to_owned(),
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(2),
            probe_interval: Duration::from_secs(1),
            reconnect_min: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(1),
            data_connections: 2,
            max_in_flight: 1024,
            is_quiet: false,
            relay: RelaySettings::default(),
        }
    }

    /// Checks the settings and creates the client.
    pub(super) fn client(&self) -> Result<Client, RedisSettingsError> {
        let times = [
            ("connect_timeout", self.connect_timeout),
            ("response_timeout", self.response_timeout),
            ("probe_interval", self.probe_interval),
            ("reconnect_min", self.reconnect_min),
            ("lease", self.relay.lease),
        ];
        if let Some((name, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Err(RedisSettingsError::Zero(name));
        }
        let numbers = [("data_connections", self.data_connections), ("max_in_flight", self.max_in_flight)];
        if let Some((name, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
            return Err(RedisSettingsError::Zero(name));
        }
        let info: ConnectionInfo =
            self.url.expose_secret().into_connection_info().map_err(|_| RedisSettingsError::Url)?;
        let has_certificates = self.ca_pem.is_some() || self.client_identity.is_some();
        match info.addr() {
            ConnectionAddr::TcpTls { insecure: true, .. } => Err(RedisSettingsError::Insecure),
            ConnectionAddr::TcpTls { .. } => {
                let client_tls = self.client_identity.as_ref().map(|identity| ClientTlsConfig {
                    client_cert: identity.certificate_pem.clone(),
                    client_key: identity.key_pem.expose_secret().as_bytes().to_vec(),
                });
                let certificates = TlsCertificates { client_tls, root_cert: self.ca_pem.clone() };
                Client::build_with_tls(info, certificates).map_err(|_| RedisSettingsError::Certificate)
            }
            _ if has_certificates => Err(RedisSettingsError::NoTls),
            _ => Client::open(info).map_err(|_| RedisSettingsError::Url),
        }
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may have a password.
        f.debug_struct("RedisSettings")
            .field("prefix", &self.prefix)
            .field("relay", &self.relay)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RedisClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisClientIdentity(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(url: &str) -> RedisSettingsError {
        RedisSettings::new(url.to_owned().into()).client().unwrap_err()
    }

    #[test]
    fn settings_errors_do_not_show_the_url() {
        for url in ["", "redis://", "http://u:hidden@h", "redis://u:hidden@h:port", "rediss://u:hidden@h/x"] {
            let error = error(url);
            assert_eq!(error, RedisSettingsError::Url, "{url}");
            assert!(!format!("{error} {error:?}").contains("hidden"));
        }
        assert_eq!(error("rediss://u:hidden@h/#insecure"), RedisSettingsError::Insecure);
        let settings = RedisSettings::new("redis://u:hidden@h".to_owned().into());
        assert!(!format!("{settings:?}").contains("hidden"));
    }

    #[test]
    fn settings_are_checked() {
        let mut settings = RedisSettings::new("redis://h".to_owned().into());
        settings.ca_pem = Some(Vec::new());
        assert_eq!(settings.client().unwrap_err(), RedisSettingsError::NoTls);
        settings.ca_pem = None;
        settings.max_in_flight = 0;
        assert_eq!(settings.client().unwrap_err(), RedisSettingsError::Zero("max_in_flight"));
        let mut settings = RedisSettings::new("rediss://h".to_owned().into());
        settings.client_identity = Some(RedisClientIdentity::new(b"x".to_vec(), "y".to_owned().into()));
        assert_eq!(settings.client().unwrap_err(), RedisSettingsError::Certificate);
    }
}
