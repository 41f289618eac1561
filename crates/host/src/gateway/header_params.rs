//! Validation of `Mcp-Param-*` headers against the arguments, by the schema of the tool as it is listed by the gateway.

use hospes::Call;
use hospes_model::{RpcError, Tool};
use hospes_proto::http::HeaderParams;
use serde_json::value::RawValue;

/// Checks that the headers of a call agree with its arguments. Only revision 2026-07-28 has such headers, and only over
/// HTTP. A tool whose annotations are invalid has none (HHDR-29).
///
/// # Errors
/// `-32020`, before anything is forwarded.
pub(super) fn check(call: &Call, tool: Option<&Tool>) -> Result<(), RpcError> {
    let (Some(tool), Some(head)) = (tool, call.context.http()) else { return Ok(()) };
    if call.context.peer().revision.is_legacy() {
        return Ok(());
    }
    let Ok(params) = HeaderParams::from_schema(&tool.input_schema) else { return Ok(()) };
    if params.is_empty() {
        return Ok(());
    }
    let arguments = call.params.raw().members().filter(|member| member.key() == "arguments").last();
    let arguments = arguments.map(|member| member.value());
    let arguments: Option<&RawValue> = arguments.as_ref().and_then(|arguments| arguments.decode().ok());
    params.check(arguments, &head.headers)
}
