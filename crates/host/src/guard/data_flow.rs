//! Data that each session has read so far: the person's private data, and text from untrusted sources.
//!
//! A session of an older revision has its own flow, which ends with the session. An application of 2026-07-28 only
//! describes itself with each request. All its requests for one person therefore share one flow, which is coarser and
//! more careful. A session that has read nothing has no entry.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hospes::Peer;
use hospes_policy::{FlowLabels, SessionFlow};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::shared_flow::{SharedFlowLabels, SharedFlows, SharedReads};
use super::texts::{ConversationTexts, DeliveredResult};

/// Maximum number of tracked sessions. Beyond it, the reads of a person's longest silent session count for all sessions
/// of that person.
const MAX_FLOWS: usize = 4096;

/// Maximum number of servers remembered of each kind. One is enough for the check to apply.
const MAX_SOURCES: usize = 16;

/// Maximum memory of the texts of all sessions, in bytes. Beyond it, those of the longest silent session are dropped.
const MAX_TEXTS: usize = 256 * 1024 * 1024;

/// Number of added results after which the memory of all texts is measured.
const MEASURED_EVERY: usize = 256;

/// Time after a read within which a new session of the same application continues the conversation: an application that
/// connects again has not forgotten what it read.
const CONTINUED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Time for which a read counts if the end of its session is unknown.
const READ_LIFETIME: Duration = Duration::from_secs(12 * 3600);

#[derive(Debug, Default)]
pub(super) struct DataFlowTracker {
    all: Mutex<HashMap<FlowSession, FlowSources>>,
    /// Hash key for application names, which shortens them unpredictably.
    names: RandomState,
    /// Number of results that were added.
    added: AtomicUsize,
    /// Flows of all nodes, if there are several.
    shared: Option<Arc<SharedFlows>>,
}

/// Reads of a session, as far as the guard needs it.
#[derive(Debug, Default)]
pub(super) struct SessionReads {
    pub(super) has_private: bool,
    pub(super) has_untrusted: bool,
    /// Texts of the session.
    pub(super) texts: Option<Arc<ConversationTexts>>,
    /// True if texts of the person were dropped.
    pub(super) has_forgotten: bool,
}

/// Session that a data flow belongs to.
#[derive(Clone, Debug)]
enum FlowSession {
    /// That of an older revision. Its memory is not used again while this is here, so the address is its name.
    Older(Weak<Peer>),
    /// All requests of an application for one person. Two persons never share one, regardless of the names of their
    /// applications.
    Named { principal: Option<Arc<str>>, application: Option<u64> },
    /// All requests of a person; used for sessions that no longer fit.
    Whole(Option<Arc<str>>),
}

#[derive(Clone, Debug, Default)]
struct FlowSources {
    private: Vec<FlowSource>,
    untrusted: Vec<FlowSource>,
    /// Texts of the results, if a preset needs them.
    texts: Option<Arc<ConversationTexts>>,
    /// Time at which texts of another session of the person were dropped into this entry.
    dropped: Option<Instant>,
}

#[derive(Clone, Debug)]
struct FlowSource {
    server: Box<str>,
    /// Time of the last delivery from this server.
    at: Instant,
}

impl DataFlowTracker {
    /// Shares what is read with other nodes.
    pub(super) fn share(&mut self, store: Arc<dyn SharedFlowLabels>) {
        self.shared = Some(Arc::new(SharedFlows::new(store, READ_LIFETIME)));
    }

    /// Returns true if other nodes know what is read.
    pub(super) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Learns what the session has read at other nodes, before its next call is weighed.
    pub(super) async fn refresh(&self, peer: &Arc<Peer>) {
        if let Some(shared) = &self.shared {
            shared.refresh(peer).await;
        }
    }

    /// Tells the other nodes that a result of this server with these labels is delivered, before it is.
    pub(super) async fn tell(&self, peer: &Arc<Peer>, server: &str, labels: FlowLabels) {
        if let Some(shared) = &self.shared
            && (labels.private || labels.untrusted)
        {
            shared.note(peer, server, labels).await;
        }
    }

    /// Tells the other nodes in the background of a result that is delivered where nothing can wait.
    pub(super) fn tell_soon(&self, peer: &Arc<Peer>, server: &str, labels: FlowLabels) {
        let Some(shared) = &self.shared else { return };
        let (shared, peer, server) = (Arc::clone(shared), Arc::clone(peer), server.to_owned());
        if let (true, Ok(runtime)) =
            (labels.private || labels.untrusted, tokio::runtime::Handle::try_current())
        {
            runtime.spawn(async move { shared.note(&peer, &server, labels).await });
        }
    }

    fn shared_reads(&self, peer: &Peer) -> SharedReads {
        self.shared.as_ref().map(|shared| shared.reads(peer)).unwrap_or_default()
    }

    /// Records that a result of this server with these labels is delivered.
    pub(super) fn note(&self, peer: &Arc<Peer>, server: &str, labels: FlowLabels) {
        if labels.private || labels.untrusted {
            self.entry(peer, |sources, now| sources.note(server, labels, now));
        }
    }

    /// Records the text of a result that is delivered. Returns true if it is bare, with this many words, and the session
    /// has read few others like it.
    pub(super) fn add_text(&self, peer: &Arc<Peer>, result: DeliveredResult, bare: Option<usize>) -> bool {
        let texts = self.entry(peer, |sources, _| Arc::clone(sources.texts.get_or_insert_default()));
        let is_bare = bare.is_some_and(|words| texts.add_bare(words));
        if texts.add(result) {
            // Off the path of the call.
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(move || texts.drain())),
                Err(_) => texts.drain(),
            }
        }
        if self.added.fetch_add(1, Ordering::Relaxed) % MEASURED_EVERY == MEASURED_EVERY - 1 {
            self.bound_texts();
        }
        is_bare
    }

    /// Drops the texts of the longest silent sessions until all others fit.
    fn bound_texts(&self) {
        let mut all: Vec<(Option<Instant>, Arc<ConversationTexts>)> = {
            let all = self.all.lock();
            let with_texts =
                all.values().filter_map(|sources| Some((sources.last(), sources.texts.clone()?)));
            with_texts.collect()
        };
        all.sort_by_key(|(last, _)| *last);
        let mut memory: usize = all.iter().map(|(_, texts)| texts.memory()).sum();
        for (_, texts) in all {
            if memory <= MAX_TEXTS {
                return;
            }
            memory = memory.saturating_sub(texts.memory());
            texts.clear();
        }
    }

    /// Returns what the session has read.
    pub(super) fn reads(&self, peer: &Arc<Peer>) -> SessionReads {
        let shared = self.shared_reads(peer);
        let all = self.all.lock();
        if all.is_empty() && shared == SharedReads::default() {
            return SessionReads::default();
        }
        let (session, now) = (self.session(peer), Instant::now());
        let own = all.get(&session).or_else(|| continued(&all, peer, now));
        let whole = all.get(&FlowSession::Whole(peer.principal.clone()));
        let has = |of: fn(&FlowSources) -> &Vec<FlowSource>| {
            own.into_iter().flat_map(of).any(|source| session.ends() || source.is_fresh(now))
                || whole.into_iter().flat_map(of).any(|source| source.is_fresh(now))
        };
        // The texts stay at the node that delivered them.
        let is_missing = |server: &str| {
            !own.into_iter().flat_map(|sources| &sources.untrusted).any(|source| *source.server == *server)
        };
        SessionReads {
            has_private: has(|sources| &sources.private) || !shared.private.is_empty(),
            has_untrusted: has(|sources| &sources.untrusted) || !shared.untrusted.is_empty(),
            texts: own.and_then(|sources| sources.texts.clone()),
            has_forgotten: whole
                .and_then(|sources| sources.dropped)
                .is_some_and(|dropped| now.duration_since(dropped) < READ_LIFETIME)
                || shared.untrusted.iter().any(|server| is_missing(server)),
        }
    }

    /// Changes the entry of the session, which is created if need be.
    fn entry<T>(&self, peer: &Arc<Peer>, change: impl FnOnce(&mut FlowSources, Instant) -> T) -> T {
        let (session, now) = (self.session(peer), Instant::now());
        let mut all = self.all.lock();
        if !all.contains_key(&session) {
            let before = continued(&all, peer, now).cloned();
            make_room(&mut all, MAX_FLOWS, now);
            all.insert(session.clone(), before.unwrap_or_default());
        }
        change(all.entry(session).or_default(), now)
    }

    /// Returns the flow of the session if it has read both private and untrusted data.
    pub(super) fn tainted(&self, peer: &Arc<Peer>) -> Option<SessionFlow> {
        let shared = self.shared_reads(peer);
        let all = self.all.lock();
        if all.is_empty() && shared == SharedReads::default() {
            return None;
        }
        let (session, now) = (self.session(peer), Instant::now());
        let own = all.get(&session).or_else(|| continued(&all, peer, now));
        let whole = all.get(&FlowSession::Whole(peer.principal.clone()));
        let names = |of, elsewhere: &[Box<str>]| {
            let mut names = names_of(of, own, whole, session.ends(), now);
            let others = elsewhere.iter().filter(|server| !names.iter().any(|name| **name == ***server));
            let others: Vec<String> = others.map(ToString::to_string).collect();
            names.extend(others);
            names
        };
        // Most sessions have read nothing private.
        let private = names(|sources| &sources.private, &shared.private);
        if private.is_empty() {
            return None;
        }
        let flow = SessionFlow::new(private, names(|sources| &sources.untrusted, &shared.untrusted));
        drop(all);
        flow.is_tainted().then_some(flow)
    }

    fn session(&self, peer: &Arc<Peer>) -> FlowSession {
        if peer.revision.is_legacy() {
            return FlowSession::Older(Arc::downgrade(peer));
        }
        // Version and title may be another with each request.
        let application = peer.info.as_ref().map(|info| self.names.hash_one(&info.name));
        FlowSession::Named { principal: peer.principal.clone(), application }
    }
}

impl FlowSession {
    /// Returns true if the end of the session is known.
    fn ends(&self) -> bool {
        matches!(self, Self::Older(_))
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Older(peer) if peer.strong_count() == 0)
    }

    /// Returns the principal of the session. `None` if the session has ended.
    fn principal(&self) -> Option<Option<Arc<str>>> {
        match self {
            Self::Older(peer) => Some(peer.upgrade()?.principal.clone()),
            Self::Named { principal, .. } | Self::Whole(principal) => Some(principal.clone()),
        }
    }
}

impl PartialEq for FlowSession {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Older(one), Self::Older(other)) => one.ptr_eq(other),
            (
                Self::Named { principal, application },
                Self::Named { principal: other_principal, application: other },
            ) => principal == other_principal && application == other,
            (Self::Whole(one), Self::Whole(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for FlowSession {}

impl Hash for FlowSession {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            // The address, as in `eq`: what is equal must have the same hash.
            Self::Older(peer) => (0_u8, peer.as_ptr() as usize).hash(state),
            Self::Named { principal, application } => (1_u8, principal, application).hash(state),
            Self::Whole(principal) => (2_u8, principal).hash(state),
        }
    }
}

impl FlowSource {
    fn is_fresh(&self, now: Instant) -> bool {
        now.duration_since(self.at) < READ_LIFETIME
    }
}

/// Returns what the conversation has read that a new session of an older revision continues: that of the open session of
/// the same application and person that has read last, if that was a short time ago. Applications without a name are
/// not told apart, so none continues another.
fn continued<'a>(
    all: &'a HashMap<FlowSession, FlowSources>,
    peer: &Arc<Peer>,
    now: Instant,
) -> Option<&'a FlowSources> {
    if !peer.revision.is_legacy() {
        return None;
    }
    let name = &peer.info.as_ref()?.name;
    let is_same = |other: &Peer| {
        other.principal == peer.principal && other.info.as_ref().is_some_and(|info| info.name == *name)
    };
    let recent = all.iter().filter_map(|(session, sources)| {
        let FlowSession::Older(other) = session else { return None };
        let last = sources.last().filter(|last| now.duration_since(*last) < CONTINUED_WITHIN)?;
        is_same(&*other.upgrade()?).then_some((last, sources))
    });
    recent.max_by_key(|(last, _)| *last).map(|(_, sources)| sources)
}

/// Returns the names of the servers that a session has read from.
fn names_of(
    of: fn(&FlowSources) -> &Vec<FlowSource>,
    own: Option<&FlowSources>,
    whole: Option<&FlowSources>,
    ends: bool,
    now: Instant,
) -> Vec<String> {
    let own = own.into_iter().flat_map(of).filter(|source| ends || source.is_fresh(now));
    let whole = whole.into_iter().flat_map(of).filter(|source| source.is_fresh(now));
    let mut names: Vec<String> = Vec::new();
    for source in own.chain(whole) {
        if !names.iter().any(|name| **name == *source.server) {
            names.push(source.server.to_string());
        }
    }
    names
}

impl FlowSources {
    fn note(&mut self, server: &str, labels: FlowLabels, now: Instant) {
        if labels.private {
            add(&mut self.private, server, now);
        }
        if labels.untrusted {
            add(&mut self.untrusted, server, now);
        }
    }

    /// Returns the time of the last delivery.
    fn last(&self) -> Option<Instant> {
        self.private.iter().chain(&self.untrusted).map(|source| source.at).max()
    }

    fn absorb(&mut self, other: Self) {
        if other.texts.is_some() {
            self.dropped = self.dropped.max(other.last());
        }
        self.dropped = self.dropped.max(other.dropped);
        for (mine, theirs) in [(&mut self.private, other.private), (&mut self.untrusted, other.untrusted)] {
            for source in theirs {
                add(mine, &source.server, source.at);
            }
        }
    }
}

fn add(sources: &mut Vec<FlowSource>, server: &str, at: Instant) {
    if let Some(known) = sources.iter_mut().find(|source| *source.server == *server) {
        known.at = known.at.max(at);
        return;
    }
    if sources.len() >= MAX_SOURCES {
        // The latest are what the person remembers, too.
        let oldest = sources.iter().enumerate().min_by_key(|(_, source)| source.at).map(|(index, _)| index);
        oldest.map(|index| sources.remove(index));
    }
    sources.push(FlowSource { server: server.into(), at });
}

/// Removes ended sessions and old entries. If the limit is still exceeded, the flow of the longest inactive session is
/// merged into that of its principal; only with too many principals is anything lost.
fn make_room(all: &mut HashMap<FlowSession, FlowSources>, max: usize, now: Instant) {
    all.retain(|session, sources| {
        if !session.ends() {
            sources.private.retain(|source| source.is_fresh(now));
            sources.untrusted.retain(|source| source.is_fresh(now));
        }
        !session.is_over() && sources.last().is_some()
    });
    // Repeated, because the entry of the whole person may take the place that has just become free.
    while all.len() >= max {
        let silent = |wholes: bool| {
            let those = all.iter().filter(|(session, _)| wholes || !matches!(session, FlowSession::Whole(_)));
            those.min_by_key(|(_, sources)| sources.last()).map(|(session, _)| session.clone())
        };
        let Some(session) = silent(false) else {
            tracing::warn!("data-flow history of a user dropped: too many users are tracked");
            let Some(person) = silent(true) else { return };
            all.remove(&person);
            continue;
        };
        let Some(sources) = all.remove(&session) else { return };
        if let Some(principal) = session.principal() {
            all.entry(FlowSession::Whole(principal)).or_default().absorb(sources);
        }
    }
}

#[cfg(test)]
mod tests {
    use hospes_model::{ClientCapabilities, Implementation, Revision};
    use hospes_policy::CallEffect;

    use super::*;

    const PRIVATE: FlowLabels =
        FlowLabels { private: true, untrusted: false, outbound: false, effect: CallEffect::None };
    const UNTRUSTED: FlowLabels =
        FlowLabels { private: false, untrusted: true, outbound: true, effect: CallEffect::None };

    fn peer(revision: Revision, application: &str, principal: &str) -> Arc<Peer> {
        let info = Some(Implementation::new(application, "1"));
        Arc::new(Peer::new(revision, info, ClientCapabilities::default()).with_principal(principal))
    }

    fn names(flows: &DataFlowTracker, peer: &Arc<Peer>) -> Option<(Vec<String>, Vec<String>)> {
        flows.tainted(peer).map(|flow| (flow.private, flow.untrusted))
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_is_forgotten_with_its_session_or_after_a_time() {
        let flows = DataFlowTracker::default();
        let old = peer(Revision::LATEST_LEGACY, "app", "ann");
        let new = || peer(Revision::LATEST, "app", "ann");
        for peer in [&old, &new()] {
            flows.note(peer, "mail", PRIVATE);
            flows.note(peer, "web", UNTRUSTED);
        }
        tokio::time::advance(READ_LIFETIME - Duration::from_secs(1)).await;
        flows.note(&new(), "web", UNTRUSTED);
        assert!(flows.tainted(&old).is_some() && flows.tainted(&new()).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(flows.tainted(&new()).is_none(), "the private part is too long ago");
        assert!(flows.tainted(&old).is_some(), "the session goes on");
        let address = Arc::as_ptr(&old) as usize;
        drop(old);
        flows.note(&peer(Revision::LATEST_LEGACY, "app", "ann"), "mail", PRIVATE);
        let all = flows.all.lock();
        let is_there = |session: &FlowSession| matches!(session, FlowSession::Older(peer) if peer.as_ptr() as usize == address && peer.strong_count() > 0);
        assert!(!all.keys().any(is_there));
        assert_eq!(all.len(), 2, "one of each era");
    }

    /// An application that connects again goes on with what it has read; after a while, and for others, it does not.
    #[tokio::test(start_paused = true)]
    async fn a_new_session_of_an_application_continues_an_open_one_that_has_just_read() {
        let flows = DataFlowTracker::default();
        let session = |application, principal| peer(Revision::LATEST_LEGACY, application, principal);
        let first = session("app", "ann");
        flows.note(&first, "mail", PRIVATE);
        flows.note(&first, "web", UNTRUSTED);
        let next = session("app", "ann");
        assert!(flows.reads(&next).has_untrusted && flows.tainted(&next).is_some());
        for other in [session("another", "ann"), session("app", "bob")] {
            assert!(!flows.reads(&other).has_untrusted, "{other:?}");
        }
        tokio::time::advance(CONTINUED_WITHIN).await;
        assert!(!flows.reads(&session("app", "ann")).has_untrusted);
        flows.note(&next, "web", UNTRUSTED);
        assert!(flows.reads(&session("app", "ann")).has_untrusted);
        drop((first, next));
        assert!(!flows.reads(&session("app", "ann")).has_untrusted, "the session was ended");
    }

    /// Opening many sessions does not discard reads, and the reads of one person never count for another.
    #[tokio::test(start_paused = true)]
    async fn what_there_is_no_room_for_counts_for_the_whole_person() {
        for revision in [Revision::LATEST_LEGACY, Revision::LATEST] {
            let flows = DataFlowTracker::default();
            let first = peer(revision, "first", "ann");
            flows.note(&first, "mail", PRIVATE);
            flows.note(&first, "web", UNTRUSTED);
            let others: Vec<_> =
                (0..MAX_FLOWS + 10).map(|n| peer(revision, &format!("app {n}"), "ann")).collect();
            for other in &others {
                tokio::time::advance(Duration::from_millis(1)).await;
                assert!(flows.tainted(other).is_none() || flows.all.lock().len() >= MAX_FLOWS - 1);
                flows.note(other, "web", UNTRUSTED);
                assert!(flows.all.lock().len() <= MAX_FLOWS);
            }
            let read = Some((vec!["mail".to_owned()], vec!["web".to_owned()]));
            assert_eq!(names(&flows, &first), read);
            assert_eq!(names(&flows, &peer(revision, "new", "ann")), read, "{revision}: of the same person");
            let bob = peer(revision, "first", "bob");
            flows.note(&bob, "web", UNTRUSTED);
            assert_eq!(names(&flows, &bob), None, "{revision}");
        }
    }

    #[tokio::test]
    async fn a_session_remembers_so_many_servers() {
        let flows = DataFlowTracker::default();
        let peer = peer(Revision::LATEST, "app", "ann");
        for number in 0..100 {
            for labels in [PRIVATE, UNTRUSTED] {
                flows.note(&peer, &format!("server {number}"), labels);
            }
        }
        let (private, untrusted) = names(&flows, &peer).unwrap();
        assert_eq!((private.len(), untrusted.len()), (MAX_SOURCES, MAX_SOURCES));
    }
}
