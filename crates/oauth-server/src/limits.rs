//! Rate limits of attempts, and the wait after a temporary failure.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use hospes_auth::BoundedCache;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum number of parties that are remembered: the limit `max_limited_parties`. At the cap, the party with the
/// oldest attempt is evicted.
const MAX_PARTIES: usize = 16 * 1024;

/// Value of `Retry-After` for temporary failures, in seconds.
pub(super) const RETRY_SECONDS: &str = "5";

/// Applies the generic cell rate algorithm. `due` is the time of the next evenly spaced attempt; if it exceeds `now` by
/// more than a burst, the attempt is rejected with the time to wait.
pub(super) fn check_pace(
    due: &mut Instant,
    now: Instant,
    interval: Duration,
    burst: u32,
) -> Result<(), Duration> {
    // Time in which nobody came is not saved up, or the next burst could be of any size.
    let next = (*due).max(now) + interval;
    let ahead = next.saturating_duration_since(now);
    match ahead.checked_sub(interval * burst) {
        Some(wait) if !wait.is_zero() => Err(wait),
        _ => {
            *due = next;
            Ok(())
        }
    }
}

/// Rate limit per party: a number of attempts per minute.
#[derive(Debug)]
pub(super) struct PartyRateLimit<K> {
    per_minute: u32,
    due: Mutex<BoundedCache<K, Instant>>,
}

impl<K: Clone + Eq + Hash> PartyRateLimit<K> {
    pub(super) fn per_minute(times: u32) -> Self {
        Self { per_minute: times.max(1), due: Mutex::new(BoundedCache::new(MAX_PARTIES)) }
    }

    /// Counts an attempt of this party.
    ///
    /// # Errors
    /// How long it has to wait.
    pub(super) fn check(&self, party: K) -> Result<(), Duration> {
        let now = Instant::now();
        let mut known = self.due.lock();
        let mut due = known.get(&party).copied().unwrap_or(now);
        let paced = check_pace(&mut due, now, self.interval(), self.per_minute);
        // Put back after a refusal as well, so that whoever keeps trying is not the one that is evicted.
        known.insert(party, due);
        paced
    }

    /// Takes back one attempt, which should not have counted. It counted until now, so that concurrent attempts stay
    /// limited.
    pub(super) fn uncount(&self, party: &K) {
        let mut known = self.due.lock();
        if let Some(due) = known.get_mut(party) {
            *due = due.checked_sub(self.interval()).unwrap_or(*due);
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60) / self.per_minute
    }
}

/// Factor of the broader limits: failures from one address with any name, or with one name from anywhere, relative to
/// one name from one address.
const BROAD_LIMIT_FACTOR: u32 = 10;

/// Limits of failed sign-ins. The tight one is for a name and an address together. Thus an attacker locks out no user
/// at other addresses, and no other name at the same address. The two broader ones limit guesses from one address at
/// many names, and from many addresses at one name.
#[derive(Debug)]
pub(super) struct SignInLimits {
    addresses: PartyRateLimit<Option<IpAddr>>,
    names: PartyRateLimit<String>,
    both: PartyRateLimit<(String, Option<IpAddr>)>,
    /// Names with addresses from which they have signed in: the limit of all guesses at the name does not hold them up.
    succeeded: Mutex<BoundedCache<(String, Option<IpAddr>), ()>>,
}

impl SignInLimits {
    pub(super) fn per_minute(times: u32) -> Self {
        let broader = times.saturating_mul(BROAD_LIMIT_FACTOR);
        Self {
            addresses: PartyRateLimit::per_minute(broader),
            names: PartyRateLimit::per_minute(broader),
            both: PartyRateLimit::per_minute(times),
            succeeded: Mutex::new(BoundedCache::new(MAX_PARTIES)),
        }
    }

    /// Counts an attempt from this address, with any name.
    ///
    /// # Errors
    /// The time until the next attempt is allowed.
    pub(super) fn check_address(&self, from: Option<IpAddr>) -> Result<(), Duration> {
        self.addresses.check(from)
    }

    /// Counts an attempt with this name from this address.
    ///
    /// # Errors
    /// The time until the next attempt is allowed.
    pub(super) fn check_name(&self, name: &str, from: Option<IpAddr>) -> Result<(), Duration> {
        let both = (name.to_owned(), from);
        // The tight limit first: what it refuses must not count against the name at all other addresses.
        self.both.check(both.clone())?;
        if self.succeeded.lock().get(&both).is_some() {
            return Ok(());
        }
        self.names.check(both.0)
    }

    /// Removes the count of an attempt with this name, whose password was not verified. It still counts for the address.
    pub(super) fn uncount_name(&self, name: &str, from: Option<IpAddr>) {
        let both = (name.to_owned(), from);
        self.both.uncount(&both);
        let succeeded = self.succeeded.lock().get(&both).is_some();
        // `check_name` has counted it for the name alone only in this case.
        if !succeeded {
            self.names.uncount(&both.0);
        }
    }

    /// Removes the count of an attempt that succeeded.
    pub(super) fn record_success(&self, name: &str, from: Option<IpAddr>) {
        let both = (name.to_owned(), from);
        self.addresses.uncount(&from);
        self.both.uncount(&both);
        let mut succeeded = self.succeeded.lock();
        // `check_name` has only counted this attempt for the name if the pair had not succeeded before.
        let is_counted = succeeded.get(&both).is_none();
        succeeded.insert(both, ());
        if is_counted {
            self.names.uncount(&name.to_owned());
        }
    }
}

/// Returns the address that counts for rate limits: of IPv6 the /64 network.
pub(super) fn rate_limit_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            // A /64 is the least that one network gets, and all its addresses are at the free choice of one
            // sender.
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_tries_too_often_waits() {
        let limit = PartyRateLimit::per_minute(10);
        for _ in 0..10 {
            assert_eq!(limit.check("ann"), Ok(()));
        }
        assert_eq!(limit.check("ann"), Err(Duration::from_secs(6)));
        assert_eq!(limit.check("bob"), Ok(()), "others do not");
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(limit.check("ann"), Ok(()));
        assert!(limit.check("ann").is_err());
        limit.uncount(&"ann");
        assert_eq!(limit.check("ann"), Ok(()));
        let limit = PartyRateLimit::per_minute(1);
        for number in 0..=MAX_PARTIES {
            assert_eq!(limit.check(number), Ok(()));
        }
        assert!(limit.check(MAX_PARTIES).is_err() && limit.check(1).is_err(), "the rest are still known");
        assert_eq!(limit.check(0), Ok(()), "the oldest is not");
    }

    #[test]
    fn a_whole_network_is_one_party() {
        let party = |text: &str| rate_limit_address(text.parse().unwrap());
        assert_eq!(party("2001:db8:1:2:3::4"), party("2001:db8:1:2:ffff::1"));
        assert_ne!(party("2001:db8:1:2::1"), party("2001:db8:1:3::1"));
        assert_eq!(party("::ffff:192.0.2.1"), party("192.0.2.1"));
        assert_ne!(party("192.0.2.1"), party("192.0.2.2"));
    }
}
