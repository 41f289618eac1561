//! Caller of a tool about which a policy asks a person.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::call::{CallMix, CallProgress, PlannedCall};
use crate::journal::RunJournal;
use crate::modern_client::{ModernClient, answer_all};

/// Caller of the tool about which a person decides. Its application shows the form, and the person allows each call.
#[derive(Debug)]
pub(crate) struct GuardedCaller {
    client: ModernClient,
    /// File of the effects of all servers.
    effects: PathBuf,
}

/// Result of a request, `null` if it was an error.
#[derive(Debug)]
pub(crate) struct GuardedOutcome(pub(crate) Value);

impl GuardedOutcome {
    /// Returns true if a person is asked.
    pub(crate) fn is_question(&self) -> bool {
        self.0["resultType"] == "input_required"
    }

    /// Returns true if the tool has answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.0["content"].is_array() && self.0["isError"] != true
    }
}

/// Call that waits for a decision.
#[derive(Debug)]
pub(crate) struct WaitingCall {
    key: String,
    question: Value,
}

impl GuardedCaller {
    pub(crate) fn new(port: u16, effects: &Path) -> Self {
        let journal = Arc::new(RunJournal::default());
        let name = "guarded".to_owned();
        let client = ModernClient { port, name, journal, mix: CallMix::All };
        Self { client, effects: effects.to_owned() }
    }

    async fn send(&self, key: &str, round: Value) -> GuardedOutcome {
        let call = PlannedCall::single(key.to_owned(), 1, "modern__guarded");
        let mut params = call.params();
        if let (Some(params), Value::Object(round)) = (params.as_object_mut(), round) {
            params.extend(round);
        }
        let mut progress = CallProgress::default();
        match self.client.round(&call, 1, params, &mut progress).await {
            Ok(Value::Null) => GuardedOutcome(json!(format!("{:?}", progress.ending))),
            Ok(result) => GuardedOutcome(result),
            Err(ending) => GuardedOutcome(json!(format!("{ending:?}"))),
        }
    }

    /// Makes a call without an answer to the question about it.
    pub(crate) async fn begin(&self, key: &str) -> GuardedOutcome {
        self.send(key, json!({})).await
    }

    /// Makes a call about which a person is asked.
    pub(crate) async fn ask(&self, key: &str) -> Result<WaitingCall> {
        let GuardedOutcome(question) = self.begin(key).await;
        if question["resultType"] != "input_required" {
            bail!("{key}: nobody was asked: {question}");
        }
        Ok(WaitingCall { key: key.to_owned(), question })
    }

    /// Repeats a call with the person's yes.
    pub(crate) async fn redeem(&self, waiting: &WaitingCall) -> GuardedOutcome {
        let answers = answer_all(&waiting.question["inputRequests"]);
        let state = &waiting.question["requestState"];
        self.send(&waiting.key, json!({ "requestState": state, "inputResponses": answers })).await
    }

    /// Returns the number of effects of a call.
    pub(crate) fn effects(&self, key: &str) -> Result<usize> {
        let text = std::fs::read_to_string(&self.effects)?;
        Ok(text.lines().filter(|line| line.split(' ').next() == Some(key)).count())
    }
}
