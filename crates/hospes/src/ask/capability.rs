//! What a client must have declared to be asked.

use hospes_model::{ClientCapabilities, ElicitParams, InputRequest, RpcError, code};
use serde_json::{Value, json};

/// `-32021` naming what the client did not declare (MRTR-05, ELIC-03, SAMP-31).
pub(super) fn require(request: &InputRequest, declared: &ClientCapabilities) -> Result<(), RpcError> {
    let (has, what, required) = match request {
        InputRequest::Elicit(params) if matches!(**params, ElicitParams::Url(_)) => {
            (declared.elicits_urls(), "elicitation by URL", json!({ "elicitation": { "url": {} } }))
        }
        InputRequest::Elicit(_) => {
            (declared.elicits_forms(), "elicitation by form", json!({ "elicitation": { "form": {} } }))
        }
        InputRequest::CreateMessage(params) if !params.tools.is_empty() || params.tool_choice.is_some() => {
            (declared.samples_with_tools(), "sampling with tools", json!({ "sampling": { "tools": {} } }))
        }
        InputRequest::CreateMessage(_) => {
            (declared.sampling.is_some(), "sampling", json!({ "sampling": {} }))
        }
        InputRequest::ListRoots(_) => (declared.roots.is_some(), "roots", json!({ "roots": {} })),
        _ => (true, "", Value::Null),
    };
    if has {
        return Ok(());
    }
    let message = format!("this needs a client capability that was not declared: {what}");
    let data = json!({ "requiredCapabilities": required });
    Err(RpcError::new(code::MISSING_CLIENT_CAPABILITY, message).with_data(&data))
}
