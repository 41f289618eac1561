//! Both machines of a connection against each other, in memory and in virtual time.

use std::time::Duration;

use hospes_model::{Era, RequestId, Revision};
use hospes_proto::RevisionSet;
use hospes_proto::era::NegotiationError;
use hospes_proto::session::server::ClientRequestError;
use hospes_proto::session::{ElapsedLimit, TimeLimits};
use hospes_testkit::{ClientCallEnd, MemoryPair, PairSide, UnknownMethodManner};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn limits(timeout: u64, max_timeout: u64) -> TimeLimits {
    TimeLimits { timeout: Some(SECOND * timeout as u32), max_timeout: Some(SECOND * max_timeout as u32) }
}

fn connected(revision: Revision) -> MemoryPair {
    let mut pair = MemoryPair::new(RevisionSet::only(revision), UnknownMethodManner::Proper);
    pair.connect();
    assert_eq!(pair.client.agreed().map(|agreed| agreed.revision), Some(revision));
    pair
}

fn legacy() -> RevisionSet {
    RevisionSet::of_era(Era::Legacy)
}

/// The methods that the client sent.
fn sent(pair: &MemoryPair) -> Vec<String> {
    let of = |entry: &hospes_testkit::RecordedMessage| {
        entry.request_parts().map(|(_, method)| method).or_else(|| entry.notification_method())
    };
    pair.record.of(PairSide::Client).filter_map(of).collect()
}

/// covers: VER-16 VER-17 VER-18
#[test]
fn every_kind_of_server_is_understood_with_at_most_one_restart() {
    let (modern, newest_legacy) = (Revision::V2026_07_28, Revision::V2025_11_25);
    for (revisions, manner, want, respawns) in [
        (RevisionSet::ALL, UnknownMethodManner::Proper, modern, 0),
        (RevisionSet::only(modern), UnknownMethodManner::Proper, modern, 0),
        (legacy(), UnknownMethodManner::Proper, newest_legacy, 0),
        (legacy(), UnknownMethodManner::Silent, newest_legacy, 0),
        (legacy(), UnknownMethodManner::Exits, newest_legacy, 1),
        (legacy(), UnknownMethodManner::Code(-32601), newest_legacy, 0),
        (legacy(), UnknownMethodManner::Code(-32602), newest_legacy, 0),
        (legacy(), UnknownMethodManner::Code(-32000), newest_legacy, 0),
        (legacy(), UnknownMethodManner::Code(17), newest_legacy, 0),
        (RevisionSet::only(Revision::V2024_11_05), UnknownMethodManner::Proper, Revision::V2024_11_05, 0),
        (RevisionSet::only(Revision::V2025_03_26), UnknownMethodManner::Exits, Revision::V2025_03_26, 1),
    ] {
        let mut pair = MemoryPair::new(revisions, manner);
        pair.connect();
        let agreed = pair.client.agreed().map(|agreed| agreed.revision);
        assert_eq!(
            (agreed, pair.respawns),
            (Some(want), respawns),
            "{revisions:?} {manner:?}\n{}",
            pair.record
        );
        assert!(pair.clock.passed() < SECOND * 6, "{manner:?} took {:?}", pair.clock.passed());
        assert!(pair.client.faults().is_empty());
    }
}

/// covers: VER-22 VER-23
#[test]
fn a_remembered_era_costs_no_probe_and_a_wrong_memory_is_corrected() {
    let mut pair = MemoryPair::knowing(None, Some(Era::Legacy), legacy(), UnknownMethodManner::Exits);
    pair.connect();
    assert_eq!(
        (sent(&pair), pair.respawns),
        (vec!["initialize".into(), "notifications/initialized".into()], 0)
    );
    let mut pair = MemoryPair::knowing(
        None,
        Some(Era::Legacy),
        RevisionSet::only(Revision::LATEST),
        UnknownMethodManner::Proper,
    );
    pair.connect();
    assert_eq!(pair.client.agreed().map(|agreed| agreed.revision), Some(Revision::LATEST));
    let mut pair = MemoryPair::knowing(None, Some(Era::Modern), legacy(), UnknownMethodManner::Proper);
    pair.connect();
    assert_eq!(pair.client.agreed().map(|agreed| agreed.revision), Some(Revision::LATEST_LEGACY));
}

/// covers: VER-06 VER-09
#[test]
fn a_revision_insisted_on_is_spoken_or_nothing_is() {
    for revision in Revision::ALL {
        let mut pair =
            MemoryPair::knowing(Some(revision), None, RevisionSet::ALL, UnknownMethodManner::Proper);
        pair.connect();
        assert_eq!(pair.client.agreed().map(|agreed| agreed.revision), Some(revision));
    }
    let only = RevisionSet::only(Revision::V2024_11_05);
    let mut pair = MemoryPair::knowing(Some(Revision::V2025_11_25), None, only, UnknownMethodManner::Proper);
    pair.connect();
    assert_eq!(pair.client.failure(), Some(&NegotiationError::NothingInCommon(vec!["2024-11-05".into()])));
}

/// covers: LIFE-01 LIFE-02 LIFE-06 STDIO-08
#[test]
fn the_handshake_comes_first_and_is_complete() {
    let mut pair = connected(Revision::V2025_06_18);
    pair.client.call(pair.clock.now(), limits(60, 60)).unwrap();
    pair.settle();
    let said = sent(&pair);
    assert_eq!(said[said.len() - 3..], ["initialize", "notifications/initialized", "tools/call"]);
    assert_eq!(pair.server.held().len(), 1);
}

/// covers: CANC-06 CANC-08 CANC-09 CANC-15
#[test]
fn cancellation_and_answer_may_cross_each_other() {
    for revision in [Revision::V2024_11_05, Revision::V2026_07_28] {
        // The cancellation comes first: nothing is sent any more.
        let mut pair = connected(revision);
        let call = pair.client.call(pair.clock.now(), TimeLimits::NONE).unwrap();
        pair.settle();
        assert!(pair.client.cancel(call));
        pair.settle();
        assert!(pair.server.held()[0].over);
        assert!(!pair.server.finish(0));
        pair.settle();
        assert_eq!(pair.record.answers_to(PairSide::Server, &RequestId::Number(call)), 0);
        // The answer is on its way already: it is ignored.
        let call = pair.client.call(pair.clock.now(), TimeLimits::NONE).unwrap();
        pair.settle();
        assert!(pair.server.finish(1));
        assert!(pair.client.cancel(call));
        pair.settle();
        assert_eq!(pair.client.end_of(call), Some(&ClientCallEnd::Cancelled));
        assert_eq!((pair.client.strays(), pair.client.faults().len()), (1, 0));
    }
}

/// covers: TIME-01 TIME-02 TIME-04 TIME-05
#[test]
fn a_call_that_takes_too_long_is_cancelled_on_both_sides() {
    let mut pair = connected(Revision::V2025_11_25);
    let call = pair.client.call(pair.clock.now(), limits(10, 25)).unwrap();
    pair.advance(SECOND * 9);
    assert!(pair.server.report(0, 1.0));
    pair.advance(SECOND * 9);
    assert!(pair.server.report(0, 2.0));
    pair.advance(SECOND * 6);
    assert_eq!((pair.client.end_of(call), pair.client.progress()), (None, &[(call, 1.0), (call, 2.0)][..]));
    pair.advance(SECOND * 2);
    assert_eq!(pair.client.end_of(call), Some(&ClientCallEnd::Expired(ElapsedLimit::MaxTimeout)));
    assert!(pair.server.held()[0].over && !pair.server.finish(0) && !pair.server.report(0, 3.0));
}

/// covers: PROG-03 PROG-05 PROG-07
#[test]
fn progress_reaches_the_call_it_is_about_while_that_runs() {
    let mut pair = connected(Revision::V2026_07_28);
    let one = pair.client.call(pair.clock.now(), TimeLimits::NONE).unwrap();
    let two = pair.client.call(pair.clock.now(), TimeLimits::NONE).unwrap();
    pair.settle();
    for (position, value) in [(1, 5.0), (0, 1.0), (1, 5.0), (1, 4.0), (1, 6.0)] {
        assert!(pair.server.report(position, value));
    }
    pair.server.finish(1);
    assert!(!pair.server.report(1, 7.0));
    pair.settle();
    assert_eq!(pair.client.progress(), [(two, 5.0), (one, 1.0), (two, 6.0)]);
}

/// covers: LIFE-08 TIME-01 TIME-02 CANC-08 MSG-22
#[test]
fn a_legacy_server_asks_once_the_client_is_ready_and_not_for_ever() {
    let mut pair = MemoryPair::new(legacy(), UnknownMethodManner::Proper);
    let early = pair.server.ask(pair.clock.now(), TimeLimits::NONE);
    assert!(matches!(early, Err(ClientRequestError::NotReady(_))));
    pair.connect();
    let question = pair.server.ask(pair.clock.now(), limits(10, 10)).unwrap();
    pair.settle();
    assert!(pair.server.was_answered(question));
    // The answer is still on its way when the time is over.
    let question = pair.server.ask(pair.clock.now(), limits(10, 10)).unwrap();
    pair.drive();
    pair.traffic.latency = SECOND * 60;
    pair.advance(SECOND * 11);
    assert!(!pair.server.was_answered(question));
    assert_eq!(
        pair.record.of(PairSide::Server).filter_map(|e| e.notification_method()).collect::<Vec<_>>(),
        ["notifications/cancelled"]
    );
    pair.settle();
    assert!(!pair.server.was_answered(question));
    assert_eq!(pair.server.session().stray_response_count(), 1);
}

/// covers: MSG-23 MSG-24 STDIO-16 STDIO-17
#[test]
fn a_modern_server_has_nobody_to_ask() {
    let mut pair = connected(Revision::V2026_07_28);
    let refused = pair.server.ask(pair.clock.now(), TimeLimits::NONE);
    assert!(matches!(refused, Err(ClientRequestError::NotReady(_))));
    assert!(pair.record.of(PairSide::Client).all(|entry| entry.answers().is_none()));
}

/// covers: LIFE-12
#[test]
fn what_waits_is_lost_when_the_server_exits() {
    let mut pair = connected(Revision::V2025_11_25);
    let call = pair.client.call(pair.clock.now(), limits(60, 60)).unwrap();
    pair.settle();
    pair.server.exit();
    pair.deliver(PairSide::Client);
    assert_eq!(pair.client.end_of(call), Some(&ClientCallEnd::Lost));
    assert_eq!(pair.client.waiting(), 0);
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    Call { timeout: u64 },
    Cancel(usize),
    Finish(usize),
    Report(usize, u32),
    Ask,
    Deliver(PairSide),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (1u64..40).prop_map(|timeout| Event::Call { timeout }),
        1 => (0usize..8).prop_map(Event::Cancel),
        2 => (0usize..8).prop_map(Event::Finish),
        1 => (0usize..8, 0u32..9).prop_map(|(call, value)| Event::Report(call, value)),
        1 => Just(Event::Ask),
        3 => Just(Event::Deliver(PairSide::Server)),
        3 => Just(Event::Deliver(PairSide::Client)),
        1 => (0u64..20).prop_map(Event::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// In any order of events, each call ends once and each request gets at most one response. No response is sent
    /// after its cancellation arrived, and in the end nothing is left over.
    ///
    /// covers: CANC-06 CANC-09 CANC-15 MSG-11
    #[test]
    fn every_request_has_one_end(
        revision in proptest::sample::select(&Revision::ALL[..]),
        piece in 1usize..200,
        events in proptest::collection::vec(event(), 1..80),
    ) {
        let mut pair = connected(revision);
        pair.traffic.piece = piece;
        let mut calls = Vec::new();
        for event in events {
            let now = pair.clock.now();
            match event {
                Event::Call { timeout } => calls.extend(pair.client.call(now, limits(timeout, timeout * 2))),
                Event::Cancel(call) => {
                    if let Some(id) = calls.get(call) {
                        pair.client.cancel(*id);
                    }
                }
                Event::Finish(position) => {
                    let over = pair.server.held().get(position).is_none_or(|held| held.over);
                    // An answer is sent exactly where neither an answer nor a cancellation came before.
                    prop_assert_eq!(pair.server.finish(position), !over);
                }
                Event::Report(position, value) => {
                    let over = pair.server.held().get(position).is_none_or(|held| held.over);
                    prop_assert_eq!(pair.server.report(position, f64::from(value)), !over);
                }
                Event::Ask => {
                    prop_assert_eq!(pair.server.ask(now, limits(5, 5)).is_ok(), revision.is_legacy());
                }
                Event::Deliver(side) => {
                    pair.clock.advance(pair.traffic.latency);
                    pair.deliver(side);
                }
                Event::Wait(seconds) => pair.advance(SECOND * seconds as u32),
            }
            pair.drive();
        }
        pair.settle();
        for position in 0..pair.server.held().len() {
            pair.server.finish(position);
        }
        pair.settle();
        prop_assert!(pair.client.faults().is_empty(), "{:?}\n{}", pair.client.faults(), pair.record);
        prop_assert_eq!(pair.client.waiting(), 0);
        prop_assert!(pair.server.session().served().is_empty());
        for call in calls {
            prop_assert!(pair.client.end_of(call).is_some());
            let answers = pair.record.answers_to(PairSide::Server, &RequestId::Number(call));
            prop_assert!(answers <= 1, "{} answers to {}\n{}", answers, call, pair.record);
            if let Some(ClientCallEnd::Answered(_)) = pair.client.end_of(call) {
                prop_assert_eq!(answers, 1);
            }
        }
        // Nothing waits for the clock.
        pair.advance(SECOND * 100);
        prop_assert!(pair.client.faults().is_empty());
    }
}
