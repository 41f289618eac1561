use super::*;

const MODERN: Revision = Revision::V2026_07_28;
const LEGACY: Revision = Revision::V2025_11_25;

fn run(mut negotiation: Negotiation, outcomes: &[NegotiationOutcome]) -> (Vec<NegotiationStep>, Negotiation) {
    let mut steps = vec![negotiation.poll_step().clone()];
    for outcome in outcomes {
        negotiation.handle_outcome(outcome.clone());
        steps.push(negotiation.poll_step().clone());
    }
    (steps, negotiation)
}

fn last(pinned: Option<Revision>, known: Option<Era>, outcomes: &[NegotiationOutcome]) -> NegotiationStep {
    run(Negotiation::new(pinned, known), outcomes).0.pop().unwrap()
}

fn discovered(versions: &[&str]) -> NegotiationOutcome {
    NegotiationOutcome::Discovered(versions.iter().map(ToString::to_string).collect())
}

fn unsupported(versions: &[&str]) -> NegotiationOutcome {
    let data = serde_json::json!({ "supported": versions, "requested": "2026-07-28" });
    NegotiationOutcome::Error(RpcError::new(code::UNSUPPORTED_VERSION, "no").with_data(&data))
}

fn error(code: i64) -> NegotiationOutcome {
    NegotiationOutcome::Error(RpcError::new(code, "no"))
}

fn agreed(revision: Revision) -> NegotiationStep {
    NegotiationStep::Agreed(NegotiatedRevision { revision, described: true })
}

/// covers: VER-16 DISC-04
#[test]
fn a_modern_server_is_found_by_the_first_question() {
    let (steps, _) = run(Negotiation::new(None, None), &[discovered(&["2026-07-28", "2025-11-25"])]);
    assert_eq!(steps, [discover(ResponseWait::Probe), agreed(MODERN)]);
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
        NegotiationOutcome::Status(400),
        NegotiationOutcome::Status(404),
        NegotiationOutcome::Status(500),
    ];
    for outcome in no_answers {
        let step = last(None, None, std::slice::from_ref(&outcome));
        assert_eq!(
            step,
            NegotiationStep::Initialize { revision: LEGACY, patience: ResponseWait::Full },
            "{outcome:?}"
        );
    }
    let done = last(
        None,
        None,
        &[NegotiationOutcome::Status(400), NegotiationOutcome::Initialized("2025-03-26".into())],
    );
    assert_eq!(done, agreed(Revision::V2025_03_26));
}

/// covers: VER-17 VER-13
#[test]
fn a_server_that_names_its_revisions_is_asked_again_in_one_of_them() {
    let again = NegotiationStep::Discover { revision: MODERN, patience: ResponseWait::Full };
    assert_eq!(last(None, None, &[unsupported(&["2026-07-28"])]), again);
    let (steps, _) =
        run(Negotiation::new(None, None), &[unsupported(&["2026-07-28"]), discovered(&["2026-07-28"])]);
    assert_eq!(steps.last(), Some(&agreed(MODERN)));
    let legacy = last(None, None, &[unsupported(&["2027-01-01", "2025-06-18"])]);
    assert_eq!(
        legacy,
        NegotiationStep::Initialize { revision: Revision::V2025_06_18, patience: ResponseWait::Full }
    );
    assert_eq!(
        last(None, None, &[unsupported(&["2027-01-01"])]),
        NegotiationStep::Failed(NegotiationError::NothingInCommon(vec!["2027-01-01".into()]))
    );
    let stubborn = vec![unsupported(&["2026-07-28"]); 1 + MAX_RETRIES as usize];
    assert!(matches!(last(None, None, &stubborn), NegotiationStep::Failed(NegotiationError::Refused(_))));
    assert_eq!(last(None, None, &stubborn[1..]), again);
    // One that can describe itself, but has only older revisions.
    let older = last(None, None, &[discovered(&["2024-11-05", "2025-06-18"])]);
    assert_eq!(
        older,
        NegotiationStep::Initialize { revision: Revision::V2025_06_18, patience: ResponseWait::Full }
    );
}

/// covers: VER-17
#[test]
fn a_modern_refusal_is_not_answered_the_old_way() {
    for code in [code::HEADER_MISMATCH, code::MISSING_CLIENT_CAPABILITY] {
        assert!(matches!(
            last(None, None, &[error(code)]),
            NegotiationStep::Failed(NegotiationError::Refused(_))
        ));
    }
    for status in [401, 403] {
        let unauthorized = NegotiationStep::Failed(NegotiationError::Unauthorized(status));
        let status = NegotiationOutcome::Status(status);
        assert_eq!(last(None, None, std::slice::from_ref(&status)), unauthorized);
        assert_eq!(last(None, Some(Era::Legacy), std::slice::from_ref(&status)), unauthorized);
        assert_eq!(last(None, None, &[NegotiationOutcome::Status(404), status.clone()]), unauthorized);
        // Where every other refusal would lead to the older transport.
        assert_eq!(last(Some(Revision::V2024_11_05), None, &[status]), unauthorized);
    }
}

#[test]
fn a_server_that_dies_of_the_probe_is_started_once_more_and_never_twice() {
    let (steps, negotiation) = run(
        Negotiation::new(None, None),
        &[NegotiationOutcome::Exited, NegotiationOutcome::Respawned, NegotiationOutcome::Exited],
    );
    assert_eq!(
        steps,
        [
            discover(ResponseWait::Probe),
            NegotiationStep::Respawn,
            initialize(ResponseWait::Full),
            NegotiationStep::Failed(NegotiationError::Exited)
        ]
    );
    drop(negotiation);
    // One that lives through the probe and dies of initialize has its second chance too.
    let later = last(None, None, &[error(-32601), NegotiationOutcome::Exited]);
    assert_eq!(later, NegotiationStep::Respawn);
    // Where there was no probe, it cannot have been that.
    for (pinned, known) in [(None, Some(Era::Legacy)), (Some(LEGACY), None), (Some(MODERN), None)] {
        assert_eq!(
            last(pinned, known, &[NegotiationOutcome::Exited]),
            NegotiationStep::Failed(NegotiationError::Exited),
            "{pinned:?}"
        );
    }
}

#[test]
fn a_silent_server_is_asked_the_old_way_before_it_is_given_up() {
    let (steps, _) = run(
        Negotiation::new(None, None),
        &[
            NegotiationOutcome::Silence,
            NegotiationOutcome::Silence,
            NegotiationOutcome::Respawned,
            NegotiationOutcome::Silence,
        ],
    );
    assert_eq!(
        steps[1..],
        [
            initialize(ResponseWait::Half),
            NegotiationStep::Respawn,
            initialize(ResponseWait::Full),
            NegotiationStep::Failed(NegotiationError::Silent)
        ]
    );
    // It was only slow to start, and modern: its refusal of initialize brings the probe back.
    assert_eq!(last(None, None, &[NegotiationOutcome::Silence, error(-32601)]), discover(ResponseWait::Full));
}

/// covers: VER-22 VER-23
#[test]
fn a_remembered_era_skips_the_probe_and_may_prove_wrong() {
    assert_eq!(Negotiation::new(None, Some(Era::Legacy)).poll_step(), &initialize(ResponseWait::Full));
    assert_eq!(last(None, Some(Era::Legacy), &[error(-32601)]), discover(ResponseWait::Full));
    assert_eq!(
        last(None, Some(Era::Legacy), &[NegotiationOutcome::Status(400)]),
        discover(ResponseWait::Full)
    );
    let twice = [error(-32601), error(-32601), error(-32601)];
    assert!(matches!(
        last(None, Some(Era::Legacy), &twice),
        NegotiationStep::Failed(NegotiationError::Refused(_))
    ));
    // Silence in between is no reason to ask for ever.
    let silent = [error(-32601), NegotiationOutcome::Silence, error(-32601)];
    assert!(matches!(
        last(None, Some(Era::Legacy), &silent),
        NegotiationStep::Failed(NegotiationError::Refused(_))
    ));
    assert_eq!(last(None, Some(Era::Modern), &[error(-32601)]), initialize(ResponseWait::Full));
}

/// covers: VER-06 VER-19
#[test]
fn a_pinned_revision_is_spoken_or_nothing() {
    let pin = Some(Revision::V2025_06_18);
    let asked = NegotiationStep::Initialize { revision: Revision::V2025_06_18, patience: ResponseWait::Full };
    assert_eq!(Negotiation::new(pin, None).poll_step(), &asked);
    assert_eq!(
        last(pin, None, &[NegotiationOutcome::Initialized("2025-06-18".into())]),
        agreed(Revision::V2025_06_18)
    );
    assert!(matches!(
        last(pin, None, &[NegotiationOutcome::Initialized("2025-11-25".into())]),
        NegotiationStep::Failed(NegotiationError::NothingInCommon(_))
    ));
    assert!(matches!(
        last(pin, None, &[error(-32601)]),
        NegotiationStep::Failed(NegotiationError::Refused(_))
    ));
    let modern = Some(MODERN);
    assert!(matches!(
        last(modern, None, &[error(-32600)]),
        NegotiationStep::Failed(NegotiationError::Refused(_))
    ));
    assert_eq!(
        last(modern, None, &[NegotiationOutcome::Silence]),
        NegotiationStep::Failed(NegotiationError::Silent)
    );
    assert_eq!(
        last(modern, None, &[error(-32601)]),
        NegotiationStep::Agreed(NegotiatedRevision { revision: MODERN, described: false })
    );
}

/// covers: VER-06 VER-24 LIFE-14
#[test]
fn initialize_follows_what_the_server_names() {
    let named = RpcError::invalid_params("no")
        .with_data(&serde_json::json!({ "supported": ["2024-11-05", "2025-03-26"] }));
    assert_eq!(
        last(None, Some(Era::Legacy), &[NegotiationOutcome::Error(named)]),
        NegotiationStep::Initialize { revision: Revision::V2025_03_26, patience: ResponseWait::Full }
    );
    assert_eq!(
        last(None, Some(Era::Legacy), &[unsupported(&["2026-07-28"])]),
        NegotiationStep::Discover { revision: MODERN, patience: ResponseWait::Full }
    );
    let nothing = NegotiationStep::Failed(NegotiationError::NothingInCommon(vec!["2027-01-01".into()]));
    assert_eq!(last(None, Some(Era::Legacy), &[unsupported(&["2027-01-01"])]), nothing);
    // One that names what it was asked for is not asked for it again, and one that changes its mind not for ever.
    let same = last(Some(LEGACY), None, &[unsupported(&["2025-11-25"])]);
    assert!(matches!(same, NegotiationStep::Failed(NegotiationError::Refused(_))), "{same:?}");
    let minds = [["2025-06-18"], ["2025-03-26"]].map(|named| unsupported(&named));
    let minds: Vec<_> = minds.iter().cycle().take(1 + MAX_RETRIES as usize).cloned().collect();
    let (steps, _) = run(Negotiation::new(None, Some(Era::Legacy)), &minds);
    let asked = NegotiationStep::Initialize { revision: Revision::V2025_06_18, patience: ResponseWait::Full };
    assert_eq!(steps[MAX_RETRIES as usize], asked);
    assert!(matches!(steps.last(), Some(NegotiationStep::Failed(NegotiationError::Refused(_)))), "{steps:?}");
    for version in ["2023-01-01", "", "2026-07-28"] {
        let step = last(None, Some(Era::Legacy), &[NegotiationOutcome::Initialized(version.into())]);
        assert!(matches!(step, NegotiationStep::Failed(NegotiationError::NothingInCommon(_))), "{version}");
    }
}

#[test]
fn what_cannot_be_reached_is_not_asked_another_way() {
    assert_eq!(
        last(None, None, &[NegotiationOutcome::Unreachable]),
        NegotiationStep::Failed(NegotiationError::Unreachable)
    );
    let later = last(None, None, &[NegotiationOutcome::Status(404), NegotiationOutcome::Unreachable]);
    assert_eq!(later, NegotiationStep::Failed(NegotiationError::Unreachable));
}

/// covers: SSE-12
#[test]
fn the_oldest_transport_is_tried_where_the_newer_one_is_not_spoken() {
    let opened = initialize(ResponseWait::Full);
    for status in [400, 404, 405] {
        let before = [NegotiationOutcome::Status(404), NegotiationOutcome::Status(status)];
        assert_eq!(last(None, None, &before), NegotiationStep::OpenSse);
        let [a, b] = before;
        let (steps, negotiation) = run(
            Negotiation::new(None, None),
            &[
                a.clone(),
                b.clone(),
                NegotiationOutcome::SseOpened,
                NegotiationOutcome::Initialized("2024-11-05".into()),
            ],
        );
        assert_eq!(steps[3..], [opened.clone(), agreed(Revision::V2024_11_05)]);
        assert!(negotiation.is_over_sse());
        for refused in
            [NegotiationOutcome::Status(405), NegotiationOutcome::Status(200), NegotiationOutcome::Silence]
        {
            let step = last(None, None, &[a.clone(), b.clone(), refused]);
            assert_eq!(step, NegotiationStep::Failed(NegotiationError::NoTransport(status)));
        }
    }
    for status in [402, 406, 409, 422, 429, 500, 502] {
        let step = last(None, None, &[NegotiationOutcome::Status(404), NegotiationOutcome::Status(status)]);
        assert_eq!(step, NegotiationStep::Failed(NegotiationError::Status(status)));
    }
    // An answer of the protocol is an answer, and so is the wish to know who is there.
    for refused in [error(-32020), error(-32021), error(-32602), NegotiationOutcome::Status(401)] {
        let step = last(None, None, &[NegotiationOutcome::Status(404), refused]);
        assert!(matches!(step, NegotiationStep::Failed(_)), "{step:?}");
    }
}

/// covers: SSE-11
#[test]
fn before_2025_11_25_every_refusal_may_mean_the_oldest_transport() {
    for revision in [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18] {
        for status in [400, 404, 405, 406, 415, 422] {
            assert_eq!(
                last(Some(revision), None, &[NegotiationOutcome::Status(status)]),
                NegotiationStep::OpenSse
            );
        }
        let asked = NegotiationStep::Initialize { revision, patience: ResponseWait::Full };
        assert_eq!(
            last(Some(revision), None, &[NegotiationOutcome::Status(404), NegotiationOutcome::SseOpened]),
            asked
        );
        assert_eq!(
            last(Some(revision), None, &[NegotiationOutcome::Status(500)]),
            NegotiationStep::Failed(NegotiationError::Status(500))
        );
    }
    assert_eq!(
        last(Some(LEGACY), None, &[NegotiationOutcome::Status(406)]),
        NegotiationStep::Failed(NegotiationError::Status(406))
    );
    // A pinned revision is not looked for elsewhere, whatever was remembered.
    assert_eq!(
        last(Some(LEGACY), Some(Era::Legacy), &[NegotiationOutcome::Status(400)]),
        NegotiationStep::OpenSse
    );
    assert_eq!(
        last(Some(MODERN), None, &[NegotiationOutcome::Status(404)]),
        NegotiationStep::Failed(NegotiationError::Status(404)),
        "2026-07-28 has no such transport"
    );
}

#[test]
fn a_remembered_transport_is_tried_first_and_may_prove_wrong() {
    let sse = || Negotiation::new(None, Some(Era::Legacy)).with_sse();
    assert_eq!(sse().poll_step(), &NegotiationStep::OpenSse);
    assert_eq!(run(sse(), &[NegotiationOutcome::SseOpened]).0[1], initialize(ResponseWait::Full));
    let (steps, negotiation) = run(sse(), &[NegotiationOutcome::Status(405), discovered(&["2026-07-28"])]);
    assert_eq!(steps[1..], [discover(ResponseWait::Probe), agreed(MODERN)]);
    assert!(!negotiation.is_over_sse());
    let gone =
        [NegotiationOutcome::Status(404), NegotiationOutcome::Status(404), NegotiationOutcome::Status(404)];
    assert_eq!(
        run(sse(), &gone).0[3],
        NegotiationStep::Failed(NegotiationError::NoTransport(404)),
        "once is enough"
    );
    let unauthorized = NegotiationStep::Failed(NegotiationError::Unauthorized(401));
    assert_eq!(run(sse(), &[NegotiationOutcome::Status(401)]).0[1], unauthorized);
    let pinned = Negotiation::new(Some(MODERN), None).with_sse();
    assert!(matches!(pinned.poll_step(), NegotiationStep::Discover { .. }));
}

#[test]
fn over_the_oldest_transport_nothing_else_is_tried() {
    let opened =
        [NegotiationOutcome::Silence, NegotiationOutcome::Status(405), NegotiationOutcome::SseOpened];
    for (outcome, failure) in [
        (NegotiationOutcome::Exited, NegotiationError::Exited),
        (NegotiationOutcome::Silence, NegotiationError::Silent),
    ] {
        let outcomes = [&opened[..], &[outcome]].concat();
        assert_eq!(last(None, None, &outcomes), NegotiationStep::Failed(failure));
    }
    let outcomes = [&opened[..], &[error(-32601)]].concat();
    assert!(matches!(last(None, None, &outcomes), NegotiationStep::Failed(NegotiationError::Refused(_))));
}
