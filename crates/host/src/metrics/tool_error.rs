//! Results of tools that report an error.

use std::sync::LazyLock;

use hospes_model::Reply;
use memchr::memmem;

/// Searches for the member of a tool result that reports an error. Made once: for a short result, making it costs more
/// than the search.
static IS_ERROR: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"\"isError\""));

/// Returns true if a tool result reports an error.
pub(crate) fn is_tool_error(reply: &Reply) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolErrorPeek {
        #[serde(default)]
        is_error: bool,
    }
    match reply {
        Reply::CallTool(result) => result.is_error.unwrap_or(false),
        Reply::Raw { json, .. } => {
            // Nearly no result says it, and looking for the word costs less than decoding a large result.
            IS_ERROR.find(json.as_str().as_bytes()).is_some()
                && json.decode::<ToolErrorPeek>().is_ok_and(|said| said.is_error)
        }
        _ => false,
    }
}
