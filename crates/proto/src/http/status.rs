//! HTTP statuses of errors.

use hospes_model::{Era, RequestId, RpcError, code, message};
use http::StatusCode;

/// A rejected HTTP request: the status, and the JSON-RPC error in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRejection {
    /// HTTP status.
    pub status: StatusCode,
    /// Id of the request, if it could be read.
    pub id: Option<RequestId>,
    /// Error to respond with. It names the setting to change, if there is one.
    pub error: RpcError,
    /// Value of the `Allow` header, sent with 405.
    pub allow: Option<&'static str>,
}

impl HttpRejection {
    /// Creates a rejection without a request id.
    #[must_use]
    pub fn new(status: StatusCode, error: RpcError) -> Self {
        Self { status, id: None, error, allow: None }
    }

    /// Creates a rejection of the request `id`, with the status of the error in this era.
    #[must_use]
    pub fn of(era: Era, id: Option<RequestId>, error: RpcError) -> Self {
        Self { status: http_status_for(&error, era), id, error, allow: None }
    }

    pub(crate) fn bad_request(id: Option<&RequestId>, error: RpcError) -> Self {
        Self { status: StatusCode::BAD_REQUEST, id: id.cloned(), error, allow: None }
    }

    /// Creates the rejection of a body that is not a message (HTTP-14).
    #[must_use]
    pub fn malformed(error: message::DecodeError) -> Self {
        Self { status: StatusCode::BAD_REQUEST, id: error.id, error: error.error, allow: None }
    }

    /// Creates the rejection of a body over the limit.
    #[must_use]
    pub fn too_large(max_message_bytes: usize) -> Self {
        let why =
            format!("the body is over the limit of {max_message_bytes} bytes (setting max_message_bytes)");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, RpcError::invalid_request(why))
    }

    /// Creates the rejection of a legacy request without a session id where one is required (HSES-05).
    #[must_use]
    pub fn session_required(id: Option<RequestId>) -> Self {
        let error = RpcError::invalid_request(
            "the header Mcp-Session-Id is missing; send initialize to open a session",
        );
        Self { status: StatusCode::BAD_REQUEST, id, error, allow: None }
    }

    /// Creates the rejection of a request with an unknown or ended session (HSES-07).
    #[must_use]
    pub fn session_unknown(id: Option<RequestId>) -> Self {
        let error = RpcError::invalid_request("session not found; send initialize to open a new one");
        Self { status: StatusCode::NOT_FOUND, id, error, allow: None }
    }

    /// Creates the rejection of an unsupported HTTP method (HTTP-30, HTTP-42).
    #[must_use]
    pub fn method_not_allowed(allow: &'static str) -> Self {
        let error = RpcError::invalid_request("HTTP method not allowed");
        Self { status: StatusCode::METHOD_NOT_ALLOWED, id: None, error, allow: Some(allow) }
    }

    /// Appends the body, a JSON-RPC error of the media type `application/json`.
    pub fn write_body(&self, out: &mut Vec<u8>) {
        message::write_error(out, self.id.as_ref(), &self.error);
    }
}

/// Returns the HTTP status of an error that is the whole response to a POST.
///
/// Up to 2025-11-25 every JSON-RPC response has the status 200. From 2026-07-28 on, certain errors have a status of
/// their own wherever they arise. `-32602` is not one of them, because most of these errors come from handlers;
/// admission sets 400 for its own.
#[must_use]
pub fn http_status_for(error: &RpcError, era: Era) -> StatusCode {
    match (era, error.code) {
        (_, code::PARSE_ERROR | code::INVALID_REQUEST) => StatusCode::BAD_REQUEST,
        (Era::Modern, code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        (
            Era::Modern,
            code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_VERSION,
        ) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// covers: HHDR-08 CAP-13
    #[test]
    fn errors_have_the_status_of_their_era() {
        for (code, modern, legacy) in [
            (code::METHOD_NOT_FOUND, 404, 200),
            (code::MISSING_CLIENT_CAPABILITY, 400, 200),
            (code::HEADER_MISMATCH, 400, 200),
            (code::UNSUPPORTED_VERSION, 400, 200),
            (code::INVALID_REQUEST, 400, 400),
            (code::INVALID_PARAMS, 200, 200),
            (code::INTERNAL_ERROR, 200, 200),
            (17, 200, 200),
        ] {
            let error = RpcError::new(code, "x");
            assert_eq!(http_status_for(&error, Era::Modern).as_u16(), modern, "{code}");
            assert_eq!(http_status_for(&error, Era::Legacy).as_u16(), legacy, "{code}");
        }
    }

    #[test]
    fn a_rejection_is_a_json_rpc_error() {
        let mut out = Vec::new();
        HttpRejection::session_unknown(Some(RequestId::Number(3))).write_body(&mut out);
        let message::Frame::Single(message::JsonRpcMessage::Response(answer)) =
            message::decode(&out).unwrap()
        else {
            panic!("not an answer")
        };
        assert_eq!(answer.id, Some(RequestId::Number(3)));
        assert!(HttpRejection::too_large(5).error.message.contains("max_message_bytes"));
    }
}
