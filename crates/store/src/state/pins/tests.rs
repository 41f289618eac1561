use super::*;
use crate::state::StateStore;

struct Place {
    _folder: tempfile::TempDir,
    file: std::path::PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { file: folder.path().join("state.db"), _folder: folder }
    }

    fn pins(&self) -> PinRecords {
        StateStore::open(&self.file).unwrap().pins()
    }
}

fn digest(text: &str) -> Sha256Digest {
    let mut bytes = [0; 32];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    Sha256Digest::new(bytes)
}

fn sighting(program: &str, tools: &[(&str, &str)]) -> ServerSighting {
    let fingerprint = ServerFingerprint::new(digest("target"), "run it")
        .with_program(Some("/usr/bin/it".to_owned()), Some(digest(program)));
    let mut sighting = ServerSighting::new("it", fingerprint, "anybody");
    let tools = tools.iter();
    let define =
        |(name, text): &(&str, &str)| ItemDefinition::new(ItemKind::Tool, *name, digest(text), *text);
    sighting.definitions = tools.map(define).collect();
    sighting
}

/// The names of what may be used.
fn accepted(seen: &SightingReport) -> Vec<(&str, Sha256Digest)> {
    let accepted =
        seen.server.items.iter().filter(|item| item.is_current && item.state == ItemPinState::Accepted);
    accepted.map(|item| (item.name.as_str(), item.hash)).collect()
}

fn waiting(server: &StoredServer) -> Vec<&str> {
    let waiting = server.items.iter().filter(|item| item.is_current && item.state == ItemPinState::Waiting);
    waiting.map(|item| item.name.as_str()).collect()
}

#[tokio::test]
async fn only_a_server_without_a_decision_is_forgotten() {
    let place = Place::new();
    let pins = place.pins();
    pins.record_sighting(sighting("p", &[("a", "1")]), TrustMode::Ask).await.unwrap();
    pins.forget_undecided("other").await.unwrap();
    assert_eq!(pins.servers().await.unwrap().len(), 1);
    pins.forget_undecided("it").await.unwrap();
    assert_eq!(pins.servers().await.unwrap(), []);
    assert_eq!(pins.history("it", digest("target"), None).await.unwrap(), []);

    let seen = pins.record_sighting(sighting("p", &[("a", "1")]), TrustMode::Ask).await.unwrap();
    assert!(seen.is_first, "nothing of the first time is left");
    let reject = TrustDecision::reject("it", digest("target"), "ann");
    pins.decide(reject).await.unwrap().unwrap();
    pins.forget_undecided("it").await.unwrap();
    assert_eq!(pins.servers().await.unwrap()[0].state, ServerPinState::Rejected);
}

#[tokio::test]
async fn what_is_new_waits_until_it_is_accepted_as_it_was_seen() {
    let place = Place::new();
    let pins = place.pins();
    let seen = pins.record_sighting(sighting("p", &[("a", "1"), ("b", "1")]), TrustMode::Ask).await.unwrap();
    assert!(seen.is_first && accepted(&seen).is_empty());
    assert_eq!((seen.server.state, waiting(&seen.server)), (ServerPinState::New, vec!["a", "b"]));

    let stale = seen.server.hash;
    let seen = pins.record_sighting(sighting("p", &[("a", "2"), ("b", "1")]), TrustMode::Ask).await.unwrap();
    let accept = |hash| TrustDecision::accept("it", digest("target"), hash, "ann");
    assert_eq!(pins.decide(accept(stale)).await.unwrap(), Err(TrustDecisionError::Changed));
    let item = accept(digest("2")).for_item(ItemKind::Tool, "a");
    assert_eq!(pins.decide(item).await.unwrap(), Err(TrustDecisionError::ServerFirst));
    let decided = pins.decide(accept(seen.server.hash)).await.unwrap().unwrap();
    assert_eq!((decided.server.state, decided.changed.len()), (ServerPinState::Accepted, 2));
    assert_eq!(decided.server.decided_by.as_deref(), Some("ann"));

    // And after a restart, for another process too.
    let seen =
        place.pins().record_sighting(sighting("p", &[("a", "2"), ("b", "1")]), TrustMode::Ask).await.unwrap();
    assert_eq!(accepted(&seen), [("a", digest("2")), ("b", digest("1"))]);
    assert!(!seen.is_first && seen.news.is_empty());
}

#[tokio::test]
async fn a_changed_or_renamed_item_waits_and_the_others_go_on() {
    for trust in [TrustMode::Ask, TrustMode::FirstUse] {
        let pins = Place::new().pins();
        let seen =
            pins.record_sighting(sighting("p", &[("a", "1"), ("b", "1"), ("c", "1")]), trust).await.unwrap();
        let accept = |hash| TrustDecision::accept("it", digest("target"), hash, "ann");
        pins.decide(accept(seen.server.hash)).await.unwrap().unwrap();
        let seen =
            pins.record_sighting(sighting("p", &[("a", "2"), ("b", "1"), ("d", "1")]), trust).await.unwrap();
        assert_eq!(accepted(&seen), [("b", digest("1"))], "{trust:?}");
        let news = [(ItemKind::Tool, "a".to_owned(), true), (ItemKind::Tool, "d".to_owned(), false)];
        assert_eq!(seen.news, news);
        assert_eq!(waiting(&seen.server), ["a", "d"]);

        // What was seen is not there any more.
        let a = |hash: &str| accept(digest(hash)).for_item(ItemKind::Tool, "a");
        pins.record_sighting(sighting("p", &[("a", "3"), ("b", "1"), ("d", "1")]), trust).await.unwrap();
        assert_eq!(pins.decide(a("2")).await.unwrap(), Err(TrustDecisionError::Changed));
        pins.decide(a("3")).await.unwrap().unwrap();
        let seen =
            pins.record_sighting(sighting("p", &[("a", "3"), ("b", "1"), ("d", "1")]), trust).await.unwrap();
        assert_eq!(accepted(&seen), [("a", digest("3")), ("b", digest("1"))]);
        // Back to what was accepted before.
        let seen = pins.record_sighting(sighting("p", &[("a", "1")]), trust).await.unwrap();
        assert_eq!(accepted(&seen), [("a", digest("1"))]);
        let reject = TrustDecision::reject("it", digest("target"), "ann").for_item(ItemKind::Tool, "a");
        pins.decide(reject).await.unwrap().unwrap();
        assert!(
            accepted(&pins.record_sighting(sighting("p", &[("a", "1")]), trust).await.unwrap()).is_empty()
        );
    }
}

/// A decision on a definition stays valid when a later version hashes more of it, and only for its state at that time.
#[tokio::test]
async fn decisions_hold_for_definitions_that_are_hashed_anew() {
    for trust in [TrustMode::Ask, TrustMode::FirstUse] {
        let pins = Place::new().pins();
        let seen =
            pins.record_sighting(sighting("p", &[("a", "1"), ("b", "1"), ("c", "1")]), trust).await.unwrap();
        let accept = TrustDecision::accept("it", digest("target"), seen.server.hash, "ann");
        pins.decide(accept).await.unwrap().unwrap();
        let reject = TrustDecision::reject("it", digest("target"), "ann").for_item(ItemKind::Tool, "c");
        pins.decide(reject).await.unwrap().unwrap();
        let mut anew = sighting("p", &[("a", "1 more"), ("b", "2 more"), ("c", "1 more")]);
        for (one, earlier) in anew.definitions.iter_mut().zip(["1", "2", "1"]) {
            one.earlier = Some(digest(earlier));
        }
        let seen = pins.record_sighting(anew.clone(), trust).await.unwrap();
        assert_eq!(accepted(&seen), [("a", digest("1 more"))], "{trust:?}");
        assert_eq!(waiting(&seen.server), ["b"], "it had changed besides");
        let c = seen.server.items.iter().find(|item| item.name == "c").unwrap();
        assert_eq!((c.state, c.hash), (ItemPinState::Rejected, digest("1 more")));
        assert!(pins.record_sighting(anew, trust).await.unwrap().news.is_empty());
        // From then on what is covered more counts.
        let mut other = sighting("p", &[("a", "1 other")]);
        other.definitions[0].earlier = Some(digest("1"));
        let seen = pins.record_sighting(other, trust).await.unwrap();
        assert!(accepted(&seen).is_empty() && waiting(&seen.server) == ["a"], "{trust:?}: {seen:?}");
    }
}

/// A list that could not be read the first time is trusted on first use later, and only once.
#[tokio::test]
async fn first_use_trusts_a_list_that_could_not_be_read_before_once() {
    let pins = Place::new().pins();
    let mut part = sighting("p", &[("a", "1")]);
    part.is_whole = false;
    let seen = pins.record_sighting(part.clone(), TrustMode::FirstUse).await.unwrap();
    assert_eq!(accepted(&seen).len(), 1);
    let seen =
        pins.record_sighting(sighting("p", &[("a", "1"), ("b", "1")]), TrustMode::FirstUse).await.unwrap();
    assert_eq!(accepted(&seen).len(), 2, "{seen:?}");
    for is_whole in [true, false] {
        let mut more = sighting("p", &[("a", "1"), ("b", "1"), ("c", "1")]);
        more.is_whole = is_whole;
        let seen = pins.record_sighting(more, TrustMode::FirstUse).await.unwrap();
        assert_eq!((accepted(&seen).len(), waiting(&seen.server)), (2, vec!["c"]), "{is_whole}");
    }
}

#[tokio::test]
async fn first_use_trusts_once() {
    let pins = Place::new().pins();
    let seen = pins.record_sighting(sighting("p", &[("a", "1")]), TrustMode::FirstUse).await.unwrap();
    assert_eq!((seen.server.state, accepted(&seen).len()), (ServerPinState::Accepted, 1));
    assert_eq!(seen.server.decided_by.as_deref(), Some("first use"));
    // Another application may be offered more, but nothing else under a name that is known.
    let mut other = sighting("p", &[("a", "2"), ("b", "1")]);
    other.sight = "another".to_owned();
    let seen = pins.record_sighting(other, TrustMode::FirstUse).await.unwrap();
    assert_eq!(accepted(&seen), [("b", digest("1"))]);
    let mut again = sighting("p", &[("a", "1"), ("b", "1"), ("c", "1")]);
    again.sight = "another".to_owned();
    let seen = pins.record_sighting(again, TrustMode::FirstUse).await.unwrap();
    assert_eq!(accepted(&seen), [("a", digest("1")), ("b", digest("1"))], "known by then");
    // What somebody has rejected stays so.
    pins.decide(TrustDecision::reject("it", digest("target"), "ann")).await.unwrap().unwrap();
    let seen = pins.record_sighting(sighting("q", &[("a", "1")]), TrustMode::FirstUse).await.unwrap();
    assert_eq!(seen.server.state, ServerPinState::Rejected);
}

/// What was accepted on first use counts as accepted by a person only once a person has accepted the server as it was
/// shown, and no longer than until the program is replaced.
#[tokio::test]
async fn first_use_is_no_decision_of_a_person() {
    let pins = Place::new().pins();
    let reviewed = |server: &StoredServer| {
        let items = server.items_accepted_by_person();
        items.map(|(kind, name)| format!("{} {name}", kind.as_str())).collect::<Vec<_>>()
    };
    let seen =
        pins.record_sighting(sighting("p", &[("a", "1"), ("b", "1")]), TrustMode::FirstUse).await.unwrap();
    assert_eq!((accepted(&seen).len(), reviewed(&seen.server).len()), (2, 0));
    let accept = |hash| TrustDecision::accept("it", digest("target"), hash, "ann");
    let decided = pins.decide(accept(seen.server.hash)).await.unwrap().unwrap();
    assert_eq!(reviewed(&decided.server), ["tool a", "tool b"]);
    // Another application is offered more, which nobody has seen.
    let mut more = sighting("p", &[("a", "1"), ("b", "1"), ("c", "1")]);
    more.sight = "another".to_owned();
    let seen = pins.record_sighting(more.clone(), TrustMode::FirstUse).await.unwrap();
    assert_eq!(
        (accepted(&seen).len(), reviewed(&seen.server)),
        (3, vec!["tool a".to_owned(), "tool b".to_owned()])
    );
    // Nobody has seen a small change either, until the server is accepted as it is now.
    let mut changed = sighting("p", &[("a", "2"), ("b", "1"), ("c", "1")]);
    changed.definitions[0].is_small_change = true;
    let seen = pins.record_sighting(changed, TrustMode::FirstUse).await.unwrap();
    assert_eq!((accepted(&seen).len(), reviewed(&seen.server)), (3, vec!["tool b".to_owned()]));
    let decided = pins.decide(accept(seen.server.hash)).await.unwrap().unwrap();
    assert_eq!(reviewed(&decided.server).len(), 4, "both definitions of `a`");
    more.fingerprint = sighting("q", &[]).fingerprint;
    let replaced = pins.record_sighting(more.clone(), TrustMode::Ask).await.unwrap();
    assert!(replaced.server.is_replaced() && reviewed(&replaced.server).is_empty());
    let replaced = pins.record_sighting(more, TrustMode::FirstUse).await.unwrap();
    assert_eq!((accepted(&replaced).len(), reviewed(&replaced.server).len()), (3, 0));
}

#[tokio::test]
async fn another_program_is_not_the_one_that_was_accepted() {
    let pins = Place::new().pins();
    let seen = pins.record_sighting(sighting("p", &[("a", "1")]), TrustMode::Ask).await.unwrap();
    let hash = seen.server.hash;
    pins.decide(TrustDecision::accept("it", digest("target"), hash, "ann")).await.unwrap().unwrap();
    let seen = pins.record_sighting(sighting("q", &[("a", "1")]), TrustMode::Ask).await.unwrap();
    assert!(seen.is_replaced && seen.server.is_replaced());
    let stale = pins.decide(TrustDecision::accept("it", digest("target"), hash, "ann")).await.unwrap();
    assert_eq!(stale, Err(TrustDecisionError::Changed), "the program is part of what is accepted");
    let seen = pins.record_sighting(sighting("q", &[("a", "1")]), TrustMode::FirstUse).await.unwrap();
    assert!(!seen.server.is_replaced(), "as it is found");
}

#[tokio::test]
async fn what_is_kept_is_bounded() {
    let place = Place::new();
    let pins = place.pins();
    for round in 0..MAX_HISTORY + 10 {
        let text = round.to_string();
        pins.record_sighting(sighting("p", &[("a", &text)]), TrustMode::FirstUse).await.unwrap();
    }
    let history = pins.history("it", digest("target"), None).await.unwrap();
    assert_eq!(history.len(), MAX_HISTORY + 2, "the accepted one, the current one, and those before it");
    assert!(history[0].item.is_current && history[0].definition.is_some());
    assert!(history.iter().any(|one| one.item.state == ItemPinState::Accepted));
    let long = "x".repeat(MAX_TEXT + 1);
    let mut seen = sighting("p", &[]);
    seen.definitions.push(ItemDefinition::new(ItemKind::Tool, "long", digest("long"), long));
    pins.record_sighting(seen, TrustMode::FirstUse).await.unwrap();
    let found =
        pins.history("it", digest("target"), Some((ItemKind::Tool, "long".to_owned()))).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].definition, None);
}

/// If two hosts see a new server at the same time, the first write holds for both.
#[tokio::test]
async fn two_hosts_share_their_pins() {
    let place = Place::new();
    let (one, other) = (place.pins(), place.pins());
    let (a, b) = tokio::join!(
        one.record_sighting(sighting("p", &[("a", "1")]), TrustMode::FirstUse),
        other.record_sighting(sighting("p", &[("a", "2")]), TrustMode::FirstUse)
    );
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_ne!(a.is_first, b.is_first);
    assert_eq!(accepted(&a).len() + accepted(&b).len(), 1, "the second is a change of the first");
    let mut changes = other.changes();
    one.decide(TrustDecision::reject("it", digest("target"), "ann")).await.unwrap().unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(10), changes.changed()).await.unwrap().unwrap();
    let now = other.server("it", digest("target")).await.unwrap().unwrap();
    assert_eq!(now.state, ServerPinState::Rejected);
}

/// A definition with a serious finding waits for a person; the others of its server are accepted when first seen.
#[tokio::test]
async fn first_use_accepts_no_definition_that_needs_review() {
    let pins = Place::new().pins();
    let mut offer = sighting("p", &[("a", "1"), ("b", "1")]);
    offer.definitions[1].needs_review = true;
    for _ in 0..2 {
        let seen = pins.record_sighting(offer.clone(), TrustMode::FirstUse).await.unwrap();
        assert_eq!((accepted(&seen), waiting(&seen.server)), (vec![("a", digest("1"))], vec!["b"]));
    }
    // The same for an item that comes later, and for one whose server waited before.
    let mut more = sighting("p", &[("a", "1"), ("b", "1"), ("c", "1")]);
    more.sight = "another".to_owned();
    more.definitions[2].needs_review = true;
    let seen = pins.record_sighting(more, TrustMode::FirstUse).await.unwrap();
    assert_eq!(waiting(&seen.server), ["b", "c"]);
    let pins = Place::new().pins();
    pins.record_sighting(offer.clone(), TrustMode::Ask).await.unwrap();
    let seen = pins.record_sighting(offer, TrustMode::FirstUse).await.unwrap();
    assert_eq!((accepted(&seen), waiting(&seen.server)), (vec![("a", digest("1"))], vec!["b"]));
}

/// What was accepted without a person may be withdrawn; what a person has decided about stays.
#[tokio::test]
async fn only_what_no_person_accepted_is_withdrawn() {
    let pins = Place::new().pins();
    let offer = [("a", "1"), ("b", "1"), ("c", "1")];
    pins.record_sighting(sighting("p", &offer), TrustMode::FirstUse).await.unwrap();
    let accept = TrustDecision::accept("it", digest("target"), digest("1"), "ann");
    pins.decide(accept.for_item(ItemKind::Tool, "b")).await.unwrap().unwrap();
    let item = |name: &str, hash: &str| (ItemKind::Tool, name.to_owned(), digest(hash));
    let items = vec![item("a", "1"), item("b", "1"), item("c", "another")];
    assert_eq!(pins.withdraw_unreviewed("it", digest("target"), items.clone(), Vec::new()).await.unwrap(), 1);
    assert_eq!(pins.withdraw_unreviewed("it", digest("target"), items.clone(), Vec::new()).await.unwrap(), 0);
    assert_eq!(pins.withdraw_unreviewed("other", digest("target"), items, Vec::new()).await.unwrap(), 0);
    // It is not accepted again because it is seen again.
    let seen = pins.record_sighting(sighting("p", &offer), TrustMode::FirstUse).await.unwrap();
    assert_eq!(waiting(&seen.server), ["a"]);
}
