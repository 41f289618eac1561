//! One session in memory: its record, entries and streams.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::relay::RelayError;
use crate::session::{
    EntryKind, NewSession, RelaySession, SessionChange, SessionEntry, SessionOwner, SessionState,
};
use crate::settings::RelaySettings;
use crate::stream::{
    AppendResult, EventKind, EventPage, EventPosition, NewEvent, NewStream, PendingAnswer, StoredEvent,
    StreamKind, StreamNumber, StreamSummary,
};

/// Session of a [`MemoryStore`](super::MemoryStore). Its methods expect that the caller owns it.
#[derive(Debug)]
pub(super) struct MemorySession {
    pub(super) owner: SessionOwner,
    pub(super) state: SessionState,
    pub(super) version: u32,
    pub(super) lifetime: Duration,
    body: Vec<u8>,
    entries: BTreeMap<(EntryKind, Vec<u8>), Vec<u8>>,
    streams: BTreeMap<StreamNumber, MemoryStream>,
    settings: RelaySettings,
}

#[derive(Debug)]
struct MemoryStream {
    kind: StreamKind,
    last: EventPosition,
    /// Position of the last event that was dropped.
    trimmed: EventPosition,
    events: VecDeque<StoredEvent>,
    bytes: usize,
    pending: BTreeMap<Box<str>, Vec<u8>>,
}

impl MemorySession {
    pub(super) fn new(
        owner: SessionOwner,
        new: &NewSession,
        lifetime: Duration,
        settings: &RelaySettings,
    ) -> Self {
        Self {
            owner,
            state: new.state,
            version: new.version,
            lifetime,
            body: new.body.clone(),
            entries: BTreeMap::new(),
            streams: BTreeMap::new(),
            settings: settings.clone(),
        }
    }

    pub(super) fn record(&self) -> RelaySession {
        RelaySession { owner: self.owner, state: self.state, version: self.version, body: self.body.clone() }
    }

    /// Applies all changes or none.
    pub(super) fn change(&mut self, changes: &[SessionChange], _now: Instant) -> Result<(), RelayError> {
        let mut added = 0;
        for change in changes {
            match change {
                SessionChange::State(state) if *state < self.state => return Err(RelayError::Gone),
                SessionChange::Put(entry) => {
                    self.settings.limits.check_payload(entry.key.len() + entry.value.len())?;
                    added += usize::from(!self.entries.contains_key(&(entry.kind, entry.key.clone())));
                }
                SessionChange::Body(body) => self.settings.limits.check_payload(body.len())?,
                SessionChange::State(_) | SessionChange::Remove { .. } => (),
            }
        }
        if added > 0 && self.entries.len() + added > self.settings.limits.max_session_entries {
            return Err(self.settings.limits.entries_exceeded());
        }
        for change in changes {
            match change {
                SessionChange::State(state) => self.state = *state,
                SessionChange::Body(body) => self.body.clone_from(body),
                SessionChange::Put(SessionEntry { kind, key, value }) => {
                    self.entries.insert((*kind, key.clone()), value.clone());
                }
                SessionChange::Remove { kind, key } => {
                    self.entries.remove(&(*kind, key.clone()));
                }
            }
        }
        if self.state == SessionState::Closed {
            self.lifetime = self.settings.tombstone;
            self.body.clear();
            self.entries.clear();
            self.streams.clear();
        }
        Ok(())
    }

    pub(super) fn entries(&self) -> Vec<SessionEntry> {
        let entries = self.entries.iter();
        entries.map(|((kind, key), value)| SessionEntry::new(*kind, key.clone(), value.clone())).collect()
    }

    pub(super) fn open_stream(&mut self, new: &NewStream) -> Result<EventPosition, RelayError> {
        let limits = &self.settings.limits;
        new.pending
            .iter()
            .try_for_each(|pending| limits.check_payload(pending.request.len() + pending.detail.len()))?;
        if let Some(stream) = self.streams.get(&new.number) {
            return Ok(stream.last);
        }
        let pending: usize = self.streams.values().map(|stream| stream.pending.len()).sum();
        if pending + new.pending.len() > limits.max_pending_answers {
            return Err(limits.pending_exceeded());
        }
        if self.streams.len() >= limits.max_streams {
            // A stream of changes never ends. Without a bound of their own they would leave no room for those that answer.
            let listening = self.streams.values().filter(|stream| stream.kind == StreamKind::Listen).count();
            let excess = if listening > (limits.max_streams / 4).max(1) {
                self.droppable(StreamKind::Listen)
            } else {
                None
            };
            let dropped = excess
                .or_else(|| self.droppable(StreamKind::Requests))
                .or_else(|| self.droppable(StreamKind::Listen));
            self.streams.remove(&dropped.ok_or_else(|| limits.streams_exceeded())?);
        }
        let pending = new.pending.iter().map(|pending| (pending.request.clone(), pending.detail.clone()));
        let stream = MemoryStream {
            kind: new.kind,
            last: EventPosition::default(),
            trimmed: EventPosition::default(),
            events: VecDeque::new(),
            bytes: 0,
            pending: pending.collect(),
        };
        self.streams.insert(new.number, stream);
        Ok(EventPosition::default())
    }

    /// Oldest stream of this kind without pending answers.
    fn droppable(&self, kind: StreamKind) -> Option<StreamNumber> {
        let mut streams = self.streams.iter();
        streams
            .find(|(_, stream)| stream.kind == kind && stream.pending.is_empty())
            .map(|(number, _)| *number)
    }

    pub(super) fn streams(&self) -> Vec<StreamSummary> {
        let summary = |(number, stream): (&StreamNumber, &MemoryStream)| {
            let pending = stream.pending.iter();
            let pending =
                pending.map(|(request, detail)| PendingAnswer::new(request, detail.clone())).collect();
            StreamSummary::new(*number, stream.kind, stream.last, pending)
        };
        self.streams.iter().map(summary).collect()
    }

    pub(super) fn append(
        &mut self,
        number: StreamNumber,
        event: &NewEvent<'_>,
    ) -> Result<AppendResult, RelayError> {
        let limits = &self.settings.limits;
        limits.check_payload(event.payload.len())?;
        let stream = self.streams.get_mut(&number).ok_or(RelayError::Gone)?;
        let position = EventPosition { epoch: self.owner.epoch, sequence: event.sequence };
        if event.sequence <= stream.last.sequence {
            return Ok(AppendResult::At(position));
        }
        let expected = stream.last.sequence + 1;
        if event.sequence != expected {
            return Err(RelayError::OutOfOrder { expected });
        }
        let is_answer = match event.kind {
            EventKind::Message => false,
            EventKind::Answer(request) if stream.pending.remove(request).is_none() => {
                return Ok(AppendResult::AlreadyAnswered);
            }
            EventKind::Answer(_) => true,
        };
        stream.last = position;
        stream.bytes += event.payload.len();
        stream.events.push_back(StoredEvent::new(position, is_answer, event.payload.to_vec()));
        while stream.events.len() > limits.max_stream_events
            || (stream.bytes > limits.max_stream_bytes && stream.events.len() > 1)
        {
            let Some(dropped) = stream.events.pop_front() else { break };
            stream.bytes -= dropped.payload.len();
            stream.trimmed = dropped.position;
        }
        Ok(AppendResult::At(position))
    }

    pub(super) fn page(&self, number: StreamNumber, after: EventPosition, max: usize) -> Option<EventPage> {
        let stream = self.streams.get(&number)?;
        let events = stream.events.iter().filter(|event| event.position > after).take(max).cloned();
        Some(EventPage::new(events.collect(), after < stream.trimmed))
    }
}
