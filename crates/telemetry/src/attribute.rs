//! Attributes of spans.
//!
//! The keys are a closed list, and a value is made in one of a few ways, so that no argument, result, token, header, URI
//! or message gets into a span by mistake.

use std::sync::Arc;

/// Maximum length of the id of a request, in characters.
const MAX_REQUEST_ID_CHARACTERS: usize = 64;
/// Number of digits of a session id's digest.
const DIGEST_DIGITS: usize = 16;

/// Key of an attribute of a span or of an event in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttributeKey {
    /// `error.type`; it makes the span one that has failed.
    ErrorType,
    /// `gen_ai.operation.name`.
    GenAiOperationName,
    /// `gen_ai.prompt.name`.
    GenAiPromptName,
    /// `gen_ai.tool.name`.
    GenAiToolName,
    /// `hospes.decision`: how an approval has ended.
    HospesDecision,
    /// `hospes.forward.result`: how the request to another node has ended.
    HospesForwardResult,
    /// `hospes.server`: name of a server in the configuration.
    HospesServer,
    /// `jsonrpc.request.id`.
    JsonrpcRequestId,
    /// `mcp.method.name`.
    McpMethodName,
    /// `mcp.protocol.version`.
    McpProtocolVersion,
    /// `mcp.session.id`: a digest of it.
    McpSessionId,
    /// `network.protocol.name`.
    NetworkProtocolName,
    /// `network.protocol.version`.
    NetworkProtocolVersion,
    /// `network.transport`.
    NetworkTransport,
    /// `rpc.response.status_code`.
    RpcResponseStatusCode,
    /// `server.address`: host of a server in the configuration.
    ServerAddress,
    /// `server.port`.
    ServerPort,
}

impl AttributeKey {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ErrorType => "error.type",
            Self::GenAiOperationName => "gen_ai.operation.name",
            Self::GenAiPromptName => "gen_ai.prompt.name",
            Self::GenAiToolName => "gen_ai.tool.name",
            Self::HospesDecision => "hospes.decision",
            Self::HospesForwardResult => "hospes.forward.result",
            Self::HospesServer => "hospes.server",
            Self::JsonrpcRequestId => "jsonrpc.request.id",
            Self::McpMethodName => "mcp.method.name",
            Self::McpProtocolVersion => "mcp.protocol.version",
            Self::McpSessionId => "mcp.session.id",
            Self::NetworkProtocolName => "network.protocol.name",
            Self::NetworkProtocolVersion => "network.protocol.version",
            Self::NetworkTransport => "network.transport",
            Self::RpcResponseStatusCode => "rpc.response.status_code",
            Self::ServerAddress => "server.address",
            Self::ServerPort => "server.port",
        }
    }
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeValue(pub(crate) ValueKind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Fixed(&'static str),
    Known(Arc<str>),
    Bounded(Box<str>),
    Number(i64),
}

impl AttributeValue {
    /// Creates a value of a closed set.
    #[must_use]
    pub const fn fixed(text: &'static str) -> Self {
        Self(ValueKind::Fixed(text))
    }

    /// Creates a value from a name of the configuration or of a catalogue.
    #[must_use]
    pub fn name(text: Arc<str>) -> Self {
        Self(ValueKind::Known(text))
    }

    /// Creates a value from the id of a request, which is cut to 64 characters.
    #[must_use]
    pub fn request_id(id: &str) -> Self {
        Self(ValueKind::Bounded(id.chars().take(MAX_REQUEST_ID_CHARACTERS).collect()))
    }

    /// Creates a value from the SHA-256 of something that must not be shown itself: its first 16 hexadecimal digits.
    #[must_use]
    pub fn digest(sha256: &[u8; 32]) -> Self {
        use std::fmt::Write as _;
        let mut text = String::with_capacity(DIGEST_DIGITS);
        for byte in sha256.iter().take(DIGEST_DIGITS / 2) {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(ValueKind::Bounded(text.into()))
    }

    /// Creates a number.
    #[must_use]
    pub const fn number(number: i64) -> Self {
        Self(ValueKind::Number(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_cut_and_secrets_are_digests() {
        let ValueKind::Bounded(cut) = AttributeValue::request_id(&"ü".repeat(100)).0 else { panic!() };
        assert_eq!(cut.chars().count(), MAX_REQUEST_ID_CHARACTERS);
        let mut digest = [0; 32];
        digest[..3].copy_from_slice(&[0xab, 0x01, 0xff]);
        let expected = ValueKind::Bounded("ab01ff0000000000".into());
        assert_eq!(AttributeValue::digest(&digest).0, expected);
    }
}
