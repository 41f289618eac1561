//! JSON-RPC errors.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::RawJson;

/// Error codes of JSON-RPC and of the specification.
pub mod code {
    /// Parse error: the text is not valid JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// Invalid request: the JSON is not a JSON-RPC message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Method not found in the negotiated revision.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Invalid params for the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Internal error of the receiver.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Resource not found, up to 2025-11-25; 2026-07-28 uses [`INVALID_PARAMS`].
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// An HTTP header contradicts the body (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that the client did not declare (2026-07-28).
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// Unsupported protocol version (2026-07-28).
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// URL elicitation required (2025-11-25 only).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// The user rejected a sampling request (up to 2025-11-25).
    pub const USER_REJECTED: i64 = -1;
}

/// The `error` member of a JSON-RPC response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
#[non_exhaustive]
pub struct RpcError {
    /// Error code; see [`code`].
    pub code: i64,
    /// One sentence that describes the error.
    pub message: Cow<'static, str>,
    /// Additional information for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<RawJson>,
}

impl RpcError {
    /// Creates an error without additional data.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Sets `data`. Data that cannot be serialized is left out.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        self.data = RawJson::from_serialize(data).ok();
        self
    }

    /// Creates a parse error (`-32700`).
    pub fn parse(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::PARSE_ERROR, message)
    }

    /// Creates an invalid-request error (`-32600`).
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// Creates a method-not-found error (`-32601`) that names the method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// Creates an invalid-params error (`-32602`).
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// Creates an internal error (`-32603`).
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INTERNAL_ERROR, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most tests use the names on both sides, so this one has the numbers of the specification.
    ///
    /// covers: ERR-01 ERR-04
    #[test]
    fn codes_have_the_numbers_of_the_specification() {
        for (error, code) in [
            (RpcError::parse(""), -32700),
            (RpcError::invalid_request(""), -32600),
            (RpcError::method_not_found("m"), -32601),
            (RpcError::invalid_params(""), -32602),
            (RpcError::internal(""), -32603),
        ] {
            assert_eq!(error.code, code);
        }
        let others = [
            code::RESOURCE_NOT_FOUND,
            code::HEADER_MISMATCH,
            code::MISSING_CLIENT_CAPABILITY,
            code::UNSUPPORTED_VERSION,
            code::URL_ELICITATION_REQUIRED,
            code::USER_REJECTED,
        ];
        assert_eq!(others, [-32002, -32020, -32021, -32022, -32042, -1]);
    }
}
