//! Record of the messages of a connection.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hospes_model::message::{self, Frame};
use hospes_model::{JsonRpcMessage, RequestId};
use serde_json::Value;

/// End of the connection that sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there are two sides")]
pub enum PairSide {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// A recorded message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedMessage {
    /// Time of the message since the start of the record.
    pub at: Duration,
    /// Sender of the message.
    pub from: PairSide,
    /// Text of the message, without its line end.
    pub text: Bytes,
}

impl RecordedMessage {
    /// Returns the message as JSON, or null if it is not valid JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// Returns the id of the request that it responds to, if it is a response.
    #[must_use]
    pub fn answers(&self) -> Option<RequestId> {
        match message::decode(&self.text) {
            Ok(Frame::Single(JsonRpcMessage::Response(response))) => response.id,
            _ => None,
        }
    }

    /// Returns the id and the method, if it is a request.
    #[must_use]
    pub fn request_parts(&self) -> Option<(RequestId, String)> {
        match message::decode(&self.text) {
            Ok(Frame::Single(JsonRpcMessage::Request(request))) => {
                Some((request.id, request.method.into_owned()))
            }
            _ => None,
        }
    }

    /// Returns the method, if it is a notification.
    #[must_use]
    pub fn notification_method(&self) -> Option<String> {
        match message::decode(&self.text) {
            Ok(Frame::Single(JsonRpcMessage::Notification(notification))) => {
                Some(notification.method.into_owned())
            }
            _ => None,
        }
    }
}

/// All messages in order. Its `Display` has one line for each message, for use in snapshots.
#[derive(Clone, Debug, Default)]
pub struct MessageRecord(Vec<RecordedMessage>);

impl MessageRecord {
    /// Creates an empty record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message.
    pub fn push(&mut self, at: Duration, from: PairSide, text: impl Into<Bytes>) {
        self.0.push(RecordedMessage { at, from, text: text.into() });
    }

    /// Returns all messages.
    #[must_use]
    pub fn entries(&self) -> &[RecordedMessage] {
        &self.0
    }

    /// Returns the messages of one side.
    pub fn of(&self, side: PairSide) -> impl Iterator<Item = &RecordedMessage> {
        self.0.iter().filter(move |entry| entry.from == side)
    }

    /// Returns the number of responses of one side to a request.
    #[must_use]
    pub fn answers_to(&self, side: PairSide, id: &RequestId) -> usize {
        self.of(side).filter(|entry| entry.answers().as_ref() == Some(id)).count()
    }
}

impl fmt::Display for MessageRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for RecordedMessage { at, from, text } in &self.0 {
            let arrow = if *from == PairSide::Client { "-->" } else { "<--" };
            writeln!(f, "{:>8.3} {arrow} {}", at.as_secs_f64(), String::from_utf8_lossy(text))?;
        }
        Ok(())
    }
}
