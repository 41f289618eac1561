//! Reading what came back: a status, a body, and what they mean together.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hospes_model::message::{self, Frame, JsonRpcMessage};
use hospes_model::{Method, RawJson, RequestId, code};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use crate::client::error::malformed;
use crate::client::error::{CallError, ConnectStage, HttpFailure, excerpt};
use crate::client::transport::http::pool::{HttpConnection, HttpConnectionPool};

/// Maximum number of bytes read of a body that is not an answer.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;

/// Kind of a response, by its head.
pub(super) enum ResponseKind {
    /// One message.
    Json,
    /// A stream of messages.
    Stream,
    /// No message is expected.
    Other,
}

pub(super) fn response_kind(headers: &HeaderMap) -> ResponseKind {
    let value = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
    // Media types are compared without case and parameters (RFC 9110, section 8.3.1).
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        ResponseKind::Json
    } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
        ResponseKind::Stream
    } else {
        ResponseKind::Other
    }
}

/// Reads a body to its end. Usually it is one piece, which is not copied.
pub(super) async fn read_body(
    body: &mut Incoming,
    headers: &HeaderMap,
    connection: &mut HttpConnection,
    max: usize,
) -> Result<Bytes, CallError> {
    // A length that is too large saves reading the body; one that lies is caught below.
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if let Some(bytes) = declared.filter(|bytes| *bytes > max) {
        return Err(too_large_error(bytes, max));
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        if body.is_end_stream() {
            break;
        }
        let frame = match connection.drive(body.frame()).await {
            None => break,
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Err(broken_error(&format!("the response ended early: {error}"))),
        };
        let Ok(data) = frame.into_data() else { continue };
        let bytes = first.len() + rest.len() + data.len();
        if bytes > max {
            return Err(too_large_error(bytes, max));
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.reserve(declared.unwrap_or(2 * bytes));
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// Reads an unwanted response to its end, so that its connection can be used again.
pub(super) async fn drain_response(
    pool: &Arc<HttpConnectionPool>,
    response: Response<Incoming>,
    mut connection: HttpConnection,
) {
    let (head, mut body) = response.into_parts();
    if read_body(&mut body, &head.headers, &mut connection, MAX_REFUSAL_BYTES).await.is_ok() {
        pool.release(connection);
    }
}

/// The answer that a JSON body holds.
pub(super) fn read_answer(method: &Method, id: i64, body: &Bytes) -> Result<RawJson, CallError> {
    match message::decode(body) {
        Ok(Frame::Single(message)) => {
            match_answer(id, body, message).unwrap_or_else(|| Err(no_answer(method)))
        }
        Ok(Frame::Batch(parts)) => {
            let mut parts = parts.into_iter().filter_map(Result::ok);
            parts
                .find_map(|message| match_answer(id, body, message))
                .unwrap_or_else(|| Err(no_answer(method)))
        }
        Err(error) => Err(malformed(method, &error.error.message)),
    }
}

fn no_answer(method: &Method) -> CallError {
    malformed(method, "it is not a response to this request")
}

/// The outcome that a message brings, if it is the answer to the request `id`. An error without an id belongs to the
/// request whose answer it stands in (the server could not read it, or did not care).
pub(super) fn match_answer(
    id: i64,
    whole: &Bytes,
    message: JsonRpcMessage<'_>,
) -> Option<Result<RawJson, CallError>> {
    let JsonRpcMessage::Response(response) = message else { return None };
    let matches = match &response.id {
        Some(RequestId::Number(number)) => *number == id,
        // All of ours are numbers.
        Some(RequestId::Text(_)) => false,
        None => response.outcome.is_err(),
    };
    matches.then(|| match response.outcome {
        Ok(result) => Ok(RawJson::slice_of(whole, result)),
        Err(error) => Err(CallError::Rpc(error)),
    })
}

/// Reads the error of a response with a status other than success.
pub(super) async fn read_refusal(
    pool: &Arc<HttpConnectionPool>,
    id: i64,
    method: Option<&Method>,
    response: Response<Incoming>,
    mut connection: HttpConnection,
) -> CallError {
    let (head, mut body) = response.into_parts();
    let text = read_body(&mut body, &head.headers, &mut connection, MAX_REFUSAL_BYTES).await;
    let text = match text {
        Ok(text) => {
            pool.release(connection);
            text
        }
        // The connection is not put back: the rest of the body is still on it.
        Err(_) => Bytes::new(),
    };
    let challenge =
        head.headers.get(WWW_AUTHENTICATE).map(|value| String::from_utf8_lossy(value.as_bytes()).into());
    // Who is not let in at all learns that from the status; what else is wrong, from the message.
    let barred = matches!(head.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if !barred
        && matches!(response_kind(&head.headers), ResponseKind::Json)
        && let Ok(Frame::Single(message)) = message::decode(&text)
        && !(method == Some(&Method::Initialize) && is_bare_refusal(head.status, &message))
        && let Some(Err(error)) = match_answer(id, &text, message)
    {
        return error;
    }
    refusal_error(head.status, challenge, &text)
}

/// Returns true if this answer to `initialize` adds nothing to its status: the URL does not take a POST (SSE-12). A
/// server that understood the request gives its id, and a modern server one of its own codes.
fn is_bare_refusal(status: StatusCode, message: &JsonRpcMessage<'_>) -> bool {
    let JsonRpcMessage::Response(response) = message else { return false };
    let Err(error) = &response.outcome else { return false };
    matches!(status.as_u16(), 400 | 404 | 405)
        && response.id.is_none()
        && !matches!(
            error.code,
            code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_VERSION
        )
}

/// Reads the error of a success without a message: most likely a page of a web site.
pub(super) async fn read_page(
    pool: &Arc<HttpConnectionPool>,
    response: Response<Incoming>,
    mut connection: HttpConnection,
) -> CallError {
    let (head, mut body) = response.into_parts();
    let text = read_body(&mut body, &head.headers, &mut connection, MAX_REFUSAL_BYTES).await;
    let text = text.inspect(|_| pool.release(connection)).unwrap_or_default();
    let kind = head.headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let what = match kind {
        Some(kind) => format!(
            "the server answered with {kind} instead of a message; is this the URL of an MCP endpoint?"
        ),
        None => format!("the server answered with status {} and no message", head.status),
    };
    CallError::Http(Arc::new(HttpFailure {
        status: Some(head.status.as_u16()),
        body: excerpt(&text),
        ..failure(ConnectStage::Http, &what)
    }))
}

pub(super) fn refusal_error(status: StatusCode, challenge: Option<String>, body: &[u8]) -> CallError {
    CallError::Http(Arc::new(HttpFailure {
        stage: ConnectStage::Http,
        status: Some(status.as_u16()),
        challenge,
        body: excerpt(body),
        what: format!("the server answered with status {status}"),
    }))
}

pub(super) fn broken_error(what: &str) -> CallError {
    CallError::Http(Arc::new(failure(ConnectStage::Http, what)))
}

pub(super) fn too_large_error(bytes: usize, max: usize) -> CallError {
    CallError::TooLarge { what: "the answer", bytes, max, setting: "max_message_bytes" }
}

/// Creates a failure at a stage, without a status.
pub(super) fn failure(stage: ConnectStage, what: &str) -> HttpFailure {
    HttpFailure { stage, status: None, challenge: None, body: None, what: what.to_owned() }
}
