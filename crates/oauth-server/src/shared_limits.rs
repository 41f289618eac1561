//! Rate limits that several servers with one store share.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

/// Counts of attempts that several servers share.
///
/// A server asks only about attempts that its own count admits. Each question holds a request, so it must be answered
/// within a fraction of a second, if need be with [`SharedLimitVerdict::Unavailable`].
pub trait SharedRateLimits: fmt::Debug + Send + Sync {
    /// Counts an attempt of a party, at all servers together.
    fn count<'a>(&'a self, party: &'a LimitedParty<'a>) -> SharedLimitFuture<'a>;

    /// Takes back an attempt that was counted.
    fn uncount<'a>(&'a self, party: &'a LimitedParty<'a>) -> SharedLimitFuture<'a>;
}

/// Verdict of [`SharedRateLimits`], later.
pub type SharedLimitFuture<'a> = Pin<Box<dyn Future<Output = SharedLimitVerdict> + Send + 'a>>;

/// Party with the limit of its attempts.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "implementations of the trait read it")]
pub struct LimitedParty<'a> {
    /// Name of the limit. Each limit has parties of its own.
    pub limit: &'static str,
    /// Party, for example an address.
    pub party: &'a [u8],
    /// Time after which one more attempt is possible.
    pub interval: Duration,
    /// Number of attempts that are possible at once.
    pub burst: u32,
}

/// Verdict about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a server has to treat all")]
pub enum SharedLimitVerdict {
    /// The attempt was counted, or taken back.
    Allowed,
    /// The limit is reached; nothing was counted.
    Exceeded {
        /// Time after which an attempt is possible.
        retry_in: Duration,
    },
    /// The shared count cannot be had now. Each server then admits its own part.
    Unavailable {
        /// Number of servers that divide the limit; at least 1.
        servers: u32,
    },
}
