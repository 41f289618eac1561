//! Rate limits of all nodes, in Redis.

use hospes_node::FleetRateLimits;

/// Rate limits that this node shares with the others.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "authorization-server"),
    expect(dead_code, reason = "only the authorization server limits attempts")
)]
pub(crate) struct NodeRateLimits(pub(super) FleetRateLimits);

#[cfg(feature = "authorization-server")]
mod of_authorization {
    use hospes_fleet::keys::{RateKey, RateLimit, RateVerdict};
    use hospes_oauth_server::{LimitedParty, SharedLimitFuture, SharedLimitVerdict, SharedRateLimits};

    use super::NodeRateLimits;

    impl SharedRateLimits for NodeRateLimits {
        fn count<'a>(&'a self, party: &'a LimitedParty<'a>) -> SharedLimitFuture<'a> {
            Box::pin(async move {
                match self.0.count(&key(party), limit(party)).await {
                    Some(RateVerdict::Allowed) => SharedLimitVerdict::Allowed,
                    Some(RateVerdict::Exceeded { retry_in }) => SharedLimitVerdict::Exceeded { retry_in },
                    None => self.divided(),
                }
            })
        }

        fn uncount<'a>(&'a self, party: &'a LimitedParty<'a>) -> SharedLimitFuture<'a> {
            Box::pin(async move {
                match self.0.uncount(&key(party), limit(party)).await {
                    true => SharedLimitVerdict::Allowed,
                    false => self.divided(),
                }
            })
        }
    }

    impl NodeRateLimits {
        fn divided(&self) -> SharedLimitVerdict {
            SharedLimitVerdict::Unavailable { servers: self.0.nodes() }
        }
    }

    fn key(party: &LimitedParty<'_>) -> RateKey {
        RateKey::new(&[b"authorization server", party.limit.as_bytes(), party.party])
    }

    fn limit(party: &LimitedParty<'_>) -> RateLimit {
        RateLimit { interval: party.interval, burst: party.burst }
    }
}
