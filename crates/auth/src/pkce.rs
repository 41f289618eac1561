//! Proof Key for Code Exchange (RFC 7636), with the method `S256` only.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

/// Secret code verifier. It is sent only to the token endpoint.
#[derive(Clone)]
pub struct CodeVerifier(SecretString);

impl CodeVerifier {
    /// Creates a verifier of 43 characters from random bytes.
    #[must_use]
    pub fn new(random: &[u8; 32]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(random).into())
    }

    /// Returns a verifier that was stored, as [`Self::expose`] has returned it.
    #[must_use]
    pub fn from_text(text: SecretString) -> Self {
        Self(text)
    }

    /// Returns the secret, for the token request.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns the public challenge, for the authorization request.
    #[must_use]
    pub fn challenge(&self) -> String {
        challenge_of(self.expose())
    }
}

impl fmt::Debug for CodeVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeVerifier(…)")
    }
}

/// Returns true if `challenge` was derived from `verifier`. A verifier with a length or characters that RFC 7636 does
/// not allow never matches.
#[must_use]
pub fn verify_challenge(verifier: &str, challenge: &str) -> bool {
    let well_formed = (43..=128).contains(&verifier.len())
        && verifier.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
    well_formed && bool::from(challenge_of(verifier).as_bytes().ct_eq(challenge.as_bytes()))
}

fn challenge_of(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636, appendix B.
    #[test]
    fn a_challenge_is_met_by_its_verifier_alone() {
        let (verifier, challenge) =
            ("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(verify_challenge(verifier, challenge));
        assert!(!verify_challenge(&verifier.replace('d', "e"), challenge));
        assert!(!verify_challenge(verifier, verifier), "that would be the method `plain`");
        let short = &verifier[..42];
        assert!(!verify_challenge(short, &challenge_of(short)));
        let long = "a".repeat(129);
        assert!(!verify_challenge(&long, &challenge_of(&long)));
        let strange = verifier.replace('d', "+");
        assert!(!verify_challenge(&strange, &challenge_of(&strange)));
    }

    #[test]
    fn a_verifier_is_long_enough_and_is_not_shown() {
        let verifier = CodeVerifier::new(&[7; 32]);
        assert_eq!(verifier.expose().len(), 43);
        assert!(verify_challenge(verifier.expose(), &verifier.challenge()));
        assert!(!format!("{verifier:?}").contains(verifier.expose()));
    }
}
