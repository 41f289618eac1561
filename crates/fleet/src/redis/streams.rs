//! Streams of events in Redis.

use std::collections::BTreeMap;

use ::redis::Value;

use super::records::EventPlace;
use super::reply::{ScriptReply, UNEXPECTED, pairs, parts};
use super::{RedisRelay, records, scripts};
use crate::relay::RelayError;
use crate::session::{SessionKey, SessionOwner};
use crate::stream::{
    AppendResult, EventKind, EventPage, EventPosition, NewEvent, NewStream, PendingAnswer, StoredEvent,
    StreamKind, StreamNumber, StreamSummary,
};

impl RedisRelay {
    pub(super) async fn open_session_stream(
        &self,
        session: &SessionKey,
        me: SessionOwner,
        stream: &NewStream,
    ) -> Result<EventPosition, RelayError> {
        let limits = &self.settings.relay.limits;
        let kind = match stream.kind {
            StreamKind::Requests => "r",
            StreamKind::Listen => "l",
        };
        let head = [
            me.node.to_string(),
            me.epoch.to_string(),
            stream.number.to_string(),
            kind.to_owned(),
            limits.max_streams.to_string(),
            limits.max_pending_answers.to_string(),
        ];
        // By field: a request that is named twice is pending once.
        let mut pending = BTreeMap::new();
        for answer in &stream.pending {
            limits.check_payload(answer.request.len() + answer.detail.len())?;
            let field = records::pending_field(session, stream.number, &answer.request);
            let sealed = records::seal_pending(&self.keys, session, &field, answer);
            pending.insert(field, sealed);
        }
        let mut arguments: Vec<&[u8]> = head.iter().map(String::as_bytes).collect();
        for (field, sealed) in &pending {
            arguments.extend([field.as_bytes(), sealed.as_slice()]);
        }
        let link = self.data_link(session.as_bytes());
        let reply =
            link.script(&scripts::OPEN_STREAM, &[&self.keyspace.session(session)], &arguments).await?;
        match reply.word()? {
            "pending" => Err(limits.pending_exceeded()),
            "streams" => Err(limits.streams_exceeded()),
            _ => EventPosition::parse(reply.text(1)?).ok_or(UNEXPECTED),
        }
    }

    pub(super) async fn session_streams(
        &self,
        session: &SessionKey,
    ) -> Result<Vec<StreamSummary>, RelayError> {
        let link = self.data_link(session.as_bytes());
        let mut reply = link.script(&scripts::STREAMS, &[&self.keyspace.session(session)], &[]).await?;
        let (fields, sealed) = (pairs(reply.take(0))?, pairs(reply.take(1))?);
        let mut pending: BTreeMap<StreamNumber, Vec<PendingAnswer>> = BTreeMap::new();
        for (field, sealed) in sealed {
            let number = field.split_once(':').and_then(|(stream, _)| StreamNumber::parse(stream));
            let answer = records::open_pending(&self.keys, session, &field, &sealed)?;
            pending.entry(number.ok_or(UNEXPECTED)?).or_default().push(answer);
        }
        let fields: BTreeMap<_, _> = fields.into_iter().collect();
        let mut streams = Vec::new();
        for (field, kind) in &fields {
            let Some(name) = field.strip_suffix(":kind") else { continue };
            let number = StreamNumber::parse(name).ok_or(UNEXPECTED)?;
            let last = fields.get(&format!("{name}:last")).and_then(|last| std::str::from_utf8(last).ok());
            let last = last.and_then(EventPosition::parse).ok_or(UNEXPECTED)?;
            let kind = if kind == b"l" { StreamKind::Listen } else { StreamKind::Requests };
            let mut pending = pending.remove(&number).unwrap_or_default();
            pending.sort_unstable();
            streams.push(StreamSummary::new(number, kind, last, pending));
        }
        streams.sort_unstable_by_key(|stream| stream.number);
        Ok(streams)
    }

    pub(super) async fn append_event(
        &self,
        session: &SessionKey,
        me: SessionOwner,
        stream: StreamNumber,
        event: &NewEvent<'_>,
    ) -> Result<AppendResult, RelayError> {
        let limits = &self.settings.relay.limits;
        limits.check_payload(event.payload.len())?;
        let position = EventPosition { epoch: me.epoch, sequence: event.sequence };
        let (kind, field) = match event.kind {
            EventKind::Message => (b"m", String::new()),
            EventKind::Answer(request) => (b"a", records::pending_field(session, stream, request)),
        };
        let place = EventPlace { session, stream, position, is_answer: kind == b"a" };
        let sealed = place.seal(&self.keys, event.payload);
        let head =
            [me.node.to_string(), me.epoch.to_string(), stream.to_string(), event.sequence.to_string()];
        let bounds = [limits.max_stream_events.to_string(), limits.max_stream_bytes.to_string()];
        let mut arguments: Vec<&[u8]> = head.iter().map(String::as_bytes).collect();
        arguments.extend([kind.as_slice(), field.as_bytes(), &sealed]);
        arguments.extend(bounds.iter().map(String::as_bytes));
        let link = self.data_link(session.as_bytes());
        let reply = link.script(&scripts::APPEND, &[&self.keyspace.session(session)], &arguments).await?;
        match reply.word()? {
            "answered" => Ok(AppendResult::AlreadyAnswered),
            _ => Ok(AppendResult::At(position)),
        }
    }

    pub(super) async fn read_events(
        &self,
        session: &SessionKey,
        stream: StreamNumber,
        after: EventPosition,
        max: usize,
    ) -> Result<Option<EventPage>, RelayError> {
        let arguments = [stream.to_string(), after.to_string(), max.to_string()];
        let arguments: Vec<_> = arguments.iter().map(String::as_bytes).collect();
        let link = self.data_link(session.as_bytes());
        let mut reply = link.script(&scripts::READ, &[&self.keyspace.session(session)], &arguments).await?;
        if reply.is_empty() {
            return self.check_recovered(session).await.map(|()| None);
        }
        let last = EventPosition::parse(reply.text(0)?).ok_or(UNEXPECTED)?;
        let trimmed = EventPosition::parse(reply.text(1)?).ok_or(UNEXPECTED)?;
        let mut events = Vec::new();
        for event in parts(reply.take(2))? {
            events.push(self.stored_event(session, stream, event)?);
        }
        // The events of a stream can expire before the stream does, if its owner does not extend them.
        let is_lost = max > 0 && events.is_empty() && after < last;
        Ok(Some(EventPage::new(events, after < trimmed || is_lost)))
    }

    /// Event as Redis lists it: an id, and pairs of fields and values.
    fn stored_event(
        &self,
        session: &SessionKey,
        stream: StreamNumber,
        event: Value,
    ) -> Result<StoredEvent, RelayError> {
        let mut event = ScriptReply::read(event)?;
        let position = EventPosition::parse(event.text(0)?).ok_or(UNEXPECTED)?;
        let fields = pairs(event.take(1))?;
        let value = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value);
        let (Some(kind), Some(sealed)) = (value("k"), value("d")) else { return Err(UNEXPECTED) };
        let place = EventPlace { session, stream, position, is_answer: kind == b"a" };
        Ok(StoredEvent::new(position, place.is_answer, place.open(&self.keys, sealed)?))
    }
}
