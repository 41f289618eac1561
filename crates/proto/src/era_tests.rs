use super::*;

const MODERN: Revision = Revision::V2026_07_28;
const LEGACY: Revision = Revision::V2025_11_25;

fn run(mut negotiation: Negotiation, outcomes: &[Outcome]) -> (Vec<Step>, Negotiation) {
    let mut steps = vec![negotiation.poll_step().clone()];
    for outcome in outcomes {
        negotiation.handle_outcome(outcome.clone());
        steps.push(negotiation.poll_step().clone());
    }
    (steps, negotiation)
}

fn last(pinned: Option<Revision>, known: Option<Era>, outcomes: &[Outcome]) -> Step {
    run(Negotiation::new(pinned, known), outcomes).0.pop().unwrap()
}

fn discovered(versions: &[&str]) -> Outcome {
    Outcome::Discovered(versions.iter().map(ToString::to_string).collect())
}

fn unsupported(versions: &[&str]) -> Outcome {
    let data = serde_json::json!({ "supported": versions, "requested": "2026-07-28" });
    Outcome::Error(RpcError::new(code::UNSUPPORTED_VERSION, "no").with_data(&data))
}

fn error(code: i64) -> Outcome {
    Outcome::Error(RpcError::new(code, "no"))
}

fn agreed(revision: Revision) -> Step {
    Step::Agreed(Agreed { revision, described: true })
}

/// covers: VER-16 DISC-04
#[test]
fn a_modern_server_is_found_by_the_first_question() {
    let (steps, _) = run(Negotiation::new(None, None), &[discovered(&["2026-07-28", "2025-11-25"])]);
    assert_eq!(steps, [discover(Patience::Probe), agreed(MODERN)]);
}

/// covers: VER-17 VER-18 VER-21 VER-01 VER-02
#[test]
fn anything_but_a_modern_answer_means_the_older_era() {
    let no_answers = [
        error(code::METHOD_NOT_FOUND),
        error(code::INVALID_PARAMS),
        error(code::INVALID_REQUEST),
        error(-32000),
        error(-32004),
        Outcome::Status(400),
        Outcome::Status(404),
        Outcome::Status(500),
    ];
    for outcome in no_answers {
        let step = last(None, None, std::slice::from_ref(&outcome));
        assert_eq!(step, Step::Initialize { revision: LEGACY, patience: Patience::Full }, "{outcome:?}");
    }
    let done = last(None, None, &[Outcome::Status(400), Outcome::Initialized("2025-03-26".into())]);
    assert_eq!(done, agreed(Revision::V2025_03_26));
}

/// covers: VER-17 VER-13
#[test]
fn a_server_that_names_its_revisions_is_asked_again_in_one_of_them() {
    let again = Step::Discover { revision: MODERN, patience: Patience::Full };
    assert_eq!(last(None, None, &[unsupported(&["2026-07-28"])]), again);
    let (steps, _) =
        run(Negotiation::new(None, None), &[unsupported(&["2026-07-28"]), discovered(&["2026-07-28"])]);
    assert_eq!(steps.last(), Some(&agreed(MODERN)));
    let legacy = last(None, None, &[unsupported(&["2027-01-01", "2025-06-18"])]);
    assert_eq!(legacy, Step::Initialize { revision: Revision::V2025_06_18, patience: Patience::Full });
    assert_eq!(
        last(None, None, &[unsupported(&["2027-01-01"])]),
        Step::Failed(Failure::NothingInCommon(vec!["2027-01-01".into()]))
    );
    let stubborn = vec![unsupported(&["2026-07-28"]); 1 + MAX_RETRIES as usize];
    assert!(matches!(last(None, None, &stubborn), Step::Failed(Failure::Refused(_))));
    assert_eq!(last(None, None, &stubborn[1..]), again);
    // One that can describe itself, but has only older revisions.
    let older = last(None, None, &[discovered(&["2024-11-05", "2025-06-18"])]);
    assert_eq!(older, Step::Initialize { revision: Revision::V2025_06_18, patience: Patience::Full });
}

/// covers: VER-17
#[test]
fn a_modern_refusal_is_not_answered_the_old_way() {
    for code in [code::HEADER_MISMATCH, code::MISSING_CLIENT_CAPABILITY] {
        assert!(matches!(last(None, None, &[error(code)]), Step::Failed(Failure::Refused(_))));
    }
    for status in [401, 403] {
        let unauthorized = Step::Failed(Failure::Unauthorized(status));
        let status = Outcome::Status(status);
        assert_eq!(last(None, None, std::slice::from_ref(&status)), unauthorized);
        assert_eq!(last(None, Some(Era::Legacy), std::slice::from_ref(&status)), unauthorized);
        assert_eq!(last(None, None, &[Outcome::Status(404), status.clone()]), unauthorized);
        // Where every other refusal would lead to the older transport.
        assert_eq!(last(Some(Revision::V2024_11_05), None, &[status]), unauthorized);
    }
}

#[test]
fn a_server_that_dies_of_the_probe_is_started_once_more_and_never_twice() {
    let (steps, negotiation) =
        run(Negotiation::new(None, None), &[Outcome::Exited, Outcome::Respawned, Outcome::Exited]);
    assert_eq!(
        steps,
        [discover(Patience::Probe), Step::Respawn, initialize(Patience::Full), Step::Failed(Failure::Exited)]
    );
    drop(negotiation);
    // One that lives through the probe and dies of initialize has its second chance too.
    let later = last(None, None, &[error(-32601), Outcome::Exited]);
    assert_eq!(later, Step::Respawn);
    // Where there was no probe, it cannot have been that.
    for (pinned, known) in [(None, Some(Era::Legacy)), (Some(LEGACY), None), (Some(MODERN), None)] {
        assert_eq!(last(pinned, known, &[Outcome::Exited]), Step::Failed(Failure::Exited), "{pinned:?}");
    }
}

#[test]
fn a_silent_server_is_asked_the_old_way_before_it_is_given_up() {
    let (steps, _) = run(
        Negotiation::new(None, None),
        &[Outcome::Silence, Outcome::Silence, Outcome::Respawned, Outcome::Silence],
    );
    assert_eq!(
        steps[1..],
        [
            initialize(Patience::Half),
            Step::Respawn,
            initialize(Patience::Full),
            Step::Failed(Failure::Silent)
        ]
    );
    // It was only slow to start, and modern: its refusal of initialize brings the probe back.
    assert_eq!(last(None, None, &[Outcome::Silence, error(-32601)]), discover(Patience::Full));
}

/// covers: VER-22 VER-23
#[test]
fn a_remembered_era_skips_the_probe_and_may_prove_wrong() {
    assert_eq!(Negotiation::new(None, Some(Era::Legacy)).poll_step(), &initialize(Patience::Full));
    assert_eq!(last(None, Some(Era::Legacy), &[error(-32601)]), discover(Patience::Full));
    assert_eq!(last(None, Some(Era::Legacy), &[Outcome::Status(400)]), discover(Patience::Full));
    let twice = [error(-32601), error(-32601), error(-32601)];
    assert!(matches!(last(None, Some(Era::Legacy), &twice), Step::Failed(Failure::Refused(_))));
    // Silence in between is no reason to ask for ever.
    let silent = [error(-32601), Outcome::Silence, error(-32601)];
    assert!(matches!(last(None, Some(Era::Legacy), &silent), Step::Failed(Failure::Refused(_))));
    assert_eq!(last(None, Some(Era::Modern), &[error(-32601)]), initialize(Patience::Full));
}

/// covers: VER-06 VER-19
#[test]
fn a_pinned_revision_is_spoken_or_nothing() {
    let pin = Some(Revision::V2025_06_18);
    let asked = Step::Initialize { revision: Revision::V2025_06_18, patience: Patience::Full };
    assert_eq!(Negotiation::new(pin, None).poll_step(), &asked);
    assert_eq!(last(pin, None, &[Outcome::Initialized("2025-06-18".into())]), agreed(Revision::V2025_06_18));
    assert!(matches!(
        last(pin, None, &[Outcome::Initialized("2025-11-25".into())]),
        Step::Failed(Failure::NothingInCommon(_))
    ));
    assert!(matches!(last(pin, None, &[error(-32601)]), Step::Failed(Failure::Refused(_))));
    let modern = Some(MODERN);
    assert!(matches!(last(modern, None, &[error(-32600)]), Step::Failed(Failure::Refused(_))));
    assert_eq!(last(modern, None, &[Outcome::Silence]), Step::Failed(Failure::Silent));
    assert_eq!(
        last(modern, None, &[error(-32601)]),
        Step::Agreed(Agreed { revision: MODERN, described: false })
    );
}

/// covers: VER-06 VER-24 LIFE-14
#[test]
fn initialize_follows_what_the_server_names() {
    let named = RpcError::invalid_params("no")
        .with_data(&serde_json::json!({ "supported": ["2024-11-05", "2025-03-26"] }));
    assert_eq!(
        last(None, Some(Era::Legacy), &[Outcome::Error(named)]),
        Step::Initialize { revision: Revision::V2025_03_26, patience: Patience::Full }
    );
    assert_eq!(
        last(None, Some(Era::Legacy), &[unsupported(&["2026-07-28"])]),
        Step::Discover { revision: MODERN, patience: Patience::Full }
    );
    let nothing = Step::Failed(Failure::NothingInCommon(vec!["2027-01-01".into()]));
    assert_eq!(last(None, Some(Era::Legacy), &[unsupported(&["2027-01-01"])]), nothing);
    // One that names what it was asked for is not asked for it again, and one that changes its mind not for ever.
    let same = last(Some(LEGACY), None, &[unsupported(&["2025-11-25"])]);
    assert!(matches!(same, Step::Failed(Failure::Refused(_))), "{same:?}");
    let minds = [["2025-06-18"], ["2025-03-26"]].map(|named| unsupported(&named));
    let minds: Vec<_> = minds.iter().cycle().take(1 + MAX_RETRIES as usize).cloned().collect();
    let (steps, _) = run(Negotiation::new(None, Some(Era::Legacy)), &minds);
    let asked = Step::Initialize { revision: Revision::V2025_06_18, patience: Patience::Full };
    assert_eq!(steps[MAX_RETRIES as usize], asked);
    assert!(matches!(steps.last(), Some(Step::Failed(Failure::Refused(_)))), "{steps:?}");
    for version in ["2023-01-01", "", "2026-07-28"] {
        let step = last(None, Some(Era::Legacy), &[Outcome::Initialized(version.into())]);
        assert!(matches!(step, Step::Failed(Failure::NothingInCommon(_))), "{version}");
    }
}

#[test]
fn what_cannot_be_reached_is_not_asked_another_way() {
    assert_eq!(last(None, None, &[Outcome::Unreachable]), Step::Failed(Failure::Unreachable));
    let later = last(None, None, &[Outcome::Status(404), Outcome::Unreachable]);
    assert_eq!(later, Step::Failed(Failure::Unreachable));
}

/// covers: SSE-12
#[test]
fn the_oldest_transport_is_tried_where_the_newer_one_is_not_spoken() {
    let opened = initialize(Patience::Full);
    for status in [400, 404, 405] {
        let before = [Outcome::Status(404), Outcome::Status(status)];
        assert_eq!(last(None, None, &before), Step::OpenSse);
        let [a, b] = before;
        let (steps, negotiation) = run(
            Negotiation::new(None, None),
            &[a.clone(), b.clone(), Outcome::SseOpened, Outcome::Initialized("2024-11-05".into())],
        );
        assert_eq!(steps[3..], [opened.clone(), agreed(Revision::V2024_11_05)]);
        assert!(negotiation.over_sse());
        for refused in [Outcome::Status(405), Outcome::Status(200), Outcome::Silence] {
            let step = last(None, None, &[a.clone(), b.clone(), refused]);
            assert_eq!(step, Step::Failed(Failure::NoTransport(status)));
        }
    }
    for status in [402, 406, 409, 422, 429, 500, 502] {
        let step = last(None, None, &[Outcome::Status(404), Outcome::Status(status)]);
        assert_eq!(step, Step::Failed(Failure::Status(status)));
    }
    // An answer of the protocol is an answer, and so is the wish to know who is there.
    for refused in [error(-32020), error(-32021), error(-32602), Outcome::Status(401)] {
        let step = last(None, None, &[Outcome::Status(404), refused]);
        assert!(matches!(step, Step::Failed(_)), "{step:?}");
    }
}

/// covers: SSE-11
#[test]
fn before_2025_11_25_every_refusal_may_mean_the_oldest_transport() {
    for revision in [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18] {
        for status in [400, 404, 405, 406, 415, 422] {
            assert_eq!(last(Some(revision), None, &[Outcome::Status(status)]), Step::OpenSse);
        }
        let asked = Step::Initialize { revision, patience: Patience::Full };
        assert_eq!(last(Some(revision), None, &[Outcome::Status(404), Outcome::SseOpened]), asked);
        assert_eq!(last(Some(revision), None, &[Outcome::Status(500)]), Step::Failed(Failure::Status(500)));
    }
    assert_eq!(last(Some(LEGACY), None, &[Outcome::Status(406)]), Step::Failed(Failure::Status(406)));
    // A pinned revision is not looked for elsewhere, whatever was remembered.
    assert_eq!(last(Some(LEGACY), Some(Era::Legacy), &[Outcome::Status(400)]), Step::OpenSse);
    assert_eq!(
        last(Some(MODERN), None, &[Outcome::Status(404)]),
        Step::Failed(Failure::Status(404)),
        "2026-07-28 has no such transport"
    );
}

#[test]
fn a_remembered_transport_is_tried_first_and_may_prove_wrong() {
    let sse = || Negotiation::new(None, Some(Era::Legacy)).with_sse();
    assert_eq!(sse().poll_step(), &Step::OpenSse);
    assert_eq!(run(sse(), &[Outcome::SseOpened]).0[1], initialize(Patience::Full));
    let (steps, negotiation) = run(sse(), &[Outcome::Status(405), discovered(&["2026-07-28"])]);
    assert_eq!(steps[1..], [discover(Patience::Probe), agreed(MODERN)]);
    assert!(!negotiation.over_sse());
    let gone = [Outcome::Status(404), Outcome::Status(404), Outcome::Status(404)];
    assert_eq!(run(sse(), &gone).0[3], Step::Failed(Failure::NoTransport(404)), "once is enough");
    let unauthorized = Step::Failed(Failure::Unauthorized(401));
    assert_eq!(run(sse(), &[Outcome::Status(401)]).0[1], unauthorized);
    let pinned = Negotiation::new(Some(MODERN), None).with_sse();
    assert!(matches!(pinned.poll_step(), Step::Discover { .. }));
}

#[test]
fn over_the_oldest_transport_nothing_else_is_tried() {
    let opened = [Outcome::Silence, Outcome::Status(405), Outcome::SseOpened];
    for (outcome, failure) in [(Outcome::Exited, Failure::Exited), (Outcome::Silence, Failure::Silent)] {
        let outcomes = [&opened[..], &[outcome]].concat();
        assert_eq!(last(None, None, &outcomes), Step::Failed(failure));
    }
    let outcomes = [&opened[..], &[error(-32601)]].concat();
    assert!(matches!(last(None, None, &outcomes), Step::Failed(Failure::Refused(_))));
}
