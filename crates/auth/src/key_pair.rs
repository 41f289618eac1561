//! Key pairs generated here, and their signatures.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;
use zeroize::Zeroizing;

/// A key pair for ES256. It is generated here and leaves only for storage.
pub struct KeyPair {
    document: Zeroizing<Vec<u8>>,
    key: EncodingKey,
    public: Jwk,
}

/// Error if a key cannot be generated, read or used.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the key cannot be used")]
#[non_exhaustive]
pub struct KeyPairError;

impl KeyPair {
    /// Generates a new key pair.
    ///
    /// # Errors
    /// If the operating system provides no random bytes.
    pub fn generate() -> Result<Self, KeyPairError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Self::from_document(document.map_err(|_| KeyPairError)?.as_ref())
    }

    /// Reads the key pair from a PKCS #8 document.
    ///
    /// # Errors
    /// If the document contains none.
    pub fn from_document(document: &[u8]) -> Result<Self, KeyPairError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document);
        let pair = pair.map_err(|_| KeyPairError)?;
        // 4, then both coordinates.
        let point = pair.public_key().as_ref().get(1..65).ok_or(KeyPairError)?;
        let (x, y) = point.split_at(32);
        let public = serde_json::json!({
            "kty": "EC", "crv": "P-256", "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        });
        let public = serde_json::from_value(public).map_err(|_| KeyPairError)?;
        let key = EncodingKey::from_ec_der(document);
        // The document is kept, because the key cannot be turned back into one.
        Ok(Self { document: Zeroizing::new(document.to_vec()), key, public })
    }

    /// Returns the key pair as a PKCS #8 document, for storage.
    #[must_use]
    pub fn document(&self) -> &[u8] {
        &self.document
    }

    /// Returns the public key as a JWK.
    #[must_use]
    pub fn public(&self) -> &Jwk {
        &self.public
    }

    /// Returns the thumbprint of the key: the hash of its public JWK (RFC 7638).
    #[must_use]
    pub fn thumbprint(&self) -> String {
        // Every coordinate was written above.
        self.public.thumbprint(ThumbprintHash::SHA256).unwrap_or_default()
    }

    /// Signs a JWT of this type with these claims. `finish` may add to its header.
    ///
    /// # Errors
    /// If signing fails.
    pub fn sign(
        &self,
        kind: &str,
        claims: &impl Serialize,
        finish: impl FnOnce(&mut Header),
    ) -> Result<String, KeyPairError> {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some(kind.to_owned());
        finish(&mut header);
        jsonwebtoken::encode(&header, claims, &self.key).map_err(|_| KeyPairError)
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPair(…)")
    }
}
