//! Answer to a call whose outcome is unknown.

use hospes::Outcome;
use hospes_model::{CallToolResult, Meta, Method, RpcError};
use serde_json::json;

/// Returns the outcome of a call whose connection ended before its answer. It may have taken effect, so it is not sent
/// again, and the client is not asked to send it again. Models see results of tools and rarely errors.
pub(crate) fn lost_call(method: &Method, what_ended: &str) -> Outcome {
    let why = format!("{what_ended}. It may or may not have taken effect; check before repeating it.");
    match method {
        Method::ToolsCall => {
            let mark = Meta::new().with("outcome", "unknown");
            Outcome::Complete(CallToolResult::error(why).with_meta(mark).into())
        }
        _ => Outcome::Failed(RpcError::internal(why).with_data(&json!({ "outcome": "unknown" }))),
    }
}
