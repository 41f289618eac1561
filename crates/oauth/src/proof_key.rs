//! DPoP proofs of the client: possession of the key that a token is bound to (RFC 9449).

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::KeyPair;
use http::{HeaderValue, Method};
use serde::Serialize;
use url::Url;

use super::error::FlowError;

/// A key pair that tokens are bound to (ES256). It is generated here and leaves only for storage.
pub struct ProofKey(KeyPair);

#[derive(Serialize)]
struct DpopProofClaims<'a> {
    jti: String,
    htm: &'a str,
    htu: String,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ath: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
}

impl ProofKey {
    /// Generates a new key.
    ///
    /// # Errors
    /// If the operating system provides no random bytes.
    pub fn generate() -> Result<Self, FlowError> {
        KeyPair::generate().map(Self).map_err(|_| FlowError::Crypto("a key"))
    }

    /// Reads the key from a PKCS #8 document.
    ///
    /// # Errors
    /// If the document contains none.
    pub fn from_document(document: &[u8]) -> Result<Self, FlowError> {
        KeyPair::from_document(document).map(Self).map_err(|_| FlowError::Crypto("a key"))
    }

    /// Returns the key as a PKCS #8 document, for storage.
    #[must_use]
    pub fn document(&self) -> &[u8] {
        self.0.document()
    }

    /// Creates the proof for one request at `now` (seconds since 1970), with the hash of the token and the nonce, if
    /// given. `id` must be unique.
    ///
    /// # Errors
    /// If signing fails.
    pub fn prove(
        &self,
        method: &Method,
        url: &Url,
        token: Option<&str>,
        nonce: Option<&str>,
        id: String,
        now: u64,
    ) -> Result<HeaderValue, FlowError> {
        let failed = || FlowError::Crypto("a DPoP proof");
        let mut target = url.clone();
        // The `htu` of a proof has neither query nor fragment (RFC 9449, section 4.2).
        target.set_query(None);
        target.set_fragment(None);
        let claims = DpopProofClaims {
            jti: id,
            htm: method.as_str(),
            htu: target.into(),
            iat: now,
            ath: token.map(|token| URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes()))),
            nonce,
        };
        let public = self.0.public().clone();
        let proof = self.0.sign("dpop+jwt", &claims, |header| header.jwk = Some(public));
        let proof = proof.map_err(|_| failed())?;
        let mut value = HeaderValue::from_str(&proof).map_err(|_| failed())?;
        // A sensitive value is masked in debug output, and kept out of the HTTP/2 compression table.
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for ProofKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProofKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;
    use jsonwebtoken::jwk::Jwk;
    use serde_json::Value;

    use super::*;

    fn part(proof: &HeaderValue, index: usize) -> Value {
        let text = proof.to_str().unwrap().split('.').nth(index).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
    }

    #[test]
    fn a_proof_names_its_request_and_shows_only_the_public_key() {
        let key = ProofKey::generate().unwrap();
        let again = ProofKey::from_document(key.document()).unwrap();
        let url = Url::parse("https://m/mcp?secret=1").unwrap();
        let proof = again.prove(&Method::POST, &url, Some("token"), Some("n"), "id".into(), 7).unwrap();
        let (header, claims) = (part(&proof, 0), part(&proof, 1));
        assert_eq!((&header["typ"], &header["alg"]), (&"dpop+jwt".into(), &"ES256".into()));
        let jwk = header["jwk"].as_object().unwrap();
        assert!(jwk.contains_key("x") && !jwk.contains_key("d"), "{jwk:?}");
        assert_eq!((&claims["htm"], &claims["htu"]), (&"POST".into(), &"https://m/mcp".into()));
        assert_eq!(
            (&claims["iat"], &claims["jti"], &claims["nonce"]),
            (&7.into(), &"id".into(), &"n".into())
        );
        // The hash of "token".
        assert_eq!(claims["ath"], "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A");
        let jwk: Jwk = serde_json::from_value(header["jwk"].clone()).unwrap();
        let mut rules = jsonwebtoken::Validation::new(Algorithm::ES256);
        rules.required_spec_claims.clear();
        rules.validate_exp = false;
        let key = jsonwebtoken::DecodingKey::from_jwk(&jwk).unwrap();
        assert!(jsonwebtoken::decode::<Value>(proof.to_str().unwrap(), &key, &rules).is_ok());
    }
}
