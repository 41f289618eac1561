//! What checks a token.

use std::fmt;
use std::pin::Pin;

use super::Principal;

/// How long a token may be, in bytes.
pub const MAX_TOKEN_LENGTH: usize = 16 * 1024;

/// Why a token does not let anybody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It is not one of ours, or not one at all.
    #[error("the token is not valid")]
    Invalid,
    /// It was good once.
    #[error("the token has expired")]
    Expired,
    /// Whoever knows could not be asked.
    #[error("the token cannot be checked now")]
    Unavailable,
}

/// The answer to "whose token is this?".
pub type VerifyFuture<'a> = Pin<Box<dyn Future<Output = Result<Principal, Flaw>> + Send + 'a>>;

/// Checks tokens: their signature or whoever has issued them, audience and time.
pub trait Verify: Send + Sync + 'static {
    /// Whose token this is. `now` is in seconds since 1970.
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a>;
}

/// Tokens of several kinds: good is what one of them calls good.
#[derive(Default)]
pub struct AnyOf(Vec<Box<dyn Verify>>);

impl AnyOf {
    /// No kind yet: nothing is good.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// And those. They are asked in this order.
    #[must_use]
    pub fn or(mut self, verify: impl Verify) -> Self {
        self.0.push(Box::new(verify));
        self
    }
}

impl Verify for AnyOf {
    fn verify<'a>(&'a self, token: &'a str, now: u64) -> VerifyFuture<'a> {
        Box::pin(async move {
            let mut flaw = Flaw::Invalid;
            for verify in &self.0 {
                match verify.verify(token, now).await {
                    Ok(principal) => return Ok(principal),
                    // What could not be asked might have called it good.
                    Err(other) => flaw = flaw.max(other),
                }
            }
            Err(flaw)
        })
    }
}

impl fmt::Debug for AnyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyOf({} kinds)", self.0.len())
    }
}
