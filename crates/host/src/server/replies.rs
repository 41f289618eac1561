//! Replies of servers, decoded.

use hospes::Outcome;
use hospes::client::read_list;
use hospes_model::{Method, PeerResult, Reply, RpcError};

/// The reply to a call that asks nothing.
pub(crate) fn complete(method: &Method, outcome: Outcome) -> Result<Reply, RpcError> {
    match outcome {
        Outcome::Complete(reply) => decoded(method, reply),
        Outcome::InputRequired(_) => {
            Err(RpcError::internal(format!("unexpected input request from {method}")))
        }
        Outcome::Failed(error) => Err(error),
    }
}

/// A reply as its method's type, where it came as text.
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
