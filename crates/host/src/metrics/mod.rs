//! Metrics of the host, in the text format of Prometheus and for OTLP, and its spans.
//!
//! Labels have values of closed sets, and names of the configuration and of catalogues. There is no principal, session,
//! URI, address, argument or message in them: [`LabelValue`](labels::LabelValue) has no other constructors. The number
//! of series of each metric is bounded.

mod call_clock;
mod connection_metrics;
mod family;
mod histogram;
mod labels;
mod operation;
mod operation_span;
mod otlp_names;
mod registry;
mod server_operation;
mod source_collector;
mod tool_error;

pub use call_clock::current_trace;
pub(crate) use call_clock::{begin_step, excluded};
pub(crate) use connection_metrics::{ConnectionMetrics, ServerAddress};
pub use registry::METRICS_CONTENT_TYPE;
pub(crate) use registry::{CurrentValues, HostMetrics};
pub(crate) use tool_error::is_tool_error;
