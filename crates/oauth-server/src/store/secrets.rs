//! Secret texts, and the form in which they are stored.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::Seed;

/// Returns the hash of a secret, in the form that is stored.
pub(crate) fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, secret.as_bytes()))
}

/// Returns 256 random bits as 43 characters.
pub(crate) fn random_text() -> String {
    // Without randomness there are no secrets, and nothing can go on.
    Seed::from_system().expect("the operating system provides random numbers").draw_text()
}
