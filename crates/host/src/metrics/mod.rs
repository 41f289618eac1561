//! Metrics of the host, in the text format of Prometheus.
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
mod registry;
mod server_operation;
mod tool_error;

pub(crate) use call_clock::excluded;
pub(crate) use connection_metrics::ConnectionMetrics;
pub use registry::METRICS_CONTENT_TYPE;
pub(crate) use registry::{CurrentValues, HostMetrics};
pub(crate) use tool_error::is_tool_error;
