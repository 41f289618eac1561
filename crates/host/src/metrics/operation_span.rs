//! Span of one operation.

use std::borrow::Cow;
use std::time::Instant;

use hospes::{Call, Context, Params};
use hospes_model::RawJson;
use hospes_model::meta_key::{BAGGAGE, TRACEPARENT, TRACESTATE};
use hospes_telemetry::{
    AttributeKey, AttributeValue, RecordedSpan, SpanKind, SpanParent, SpanTracer, TraceContext,
};
use sha2::{Digest as _, Sha256};

use super::call_clock::current_trace;
use super::connection_metrics::ServerAddress;
use super::labels::{LabelValue, NameTable, OTHER};
use super::operation::{OPERATION_LABELS, OperationSide};

/// Attributes of a span for the labels of a metric, in their order.
const KEYS: [AttributeKey; OPERATION_LABELS.len()] = [
    AttributeKey::McpMethodName,
    AttributeKey::ErrorType,
    AttributeKey::RpcResponseStatusCode,
    AttributeKey::GenAiToolName,
    AttributeKey::GenAiPromptName,
    AttributeKey::GenAiOperationName,
    AttributeKey::McpProtocolVersion,
    AttributeKey::NetworkTransport,
    AttributeKey::HospesServer,
];
/// Positions of labels that are part of the span's name.
const METHOD: usize = 0;
const TOOL: usize = 3;
const PROMPT: usize = 4;

/// Header with the id of a session.
const SESSION_HEADER: &str = "mcp-session-id";

/// Span of an operation, and its context if the trace is not recorded.
#[derive(Debug)]
pub(super) struct OperationSpan {
    tracer: SpanTracer,
    context: TraceContext,
    span: Option<RecordedSpan>,
}

impl OperationSpan {
    /// Begins the span of a call.
    pub(super) fn begin(tracer: &SpanTracer, call: &Call, side: OperationSide) -> Self {
        let (context, span) = match side {
            OperationSide::Server => begin_server(tracer, call),
            // The call of the application, or one that no application has made.
            OperationSide::Client(_) => {
                let parent = current_trace();
                tracer.begin(SpanKind::Client, parent.as_ref().map_or(SpanParent::None, SpanParent::Local))
            }
        };
        Self { tracer: tracer.clone(), context, span }
    }

    /// Returns what belongs to the call from now on.
    pub(super) fn current(&self) -> (SpanTracer, TraceContext) {
        (self.tracer.clone(), self.context.clone())
    }

    /// Sets the address of the server that is called.
    pub(super) fn set_address(&mut self, address: &ServerAddress) {
        if let Some(span) = &mut self.span {
            span.set(AttributeKey::ServerAddress, AttributeValue::name(address.host.clone()));
            span.set(AttributeKey::ServerPort, AttributeValue::number(address.port.into()));
            span.set(AttributeKey::NetworkProtocolName, AttributeValue::fixed("http"));
        }
    }

    /// Returns the params with the context of this span in their `_meta`, and without baggage. `None` if they can be sent
    /// as they are: a trace that is not recorded stays that of the application.
    pub(super) fn sent_params(&self, params: &Params) -> Option<RawJson> {
        let meta = params.view().meta.as_ref();
        let has_baggage = || {
            let found = meta.is_some_and(|meta| memchr::memmem::find(meta.as_bytes(), b"baggage").is_some());
            found && meta.is_some_and(|meta| meta.members().any(|member| member.key() == BAGGAGE))
        };
        if self.span.is_none() && !has_baggage() {
            return None;
        }
        let context = self.span.is_some().then_some(&self.context);
        let mut out = vec![b'{'];
        for member in params.raw().members().filter(|member| member.key() != "_meta") {
            member.write(&mut out);
        }
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(b"\"_meta\":");
        out.extend_from_slice(&written_meta(meta, context));
        out.push(b'}');
        RawJson::parse(out).ok()
    }

    /// Ends the span with the labels of the operation.
    pub(super) fn end(self, names: &NameTable, labels: &[LabelValue; OPERATION_LABELS.len()], end: Instant) {
        let Some(mut span) = self.span else { return };
        span.set_name(span_name(names, labels));
        for (key, value) in KEYS.into_iter().zip(labels) {
            match value {
                LabelValue::Absent => {}
                LabelValue::Fixed(text) => span.set(key, AttributeValue::fixed(text)),
                LabelValue::Name(_) => {
                    if let Some(text) = names.text(*value) {
                        span.set(key, AttributeValue::name(text));
                    }
                }
            }
        }
        span.end_at(end);
    }
}

/// Returns the method, and the tool or prompt if a catalogue has it.
fn span_name(names: &NameTable, labels: &[LabelValue; OPERATION_LABELS.len()]) -> Cow<'static, str> {
    let method = match labels[METHOD] {
        LabelValue::Fixed(method) => method,
        _ => OTHER,
    };
    let named = [labels[TOOL], labels[PROMPT]].into_iter().find(|value| matches!(value, LabelValue::Name(_)));
    match named.and_then(|value| names.text(value)) {
        Some(name) => Cow::Owned(format!("{method} {name}")),
        None => Cow::Borrowed(method),
    }
}

/// Begins the span of a call of an application. Its parent is in the params; that of the HTTP request is linked.
fn begin_server(tracer: &SpanTracer, call: &Call) -> (TraceContext, Option<RecordedSpan>) {
    // Of the node that has forwarded the request: its span is a child of the application's.
    let forwarded = call.context.extension::<TraceContext>().cloned();
    let parent = forwarded.or_else(|| meta_context(call));
    let (context, span) =
        tracer.begin(SpanKind::Server, parent.as_ref().map_or(SpanParent::None, SpanParent::Remote));
    let Some(mut span) = span else { return (context, None) };
    if let Some(id) = call.context.request_id() {
        span.set(AttributeKey::JsonrpcRequestId, AttributeValue::request_id(&id.to_string()));
    }
    describe_http(&mut span, &call.context);
    (context, Some(span))
}

/// Returns the context of the caller's span in the params.
fn meta_context(call: &Call) -> Option<TraceContext> {
    let meta = call.params.view().meta.as_ref()?;
    let text = |key: &str| meta.members().find(|member| member.key() == key).and_then(|member| member.text());
    TraceContext::parse(&text(TRACEPARENT)?, text(TRACESTATE).as_deref())
}

/// Adds what the HTTP request tells.
fn describe_http(span: &mut RecordedSpan, context: &Context) {
    let Some(parts) = context.http() else { return };
    span.set(AttributeKey::NetworkProtocolName, AttributeValue::fixed("http"));
    let version = match parts.version {
        http::Version::HTTP_2 => "2",
        http::Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    span.set(AttributeKey::NetworkProtocolVersion, AttributeValue::fixed(version));
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(session) = header(SESSION_HEADER) {
        // The id itself is as good as a password.
        let digest = Sha256::digest(session.as_bytes());
        span.set(AttributeKey::McpSessionId, AttributeValue::digest(&digest.into()));
    }
    let linked = header(TRACEPARENT).and_then(|text| TraceContext::parse(text, header(TRACESTATE)));
    if let Some(linked) = linked {
        span.link(linked);
    }
}

/// Writes `_meta` with the context, or with that which it has.
fn written_meta(meta: Option<&RawJson>, context: Option<&TraceContext>) -> Vec<u8> {
    let mut out = vec![b'{'];
    let is_kept =
        |key: &str| key != BAGGAGE && (context.is_none() || key != TRACEPARENT && key != TRACESTATE);
    for member in meta.into_iter().flat_map(RawJson::members).filter(|member| is_kept(&member.key())) {
        member.write(&mut out);
    }
    let mut add = |key: &str, value: &str| {
        if out.len() > 1 {
            out.push(b',');
        }
        // Strings are always encoded.
        let value = serde_json::to_string(value).unwrap_or_default();
        out.extend_from_slice(format!("\"{key}\":{value}").as_bytes());
    };
    if let Some(context) = context {
        add(TRACEPARENT, &context.traceparent());
        if let Some(state) = context.tracestate() {
            add(TRACESTATE, state);
        }
    }
    out.push(b'}');
    out
}
