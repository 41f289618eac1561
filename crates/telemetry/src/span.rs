//! Spans, and the tracer that begins them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::attribute::{AttributeKey, AttributeValue};
use crate::queue::RecordQueue;
use crate::sampler::TraceSampler;
use crate::trace_context::{TraceContext, random_trace_id};

/// Maximum number of events of one span.
const MAX_EVENTS: usize = 32;
/// Maximum number of links of one span.
const MAX_LINKS: usize = 4;

/// Side of an operation that a span describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpanKind {
    /// The host answers an application.
    Server,
    /// The host asks a server.
    Client,
    /// A step inside the host.
    Internal,
}

/// A span that has ended.
#[derive(Debug)]
pub(crate) struct SpanRecord {
    pub(crate) context: TraceContext,
    /// Id of the parent, and true if the parent is a span of another process.
    pub(crate) parent: Option<(u64, bool)>,
    pub(crate) kind: SpanKind,
    pub(crate) name: Cow<'static, str>,
    pub(crate) begun: SystemTime,
    pub(crate) ended: SystemTime,
    pub(crate) attributes: Vec<(AttributeKey, AttributeValue)>,
    pub(crate) events: Vec<SpanEvent>,
    pub(crate) links: Vec<TraceContext>,
}

#[derive(Debug)]
pub(crate) struct SpanEvent {
    pub(crate) name: &'static str,
    pub(crate) at: SystemTime,
    pub(crate) attributes: Vec<(AttributeKey, AttributeValue)>,
}

/// Parent of a new span.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum SpanParent<'a> {
    /// The span is the first one of its trace.
    None,
    /// A span of this process.
    Local(&'a TraceContext),
    /// A span of another process.
    Remote(&'a TraceContext),
}

/// Begins spans. Cheap to clone.
#[derive(Clone)]
pub struct SpanTracer(Arc<TracerInner>);

struct TracerInner {
    sampler: TraceSampler,
    queue: Arc<RecordQueue<SpanRecord>>,
}

impl SpanTracer {
    pub(crate) fn new(sampler: TraceSampler, queue: Arc<RecordQueue<SpanRecord>>) -> Self {
        Self(Arc::new(TracerInner { sampler, queue }))
    }

    /// Begins a span. Returns its context, for its children, and the span itself if the trace is recorded.
    #[must_use]
    pub fn begin(&self, kind: SpanKind, parent: SpanParent<'_>) -> (TraceContext, Option<RecordedSpan>) {
        let (above, is_remote) = match parent {
            SpanParent::None => (None, false),
            SpanParent::Local(above) => (Some(above), false),
            SpanParent::Remote(above) => (Some(above), true),
        };
        let trace_id = above.map_or_else(random_trace_id, |above| above.trace_id);
        // Within the process the first span has decided.
        let is_sampled = match parent {
            SpanParent::Local(above) => above.is_sampled(),
            _ => self.0.sampler.samples(trace_id, above),
        };
        let context = TraceContext::next(above, is_sampled, trace_id);
        if !is_sampled {
            return (context, None);
        }
        let now = SystemTime::now();
        let record = SpanRecord {
            context: context.clone(),
            parent: above.map(|above| (above.span_id, is_remote)),
            kind,
            name: Cow::Borrowed(""),
            begun: now,
            ended: now,
            attributes: Vec::new(),
            events: Vec::new(),
            links: Vec::new(),
        };
        let span =
            RecordedSpan { record: Some(Box::new(record)), tracer: self.clone(), clock: Instant::now() };
        (context, Some(span))
    }
}

impl fmt::Debug for SpanTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("sampler", &self.0.sampler).finish_non_exhaustive()
    }
}

/// A span that runs. It ends when it is dropped.
#[derive(Debug)]
pub struct RecordedSpan {
    /// Always set, until the span is dropped.
    record: Option<Box<SpanRecord>>,
    tracer: SpanTracer,
    /// Clock that is not set back.
    clock: Instant,
}

impl RecordedSpan {
    /// Sets the name.
    pub fn set_name(&mut self, name: impl Into<Cow<'static, str>>) {
        self.change(|record| record.name = name.into());
    }

    /// Sets an attribute.
    pub fn set(&mut self, key: AttributeKey, value: AttributeValue) {
        self.change(|record| match record.attributes.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => record.attributes.push((key, value)),
        });
    }

    /// Links the span to another one.
    pub fn link(&mut self, other: TraceContext) {
        self.change(|record| {
            if record.links.len() < MAX_LINKS {
                record.links.push(other);
            }
        });
    }

    /// Adds an event that happens now.
    pub fn event(&mut self, name: &'static str, key: AttributeKey, value: AttributeValue) {
        let at = self.now();
        self.change(|record| {
            if record.events.len() < MAX_EVENTS {
                record.events.push(SpanEvent { name, at, attributes: vec![(key, value)] });
            }
        });
    }

    /// Ends the span at an earlier time.
    pub fn end_at(mut self, end: Instant) {
        self.finish(end);
    }

    fn now(&self) -> SystemTime {
        self.at(Instant::now())
    }

    /// Returns the time of day of an instant, which does not come before the beginning.
    fn at(&self, instant: Instant) -> SystemTime {
        let begun = self.record.as_ref().map_or_else(SystemTime::now, |record| record.begun);
        begun.checked_add(instant.saturating_duration_since(self.clock)).unwrap_or(begun)
    }

    fn change(&mut self, change: impl FnOnce(&mut SpanRecord)) {
        if let Some(record) = &mut self.record {
            change(record);
        }
    }

    fn finish(&mut self, end: Instant) {
        let ended = self.at(end);
        if let Some(mut record) = self.record.take() {
            record.ended = ended;
            self.tracer.0.queue.push(*record);
        }
    }
}

impl Drop for RecordedSpan {
    fn drop(&mut self) {
        self.finish(Instant::now());
    }
}
