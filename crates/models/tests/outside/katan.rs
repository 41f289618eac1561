//! llm-katan: a server by others that speaks the formats of OpenAI, Anthropic and Gemini without a model behind them.
//! It says what it was asked, so what of a request arrives can be seen.

use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hospes_model::{
    CreateMessageParams, ImageContent, RawJson, SamplingMessage, StopReason, Tool, ToolResultContent,
    ToolUseContent,
};
use hospes_models::{
    AnswerDelta, Anthropic, Gemini, GenerationFailure, ModelAnswer, ModelError, ModelLimits, ModelProvider,
    OpenAi, ProviderAccess, TimeoutStage, TokenUsage,
};

use crate::program::{Program, free_port, named, wait_for};

struct Katan {
    _program: Program,
    url: String,
}

/// Starts one that fails or dawdles as its `flags` say; none, and a line that says so, where it is not installed.
fn katan(flags: &[&str]) -> Option<Katan> {
    let packages = named("HOSPES_KATAN")?;
    let port = free_port();
    let mut command = Command::new("python3");
    command.args(["-c", "from llm_katan.cli import main; main()", "--model", "echo", "--backend", "echo"]);
    command.args([
        "--host",
        "127.0.0.1",
        "--port",
        &port.to_string(),
        "--providers",
        "openai,anthropic,vertexai",
    ]);
    command.args(["--disable-dashboard", "--validate-keys"]).args(flags);
    command.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut program = Program::start(command, mpsc::channel().0);
    wait_for(port, &mut program);
    Some(Katan { _program: program, url: format!("http://127.0.0.1:{port}") })
}

/// Every provider whose format it speaks.
fn providers(katan: &Katan, limits: &ModelLimits) -> Vec<Box<dyn ModelProvider>> {
    let at = |path: &str| {
        ProviderAccess::default().base_url(format!("{}{path}", katan.url)).limits(limits.clone())
    };
    let mut openai = at("/v1");
    openai.api_key = Some("llm-katan-openai-key".into());
    let mut anthropic = at("");
    anthropic.api_key = Some("llm-katan-anthropic-key".into());
    // It knows Gemini as Vertex AI has it, whose key is a token.
    let gemini = at("/v1beta").header("authorization", "Bearer llm-katan-vertexai-key");
    vec![
        Box::new(OpenAi::new("m", openai).expect("a provider")),
        Box::new(Anthropic::new("m", anthropic).expect("a provider")),
        Box::new(Gemini::new("m", gemini).expect("a provider")),
    ]
}

fn quick() -> ModelLimits {
    let mut limits = ModelLimits::default();
    (limits.backoff, limits.retries) = (Duration::from_millis(1), 2);
    limits
}

async fn ask(
    provider: &dyn ModelProvider,
    params: &CreateMessageParams,
) -> (Result<ModelAnswer, GenerationFailure>, Vec<String>) {
    let mut pieces = Vec::new();
    let outcome = provider
        .generate(params, &mut |delta| {
            pieces.push(match delta {
                AnswerDelta::Text(text) => text.to_owned(),
                other => format!("<{other:?}>"),
            });
        })
        .await;
    (outcome, pieces)
}

#[tokio::test]
async fn text_goes_out_and_comes_back_in_every_format() {
    let Some(katan) = katan(&[]) else { return };
    let params = CreateMessageParams::new(
        vec![
            SamplingMessage::user("One."),
            SamplingMessage::assistant("Two."),
            SamplingMessage::user("Three four?"),
        ],
        77,
    )
    .with_system_prompt("You count.".to_owned())
    .with_temperature(0.25)
    .with_stop_sequences(vec!["nine".to_owned()]);
    for provider in providers(&katan, &quick()) {
        let (outcome, pieces) = ask(&*provider, &params).await;
        let answer = outcome.unwrap_or_else(|failure| panic!("{}: {failure}", provider.name()));
        let text = answer.result.text();
        // What it was asked: three messages and a system prompt, the limit, the temperature, the last words.
        for part in ["messages=4", "max_tokens=77", "temperature=0.25", "User: Three four?"] {
            assert!(text.contains(part), "{}: {text}", provider.name());
        }
        assert_eq!(pieces.concat(), text, "{}", provider.name());
        assert!(pieces.len() > 10, "{}: it comes in pieces", provider.name());
        assert_eq!(answer.result.stop_reason, Some(StopReason::EndTurn), "{}", provider.name());
        // It counts words.
        let usage = TokenUsage::new(6, text.split_whitespace().count() as u64);
        assert_eq!((answer.usage, answer.tries), (Some(usage), 1), "{}", provider.name());
        let model = if provider.name() == "Gemini" { "echo" } else { "m" };
        assert_eq!(answer.result.model, model, "{}", provider.name());
    }
}

#[tokio::test]
async fn pictures_arrive_as_such() {
    let Some(katan) = katan(&[]) else { return };
    let picture = ImageContent::from_bytes(b"not really", "image/png");
    let params = CreateMessageParams::new(
        vec![SamplingMessage::of(hospes_model::Role::User, vec!["Look:".into(), picture.into()])],
        50,
    );
    for provider in providers(&katan, &quick()) {
        let (outcome, _) = ask(&*provider, &params).await;
        let text = outcome.unwrap_or_else(|failure| panic!("{}: {failure}", provider.name())).result.text();
        for part in ["User: Look:", "[image:image/png]"] {
            assert!(text.contains(part), "{}: {text}", provider.name());
        }
    }
}

#[tokio::test]
async fn a_tool_is_asked_for_and_its_result_taken() {
    let Some(katan) = katan(&[]) else { return };
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}"#;
    // A name that no provider takes as it is.
    let tool = Tool::new("weather.now", RawJson::parse(schema).unwrap())
        .with_description("Tells the weather.".to_owned());
    let asked = CreateMessageParams::new(vec![SamplingMessage::user("Rain?")], 50).with_tools(vec![tool]);
    for provider in providers(&katan, &quick()) {
        let (outcome, pieces) = ask(&*provider, &asked).await;
        let answer = outcome.unwrap_or_else(|failure| panic!("{}: {failure}", provider.name()));
        let uses: Vec<&ToolUseContent> = answer.result.tool_uses().collect();
        assert_eq!(uses.len(), 1, "{}", provider.name());
        assert_eq!(uses[0].name, "weather.now", "{}", provider.name());
        // It fills in what the schema wants; of Gemini's it does not know the newer place for schemas.
        let input: serde_json::Value = uses[0].input.decode().unwrap();
        if provider.name() != "Gemini" {
            assert_eq!(input, serde_json::json!({ "city": "test_city", "days": 1 }), "{}", provider.name());
        }
        assert_eq!(answer.result.stop_reason, Some(StopReason::ToolUse), "{}", provider.name());
        assert!(
            pieces.iter().any(|piece| piece == "<ToolUse(\"weather.now\")>"),
            "{}: {pieces:?}",
            provider.name()
        );

        let mut told = asked.clone();
        told.tools.clear();
        told.messages.push(SamplingMessage::assistant(uses[0].clone()));
        let result = ToolResultContent::new(uses[0].id.clone(), vec!["No rain.".into()]);
        told.messages.push(SamplingMessage::user(result));
        let (outcome, _) = ask(&*provider, &told).await;
        outcome.unwrap_or_else(|failure| panic!("{}: {failure}", provider.name()));
    }
}

#[tokio::test]
async fn a_wrong_key_is_said_and_not_shown() {
    let Some(katan) = katan(&[]) else { return };
    let key = "wrong-key-4f1c0ab93d7e";
    let access =
        |path: &str| ProviderAccess::key(key).base_url(format!("{}{path}", katan.url)).limits(quick());
    let gemini = ProviderAccess::default()
        .base_url(format!("{}/v1beta", katan.url))
        .header("authorization", format!("Bearer {key}"));
    let providers: [Box<dyn ModelProvider>; 3] = [
        Box::new(OpenAi::new("m", access("/v1")).unwrap()),
        Box::new(Anthropic::new("m", access("")).unwrap()),
        Box::new(Gemini::new("m", gemini.limits(quick())).unwrap()),
    ];
    let params = CreateMessageParams::new(vec![SamplingMessage::user("x")], 5);
    for provider in providers {
        let failure = ask(&*provider, &params).await.0.unwrap_err();
        // It repeats the key in its refusal.
        assert!(matches!(failure.error, ModelError::Unauthorized { status: 401, .. }), "{failure:?}");
        assert_eq!((failure.tries, failure.may_have_cost), (1, false));
        let shown = format!("{failure} {failure:?} {provider:?}");
        assert!(!shown.contains(key) && !shown.contains("katan-"), "{shown}");
    }
}

#[tokio::test]
async fn who_is_busy_is_asked_again_and_then_no_more() {
    let Some(katan) = katan(&["--rate-limit-after", "1"]) else { return };
    let params = CreateMessageParams::new(vec![SamplingMessage::user("x")], 5);
    let providers = providers(&katan, &quick());
    assert!(ask(&*providers[0], &params).await.0.is_ok(), "the first it answers");
    for provider in providers {
        let (outcome, pieces) = ask(&*provider, &params).await;
        let failure = outcome.unwrap_err();
        assert!(matches!(failure.error, ModelError::Busy { status: 429, .. }), "{failure:?}");
        assert_eq!(failure.tries, 3);
        assert_eq!(pieces, ["<Again(2)>", "<Again(3)>"]);
        assert!(!failure.may_have_cost, "nothing is charged for a refusal");
    }
}

#[tokio::test]
async fn a_server_that_fails_half_the_time_answers_in_the_end() {
    let Some(katan) = katan(&["--error-rate", "0.5"]) else { return };
    let params = CreateMessageParams::new(vec![SamplingMessage::user("x")], 5);
    let mut limits = quick();
    (limits.retries, limits.max_wait) = (30, Duration::from_millis(2));
    let mut tries = 0;
    for provider in providers(&katan, &limits) {
        for _ in 0..4 {
            let answer = ask(&*provider, &params).await.0.unwrap_or_else(|failure| panic!("{failure:?}"));
            tries += answer.tries;
        }
    }
    assert!(tries > 12, "some of twelve failed once: a chance of 1 in 4096 against it");
}

#[tokio::test]
async fn a_slow_first_word_breaks_a_limit_that_is_named() {
    let Some(katan) = katan(&["--latency-ms", "60000"]) else { return };
    let params = CreateMessageParams::new(vec![SamplingMessage::user("x")], 5);
    let mut limits = quick();
    limits.first_byte = Duration::from_millis(400);
    for provider in providers(&katan, &limits) {
        let begun = Instant::now();
        let failure = ask(&*provider, &params).await.0.unwrap_err();
        assert!(
            matches!(failure.error, ModelError::TimedOut { stage: TimeoutStage::FirstByte, .. }),
            "{failure:?}"
        );
        assert!(failure.to_string().contains("first_byte_timeout"), "{failure}");
        assert!(failure.may_have_cost, "whether it has worked is not known");
        assert_eq!(failure.tries, 1, "a model that is slow is not asked twice");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}

#[tokio::test]
async fn slow_words_break_the_limit_on_pauses_and_what_came_is_kept() {
    // Each word takes a second; only OpenAI's format dawdles there.
    let Some(katan) = katan(&["--itl-ms", "1000"]) else { return };
    let params = CreateMessageParams::new(vec![SamplingMessage::user("x")], 5);
    let mut limits = quick();
    limits.idle = Duration::from_millis(300);
    let failure = ask(&*providers(&katan, &limits)[0], &params).await.0.unwrap_err();
    assert!(matches!(failure.error, ModelError::TimedOut { stage: TimeoutStage::Idle, .. }), "{failure:?}");
    limits.idle = Duration::from_secs(30);
    limits.whole = Duration::from_millis(2_500);
    let failure = ask(&*providers(&katan, &limits)[0], &params).await.0.unwrap_err();
    assert!(matches!(failure.error, ModelError::TimedOut { stage: TimeoutStage::Whole, .. }), "{failure:?}");
    assert!(failure.partial.starts_with("[ech") && failure.may_have_cost, "{failure:?}");
}
