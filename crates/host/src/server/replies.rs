//! Replies of servers, decoded.

use hospes::Outcome;
use hospes::client::read_list;
use hospes_model::{Method, PeerResult, Reply, RpcError};

/// Returns the reply of a call that may not request input.
pub(crate) fn complete(method: &Method, outcome: Outcome) -> Result<Reply, RpcError> {
    match outcome {
        Outcome::Complete(reply) => decoded(method, reply),
        Outcome::InputRequired(_) => {
            Err(RpcError::internal(format!("unexpected input request from {method}")))
        }
        Outcome::Failed(error) => Err(error),
    }
}

/// Decodes a raw reply to the type of its method.
pub(crate) fn decoded(method: &Method, reply: Reply) -> Result<Reply, RpcError> {
    match reply {
        Reply::Raw { revision, json, .. } => match read_list(method, revision, &json) {
            Ok(PeerResult::Complete(reply)) => Ok(reply),
            Ok(_) => Err(RpcError::internal(format!("unexpected result type for {method}"))),
            Err(error) => Err(RpcError::internal(hospes::Error::new(error).to_string())),
        },
        Reply::Prepared(prepared) => decoded(method, prepared.reply().clone()),
        reply => Ok(reply),
    }
}
