//! Differences of error codes between revisions.

use serde::Deserialize;

use crate::types::*;
use crate::{Method, RawJson, Revision, RpcError, code};

/// Converts an error from the newest revision to `to`.
///
/// In 2026-07-28, a missing resource and invalid params have the same code; `data.uri`, set by
/// [`RpcError::resource_not_found`], distinguishes them for older revisions. Codes that only 2026-07-28 defines become
/// internal errors for older peers, with the original in `data`.
#[must_use]
pub fn encode_error(method: &Method, to: Revision, error: RpcError) -> RpcError {
    match (to.is_legacy(), error.code) {
        (true, code::INVALID_PARAMS) if *method == Method::ResourcesRead && has_uri_data(&error) => {
            RpcError { code: code::RESOURCE_NOT_FOUND, ..error }
        }
        // The handshake of older revisions has another code for this (ERR-02).
        (true, code::UNSUPPORTED_VERSION) if *method == Method::Initialize => {
            RpcError { code: code::INVALID_PARAMS, ..error }
        }
        (true, code::URL_ELICITATION_REQUIRED) if to == Revision::V2025_11_25 => error,
        (true, code) if in_specification_range(code) => to_internal_error(error),
        (false, code::RESOURCE_NOT_FOUND) => RpcError { code: code::INVALID_PARAMS, ..error },
        (false, code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_VERSION) => error,
        (false, code::PARSE_ERROR | code::INVALID_REQUEST | code::METHOD_NOT_FOUND) => error,
        (false, code::INVALID_PARAMS | code::INTERNAL_ERROR) => error,
        // Codes that JSON-RPC and the specification reserve or discourage (ERR-04 to ERR-06, ERR-08, ERR-09).
        (false, -32768..=-32000) => to_internal_error(error),
        _ => error,
    }
}

/// Converts an error from a peer to the newest revision.
///
/// `-32042` of 2025-11-25 is kept, because it asks for input: [`RpcError::url_elicitations`] reads it.
#[must_use]
pub fn decode_error(method: &Method, from: Revision, error: RpcError) -> RpcError {
    match (from, error.code) {
        // Clients of 2026-07-28 still accept the older code (RES-21).
        (_, code::RESOURCE_NOT_FOUND) if *method == Method::ResourcesRead => {
            RpcError { code: code::INVALID_PARAMS, ..error }
        }
        (Revision::V2026_07_28, _) | (Revision::V2025_11_25, code::URL_ELICITATION_REQUIRED) => error,
        (_, code) if in_specification_range(code) => to_internal_error(error),
        _ => error,
    }
}

fn in_specification_range(code: i64) -> bool {
    (-32099..=-32020).contains(&code)
}

fn has_uri_data(error: &RpcError) -> bool {
    #[derive(Deserialize)]
    struct UriDataPeek {
        #[serde(rename = "uri")]
        _uri: String,
    }
    error.data.as_ref().is_some_and(|data| data.decode::<UriDataPeek>().is_ok())
}

/// Creates an internal error with the same message and the original error in `data`.
fn to_internal_error(error: RpcError) -> RpcError {
    let original = RawJson::from_serialize(&error).ok();
    RpcError { code: code::INTERNAL_ERROR, message: error.message, data: original }
}

impl RpcError {
    /// Creates an error for a missing resource, with the code of 2026-07-28. [`encode_error`] converts it for older
    /// revisions.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        #[derive(serde::Serialize)]
        struct ResourceNotFoundData<'a> {
            uri: &'a str,
        }
        Self::invalid_params(format!("resource not found: {uri}")).with_data(&ResourceNotFoundData { uri })
    }

    /// Creates an error for a request that needs capabilities the client did not declare (CAP-13).
    #[must_use]
    pub fn missing_client_capability(required: &ClientCapabilities) -> Self {
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct MissingCapabilityData<'a> {
            required_capabilities: &'a RawJson,
        }
        let required = RawJson::from_serialize(required).unwrap_or_else(|_| RawJson::empty_object());
        // The message names the missing capabilities too, because people see only the message. Members of a capability
        // are named with it, because the capability itself may be declared.
        let mut names = Vec::new();
        for member in required.members() {
            let (capability, inside) = (member.key(), member.value());
            let before = names.len();
            if inside.is_object() {
                names.extend(inside.members().map(|part| format!("`{capability}.{}`", part.key())));
            }
            if names.len() == before {
                names.push(format!("`{capability}`"));
            }
        }
        let message = match names.as_slice() {
            [] => "the client did not declare a required capability".to_owned(),
            [name] => format!("the client did not declare the required capability {name}"),
            names => {
                format!("the client did not declare the required capabilities {}", names.join(", "))
            }
        };
        Self::new(code::MISSING_CLIENT_CAPABILITY, message)
            .with_data(&MissingCapabilityData { required_capabilities: &required })
    }

    /// Creates an error for a requested revision that is not supported (VER-12).
    #[must_use]
    pub fn unsupported_version(requested: &str, supported: &[Revision]) -> Self {
        #[derive(serde::Serialize)]
        struct UnsupportedVersionData<'a> {
            supported: &'a [Revision],
            requested: &'a str,
        }
        Self::new(code::UNSUPPORTED_VERSION, "unsupported protocol version")
            .with_data(&UnsupportedVersionData { supported, requested })
    }

    /// Returns the URL elicitations of a `-32042` error of 2025-11-25. `None` for any other error.
    #[must_use]
    pub fn url_elicitations(&self) -> Option<Vec<ElicitUrlParams>> {
        #[derive(Deserialize)]
        struct UrlElicitationsPeek {
            elicitations: Vec<ElicitParams>,
        }
        if self.code != code::URL_ELICITATION_REQUIRED {
            return None;
        }
        let data: UrlElicitationsPeek = self.data.as_ref()?.decode().ok()?;
        data.elicitations
            .into_iter()
            .map(|params| match params {
                ElicitParams::Url(url) => Some(url),
                ElicitParams::Form(_) => None,
            })
            .collect()
    }

    /// Creates the error `-32042` of 2025-11-25. Each elicitation must have an elicitation id there.
    #[must_use]
    pub fn url_elicitation_required(elicitations: Vec<ElicitUrlParams>) -> Self {
        #[derive(serde::Serialize)]
        struct UrlElicitationsData {
            elicitations: Vec<ElicitParams>,
        }
        let elicitations = elicitations.into_iter().map(ElicitParams::Url).collect();
        Self::new(code::URL_ELICITATION_REQUIRED, "the user must open a URL first")
            .with_data(&UrlElicitationsData { elicitations })
    }
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
