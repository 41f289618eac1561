//! The answer to a request whose outcome is not known: its process ended after it had the request.

use hospes_model::{Method, RequestId};
use serde_json::json;
use serde_json::value::RawValue;

use crate::transport::adapter::outcome_unknown::MESSAGE;

/// Request that has no answer.
pub(super) struct OpenRequest<'a> {
    id: &'a RequestId,
    method: &'a str,
}

impl<'a> OpenRequest<'a> {
    pub(super) fn new(id: &'a RequestId, method: &'a str) -> Self {
        Self { id, method }
    }
}

/// Form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    /// Revisions with sessions.
    Legacy,
    /// An array of them, for a batch of 2025-03-26.
    LegacyBatch,
    /// 2026-07-28, whose results name their type.
    Modern,
}

/// Returns the answers to requests as a body; `None` if there is no request.
pub(super) fn body(open: &[OpenRequest<'_>], form: AnswerForm) -> Option<Vec<u8>> {
    let answers = open.iter().map(|open| {
        let id = serde_json::to_string(open.id).unwrap_or_default();
        answer(&id, open.method, form)
    });
    let mut answers: Vec<Vec<u8>> = answers.collect();
    if form != AnswerForm::LegacyBatch {
        return answers.pop();
    }
    let mut text = vec![b'['];
    text.extend_from_slice(&answers.join(&b','));
    text.push(b']');
    (!answers.is_empty()).then_some(text)
}

/// Returns the answer to the request whose id has this JSON text. Models see results of tools and rarely errors, so that
/// a tool has failed, with a mark for programs in `_meta`.
pub(super) fn answer(id: &str, method: &str, form: AnswerForm) -> Vec<u8> {
    let id = serde_json::from_str::<&RawValue>(id).ok();
    let answer = if method == Method::ToolsCall.name() {
        let mut result = json!({
            "content": [{"type": "text", "text": MESSAGE}], "isError": true, "_meta": {"outcome": "unknown"},
        });
        if form == AnswerForm::Modern {
            result["resultType"] = json!("complete");
        }
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    } else {
        let data = json!({"outcome": "unknown"});
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": MESSAGE, "data": data}})
    };
    serde_json::to_vec(&answer).unwrap_or_default()
}
