//! Queue of events for a caller before its response, on any transport.

use std::collections::VecDeque;

use hospes_model::{CancelledParams, ProgressToken, RawJson, RequestId};
use serde::Deserialize;

use crate::client::link::LinkEvent;

/// The most events that wait for one caller; beyond it the oldest notification is dropped.
const MAX_QUEUED_EVENTS: usize = 1024;

/// Event queue of one caller.
#[derive(Debug, Default)]
pub(crate) struct CallInbox(VecDeque<LinkEvent>);

impl CallInbox {
    pub(crate) fn push(&mut self, event: LinkEvent) {
        if self.0.len() >= MAX_QUEUED_EVENTS {
            // A caller this slow gets the newest news; a question is never dropped.
            if matches!(self.0.front(), Some(LinkEvent::Notification(..))) {
                self.0.pop_front();
            } else if matches!(event, LinkEvent::Notification(..)) {
                return;
            }
        }
        self.0.push_back(event);
    }

    pub(crate) fn pop(&mut self) -> Option<LinkEvent> {
        self.0.pop_front()
    }

    /// Ids of the questions that the caller has not read.
    pub(crate) fn questions(&self) -> impl Iterator<Item = &RequestId> {
        self.0.iter().filter_map(|event| match event {
            LinkEvent::Question(id, ..) => Some(id),
            _ => None,
        })
    }
}

/// Fields of a progress notification that are needed to route it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProgressParamsPeek {
    pub(crate) progress_token: ProgressToken,
    pub(crate) progress: f64,
}

impl ProgressParamsPeek {
    /// Returns none if the notification cannot be decoded.
    pub(crate) fn from_params(params: Option<&RawJson>) -> Option<Self> {
        params?.decode().ok()
    }
}

/// Returns the id of the cancelled request and the reason. `None` if the notification has no id.
pub(crate) fn parse_cancelled(params: Option<&RawJson>) -> Option<(RequestId, Option<String>)> {
    let params: CancelledParams = params?.decode().ok()?;
    Some((params.request_id?, params.reason))
}
