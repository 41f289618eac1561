//! Validation of authorization responses.

use hospes_auth::ErrorCode;

use super::*;

fn iss_world(advertised: Option<bool>, iss: Option<&str>) -> World {
    let mut answer = vec![("code", "c")];
    answer.extend(iss.map(|iss| ("iss", iss)));
    World::new()
        .server(json!({ "authorization_response_iss_parameter_supported": advertised }))
        .answer(&answer)
}

fn token_was_asked(world: &World) -> bool {
    world.urls().contains(&"https://as/token")
}

/// covers: AUTC-46 AUTC-47 AUTC-48 AUTC-49
#[test]
fn who_answers_must_be_who_was_asked() {
    for (advertised, iss) in [
        (Some(true), Some("https://as")),
        (None, Some("https://as")),
        (Some(false), Some("https://as")),
        (Some(false), None),
        (None, None),
    ] {
        iss_world(advertised, iss).play().unwrap();
    }
    for (advertised, iss) in [
        (Some(true), None),
        (Some(true), Some("https://attacker.example")),
        (None, Some("https://attacker.example")),
        (Some(false), Some("https://attacker.example")),
        // Nothing is made the same that is not the same.
        (Some(true), Some("https://as/")),
        (Some(true), Some("https://AS")),
        (Some(true), Some("https://as:443")),
        (Some(true), Some("https%3A%2F%2Fas")),
        (Some(true), Some("")),
    ] {
        let mut world = iss_world(advertised, iss);
        assert_eq!(world.play().unwrap_err(), FlowError::Redirect(RedirectError::Issuer), "{iss:?}");
        assert!(!token_was_asked(&world));
    }
}

/// The document's own name is who was asked, slash and all.
#[test]
fn who_answers_is_named_as_in_the_document() {
    for (iss, is_good) in [("https://as/", true), ("https://as", false)] {
        let mut world =
            World::new().server(json!({ "issuer": "https://as/" })).answer(&[("code", "c"), ("iss", iss)]);
        let played = world.play().map(drop);
        let expected = if is_good { Ok(()) } else { Err(FlowError::Redirect(RedirectError::Issuer)) };
        assert_eq!(played, expected, "{iss}");
        assert_eq!(token_was_asked(&world), is_good, "{iss}");
    }
}

/// covers: AUTC-50
#[test]
fn what_somebody_else_says_is_not_shown() {
    let mut world = World::new().answer(&[
        ("iss", "https://attacker.example"),
        ("error", "access_denied"),
        ("error_description", "call 555"),
        ("error_uri", "https://attacker.example/help"),
    ]);
    let error = world.play().unwrap_err();
    assert_eq!(error, FlowError::Redirect(RedirectError::Issuer));
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("555") && !shown.contains("denied") && !shown.contains("attacker"), "{shown}");
}

#[test]
fn a_refusal_of_the_server_is_told() {
    let mut world = World::new().answer(&[("error", "access_denied"), ("error_description", "not\ntoday")]);
    let error = world.play().unwrap_err();
    assert!(
        matches!(&error, FlowError::Redirect(RedirectError::Refused(body)) if body.error == ErrorCode::AccessDenied)
    );
    assert!(error.to_string().ends_with("access_denied (not today)"), "{error}");
    let mut empty = World::new().answer(&[("code", "")]);
    assert_eq!(empty.play().unwrap_err(), FlowError::Redirect(RedirectError::NoCode));
}

#[test]
fn nothing_may_be_said_twice() {
    for name in ["code", "state", "iss", "error"] {
        let mut world = World::new().answer(&[("code", "c"), (name, "x"), (name, "x")]);
        let error = world.play().unwrap_err();
        assert_eq!(error, FlowError::Redirect(RedirectError::Repeated(name)));
        assert!(!token_was_asked(&world));
    }
}

/// Plays until the person is asked.
fn pending(world: &mut World) -> (AuthorizationFlow, AuthorizationPrompt) {
    let mut flow = AuthorizationFlow::new(
        Arc::new(world.settings.clone()),
        world.cause.clone(),
        Seed::new(&[7; 32]),
        NOW,
    );
    loop {
        let input = match flow.poll_effect().clone() {
            FlowEffect::Fetch(request) => FlowInput::Response(world.fetch(request)),
            FlowEffect::Listen { .. } => FlowInput::Listening(RedirectUri::new(CALLBACK).unwrap()),
            FlowEffect::Visit(visit) => return (flow, visit),
            other => panic!("{other:?}"),
        };
        flow.handle(input, NOW);
    }
}

/// covers: AUTC-34
#[test]
fn an_answer_to_another_question_is_none() {
    for answer in ["?code=c", "?code=c&state=", "?code=c&state=x", "?state=x", "", "#code=c"] {
        let mut world = World::new();
        let (mut flow, _) = pending(&mut world);
        flow.handle(FlowInput::Redirected(format!("{CALLBACK}{answer}")), NOW);
        let FlowEffect::Failed(error) = flow.poll_effect() else { panic!("{answer} was taken") };
        assert_eq!(*error, FlowError::Redirect(RedirectError::State), "{answer}");
    }
}

#[test]
fn an_answer_is_taken_once_and_in_time() {
    let mut world = World::new();
    let (mut flow, visit) = pending(&mut world);
    let answer = format!("{CALLBACK}?code=c&state={}", visit.state);
    flow.handle(FlowInput::Redirected(answer.clone()), NOW + 600);
    assert!(matches!(flow.poll_effect(), FlowEffect::Fetch(_)));
    flow.handle(FlowInput::Redirected(answer.clone()), NOW + 600);
    assert!(matches!(flow.poll_effect(), FlowEffect::Failed(FlowError::OutOfOrder)));
    let (mut late, _) = pending(&mut world);
    late.handle(FlowInput::Redirected(answer), NOW + 601);
    let FlowEffect::Failed(error) = late.poll_effect() else { panic!("it was taken") };
    assert_eq!(*error, FlowError::Redirect(RedirectError::Expired));
}
