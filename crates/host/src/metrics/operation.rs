//! One operation, and how it ends.

use std::sync::Arc;
use std::time::Instant;

use hospes::{Call, Outcome};
use hospes_model::{Method, Revision, RpcError, code};

use super::histogram::nanos;
use super::labels::LabelValue;
use super::operation_span::OperationSpan;
use super::registry::HostMetrics;
use super::tool_error::is_tool_error;

/// Labels of operations.
pub(super) const OPERATION_LABELS: [&str; 9] = [
    "mcp_method_name",
    "error_type",
    "rpc_response_status_code",
    "gen_ai_tool_name",
    "gen_ai_prompt_name",
    "gen_ai_operation_name",
    "mcp_protocol_version",
    "network_transport",
    "server",
];

const TOOL_ERROR: &str = "tool_error";
const CANCELLED: &str = "cancelled";
const UNANSWERED: &str = "unanswered";

/// Values of the label of the transport.
pub(super) const TCP: LabelValue = LabelValue::Fixed("tcp");
pub(super) const PIPE: LabelValue = LabelValue::Fixed("pipe");

/// The side of the host at which an operation runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum OperationSide {
    /// An application asks the host.
    Server,
    /// The host asks the server of this name.
    Client(LabelValue),
}

/// One operation. It is recorded when it is dropped, as cancelled unless it has ended before.
#[derive(Debug)]
pub(super) struct RunningOperation {
    metrics: Arc<HostMetrics>,
    side: OperationSide,
    method: LabelValue,
    /// Name of the tool or prompt, as far as the table knows it.
    tool: LabelValue,
    prompt: LabelValue,
    is_tool_call: bool,
    revision: Revision,
    transport: LabelValue,
    begun: Instant,
    /// Class of the error, and code of the answer.
    ending: (LabelValue, LabelValue),
    /// Time of the last questions, while they are not answered.
    asked: Option<Instant>,
    /// Set if spans are exported.
    span: Option<OperationSpan>,
}

impl RunningOperation {
    pub(super) fn begin(
        metrics: &Arc<HostMetrics>,
        call: &Call,
        (side, revision, transport): (OperationSide, Revision, LabelValue),
    ) -> Self {
        let name = call.params.view().name.as_deref();
        let named = |wanted: &Method| match name {
            Some(name) if call.method == *wanted => metrics.names.value(name),
            _ => LabelValue::Absent,
        };
        let method = match &call.method {
            // The adapter asks for this to answer `initialize`.
            Method::Discover if revision.is_legacy() => LabelValue::Fixed("initialize"),
            method => method.info().map_or(LabelValue::OTHER, |info| LabelValue::Fixed(info.name)),
        };
        Self {
            metrics: Arc::clone(metrics),
            side,
            method,
            tool: named(&Method::ToolsCall),
            prompt: named(&Method::PromptsGet),
            is_tool_call: call.method == Method::ToolsCall,
            revision,
            transport,
            begun: Instant::now(),
            ending: (LabelValue::Fixed(CANCELLED), LabelValue::Absent),
            asked: None,
            span: metrics.tracer().map(|tracer| OperationSpan::begin(tracer, call, side)),
        }
    }

    /// Returns the span, if spans are exported.
    pub(super) fn span(&self) -> Option<&OperationSpan> {
        self.span.as_ref()
    }

    /// Returns the span to add attributes, if the trace is recorded.
    pub(super) fn span_mut(&mut self) -> Option<&mut OperationSpan> {
        self.span.as_mut()
    }

    pub(super) fn metrics(&self) -> &HostMetrics {
        &self.metrics
    }

    /// Notes that the operation waits for answers to its questions. If it is dropped meanwhile, it has ended with them,
    /// because it may be kept for longer than anybody answers.
    pub(super) fn wait_for_answers(&mut self) {
        self.asked = Some(Instant::now());
        self.ending = (LabelValue::Fixed(UNANSWERED), LabelValue::Absent);
    }

    /// Notes that the questions are answered.
    pub(super) fn resume(mut self) -> Self {
        self.asked = None;
        self.ending = (LabelValue::Fixed(CANCELLED), LabelValue::Absent);
        self
    }

    pub(super) fn finish(&mut self, outcome: &Outcome) {
        self.ending = match outcome {
            Outcome::Failed(error) => {
                let code = code_text(error);
                (code, code)
            }
            Outcome::Complete(reply) if is_tool_error(reply) => {
                (LabelValue::Fixed(TOOL_ERROR), LabelValue::Absent)
            }
            Outcome::Complete(_) | Outcome::InputRequired(_) => (LabelValue::Absent, LabelValue::Absent),
        };
    }
}

impl Drop for RunningOperation {
    fn drop(&mut self) {
        let end = self.asked.unwrap_or_else(Instant::now);
        let elapsed = nanos(end.saturating_duration_since(self.begun));
        let (error, code) = self.ending;
        let kind = if self.is_tool_call { LabelValue::Fixed("execute_tool") } else { LabelValue::Absent };
        let revision = LabelValue::Fixed(self.revision.as_str());
        let (family, server) = match self.side {
            OperationSide::Server => (&self.metrics.server_operations, LabelValue::Absent),
            OperationSide::Client(server) => (&self.metrics.client_operations, server),
        };
        let labels =
            [self.method, error, code, self.tool, self.prompt, kind, revision, self.transport, server];
        family.with(labels, |histogram| histogram.observe(elapsed));
        if let Some(span) = self.span.take() {
            span.end(&self.metrics.names, &labels, end);
        }
    }
}

/// Returns the code of an error, if it is one that a specification defines. Servers may send any number.
fn code_text(error: &RpcError) -> LabelValue {
    let text = match error.code {
        code::PARSE_ERROR => "-32700",
        code::INVALID_REQUEST => "-32600",
        code::METHOD_NOT_FOUND => "-32601",
        code::INVALID_PARAMS => "-32602",
        code::INTERNAL_ERROR => "-32603",
        -32000 => "-32000",
        -32001 => "-32001",
        -32002 => "-32002",
        -32003 => "-32003",
        -32004 => "-32004",
        -32020 => "-32020",
        -32021 => "-32021",
        -32022 => "-32022",
        -32042 => "-32042",
        _ => return LabelValue::OTHER,
    };
    LabelValue::Fixed(text)
}
