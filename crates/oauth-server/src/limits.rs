//! Rate limits of attempts, and the wait after a temporary failure.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use hospes_auth::BoundedCache;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::shared_limits::{LimitedParty, SharedLimitVerdict, SharedRateLimits};

/// Maximum number of parties that are remembered: the limit `max_limited_parties`. At the cap, the party with the
/// oldest attempt is evicted.
const MAX_PARTIES: usize = 16 * 1024;

/// Value of `Retry-After` for temporary failures, in seconds.
pub(super) const RETRY_SECONDS: &str = "5";

/// Applies the generic cell rate algorithm. `due` is the time of the next evenly spaced attempt; if it exceeds `now` by
/// more than `window`, which is the time that a burst is worth, the attempt is rejected with the time to wait.
fn check_pace(due: &mut Instant, now: Instant, interval: Duration, window: Duration) -> Result<(), Duration> {
    // Time in which nobody came is not saved up, or the next burst could be of any size.
    let next = (*due).max(now) + interval;
    let ahead = next.saturating_duration_since(now);
    match ahead.checked_sub(window) {
        Some(wait) if !wait.is_zero() => Err(wait),
        _ => {
            *due = next;
            Ok(())
        }
    }
}

/// Party of a rate limit.
pub(super) trait LimitedKey: Clone + Eq + Hash {
    /// Returns bytes that are the same at each server, and differ between parties.
    fn to_bytes(&self) -> Vec<u8>;
}

impl LimitedKey for Option<IpAddr> {
    fn to_bytes(&self) -> Vec<u8> {
        self.map_or_else(Vec::new, |address| address.to_string().into_bytes())
    }
}

impl LimitedKey for String {
    fn to_bytes(&self) -> Vec<u8> {
        self.clone().into_bytes()
    }
}

impl LimitedKey for (String, Option<IpAddr>) {
    fn to_bytes(&self) -> Vec<u8> {
        // The length of the address is not known, that of the name is: it stands before it.
        let mut bytes = self.0.len().to_be_bytes().to_vec();
        bytes.extend(self.0.as_bytes());
        bytes.extend(self.1.to_bytes());
        bytes
    }
}

/// Rate limit per party: a number of attempts per minute, at this server or at several together.
///
/// Attempts are always counted here first, so that a flood is refused without a question to the other servers. If their
/// count cannot be had, each attempt weighs as many times more here as there are servers.
#[derive(Debug)]
pub(super) struct PartyRateLimit<K> {
    name: &'static str,
    per_minute: u32,
    due: Mutex<BoundedCache<K, Instant>>,
    shared: Option<Arc<dyn SharedRateLimits>>,
}

impl<K: LimitedKey> PartyRateLimit<K> {
    pub(super) fn per_minute(name: &'static str, times: u32) -> Self {
        let due = Mutex::new(BoundedCache::new(MAX_PARTIES));
        Self { name, per_minute: times.max(1), due, shared: None }
    }

    /// Applies the limit to all servers together.
    pub(super) fn share(&mut self, limits: &Arc<dyn SharedRateLimits>) {
        self.shared = Some(Arc::clone(limits));
    }

    /// Counts an attempt of this party.
    ///
    /// # Errors
    /// How long it has to wait.
    pub(super) async fn check(&self, party: K) -> Result<(), Duration> {
        self.count_here(&party, 1)?;
        let Some(shared) = &self.shared else { return Ok(()) };
        let bytes = party.to_bytes();
        match shared.count(&self.party(&bytes)).await {
            SharedLimitVerdict::Allowed => Ok(()),
            SharedLimitVerdict::Exceeded { retry_in } => {
                // One attempt is possible after that time; those before it need no question.
                let due = Instant::now() + retry_in + self.interval() * (self.per_minute - 1);
                self.due.lock().insert(party, due);
                Err(retry_in)
            }
            SharedLimitVerdict::Unavailable { servers } => {
                self.uncount_here(&party, 1);
                self.count_here(&party, servers)
            }
        }
    }

    /// Takes back one attempt, which should not have counted. It counted until now, so that concurrent attempts stay
    /// limited.
    pub(super) async fn uncount(&self, party: &K) {
        let mut weight = 1;
        if let Some(shared) = &self.shared {
            let bytes = party.to_bytes();
            if let SharedLimitVerdict::Unavailable { servers } = shared.uncount(&self.party(&bytes)).await {
                weight = servers;
            }
        }
        self.uncount_here(party, weight);
    }

    fn count_here(&self, party: &K, weight: u32) -> Result<(), Duration> {
        let now = Instant::now();
        let mut known = self.due.lock();
        let mut due = known.get(party).copied().unwrap_or(now);
        let interval = self.interval() * weight.max(1);
        // However many servers there are, one attempt at a time is possible.
        let window = (self.interval() * self.per_minute).max(interval);
        let paced = check_pace(&mut due, now, interval, window);
        // Put back after a refusal as well, so that whoever keeps trying is not the one that is evicted.
        known.insert(party.clone(), due);
        paced
    }

    fn uncount_here(&self, party: &K, weight: u32) {
        let mut known = self.due.lock();
        if let Some(due) = known.get_mut(party) {
            *due = due.checked_sub(self.interval() * weight.max(1)).unwrap_or(*due);
        }
    }

    fn party<'a>(&self, party: &'a [u8]) -> LimitedParty<'a> {
        LimitedParty { limit: self.name, party, interval: self.interval(), burst: self.per_minute }
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
            addresses: PartyRateLimit::per_minute("sign-ins from an address", broader),
            names: PartyRateLimit::per_minute("sign-ins with a name", broader),
            both: PartyRateLimit::per_minute("sign-ins with a name from an address", times),
            succeeded: Mutex::new(BoundedCache::new(MAX_PARTIES)),
        }
    }

    /// Applies the limits to all servers together.
    pub(super) fn share(&mut self, limits: &Arc<dyn SharedRateLimits>) {
        self.addresses.share(limits);
        self.names.share(limits);
        self.both.share(limits);
    }

    /// Counts an attempt from this address, with any name.
    ///
    /// # Errors
    /// The time until the next attempt is allowed.
    pub(super) async fn check_address(&self, from: Option<IpAddr>) -> Result<(), Duration> {
        self.addresses.check(from).await
    }

    /// Counts an attempt with this name from this address.
    ///
    /// # Errors
    /// The time until the next attempt is allowed.
    pub(super) async fn check_name(&self, name: &str, from: Option<IpAddr>) -> Result<(), Duration> {
        let both = (name.to_owned(), from);
        // The tight limit first: what it refuses must not count against the name at all other addresses.
        self.both.check(both.clone()).await?;
        if self.succeeded.lock().get(&both).is_some() {
            return Ok(());
        }
        self.names.check(both.0).await
    }

    /// Removes the count of an attempt with this name, whose password was not verified. It still counts for the address.
    pub(super) async fn uncount_name(&self, name: &str, from: Option<IpAddr>) {
        let both = (name.to_owned(), from);
        self.both.uncount(&both).await;
        let succeeded = self.succeeded.lock().get(&both).is_some();
        // `check_name` has counted it for the name alone only in this case.
        if !succeeded {
            self.names.uncount(&both.0).await;
        }
    }

    /// Removes the count of an attempt that succeeded.
    pub(super) async fn record_success(&self, name: &str, from: Option<IpAddr>) {
        let both = (name.to_owned(), from);
        self.addresses.uncount(&from).await;
        self.both.uncount(&both).await;
        let is_counted = {
            let mut succeeded = self.succeeded.lock();
            // `check_name` has only counted this attempt for the name if the pair had not succeeded before.
            let is_counted = succeeded.get(&both).is_none();
            succeeded.insert(both.clone(), ());
            is_counted
        };
        if is_counted {
            self.names.uncount(&both.0).await;
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
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::shared_limits::SharedLimitFuture;
    use super::*;

    fn party(name: &str) -> String {
        name.to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_tries_too_often_waits() {
        let limit = PartyRateLimit::per_minute("test", 10);
        for _ in 0..10 {
            assert_eq!(limit.check(party("ann")).await, Ok(()));
        }
        assert_eq!(limit.check(party("ann")).await, Err(Duration::from_secs(6)));
        assert_eq!(limit.check(party("bob")).await, Ok(()), "others do not");
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(limit.check(party("ann")).await, Ok(()));
        assert!(limit.check(party("ann")).await.is_err());
        limit.uncount(&party("ann")).await;
        assert_eq!(limit.check(party("ann")).await, Ok(()));
        let limit = PartyRateLimit::per_minute("test", 1);
        for number in 0..=MAX_PARTIES {
            assert_eq!(limit.check(number.to_string()).await, Ok(()));
        }
        let (last, second) = (MAX_PARTIES.to_string(), party("1"));
        assert!(
            limit.check(last).await.is_err() && limit.check(second).await.is_err(),
            "both are still known"
        );
        assert_eq!(limit.check(party("0")).await, Ok(()), "the oldest is not");
    }

    /// Counts of several servers in memory, which can be unavailable.
    #[derive(Debug, Default)]
    struct TestCounts {
        used: Mutex<HashMap<(&'static str, Vec<u8>), u32>>,
        questions: AtomicU32,
        /// Number of servers; 0 while the counts are available.
        divided_by: AtomicU32,
    }

    impl TestCounts {
        fn answer(&self, counted: impl FnOnce() -> SharedLimitVerdict) -> SharedLimitFuture<'_> {
            self.questions.fetch_add(1, Ordering::Relaxed);
            let verdict = match self.divided_by.load(Ordering::Relaxed) {
                0 => counted(),
                servers => SharedLimitVerdict::Unavailable { servers },
            };
            Box::pin(std::future::ready(verdict))
        }
    }

    impl SharedRateLimits for TestCounts {
        fn count<'a>(&'a self, party: &'a LimitedParty<'a>) -> SharedLimitFuture<'a> {
            self.answer(|| {
                let mut used = self.used.lock();
                let used = used.entry((party.limit, party.party.to_vec())).or_default();
                if *used >= party.burst {
                    return SharedLimitVerdict::Exceeded { retry_in: party.interval };
                }
                *used += 1;
                SharedLimitVerdict::Allowed
            })
        }

        fn uncount<'a>(&'a self, party: &'a LimitedParty<'a>) -> SharedLimitFuture<'a> {
            self.answer(|| {
                if let Some(used) = self.used.lock().get_mut(&(party.limit, party.party.to_vec())) {
                    *used = used.saturating_sub(1);
                }
                SharedLimitVerdict::Allowed
            })
        }
    }

    fn servers(counts: &Arc<TestCounts>, per_minute: u32) -> [PartyRateLimit<String>; 3] {
        [(); 3].map(|()| {
            let mut limit = PartyRateLimit::per_minute("test", per_minute);
            limit.share(&(Arc::clone(counts) as _));
            limit
        })
    }

    /// Number of attempts that are admitted, of this number at each server.
    async fn admitted(servers: &[PartyRateLimit<String>], attempts: u32) -> u32 {
        let mut admitted = 0;
        for _ in 0..attempts {
            for server in servers {
                admitted += u32::from(server.check(party("ann")).await.is_ok());
            }
        }
        admitted
    }

    #[tokio::test(start_paused = true)]
    async fn several_servers_admit_as_many_attempts_as_one() {
        let counts = Arc::new(TestCounts::default());
        let servers = servers(&counts, 10);
        assert_eq!(admitted(&servers, 10).await, 10);
        // Only the first refusal of each server needs a question.
        assert!(counts.questions.load(Ordering::Relaxed) <= 13, "{counts:?}");
        tokio::time::advance(Duration::from_millis(5900)).await;
        assert_eq!(admitted(&servers, 10).await, 0);
        counts.used.lock().clear();
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(admitted(&servers, 1).await, 3, "each asks again after the time it was told");
        servers[0].uncount(&party("bob")).await;
        assert_eq!(servers[0].check(party("bob")).await, Ok(()));
        servers[0].uncount(&party("bob")).await;
        assert_eq!(counts.used.lock().get(&("test", b"bob".to_vec())), Some(&0));
    }

    #[tokio::test(start_paused = true)]
    async fn servers_without_a_shared_count_divide_the_limit() {
        let counts = Arc::new(TestCounts::default());
        counts.divided_by.store(3, Ordering::Relaxed);
        let divided = servers(&counts, 10);
        assert_eq!(admitted(&divided, 10).await, 9, "a third of ten at each");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(admitted(&divided, 10).await, 9);
        tokio::time::advance(Duration::from_secs(600)).await;
        // What succeeds does not count here either.
        for _ in 0..30 {
            assert_eq!(divided[0].check(party("ann")).await, Ok(()));
            divided[0].uncount(&party("ann")).await;
        }
        // More servers than attempts: each admits one, and no more than its share later.
        let few = servers(&counts, 2);
        assert_eq!(admitted(&few, 5).await, 3);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(admitted(&few, 5).await, 0);
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(admitted(&few, 5).await, 3);
        // The shared count is used again when it is there.
        counts.divided_by.store(0, Ordering::Relaxed);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(admitted(&divided, 10).await, 10);
    }

    #[test]
    fn a_whole_network_is_one_party() {
        let party = |text: &str| rate_limit_address(text.parse().unwrap());
        assert_eq!(party("2001:db8:1:2:3::4"), party("2001:db8:1:2:ffff::1"));
        assert_ne!(party("2001:db8:1:2::1"), party("2001:db8:1:3::1"));
        assert_eq!(party("::ffff:192.0.2.1"), party("192.0.2.1"));
        assert_ne!(party("192.0.2.1"), party("192.0.2.2"));
        let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        assert_ne!(
            ("a1".to_owned(), address("1.1.1.1")).to_bytes(),
            ("a".to_owned(), address("11.1.1.1")).to_bytes()
        );
    }
}
