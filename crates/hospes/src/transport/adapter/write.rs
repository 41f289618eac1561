//! Writes what exchanges say in the words of a revision.

use std::borrow::Cow;

use hospes_model::{
    CallToolResult, ContentBlock, InputRequest, InputRequiredResult, Method, Notification, RawJson, Reply,
    RequestId, ResourceBody, ResourceContents, Revision, RpcError, ServerStamp, encode_error, message,
};

/// Appends an answer. Whatever goes wrong, exactly one is appended. Returns the error's code, if it is an error.
pub(super) fn reply(
    out: &mut Vec<u8>,
    id: &RequestId,
    method: &Method,
    revision: Revision,
    stamp: &ServerStamp,
    reply: &Reply,
) -> Option<i64> {
    let written = message::write_result(out, id, |out| reply.encode(method, revision, stamp, out));
    match written {
        Ok(()) => None,
        Err(why) => {
            tracing::error!(%method, %why, "cannot serialize a result");
            let error = RpcError::internal(format!("cannot serialize the result: {why}"));
            Some(self::error(out, Some(id), method, revision, error))
        }
    }
}

/// About how long a reply is where it may be long: so that room for it need not be made bit by bit.
pub(super) fn estimated_length(reply: &Reply) -> usize {
    const ENVELOPE_BYTES: usize = 1024;
    let text = match reply {
        Reply::CallTool(result) => result.content.iter().map(block_length).sum(),
        Reply::ReadResource(result) => result.contents.iter().map(contents_length).sum(),
        Reply::Raw { json, .. } => json.as_bytes().len(),
        _ => 0,
    };
    text + ENVELOPE_BYTES
}

fn block_length(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text(text) => text.text.len(),
        ContentBlock::Image(image) => image.data.len(),
        ContentBlock::Audio(audio) => audio.data.len(),
        ContentBlock::Resource(embedded) => contents_length(&embedded.resource),
        _ => 0,
    }
}

fn contents_length(contents: &ResourceContents) -> usize {
    match &contents.body {
        ResourceBody::Text(text) | ResourceBody::Blob(text) => text.len(),
    }
}

/// Appends the questions of a round (2026-07-28). Returns the error's code, if there was one.
pub(super) fn questions(
    out: &mut Vec<u8>,
    id: &RequestId,
    method: &Method,
    stamp: &ServerStamp,
    requests: Vec<(String, InputRequest)>,
    state: String,
) -> Option<i64> {
    let mut result = InputRequiredResult::new().with_request_state(state);
    result.input_requests = requests.into_iter().collect();
    match message::write_result(out, id, |out| result.encode(stamp, out)) {
        Ok(()) => None,
        Err(why) => {
            let error = RpcError::internal(format!("cannot serialize the input requests: {why}"));
            Some(self::error(out, Some(id), method, Revision::LATEST, error))
        }
    }
}

/// Appends an error answer in the shape of `revision` and returns its code.
pub(crate) fn error(
    out: &mut Vec<u8>,
    id: Option<&RequestId>,
    method: &Method,
    revision: Revision,
    error: RpcError,
) -> i64 {
    let error = encode_error(method, revision, error);
    message::write_error(out, id, &error);
    error.code
}

/// Appends a notification; false when the revision has no words for it.
pub(super) fn notification(
    out: &mut Vec<u8>,
    notification: &Notification,
    revision: Revision,
    subscription: Option<&RequestId>,
) -> bool {
    let start = out.len();
    match notification.encode(revision, subscription, out) {
        Ok(said) => said,
        Err(why) => {
            // A message that was written in part would run into the next one.
            out.truncate(start);
            tracing::error!(%why, "cannot serialize a notification");
            false
        }
    }
}

/// Appends a request to the peer.
pub(super) fn request(
    out: &mut Vec<u8>,
    id: i64,
    method: &Method,
    params: &RawJson,
) -> Result<(), serde_json::Error> {
    message::write_request(out, &RequestId::Number(id), method.name(), Some(params))
}

/// Appends the answer that says only that it was done.
pub(super) fn empty(out: &mut Vec<u8>, id: &RequestId) {
    let Ok(()) = message::write_result(out, id, |out| {
        out.extend_from_slice(b"{}");
        Ok::<(), std::convert::Infallible>(())
    });
}

/// Returns the replacement of an answer that is too long to be sent.
pub(super) fn too_long(method: &Method, bytes: usize, limit: usize) -> Result<Reply, RpcError> {
    let why = format!("the answer of {bytes} bytes is over the limit of {limit} (setting max_answer_bytes)");
    if *method == Method::ToolsCall {
        let hint = "; request less data, or a resource that can be read in parts";
        return Ok(Reply::CallTool(CallToolResult::error(format!("{why}{hint}"))));
    }
    Err(RpcError::internal(Cow::Owned(why)))
}
