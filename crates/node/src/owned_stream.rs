//! Stream of a session that this process owns.

use std::sync::Arc;

use futures::FutureExt as _;
use hospes::transport::http_server::shared_sessions::{DirectoryFuture, NewStreamEvent, SharedStream};
use hospes_fleet::stream::{AppendResult, EventId, EventKind, EventPosition, NewEvent, StreamNumber};

use crate::owned_session::OwnedSession;

/// Stream in the shared state.
#[derive(Debug)]
pub(crate) struct OwnedStream {
    session: Arc<OwnedSession>,
    number: StreamNumber,
}

impl OwnedStream {
    pub(crate) fn new(session: Arc<OwnedSession>, number: StreamNumber) -> Self {
        Self { session, number }
    }
}

impl SharedStream for OwnedStream {
    fn first_event_id(&self) -> String {
        EventId { stream: self.number, position: EventPosition::default() }.to_string()
    }

    fn number_of(&self, event_id: &str) -> Option<u64> {
        let id = EventId::parse(event_id).filter(|id| id.stream == self.number)?;
        Some(id.position.sequence)
    }

    fn append<'a>(&'a self, event: NewStreamEvent<'a>) -> DirectoryFuture<'a, Option<Box<str>>> {
        async move {
            let kind = event.answers.map_or(EventKind::Message, EventKind::Answer);
            let new = NewEvent::new(event.number, kind, event.message);
            let (session, owner) = (&self.session, self.session.owner());
            let appended = session.relay().append(session.key(), &owner, self.number, &new).await;
            Ok(match session.check(appended)? {
                AppendResult::At(position) => {
                    Some(EventId { stream: self.number, position }.to_string().into())
                }
                _ => None,
            })
        }
        .boxed()
    }
}
