//! A scripted peer, for behaviour that a real peer does not show.

use std::collections::VecDeque;
use std::fmt;

use serde_json::Value;

/// A peer that waits for expected messages and sends prepared lines. The test passes it the received lines and sends
/// the lines it returns, over the transport under test.
///
/// ```
/// use hospes_testkit::PeerScript;
/// use serde_json::json;
///
/// let mut server = PeerScript::new()
///     .expect(json!({"method": "initialize"}))
///     .say(r#"{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"2025-11-25"}}"#)
///     .say("this is no message")
///     .end();
/// assert!(server.poll_line().is_none());
/// server.handle_line(br#"{"jsonrpc":"2.0","id":7,"method":"initialize"}"#).unwrap();
/// assert_eq!(server.poll_line().unwrap(), r#"{"jsonrpc":"2.0","id":7,"result":{"protocolVersion":"2025-11-25"}}"#);
/// assert_eq!(server.poll_line().unwrap(), "this is no message");
/// assert!(server.is_over() && server.wants_hang_up());
/// ```
#[derive(Clone, Debug, Default)]
pub struct PeerScript {
    steps: VecDeque<ScriptStep>,
    /// Id of the last request that was expected.
    id: Value,
    done: usize,
}

#[derive(Clone, Debug)]
enum ScriptStep {
    Expect(Value),
    Say(String),
    End,
}

/// Error for a message that the script does not expect.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScriptError {
    /// Number of the step, counted from the start of the script.
    pub step: usize,
    /// Expected members; null if nothing more was expected.
    pub expected: Value,
    /// The received message.
    pub came: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: expected {}, got {}", self.step, self.expected, self.came)
    }
}

impl std::error::Error for ScriptError {}

impl PeerScript {
    /// Creates an empty script.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for a message that has at least these members, at any depth.
    #[must_use]
    pub fn expect(mut self, members: Value) -> Self {
        self.steps.push_back(ScriptStep::Expect(members));
        self
    }

    /// Adds a line to send. `$id` in it becomes the id of the last request that was expected.
    #[must_use]
    pub fn say(mut self, line: impl Into<String>) -> Self {
        self.steps.push_back(ScriptStep::Say(line.into()));
        self
    }

    /// Closes the connection at this point of the script.
    #[must_use]
    pub fn end(mut self) -> Self {
        self.steps.push_back(ScriptStep::End);
        self
    }

    /// Handles a received line.
    ///
    /// # Errors
    /// If the script does not expect the message next.
    pub fn handle_line(&mut self, line: &[u8]) -> Result<(), ScriptError> {
        let came: Value = serde_json::from_slice(line).unwrap_or_default();
        match self.steps.front() {
            Some(ScriptStep::Expect(members)) if has(&came, members) => {
                // A notification has no id, and the request before it may still have to be answered.
                if let Some(id) = came.get("id") {
                    self.id = id.clone();
                }
                self.next();
                Ok(())
            }
            step => {
                let expected = match step {
                    Some(ScriptStep::Expect(members)) => members.clone(),
                    _ => Value::Null,
                };
                Err(ScriptError {
                    step: self.done,
                    expected,
                    came: String::from_utf8_lossy(line).into_owned(),
                })
            }
        }
    }

    /// Returns the next line to send. Returns `None` if a message is expected first.
    pub fn poll_line(&mut self) -> Option<String> {
        let Some(ScriptStep::Say(line)) = self.steps.front() else { return None };
        let line = line.replace("$id", &self.id.to_string());
        self.next();
        Some(line)
    }

    /// Returns true if the script is to close the connection now.
    #[must_use]
    pub fn wants_hang_up(&self) -> bool {
        matches!(self.steps.front(), Some(ScriptStep::End))
    }

    /// Returns true if nothing is left to send or to wait for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.steps.is_empty() || self.wants_hang_up()
    }

    fn next(&mut self) {
        self.steps.pop_front();
        self.done += 1;
    }
}

/// Returns true if `value` has all members of `members`.
fn has(value: &Value, members: &Value) -> bool {
    match (value, members) {
        (Value::Object(value), Value::Object(members)) => {
            members.iter().all(|(name, member)| value.get(name).is_some_and(|value| has(value, member)))
        }
        _ => value == members,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_script_says_what_was_not_expected() {
        let mut script = PeerScript::new().expect(json!({"params": {"name": "a"}})).expect(json!({}));
        script.handle_line(br#"{"method":"x","params":{"name":"a","more":1}}"#).unwrap();
        script.handle_line(b"{}").unwrap();
        let error = script.handle_line(b"{}").unwrap_err();
        assert_eq!((error.step, error.expected), (2, Value::Null));
        let error = PeerScript::new().expect(json!({"id": 1})).handle_line(b"noise").unwrap_err();
        assert_eq!(error.to_string(), r#"step 0: expected {"id":1}, got noise"#);
    }
}
