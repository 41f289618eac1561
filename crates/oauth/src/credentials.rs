//! Client authentication at an authorization server.

use std::fmt;
use std::sync::Arc;

use hospes_auth::{ClientId, Seed};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::SecretString;
use serde::Serialize;

/// Lifetime of an assertion, in seconds.
const ASSERTION_SECONDS: u64 = 60;

/// A client, as one authorization server knows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientIdentity {
    /// Client id.
    pub id: ClientId,
    /// Client authentication method, with its credentials.
    pub auth: ClientAuth,
}

impl ClientIdentity {
    /// Creates the identity of a client with this id and authentication.
    #[must_use]
    pub fn new(id: ClientId, auth: ClientAuth) -> Self {
        Self { id, auth }
    }
}

/// Method of client authentication. A client uses exactly one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientAuth {
    /// Not at all: it has no secret that it could keep.
    None,
    /// By a secret, in the `EndpointAuthorization` header.
    Basic(SecretString),
    /// By a secret, in the form.
    Post(SecretString),
    /// By signing with its key.
    Key(ClientSigningKey),
}

impl ClientAuth {
    /// Returns the name of the method, as in server metadata.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic(_) => "client_secret_basic",
            Self::Post(_) => "client_secret_post",
            Self::Key(_) => "private_key_jwt",
        }
    }

    /// Returns the method with this name, with the parts of `secret` that it needs.
    pub(crate) fn of_method(method: &str, secret: Option<&SecretString>) -> Option<Self> {
        match (method, secret) {
            ("none", _) => Some(Self::None),
            ("client_secret_basic", Some(secret)) => Some(Self::Basic(secret.clone())),
            ("client_secret_post", Some(secret)) => Some(Self::Post(secret.clone())),
            _ => None,
        }
    }

    /// Returns the first usable method in `offered`. Without an offer, RFC 8414's default applies.
    pub(crate) fn choose(offered: Option<&[String]>, secret: Option<&SecretString>) -> Option<Self> {
        match (offered, secret) {
            (None, Some(secret)) => Some(Self::Basic(secret.clone())),
            (None, None) => Some(Self::None),
            // With a secret at hand, not to show it would be to be somebody else.
            (Some(offered), Some(secret)) => {
                let mut known = offered.iter().filter(|method| *method != "none");
                known.find_map(|method| Self::of_method(method, Some(secret)))
            }
            (Some(offered), None) => offered.iter().any(|method| method == "none").then_some(Self::None),
        }
    }
}

/// A private key, to sign with.
#[derive(Clone)]
pub struct ClientSigningKey {
    key: Arc<EncodingKey>,
    algorithm: Algorithm,
    key_id: Option<String>,
}

impl ClientSigningKey {
    /// Reads a key from PEM text, for `ES256`, `ES384` or `EdDSA` (PKCS #8), or for RSA algorithms (PKCS #1).
    ///
    /// # Errors
    /// If the text has no key, or none for this algorithm. The error shows no part of the text.
    pub fn from_pem(pem: &str, algorithm: &str) -> Result<Self, InvalidKey> {
        use rustls_pki_types::pem::PemObject as _;
        use rustls_pki_types::{PrivatePkcs1KeyDer, PrivatePkcs8KeyDer};
        let algorithm: Algorithm = algorithm.parse().map_err(|_| InvalidKey)?;
        let pkcs8 = || PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| InvalidKey);
        let key = match algorithm {
            Algorithm::ES256 | Algorithm::ES384 => EncodingKey::from_ec_der(pkcs8()?.secret_pkcs8_der()),
            Algorithm::EdDSA => EncodingKey::from_ed_der(pkcs8()?.secret_pkcs8_der()),
            // HMAC is not `private_key_jwt`: a PEM text with a key pair is nothing to sign it with.
            Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => return Err(InvalidKey),
            _ => {
                let key = PrivatePkcs1KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| InvalidKey)?;
                EncodingKey::from_rsa_der(key.secret_pkcs1_der())
            }
        };
        // A key of another kind would be found out at its first use.
        jsonwebtoken::encode(&Header::new(algorithm), &(), &key).map_err(|_| InvalidKey)?;
        Ok(Self { key: Arc::new(key), algorithm, key_id: None })
    }

    /// Sets the id of the key (`kid`) in the published key set.
    #[must_use]
    pub fn key_id(mut self, key_id: impl Into<String>) -> Self {
        self.key_id = Some(key_id.into());
        self
    }

    /// Returns the name of the algorithm, as in server metadata.
    #[must_use]
    pub fn algorithm(&self) -> String {
        format!("{:?}", self.algorithm)
    }

    /// Signs that we are `client`, for `audience` and the next minute (RFC 7523, section 3).
    pub(crate) fn assertion(
        &self,
        client: &ClientId,
        audience: &str,
        seed: &mut Seed,
        now: u64,
    ) -> Result<SecretString, InvalidKey> {
        #[derive(Serialize)]
        struct ClientAssertionClaims<'a> {
            iss: &'a str,
            sub: &'a str,
            aud: &'a str,
            jti: String,
            iat: u64,
            exp: u64,
        }
        let mut header = Header::new(self.algorithm);
        // The type keeps the assertion from passing as another kind of JWT that the same key may sign.
        header.typ = Some("client-authentication+jwt".into());
        header.kid.clone_from(&self.key_id);
        let (iss, sub) = (client.as_str(), client.as_str());
        let exp = now.saturating_add(ASSERTION_SECONDS);
        let claims = ClientAssertionClaims { iss, sub, aud: audience, jti: seed.draw_text(), iat: now, exp };
        jsonwebtoken::encode(&header, &claims, &self.key).map(SecretString::from).map_err(|_| InvalidKey)
    }
}

impl fmt::Debug for ClientSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSigningKey")
            .field("algorithm", &self.algorithm)
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

/// A text holds no private key that could be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid private key for this algorithm")]
#[non_exhaustive]
pub struct InvalidKey;
