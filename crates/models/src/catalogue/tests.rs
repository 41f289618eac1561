//! The choice.

use hospes_model::{
    CreateMessageParams, ImageContent, ModelHint, ModelPreferences, RawJson, SamplingMessage, Tool,
};

use super::*;
use crate::{Money, ScriptedProvider, TokenPrices};

fn model(name: &str) -> Model {
    Model::new(name, ScriptedProvider::new(["x"]).named(format!("{name}-2026")))
}

/// Three models: a large one, a small one that stands in for another provider's, and one for pictures.
fn ours() -> ModelCatalogue {
    ModelCatalogue::new([
        model("oak-large").scores(ModelScores::new(0.1, 0.3, 0.9)).context(10_000),
        model("oak-mini")
            .scores(ModelScores::new(0.9, 0.9, 0.3))
            .aliases(["claude-3-haiku", "gpt-5-mini"])
            .without_tools(),
        model("elm").scores(ModelScores::new(0.5, 0.5, 0.5)).images().max_output(200),
    ])
    .unwrap()
}

fn wish(hints: &[&str], [cost, speed, intelligence]: [Option<f64>; 3]) -> CreateMessageParams {
    let mut wishes = ModelPreferences::new()
        .with_hints(hints.iter().map(|name| ModelHint::new().with_name(*name)).collect::<Vec<_>>());
    (wishes.cost_priority, wishes.speed_priority, wishes.intelligence_priority) = (cost, speed, intelligence);
    CreateMessageParams::new(vec![SamplingMessage::user("Hello.")], 500).with_model_preferences(wishes)
}

fn chosen(params: &CreateMessageParams) -> (String, String) {
    let ours = ours();
    let choice = ours.choose(params).unwrap();
    (choice.model.name.clone(), choice.reason.to_string())
}

const NONE: [Option<f64>; 3] = [None; 3];

/// covers: SAMP-17 SAMP-18 SAMP-19 SAMP-20 SAMP-25
#[test]
fn the_first_hint_that_finds_a_model_decides_and_priorities_settle_ties() {
    for (hints, priorities, name, reason) in [
        (&["OAK"][..], NONE, "oak-large", "hint `OAK` → `oak-large`, the first of 2 in the configuration"),
        (
            &["oak"],
            [Some(0.8), None, Some(0.2)],
            "oak-mini",
            "hint `oak` → `oak-mini`, priority cost 0.8 (it has 0.9) and intelligence 0.2 (it has 0.3), the best of 2",
        ),
        (
            &["claude-3-sonnet", "claude-3-haiku", "elm"],
            [None, None, Some(1.0)],
            "oak-mini",
            "hint `claude-3-haiku` → alias of `oak-mini`, no model for `claude-3-sonnet`, the only one that matches \
             the hint",
        ),
        (
            &["haiku"],
            NONE,
            "oak-mini",
            "hint `haiku` → `claude-3-haiku`, alias of `oak-mini`, the only one that matches the hint",
        ),
        (&["elm-2026"], NONE, "elm", "hint `elm-2026` → `elm`, the only one that matches the hint"),
        (
            &["ash"],
            [None, Some(1.0), None],
            "oak-mini",
            "`oak-mini`, no model for `ash`, priority speed 1 (it has 0.9), the best of 3",
        ),
        (
            &[],
            [None, None, Some(0.8)],
            "oak-large",
            "`oak-large`, no hint given, priority intelligence 0.8 (it has 0.9), the best of 3",
        ),
        (&["", " "], NONE, "oak-large", "`oak-large`, no hint given, the first of 3 in the configuration"),
    ] {
        assert_eq!(chosen(&wish(hints, priorities)), (name.to_owned(), reason.to_owned()), "{hints:?}");
    }
}

/// covers: SAMP-16
#[test]
fn a_priority_out_of_range_counts_as_the_nearest_in_it() {
    // 5 would win against 1 + 1 if it were taken at its word.
    let (name, _) = chosen(&wish(&[], [Some(1.0), Some(1.0), Some(5.0)]));
    assert_eq!(name, "oak-mini");
    let (name, _) = chosen(&wish(&[], [Some(-3.0), Some(f64::NAN), None]));
    assert_eq!(name, "oak-large", "nothing is wished for");
}

/// covers: SAMP-21
#[test]
fn a_hint_that_finds_only_what_cannot_take_the_request_is_passed_over() {
    let mut params = wish(&["mini"], NONE).with_tools(vec![Tool::new("t", RawJson::empty_object())]);
    assert_eq!(
        chosen(&params).1,
        "`oak-large`, no model for `mini`, the first of 2 in the configuration; passed over: oak-mini (does not \
         support tools)"
    );
    params.tools.clear();
    params.messages.push(SamplingMessage::user(ImageContent::from_bytes(b"x", "image/png")));
    assert_eq!(chosen(&params).0, "elm");
    params = wish(&["large"], NONE);
    params.max_tokens = 9_995;
    let (name, reason) = chosen(&params);
    assert_eq!(name, "oak-mini");
    assert!(reason.contains("oak-large (has room for 10000 tokens, not for "), "{reason}");
}

#[test]
fn what_a_provider_has_no_place_for_goes_to_another() {
    let llama = crate::Ollama::new("llama", crate::ProviderAccess::default()).unwrap();
    let ours = ModelCatalogue::new([Model::new("llama", llama), model("oak")]).unwrap();
    let must = hospes_model::ToolChoice::new().with_mode(hospes_model::ToolChoiceMode::Required);
    let params =
        wish(&["llama"], NONE).with_tools(vec![Tool::new("t", RawJson::from(serde_json::json!({})))]);
    assert_eq!(ours.choose(&params).unwrap().model.name, "llama");
    let choice = ours.choose(&params.with_tool_choice(must)).unwrap();
    assert_eq!(
        choice.reason.to_string(),
        "`oak`, no model for `llama`, the only one that can handle it; \
         passed over: llama (does not support a tool choice of \"required\")"
    );
}

#[test]
fn who_can_take_nothing_says_why_of_each() {
    let ours = ModelCatalogue::new([model("a").without_tools(), model("b")]).unwrap();
    let params = wish(&[], NONE).with_tools(vec![Tool::new("t", RawJson::empty_object())]);
    let error =
        ours.choose_within(&params, |model, _| Err(format!("no money for {}", model.name))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no model can handle this request: a (does not support tools); b (no money for b)",
        "the budget is asked only of what could take it"
    );
    assert_eq!(
        ModelCatalogue::default().choose(&params).unwrap_err().to_string(),
        "no model can handle this request: none is configured"
    );
}

/// covers: SAMP-14
#[test]
fn the_estimate_is_of_the_chosen_model_and_never_over_what_was_asked_for() {
    let ours = ours();
    let choice = ours.choose(&wish(&["elm"], NONE)).unwrap();
    assert_eq!(choice.estimate.max_tokens, 200, "it gives no more");
    assert_eq!(choice.estimate.cost, None);
    let priced =
        model("ash").prices(TokenPrices::new(Money::units(1.0).unwrap(), Money::units(10.0).unwrap()));
    let estimate = RequestEstimate::of(&priced, &wish(&[], NONE));
    assert_eq!(estimate.max_tokens, 500);
    let input = Money::billionths(estimate.input.high * 1_000);
    assert_eq!(estimate.cost, Some(input.plus(Money::billionths(500 * 10_000))));
}

#[test]
fn a_name_is_there_once() {
    let error = ModelCatalogue::new([model("a"), model("a")]).unwrap_err();
    assert_eq!(error.to_string(), "duplicate model name `a`");
}

#[test]
fn the_reason_can_be_kept_as_json() {
    let ours = ours();
    let params = wish(&["haiku"], [Some(0.5), None, None]).with_tools(Vec::new());
    let reason = serde_json::to_value(ours.choose(&params).unwrap().reason).unwrap();
    assert_eq!(
        reason,
        serde_json::json!({ "model": "oak-mini", "hint": ["haiku", { "alias": "claude-3-haiku" }], "among": 1 })
    );
    let passed =
        ExcludedModel { model: "a".into(), shortage: ExclusionReason::Context { needed: 5, room: 3 } };
    let passed = serde_json::to_value(passed).unwrap();
    assert_eq!(passed, serde_json::json!({ "model": "a", "why": "context", "needed": 5, "room": 3 }));
}
