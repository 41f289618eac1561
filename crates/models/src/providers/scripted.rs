//! A model that says what it was told to say: for tests, and to show the rest without one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hospes_model::{
    CreateMessageParams, CreateMessageResult, SamplingMessageContentBlock as Block, StopReason,
};

use crate::conversation;
use crate::provider::Listener;
use crate::{Answer, Delta, Failure, Generating, LeftOut, ModelError, Provider, Usage, estimate};

/// How many requests are remembered.
const MAX_ASKED: usize = 256;

type Script = dyn FnMut(&CreateMessageParams) -> Reply + Send;

/// A model with a script. It takes every request that is valid, waits as long as the script says, and gives the same
/// answers every time. Its count of tokens is the estimate.
pub struct Scripted {
    model: String,
    script: Mutex<Box<Script>>,
    asked: Mutex<VecDeque<Asked>>,
}

/// What a scripted model was asked.
pub type Asked = CreateMessageParams;

/// A line of the script.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The answer, or why there is none. The model's name in it is replaced by the script's, if it is empty.
    pub outcome: Result<CreateMessageResult, ModelError>,
    /// How long it takes before the first word.
    pub after: Duration,
    /// How long each word takes.
    pub pace: Duration,
    /// The tokens that are counted; the estimate where it is none.
    pub usage: Option<Usage>,
}

impl Reply {
    /// Text, or several blocks made into a result.
    pub fn new(content: impl Into<Block>) -> Self {
        let result = CreateMessageResult::new("", content).with_stop_reason(StopReason::EndTurn);
        Self::result(result)
    }

    /// A whole result.
    #[must_use]
    pub fn result(result: CreateMessageResult) -> Self {
        Self { outcome: Ok(result), after: Duration::ZERO, pace: Duration::ZERO, usage: None }
    }

    /// A failure.
    #[must_use]
    pub fn error(error: ModelError) -> Self {
        Self { outcome: Err(error), after: Duration::ZERO, pace: Duration::ZERO, usage: None }
    }

    /// The same after a while, and so long a word.
    #[must_use]
    pub fn slowly(mut self, after: Duration, pace: Duration) -> Self {
        (self.after, self.pace) = (after, pace);
        self
    }

    /// The same with a count of tokens.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<CreateMessageResult> for Reply {
    fn from(result: CreateMessageResult) -> Self {
        Self::result(result)
    }
}

impl Scripted {
    /// One that gives these replies, one a request, and fails when there are no more.
    pub fn new<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let mut replies: VecDeque<Reply> = replies.into_iter().map(Into::into).collect();
        Self::with(move |_| {
            let ended = || Reply::error(ModelError::Scripted("its script has no more replies".to_owned()));
            replies.pop_front().unwrap_or_else(ended)
        })
    }

    /// One that gives these replies over and over.
    pub fn repeating<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().map(Into::into).collect();
        let mut next = 0;
        Self::with(move |_| {
            let ended = || Reply::error(ModelError::Scripted("its script is empty".to_owned()));
            let reply = replies.get(next).cloned().unwrap_or_else(ended);
            next = (next + 1) % replies.len().max(1);
            reply
        })
    }

    /// One that answers each request with what `script` makes of it.
    pub fn with(script: impl FnMut(&CreateMessageParams) -> Reply + Send + 'static) -> Self {
        Self { model: "scripted".to_owned(), script: Mutex::new(Box::new(script)), asked: Mutex::default() }
    }

    /// The same under another name.
    #[must_use]
    pub fn named(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// The last 256 requests, the oldest first.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.asked).iter().cloned().collect()
    }

    async fn play(&self, params: &CreateMessageParams, heard: &mut Listener<'_>) -> Result<Answer, Failure> {
        self.check(params)?;
        let reply = {
            let mut asked = lock(&self.asked);
            if asked.len() == MAX_ASKED {
                asked.pop_front();
            }
            asked.push_back(params.clone());
            (lock(&self.script))(params)
        };
        pause(reply.after).await;
        let mut result = reply.outcome.map_err(|error| Failure { tries: 1, ..Failure::new(error) })?;
        for block in &result.content {
            match block {
                Block::Text(text) => {
                    for word in text.text.split_inclusive(' ') {
                        pause(reply.pace).await;
                        heard(Delta::Text(word));
                    }
                }
                Block::ToolUse(tool_use) => heard(Delta::ToolUse(&tool_use.name)),
                _ => {}
            }
        }
        if result.model.is_empty() {
            result.model.clone_from(&self.model);
        }
        let counted =
            || Usage::new(estimate::input_tokens(params).likely, estimate::text_tokens(&result.text()));
        let usage = reply.usage.unwrap_or_else(counted);
        Ok(Answer::new(result, Some(usage)))
    }
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        "a script"
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn check(&self, params: &CreateMessageParams) -> Result<Vec<LeftOut>, ModelError> {
        conversation::check(params)?;
        conversation::tool_choice(params, "a script").map(|_| Vec::new())
    }

    fn generate<'a>(
        &'a self,
        params: &'a CreateMessageParams,
        heard: &'a mut Listener<'_>,
    ) -> Generating<'a> {
        Box::pin(self.play(params, heard))
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

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").field("model", &self.model).finish_non_exhaustive()
    }
}
