//! Data flows that several nodes share: what an application has read for a person, at whichever node.
//!
//! All conversations of an application for one person share one flow, those of older revisions too: a session may go on
//! at another node. A flow that cannot be read counts as one that has read everything.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hospes::Peer;
use hospes_policy::FlowLabels;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum number of flows in memory. Those beyond it are read again.
const MAX_FLOWS: usize = 4096;
/// Maximum number of labels that wait until they can be stored. Beyond it the oldest flows count as unknown.
const MAX_UNSTORED: usize = 4096;
/// Maximum length of a server's name in a label, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Prefixes of labels.
const PRIVATE: &str = "private ";
const UNTRUSTED: &str = "untrusted ";
/// Name of the server that stands for what cannot be read.
const UNKNOWN: &str = "unknown sources (the shared state cannot be read)";

/// Labels of data flows in a store that several nodes share. Labels are added and never removed.
pub trait SharedFlowLabels: fmt::Debug + Send + Sync + 'static {
    /// Adds labels to the flow of this name, which has several parts, and returns all of its labels. The flow is forgotten
    /// `lifetime` after the last call. Without labels it is read.
    ///
    /// The error is a text for the log.
    fn add<'a>(
        &'a self,
        flow: &'a [&'a [u8]],
        labels: &'a [&'a str],
        lifetime: Duration,
    ) -> BoxFuture<'a, Result<Vec<Box<str>>, String>>;
}

/// Flows in the shared store, and what is known of them.
#[derive(Debug)]
pub(super) struct SharedFlows {
    store: Arc<dyn SharedFlowLabels>,
    lifetime: Duration,
    known: Mutex<HashMap<FlowName, KnownFlow>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FlowName {
    principal: Option<Arc<str>>,
    application: Box<str>,
}

#[derive(Clone, Debug)]
struct KnownFlow {
    reads: SharedReads,
    /// Labels that could not be stored.
    unstored: Vec<Box<str>>,
    used: Instant,
}

/// Servers whose data the nodes have delivered to an application of a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SharedReads {
    pub(super) private: Vec<Box<str>>,
    pub(super) untrusted: Vec<Box<str>>,
}

impl SharedFlows {
    pub(super) fn new(store: Arc<dyn SharedFlowLabels>, lifetime: Duration) -> Self {
        Self { store, lifetime, known: Mutex::default() }
    }

    /// Returns what was known of the flow when it was last read.
    pub(super) fn reads(&self, peer: &Peer) -> SharedReads {
        let known = self.known.lock();
        known.get(&FlowName::of(peer)).map(|flow| flow.reads.clone()).unwrap_or_default()
    }

    /// Reads the flow, unless all that it can say is known.
    pub(super) async fn refresh(&self, peer: &Peer) {
        let name = FlowName::of(peer);
        let unstored = {
            let known = self.known.lock();
            let flow = known.get(&name);
            if flow.is_some_and(|flow| flow.unstored.is_empty() && flow.reads.is_full()) {
                return;
            }
            flow.map(|flow| flow.unstored.clone()).unwrap_or_default()
        };
        self.exchange(name, unstored).await;
    }

    /// Stores that a result of this server with these labels is delivered. It is stored before the result leaves, so that
    /// the next call knows of it at whichever node.
    pub(super) async fn note(&self, peer: &Peer, server: &str, labels: FlowLabels) {
        let name = FlowName::of(peer);
        let server = cut(server);
        let (private, untrusted) = (labels.private, labels.untrusted);
        let wanted = [(private, PRIVATE), (untrusted, UNTRUSTED)];
        let wanted = wanted.into_iter().filter(|(is_wanted, _)| *is_wanted);
        let mut labels: Vec<Box<str>> =
            wanted.map(|(_, prefix)| format!("{prefix}{server}").into()).collect();
        {
            let known = self.known.lock();
            if let Some(flow) = known.get(&name) {
                labels.retain(|label| !flow.reads.has(label));
                labels.extend(flow.unstored.iter().cloned());
            }
        }
        if !labels.is_empty() {
            self.exchange(name, labels).await;
        }
    }

    async fn exchange(&self, name: FlowName, labels: Vec<Box<str>>) {
        let texts: Vec<&str> = labels.iter().map(|label| &**label).collect();
        let principal = name.principal.as_deref().map_or(&b""[..], str::as_bytes);
        // Whether there is one is a part of its own, so that nobody can be named as nobody is.
        let is_named: &[u8] = if name.principal.is_some() { b"principal" } else { b"" };
        let flow = [is_named, principal, name.application.as_bytes()];
        let all = self.store.add(&flow, &texts, self.lifetime).await;
        let mut known = self.known.lock();
        make_room(&mut known, &name);
        let flow = known.entry(name).or_insert_with(|| KnownFlow {
            reads: SharedReads::default(),
            unstored: Vec::new(),
            used: Instant::now(),
        });
        flow.used = Instant::now();
        match all {
            Ok(all) => {
                flow.reads = SharedReads::of(&all);
                flow.unstored.retain(|label| !labels.contains(label));
            }
            Err(error) => {
                tracing::warn!(
                    error,
                    "the data flows of all nodes cannot be read; calls count as if they had read everything"
                );
                flow.reads = SharedReads::unknown();
                for label in labels {
                    if !flow.unstored.contains(&label) && flow.unstored.len() < MAX_UNSTORED {
                        flow.unstored.push(label);
                    }
                }
            }
        }
    }
}

impl FlowName {
    fn of(peer: &Peer) -> Self {
        let application = peer.info.as_ref().map_or("", |info| &info.name);
        Self { principal: peer.principal.clone(), application: application.into() }
    }
}

impl SharedReads {
    fn of(labels: &[Box<str>]) -> Self {
        let servers =
            |prefix| labels.iter().filter_map(|label| label.strip_prefix(prefix).map(Into::into)).collect();
        Self { private: servers(PRIVATE), untrusted: servers(UNTRUSTED) }
    }

    /// Returns the reads of a flow that cannot be read.
    fn unknown() -> Self {
        Self { private: vec![UNKNOWN.into()], untrusted: vec![UNKNOWN.into()] }
    }

    fn is_unknown(&self) -> bool {
        self.private.iter().any(|server| **server == *UNKNOWN)
    }

    /// Returns true if no further label changes what a call is compared with.
    fn is_full(&self) -> bool {
        !self.private.is_empty() && !self.untrusted.is_empty() && !self.is_unknown()
    }

    fn has(&self, label: &str) -> bool {
        let has = |servers: &[Box<str>], prefix| {
            label.strip_prefix(prefix).is_some_and(|server| servers.iter().any(|known| **known == *server))
        };
        has(&self.private, PRIVATE) || has(&self.untrusted, UNTRUSTED)
    }
}

/// Forgets the flow that was not used for longest, if there is no room for another one. What could not be stored stays.
fn make_room(known: &mut HashMap<FlowName, KnownFlow>, name: &FlowName) {
    if known.len() < MAX_FLOWS || known.contains_key(name) {
        return;
    }
    let stored = known.iter().filter(|(_, flow)| flow.unstored.is_empty());
    let silent = stored.min_by_key(|(_, flow)| flow.used).map(|(name, _)| name.clone());
    let silent =
        silent.or_else(|| known.iter().min_by_key(|(_, flow)| flow.used).map(|(name, _)| name.clone()));
    if let Some(silent) = silent {
        known.remove(&silent);
    }
}

/// Shortens a server's name to what a label can have.
fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use hospes_model::{ClientCapabilities, Implementation, Revision};
    use hospes_policy::CallEffect;

    use super::super::data_flow::DataFlowTracker;
    use super::*;

    const PRIVATE: FlowLabels =
        FlowLabels { private: true, untrusted: false, outbound: false, effect: CallEffect::None };
    const UNTRUSTED: FlowLabels =
        FlowLabels { private: false, untrusted: true, outbound: true, effect: CallEffect::None };

    #[derive(Debug, Default)]
    struct FlowStore {
        flows: Mutex<HashMap<Vec<u8>, BTreeSet<Box<str>>>>,
        is_away: AtomicBool,
        trips: AtomicUsize,
    }

    impl SharedFlowLabels for FlowStore {
        fn add<'a>(
            &'a self,
            flow: &'a [&'a [u8]],
            labels: &'a [&'a str],
            _lifetime: Duration,
        ) -> BoxFuture<'a, Result<Vec<Box<str>>, String>> {
            Box::pin(async move {
                self.trips.fetch_add(1, Ordering::Relaxed);
                if self.is_away.load(Ordering::Relaxed) {
                    return Err("away".to_owned());
                }
                let mut flows = self.flows.lock();
                let known = flows.entry(flow.join(&0)).or_default();
                known.extend(labels.iter().map(|label| Box::from(*label)));
                Ok(known.iter().cloned().collect())
            })
        }
    }

    fn node(store: &Arc<FlowStore>) -> DataFlowTracker {
        let mut node = DataFlowTracker::default();
        node.share(Arc::clone(store) as _);
        node
    }

    fn peer(revision: Revision, application: &str, principal: Option<&str>) -> Arc<Peer> {
        let info = Some(Implementation::new(application, "1"));
        let peer = Peer::new(revision, info, ClientCapabilities::default());
        Arc::new(match principal {
            Some(principal) => peer.with_principal(principal),
            None => peer,
        })
    }

    async fn deliver(node: &DataFlowTracker, peer: &Arc<Peer>, server: &str, labels: FlowLabels) {
        node.note(peer, server, labels);
        node.tell(peer, server, labels).await;
    }

    async fn tainted(node: &DataFlowTracker, peer: &Arc<Peer>) -> Option<(Vec<String>, Vec<String>)> {
        node.refresh(peer).await;
        node.tainted(peer).map(|flow| (flow.private, flow.untrusted))
    }

    #[tokio::test]
    async fn what_one_node_delivers_counts_at_the_others() {
        for revision in [Revision::LATEST, Revision::LATEST_LEGACY] {
            let store = Arc::new(FlowStore::default());
            let nodes = [node(&store), node(&store), node(&store)];
            let ann = || peer(revision, "app", Some("ann"));
            deliver(&nodes[0], &ann(), "mail", PRIVATE).await;
            assert_eq!(tainted(&nodes[2], &ann()).await, None);
            deliver(&nodes[1], &ann(), "web", UNTRUSTED).await;
            let both = Some((vec!["mail".to_owned()], vec!["web".to_owned()]));
            assert_eq!(tainted(&nodes[2], &ann()).await, both, "{revision:?}");
            let reads = nodes[2].reads(&ann());
            assert!(reads.has_private && reads.has_untrusted && reads.has_forgotten);
            for other in [
                peer(revision, "app", Some("bob")),
                peer(revision, "app", None),
                peer(revision, "b", Some("ann")),
            ] {
                assert_eq!(tainted(&nodes[2], &other).await, None, "{other:?}");
            }
            // All that matters is known: no further trip.
            let trips = store.trips.load(Ordering::Relaxed);
            assert_eq!(tainted(&nodes[2], &ann()).await, both);
            deliver(&nodes[1], &ann(), "web", UNTRUSTED).await;
            assert_eq!(store.trips.load(Ordering::Relaxed), trips);
        }
    }

    #[tokio::test]
    async fn a_flow_that_cannot_be_read_has_read_everything_until_it_can() {
        let store = Arc::new(FlowStore::default());
        let nodes = [node(&store), node(&store)];
        let ann = peer(Revision::LATEST, "app", Some("ann"));
        store.is_away.store(true, Ordering::Relaxed);
        deliver(&nodes[0], &ann, "web", UNTRUSTED).await;
        for node in &nodes {
            assert!(tainted(node, &ann).await.is_some());
            assert!(node.reads(&ann).has_forgotten);
        }
        store.is_away.store(false, Ordering::Relaxed);
        assert_eq!(tainted(&nodes[0], &ann).await, None, "it has read nothing private");
        assert!(nodes[0].reads(&ann).has_untrusted);
        // What was delivered meanwhile was stored with this look.
        nodes[1].refresh(&ann).await;
        assert!(nodes[1].reads(&ann).has_untrusted && !nodes[1].reads(&ann).has_private);
    }

    #[test]
    fn long_names_fit_and_others_stay() {
        assert_eq!(cut("mail"), "mail");
        assert_eq!(cut(&"ü".repeat(150)), "ü".repeat(100));
    }
}
