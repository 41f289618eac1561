//! SmolLM2, a model of 135 million parameters, behind OpenAI's format (tools/models/serve.mjs).

use std::process::Command;
use std::sync::mpsc;

use hospes_model::{CreateMessageParams, SamplingMessage, StopReason};
use hospes_models::{AnswerDelta, ModelProvider, OpenAi, ProviderAccess, estimate};

use crate::program::{LIMIT, Program, named};

struct SmolLm {
    program: Program,
    lines: mpsc::Receiver<String>,
    url: String,
}

/// Starts it; none, and a line that says so, where it is not installed.
fn smollm() -> Option<SmolLm> {
    let (node, script, gguf) = (named("HOSPES_NODE")?, named("HOSPES_LLAMA_SCRIPT")?, named("HOSPES_GGUF")?);
    let mut command = Command::new(node);
    command.args([script, gguf, "2".to_owned()]).env_remove("NODE_OPTIONS");
    let (told, lines) = mpsc::channel();
    let program = Program::start(command, told);
    let url = loop {
        match lines.recv_timeout(LIMIT) {
            Ok(line) => {
                if let Some((_, url)) = line.split_once("listening on ") {
                    break url.to_owned();
                }
            }
            Err(error) => panic!("it does not listen ({error}); it said:\n{}", program.said()),
        }
    };
    Some(SmolLm { program, lines, url })
}

impl SmolLm {
    fn provider(&self) -> OpenAi {
        OpenAi::new("smollm2", ProviderAccess::default().base_url(&self.url)).expect("a provider")
    }
}

/// covers: SAMP-08 SAMP-15
#[tokio::test]
async fn a_real_model_answers_streams_counts_and_keeps_to_the_limit() {
    let Some(smollm) = smollm() else { return };
    let provider = smollm.provider();
    let mut params =
        CreateMessageParams::new(vec![SamplingMessage::user("What is the capital of France?")], 40)
            .with_temperature(0.0);
    let mut pieces = Vec::new();
    let answer = provider
        .generate(&params, &mut |delta| {
            if let AnswerDelta::Text(text) = delta {
                pieces.push(text.to_owned());
            }
        })
        .await
        .unwrap_or_else(|failure| panic!("{failure:?}; it said:\n{}", smollm.program.said()));
    let text = answer.result.text();
    assert!(text.contains("Paris"), "{text}");
    assert_eq!(pieces.concat(), text);
    assert!(pieces.len() > 1, "{pieces:?}");
    assert_eq!(answer.result.stop_reason, Some(StopReason::EndTurn));
    assert_eq!(answer.result.model, "SmolLM2-135M-Instruct", "the name that it gives itself");
    let usage = answer.usage.expect("a count");
    assert!((8..40).contains(&usage.input_tokens) && (4..=40).contains(&usage.output_tokens), "{usage:?}");

    params.messages = vec![SamplingMessage::user("Tell me a long story about a dragon.")];
    params.max_tokens = 12;
    let answer = provider.generate(&params, &mut |_| {}).await.unwrap();
    assert_eq!(answer.result.stop_reason, Some(StopReason::MaxTokens), "{answer:?}");
    assert!(answer.usage.expect("a count").output_tokens <= 12, "{answer:?}");
}

// The wait for the server's word must not hold up the connection that is to be closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_request_stops_the_model() {
    let Some(smollm) = smollm() else { return };
    let provider = smollm.provider();
    let story = CreateMessageParams::new(vec![SamplingMessage::user("Tell me a very long story.")], 1_500);
    let (told, first) = tokio::sync::oneshot::channel();
    let mut told = Some(told);
    let asking = tokio::spawn(async move {
        let mut heard = |_: AnswerDelta<'_>| {
            if let Some(told) = told.take() {
                let _late = told.send(());
            }
        };
        provider.generate(&story, &mut heard).await.map(|answer| answer.usage)
    });
    first.await.expect("a first word");
    asking.abort();
    let SmolLm { lines, .. } = &smollm;
    // It says so once its generation has come to its end.
    let gone = loop {
        match lines.recv_timeout(LIMIT) {
            Ok(line) if line == "gone" => break true,
            Ok(_) => {}
            Err(_) => break false,
        }
    };
    assert!(gone, "it said:\n{}", smollm.program.said());
}

/// Returns the number of tokens into which the model splits a text.
async fn count(url: &str, text: &str) -> u64 {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let host = url.trim_start_matches("http://").trim_end_matches("/v1");
    let body = serde_json::json!({ "text": text }).to_string();
    let request = format!(
        "POST /count HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(host).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let digits = answer
        .rsplit_once("\"tokens\":")
        .map(|(_, rest)| rest.trim_end_matches(|c: char| !c.is_ascii_digit()));
    digits
        .and_then(|digits| digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok())
        .unwrap_or_else(|| panic!("{answer}"))
}

/// The stated error of the estimate, held against a tokenizer that is not ours.
#[tokio::test]
async fn estimates_are_as_wrong_as_they_say() {
    let Some(smollm) = smollm() else { return };
    let prose = include_str!("../../../../ARCHITECTURE.md")
        .replace(['|', '`', '─', '│', '┌', '┐', '└', '┘', '►', '◄', '▲'], " ");
    let rust = include_str!("../../src/estimate.rs");
    let script = include_str!("../../../../tools/models/serve.mjs");
    let numbers = "2026-11-22, 3.14159, 1 000 000, 42; ".repeat(30);
    for (name, text, within) in [
        ("prose", prose.as_str(), 25),
        ("Rust", rust, 50),
        ("JavaScript", script, 50),
        ("numbers", &numbers, 50),
        ("a pangram", &"Pack my box with five dozen liquor jugs. ".repeat(9), 50),
        ("Chinese", &"北京是中华人民共和国的首都，也是全国的政治中心。".repeat(9), 50),
        ("Russian", &"Москва является столицей Российской Федерации. ".repeat(9), 50),
        ("a key", "aGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXN0IG9mIGJhc2U2NCBlbmNvZGluZyBhbmQgaXRzIHRva2Vucw", 50),
        (
            "JSON",
            r#"{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Ulm","days":3,"units":"metric"}}}"#,
            50,
        ),
        ("German", &"Größere Fische fressen kleinere, das weiß jedes Kind an der Küste. ".repeat(20), 50),
    ] {
        let (counted, likely) = (count(&smollm.url, text).await, estimate::text_tokens(text));
        let off = (likely as f64 / counted as f64 - 1.0) * 100.0;
        assert!(off.abs() <= f64::from(within), "{name}: {likely} estimated, {counted} counted: {off:.0} %");
        let params = CreateMessageParams::new(vec![SamplingMessage::user(text)], 1);
        assert!(estimate::input_tokens(&params).high >= counted, "{name}");
    }
}
