//! Calls that clients make, and the stream of one of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::StreamEvent;
use crate::journal::CallEnding;

/// Tool of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// Answers at once.
    Echo,
    /// Sends progress, then answers.
    Steps,
    /// Asks a question, then answers.
    Question,
    /// Answers at once, after a policy has asked about it.
    Guarded,
}

/// Calls that a client makes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallMix {
    /// All tools in turn.
    All,
    /// Tools in turn, and the one that a policy asks about.
    WithApprovals,
    /// Calls with progress that take this long.
    Long(Duration),
    /// Calls that are answered at once, to measure their times.
    Short,
}

/// Number of progress notifications of a call, and the time between them.
const STEPS: u32 = 8;
const STEP_PAUSE: Duration = Duration::from_millis(250);

/// Pause between calls of [`CallMix::Short`].
const SHORT_PAUSE: Duration = Duration::from_millis(100);

/// Call to be made.
#[derive(Clone, Debug)]
pub(crate) struct PlannedCall {
    pub(crate) key: String,
    pub(crate) kind: CallKind,
    pub(crate) tool: String,
    /// Id of the request.
    pub(crate) id: u64,
    /// Time that passes before the next call, and before a question is answered.
    pub(crate) pause: Duration,
    /// Number of progress notifications of [`CallKind::Steps`].
    steps: u32,
}

impl PlannedCall {
    /// Plans call number `number` of a client: tools of both servers in turn.
    pub(crate) fn of(mix: CallMix, client: &str, number: u64, can_ask: bool) -> Self {
        let planned = Self::new(client, number, can_ask);
        let server = planned.tool.split_once("__").map_or("legacy", |(server, _)| server);
        match mix {
            CallMix::All => planned,
            // The application that calls is asked, so it has to be one that can ask.
            CallMix::WithApprovals if can_ask && number.is_multiple_of(4) => {
                Self { kind: CallKind::Guarded, tool: format!("{server}__guarded"), ..planned }
            }
            CallMix::WithApprovals => planned,
            CallMix::Long(length) => Self {
                kind: CallKind::Steps,
                tool: format!("{server}__steps"),
                steps: (length.as_millis() / STEP_PAUSE.as_millis()) as u32,
                ..planned
            },
            CallMix::Short => {
                Self { kind: CallKind::Echo, tool: format!("{server}__echo"), pause: SHORT_PAUSE, ..planned }
            }
        }
    }

    /// Plans a call that answers at once.
    pub(crate) fn single(key: String, id: u64, tool: &str) -> Self {
        Self { key, kind: CallKind::Echo, tool: tool.to_owned(), id, pause: Duration::ZERO, steps: 0 }
    }

    /// Plans a call of [`CallMix::All`].
    fn new(client: &str, number: u64, can_ask: bool) -> Self {
        // Multiplicative hashing: neighbours differ, and each run is the same.
        let seed =
            client.bytes().fold(number, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let kind = match mixed % 5 {
            0 | 1 => CallKind::Steps,
            2 | 3 if can_ask => CallKind::Question,
            _ => CallKind::Echo,
        };
        let server = if mixed / 5 % 2 == 0 { "legacy" } else { "modern" };
        let name = match kind {
            CallKind::Echo => "echo",
            CallKind::Steps => "steps",
            CallKind::Question => "question",
            CallKind::Guarded => "guarded",
        };
        Self {
            key: format!("{client}-{number}"),
            kind,
            tool: format!("{server}__{name}"),
            id: number,
            pause: Duration::from_millis(200 + mixed / 10 % 800),
            steps: STEPS,
        }
    }

    /// Params of the request, with a token for progress.
    pub(crate) fn params(&self) -> Value {
        let mut arguments = json!({ "key": self.key });
        if self.kind == CallKind::Steps {
            arguments["steps"] = json!(self.steps);
            arguments["pause_ms"] = json!(STEP_PAUSE.as_millis() as u64);
        }
        let mut params = json!({ "name": self.tool, "arguments": arguments });
        if self.kind == CallKind::Steps {
            params["_meta"] = json!({ "progressToken": self.key });
        }
        params
    }
}

/// Parts of a call that were received so far.
#[derive(Debug, Default)]
pub(crate) struct CallProgress {
    pub(crate) ending: Option<CallEnding>,
    pub(crate) answers: usize,
    pub(crate) faults: Vec<String>,
    pub(crate) position: StreamPosition,
    pub(crate) retry: Option<Duration>,
    /// Moment of the first answer.
    pub(crate) answered_at: Option<Instant>,
    /// Last step that was received.
    step: u64,
}

impl CallProgress {
    /// Takes in an event of the call's stream, and returns a question that it carries.
    pub(crate) fn take(&mut self, event: StreamEvent, id: u64) -> Option<Value> {
        if let Some(event_id) = &event.id
            && let Err(fault) = self.position.advance(event_id)
        {
            self.faults.push(fault);
        }
        self.retry = event.retry_ms.map(Duration::from_millis).or(self.retry);
        let message = event.message?;
        match message["method"].as_str() {
            None if message["id"] == json!(id) => self.answer(&message),
            None => self.faults.push(format!("an answer to another request on the stream: {message}")),
            Some("notifications/progress") => self.step(&message),
            Some(_) if message.get("id").is_some() => return Some(message),
            Some(_) => {}
        }
        None
    }

    /// Takes in an answer.
    pub(crate) fn answer(&mut self, message: &Value) {
        self.answers += 1;
        self.answered_at.get_or_insert_with(Instant::now);
        self.ending.get_or_insert_with(|| classify(message));
    }

    fn step(&mut self, message: &Value) {
        let step = message["params"]["progress"].as_f64().map_or(0, |step| step as u64);
        if step != self.step + 1 {
            self.faults
                .push(format!("step {step} follows step {}: an event is missing or came twice", self.step));
        }
        self.step = step;
        if self.answers > 0 {
            self.faults.push("progress after the answer".to_owned());
        }
    }

    /// Checks that a call that was answered has sent all its steps.
    pub(crate) fn check_steps(&mut self, call: &PlannedCall) {
        let has_all = call.kind != CallKind::Steps || self.step == u64::from(call.steps);
        if self.ending == Some(CallEnding::Answered) && !has_all {
            let text = format!("answered after step {} of {}: events are missing", self.step, call.steps);
            self.faults.push(text);
        }
    }
}

/// Reads how a call ended from its answer.
fn classify(message: &Value) -> CallEnding {
    if let Some(error) = message.get("error") {
        return match error["data"]["outcome"].as_str() {
            Some("unknown") => CallEnding::Unknown,
            _ => CallEnding::Failed(error.to_string()),
        };
    }
    let result = &message["result"];
    match (result["_meta"]["outcome"].as_str(), result["isError"].as_bool()) {
        (Some("unknown"), _) => CallEnding::Unknown,
        (_, Some(true)) => CallEnding::Failed(result.to_string()),
        _ => CallEnding::Answered,
    }
}

/// Place in a stream: the last event id that was received.
///
/// Ids are `STREAM-NUMBER`, in a fleet `STREAM-EPOCH-NUMBER`: the epoch rises when another node adopts the session, and
/// the number goes on.
#[derive(Debug, Default)]
pub(crate) struct StreamPosition {
    pub(crate) last: Option<String>,
    place: Option<StreamPlace>,
}

#[derive(Debug)]
struct StreamPlace {
    stream: String,
    epoch: u64,
    number: u64,
}

impl StreamPlace {
    fn parse(id: &str) -> Option<Self> {
        let (stream, place) = id.split_once('-')?;
        let (epoch, number) = place.split_once('-').unwrap_or(("0", place));
        Some(Self { stream: stream.to_owned(), epoch: epoch.parse().ok()?, number: number.parse().ok()? })
    }
}

impl StreamPosition {
    /// Moves on to an event; an error if its id does not follow the one before.
    pub(crate) fn advance(&mut self, id: &str) -> Result<(), String> {
        let next = StreamPlace::parse(id).ok_or_else(|| format!("the event id {id} has no number"))?;
        let follows = match &self.place {
            // An event that only names the stream comes first, where the revision has it.
            None => next.number <= 1,
            Some(last) => {
                last.stream == next.stream && last.epoch <= next.epoch && next.number == last.number + 1
            }
        };
        let before = self.last.replace(id.to_owned());
        self.place = Some(next);
        if follows {
            return Ok(());
        }
        Err(format!("the event id {id} follows {}", before.as_deref().unwrap_or("nothing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_rise_by_one_within_a_stream() {
        let mut position = StreamPosition::default();
        assert!(position.advance("3-0").is_ok());
        assert!(position.advance("3-1").is_ok());
        assert!(position.advance("3-1").is_err());
        assert!(position.advance("3-3").is_err());
        assert!(position.advance("4-4").is_err());
        assert!(StreamPosition::default().advance("1-2").is_err());
        let mut position = StreamPosition::default();
        assert!(position.advance("1.3-0-0").is_ok());
        assert!(position.advance("1.3-2-1").is_ok());
        assert!(position.advance("1.3-1-2").is_err());
    }

    #[test]
    fn a_lost_step_is_seen() {
        let mut progress = CallProgress::default();
        let step = |number: u32| StreamEvent {
            id: None,
            retry_ms: None,
            message: Some(json!({ "method": "notifications/progress", "params": { "progress": number } })),
        };
        assert!(progress.take(step(1), 1).is_none());
        assert_eq!(progress.faults, Vec::<String>::new());
        assert!(progress.take(step(3), 1).is_none());
        assert_eq!(progress.faults.len(), 1);
    }

    #[test]
    fn answers_are_told_apart() {
        let unknown = json!({ "result": { "isError": true, "_meta": { "outcome": "unknown" } } });
        assert_eq!(classify(&unknown), CallEnding::Unknown);
        assert!(matches!(classify(&json!({ "result": { "isError": true } })), CallEnding::Failed(_)));
        assert_eq!(classify(&json!({ "result": {} })), CallEnding::Answered);
    }
}
