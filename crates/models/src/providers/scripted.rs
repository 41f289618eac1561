//! A model with scripted replies, for tests and demonstrations.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hospes_model::{
    CreateMessageParams, CreateMessageResult, SamplingMessageContentBlock as Block, StopReason,
};

use crate::conversation;
use crate::provider::DeltaListener;
use crate::{
    AnswerDelta, GenerationFailure, GenerationFuture, ModelAnswer, ModelError, ModelProvider, OmittedPart,
    TokenUsage, estimate,
};

/// Maximum number of remembered requests.
const MAX_ASKED: usize = 256;

type ReplyScript = dyn FnMut(&CreateMessageParams) -> ScriptLine + Send;

/// A scripted model. It accepts every valid request, waits as long as the script says, and always gives the same
/// replies. Its token counts are estimates.
pub struct ScriptedProvider {
    model: String,
    script: Mutex<Box<ReplyScript>>,
    asked: Mutex<VecDeque<ScriptedRequest>>,
}

/// Request that a scripted model received.
pub type ScriptedRequest = CreateMessageParams;

/// A reply of the script.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScriptLine {
    /// The answer, or the reason why there is none. An empty model name is replaced by that of the script.
    pub outcome: Result<CreateMessageResult, ModelError>,
    /// Delay before the first word.
    pub after: Duration,
    /// Delay before each further word.
    pub pace: Duration,
    /// Token counts; an estimate is used if there are none.
    pub usage: Option<TokenUsage>,
}

impl ScriptLine {
    /// Creates a reply with a text or blocks.
    pub fn new(content: impl Into<Block>) -> Self {
        let result = CreateMessageResult::new("", content).with_stop_reason(StopReason::EndTurn);
        Self::result(result)
    }

    /// Creates a reply with a complete result.
    #[must_use]
    pub fn result(result: CreateMessageResult) -> Self {
        Self { outcome: Ok(result), after: Duration::ZERO, pace: Duration::ZERO, usage: None }
    }

    /// Creates a reply that fails.
    #[must_use]
    pub fn error(error: ModelError) -> Self {
        Self { outcome: Err(error), after: Duration::ZERO, pace: Duration::ZERO, usage: None }
    }

    /// Delays the reply by `after`, and each of its words by `pace`.
    #[must_use]
    pub fn slowly(mut self, after: Duration, pace: Duration) -> Self {
        (self.after, self.pace) = (after, pace);
        self
    }

    /// Sets the token counts of the reply.
    #[must_use]
    pub fn with_usage(mut self, usage: TokenUsage) -> Self {
        self.usage = Some(usage);
        self
    }
}

impl From<&str> for ScriptLine {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for ScriptLine {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<CreateMessageResult> for ScriptLine {
    fn from(result: CreateMessageResult) -> Self {
        Self::result(result)
    }
}

impl ScriptedProvider {
    /// Creates a model that gives these replies, one for each request, and then fails.
    pub fn new<R: Into<ScriptLine>>(replies: impl IntoIterator<Item = R>) -> Self {
        let mut replies: VecDeque<ScriptLine> = replies.into_iter().map(Into::into).collect();
        Self::with(move |_| {
            let ended =
                || ScriptLine::error(ModelError::Scripted("its script has no more replies".to_owned()));
            replies.pop_front().unwrap_or_else(ended)
        })
    }

    /// Creates a model that repeats these replies in a cycle.
    pub fn repeating<R: Into<ScriptLine>>(replies: impl IntoIterator<Item = R>) -> Self {
        let replies: Vec<ScriptLine> = replies.into_iter().map(Into::into).collect();
        let mut next = 0;
        Self::with(move |_| {
            let ended = || ScriptLine::error(ModelError::Scripted("its script is empty".to_owned()));
            let reply = replies.get(next).cloned().unwrap_or_else(ended);
            // An empty script fails in each call, and must not divide by zero.
            next = (next + 1) % replies.len().max(1);
            reply
        })
    }

    /// Creates a model whose replies are computed by `script`.
    pub fn with(script: impl FnMut(&CreateMessageParams) -> ScriptLine + Send + 'static) -> Self {
        Self { model: "scripted".to_owned(), script: Mutex::new(Box::new(script)), asked: Mutex::default() }
    }

    /// Sets the name of the model.
    #[must_use]
    pub fn named(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Returns the last 256 requests, oldest first.
    #[must_use]
    pub fn asked(&self) -> Vec<ScriptedRequest> {
        lock(&self.asked).iter().cloned().collect()
    }

    async fn generate_answer(
        &self,
        params: &CreateMessageParams,
        heard: &mut DeltaListener<'_>,
    ) -> Result<ModelAnswer, GenerationFailure> {
        self.check(params)?;
        // The locks end with this block, because none may be held while the reply is delayed.
        let reply = {
            let mut asked = lock(&self.asked);
            if asked.len() == MAX_ASKED {
                asked.pop_front();
            }
            asked.push_back(params.clone());
            // Under both locks, so that requests are remembered in the order of their replies.
            (lock(&self.script))(params)
        };
        pause(reply.after).await;
        let mut result =
            reply.outcome.map_err(|error| GenerationFailure { tries: 1, ..GenerationFailure::new(error) })?;
        for block in &result.content {
            match block {
                Block::Text(text) => {
                    for word in text.text.split_inclusive(' ') {
                        pause(reply.pace).await;
                        heard(AnswerDelta::Text(word));
                    }
                }
                Block::ToolUse(tool_use) => heard(AnswerDelta::ToolUse(&tool_use.name)),
                _ => {}
            }
        }
        if result.model.is_empty() {
            result.model.clone_from(&self.model);
        }
        let counted =
            || TokenUsage::new(estimate::input_tokens(params).likely, estimate::text_tokens(&result.text()));
        let usage = reply.usage.unwrap_or_else(counted);
        Ok(ModelAnswer::new(result, Some(usage)))
    }
}

impl ModelProvider for ScriptedProvider {
    fn name(&self) -> &str {
        "a script"
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn check(&self, params: &CreateMessageParams) -> Result<Vec<OmittedPart>, ModelError> {
        conversation::check(params)?;
        conversation::tool_choice(params, "a script").map(|_| Vec::new())
    }

    fn generate<'a>(
        &'a self,
        params: &'a CreateMessageParams,
        heard: &'a mut DeltaListener<'_>,
    ) -> GenerationFuture<'a> {
        Box::pin(self.generate_answer(params, heard))
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for ScriptedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedProvider").field("model", &self.model).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hospes_model::{RawJson, SamplingMessage, ToolUseContent};
    use tokio::time::Instant;

    use super::*;

    fn hello(text: &str) -> CreateMessageParams {
        CreateMessageParams::new(vec![SamplingMessage::user(text)], 9)
    }

    async fn ask(model: &ScriptedProvider, text: &str) -> Result<ModelAnswer, GenerationFailure> {
        model.generate(&hello(text), &mut |_| {}).await
    }

    #[tokio::test]
    async fn replies_come_in_order_and_end_or_begin_again() {
        let once = ScriptedProvider::new(["one", "two"]);
        let again = ScriptedProvider::repeating(["one", "two"]).named("parrot");
        for wanted in ["one", "two"] {
            assert_eq!(ask(&once, "x").await.unwrap().result.text(), wanted);
            assert_eq!(ask(&again, "x").await.unwrap().result.text(), wanted);
        }
        let failure = ask(&once, "x").await.unwrap_err();
        assert_eq!(failure.to_string(), "the scripted model fails: its script has no more replies");
        let answer = ask(&again, "x").await.unwrap();
        assert_eq!((answer.result.text().as_str(), answer.result.model.as_str()), ("one", "parrot"));
        assert!(answer.usage.is_some_and(|usage| usage.input_tokens > 0 && usage.output_tokens > 0));
        assert!(ask(&ScriptedProvider::repeating(Vec::<ScriptLine>::new()), "x").await.is_err());
    }

    #[tokio::test]
    async fn a_script_can_look_at_what_it_is_asked_and_remembers_it() {
        let model = ScriptedProvider::with(|params: &CreateMessageParams| {
            let text = params.messages[0].content[0].as_text().unwrap_or_default();
            match text {
                "tool" => ScriptLine::new(ToolUseContent::new("1", "look", RawJson::empty_object())),
                "fail" => ScriptLine::error(ModelError::Scripted("as it was told to".to_owned())),
                other => ScriptLine::from(other.to_uppercase()).with_usage(TokenUsage::new(7, 1)),
            }
        });
        let answer = ask(&model, "loud").await.unwrap();
        assert_eq!((answer.result.text().as_str(), answer.usage), ("LOUD", Some(TokenUsage::new(7, 1))));
        assert_eq!(ask(&model, "tool").await.unwrap().result.tool_uses().count(), 1);
        assert_eq!(ask(&model, "fail").await.unwrap_err().tries, 1);
        let invalid = CreateMessageParams::new(Vec::new(), 1);
        assert!(model.generate(&invalid, &mut |_| {}).await.is_err());
        assert_eq!(
            model.asked(),
            [hello("loud"), hello("tool"), hello("fail")],
            "what is invalid never got there"
        );
        for _ in 0..MAX_ASKED {
            ask(&model, "again").await.unwrap();
        }
        assert_eq!(model.asked().len(), MAX_ASKED);
        assert_eq!(model.asked()[0], hello("again"), "the oldest go");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_script_speaks_word_by_word_and_can_be_dropped() {
        let slow = ScriptLine::new("one two three").slowly(Duration::from_secs(5), Duration::from_secs(1));
        let model = Arc::new(ScriptedProvider::repeating([slow]));
        let (begun, mut heard) = (Instant::now(), Vec::new());
        let params = hello("x");
        let mut listen =
            |delta: AnswerDelta<'_>| heard.push((begun.elapsed().as_secs(), format!("{delta:?}")));
        let answer = model.generate(&params, &mut listen);
        assert_eq!(answer.await.unwrap().result.text(), "one two three");
        let heard: Vec<_> = heard.iter().map(|(when, what)| (*when, what.as_str())).collect();
        assert_eq!(heard, [(6, "Text(\"one \")"), (7, "Text(\"two \")"), (8, "Text(\"three\")")]);
        let mut words = 0;
        let mut listen = |_: AnswerDelta<'_>| words += 1;
        let asked =
            tokio::time::timeout(Duration::from_millis(7_500), model.generate(&params, &mut listen)).await;
        assert!(asked.is_err());
        assert_eq!(words, 2);
    }
}
