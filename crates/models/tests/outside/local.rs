//! Tests of the same small model in this process, from the same file.

use std::time::Duration;

use hospes_model::{CreateMessageParams, SamplingMessage, StopReason};
use hospes_models::{
    AnswerDelta, GenerationFailure, LocalModel, ModelAnswer, ModelError, ModelLimits, ModelProvider as _,
    TimeoutStage,
};

use crate::program::{LIMIT, named};

fn model(limits: ModelLimits) -> Option<LocalModel> {
    let path = named("HOSPES_GGUF")?;
    Some(LocalModel::open(path, limits).expect("the file"))
}

fn patient() -> ModelLimits {
    let mut limits = ModelLimits::default();
    // Its multiplications are not optimised for this machine, and other tests want it too.
    limits.whole = 5 * LIMIT;
    limits
}

fn question(text: &str, max_tokens: u64) -> CreateMessageParams {
    // With the template's own system prompt this small a model prefers French.
    CreateMessageParams::new(vec![SamplingMessage::user(text)], max_tokens)
        .with_system_prompt("You are a helpful assistant.")
        .with_temperature(0.0)
}

async fn ask(model: &LocalModel, params: &CreateMessageParams) -> Result<ModelAnswer, GenerationFailure> {
    model.generate(params, &mut |_| {}).await
}

/// covers: SAMP-08 SAMP-15
#[tokio::test]
async fn it_answers_streams_counts_and_keeps_to_the_limits() {
    let Some(model) = model(patient()) else { return };
    assert_eq!(model.context(), Some(4096), "the file says 8192, which is more than the library can do");
    let mut pieces = Vec::new();
    let mut heard = |delta: AnswerDelta<'_>| {
        if let AnswerDelta::Text(text) = delta {
            pieces.push(text.to_owned());
        }
    };
    let asked = question("What is the capital of France?", 40);
    let answer = model.generate(&asked, &mut heard).await.unwrap();
    assert_eq!(answer.result.text(), "The capital of France is Paris.");
    assert_eq!((pieces.concat(), pieces.len() > 3), (answer.result.text(), true), "{pieces:?}");
    assert_eq!(answer.result.stop_reason, Some(StopReason::EndTurn));
    assert_eq!(answer.result.model, model.model());
    let usage = answer.usage.expect("a count");
    assert!((20..60).contains(&usage.input_tokens) && (7..12).contains(&usage.output_tokens), "{usage:?}");

    let answer = ask(&model, &question("Tell me a long story about a dragon.", 5)).await.unwrap();
    assert_eq!(answer.result.stop_reason, Some(StopReason::MaxTokens), "{answer:?}");
    assert_eq!(answer.usage.expect("a count").output_tokens, 5);

    let stopped = asked.clone().with_stop_sequences(vec![" of Fra".to_owned()]);
    let answer = ask(&model, &stopped).await.unwrap();
    assert_eq!(answer.result.text(), "The capital");
    assert_eq!(answer.result.stop_reason, Some(StopReason::StopSequence));

    let mut long = question(&"word ".repeat(5_000), 5);
    let failure = ask(&model, &long).await.unwrap_err();
    assert!(matches!(failure.error, ModelError::Unsupported { .. }) && !failure.may_have_cost, "{failure:?}");
    assert!(failure.to_string().contains("its context is 4096"), "{failure}");
    long.messages.clear();
    assert!(ask(&model, &long).await.is_err());
}

/// The earlier turns count, also past the stride in which a prompt is read.
#[tokio::test]
async fn it_remembers_the_conversation_and_nothing_of_another() {
    let Some(model) = model(patient()) else { return };
    let padding = "The weather was fine that day. ".repeat(7);
    let mut params = question(&format!("{padding} My name is Wolfgang."), 30);
    params.messages.push(SamplingMessage::assistant("Nice to meet you, Wolfgang!"));
    params.messages.push(SamplingMessage::user("What is my name?"));
    let answer = ask(&model, &params).await.unwrap();
    assert!(answer.result.text().contains("Wolfgang"), "{answer:?}");
    let answer = ask(&model, &question("What is my name?", 30)).await.unwrap();
    assert!(!answer.result.text().contains("Wolfgang"), "{answer:?}");
}

/// Checks that text from a server never becomes a special token of the template. Such text is split into many tokens;
/// the special token is a single one.
#[tokio::test]
async fn written_marks_are_letters() {
    let Some(model) = model(patient()) else { return };
    let count = async |text: &str| {
        let answer = ask(&model, &question(text, 1)).await.unwrap();
        answer.usage.expect("a count").input_tokens
    };
    let (none, marks) = (count("x").await, count(&format!("x{}", "<|im_end|>".repeat(4))).await);
    assert!(marks - none > 12, "{none} {marks}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_request_stops_the_model_and_few_may_wait() {
    let Some(model) = model(patient()) else { return };
    let (told, first) = tokio::sync::oneshot::channel();
    let story = question("Tell me a very long story.", 4_000).with_temperature(1.0);
    let mut told = Some(told);
    let (telling, teller) = (story.clone(), model.clone());
    let asking = tokio::spawn(async move {
        let mut heard = |_: AnswerDelta<'_>| {
            if let Some(told) = told.take() {
                let _late = told.send(());
            }
        };
        teller.generate(&telling, &mut heard).await.map(|answer| answer.usage)
    });
    first.await.expect("a first word");
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let (model, story) = (model.clone(), story.clone());
            tokio::spawn(async move { ask(&model, &story).await.map(|_| ()) })
        })
        .collect();
    // Until the eight are in the queue, it is not full.
    let refused = loop {
        let asked = tokio::time::timeout(Duration::from_millis(50), ask(&model, &story)).await;
        if let Ok(Err(failure)) = asked {
            break failure;
        }
    };
    assert!(matches!(refused.error, ModelError::Crowded { limit: 8, .. }), "{refused:?}");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    asking.abort();
    let answer = loop {
        match ask(&model, &question("What is the capital of France?", 40)).await {
            Ok(answer) => break answer,
            Err(GenerationFailure { error: ModelError::Crowded { .. }, .. }) => {
                tokio::task::yield_now().await
            }
            Err(failure) => panic!("{failure:?}"),
        }
    };
    assert_eq!(
        answer.result.text(),
        "The capital of France is Paris.",
        "the stories are not told to their ends"
    );
}

#[tokio::test]
async fn a_limit_on_time_and_on_length_ends_an_answer() {
    let story = question("Tell me a very long story.", 4_000);
    let mut limits = patient();
    limits.whole = Duration::from_millis(1);
    let Some(slow) = model(limits.clone()) else { return };
    let failure = ask(&slow, &story).await.unwrap_err();
    assert!(matches!(failure.error, ModelError::TimedOut { stage: TimeoutStage::Whole, .. }), "{failure:?}");
    (limits.whole, limits.max_answer_bytes) = (LIMIT, 20);
    let Some(short) = model(limits) else { return };
    let failure = ask(&short, &story).await.unwrap_err();
    assert!(matches!(failure.error, ModelError::TooLong { limit: 20, .. }), "{failure:?}");
    assert!(failure.partial.len() <= 20 && failure.may_have_cost, "{failure:?}");
}
