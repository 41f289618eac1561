//! Outcome of a request that is not known: its process stopped, or lost its session, after it had the request.

use hospes_model::{CallToolResult, Method, RawJson, Reply, RpcError};
use serde_json::json;

use crate::service::Outcome;

/// Message for the client, in words that a model understands.
pub(crate) const MESSAGE: &str = "The server stopped while this call ran. It may or may not have taken effect; check before \
                                  repeating it.";

/// Returns the answer to a request. Models see results of tools and rarely errors, so that a tool has failed, with a mark
/// for programs in `_meta`.
pub(crate) fn outcome(method: &Method) -> Outcome {
    if *method != Method::ToolsCall {
        return Outcome::Failed(RpcError::internal(MESSAGE).with_data(&json!({ "outcome": "unknown" })));
    }
    let mut result = CallToolResult::error(MESSAGE);
    if let Ok(unknown) = RawJson::from_serialize("unknown") {
        result.meta.insert("outcome", unknown);
    }
    Outcome::Complete(Reply::CallTool(result))
}
