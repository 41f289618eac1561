//! Fallback for servers that negotiate 2026-07-28 but send requests of their own, which exist only up to 2025-11-25.
//!
//! The current Python SDKs support both eras, but their older functions for input requests work only in the legacy era;
//! in the modern era such a call fails. This cannot be detected earlier. After such a failure, the server is
//! reconnected in the legacy era, which is remembered for its definition. The call is not repeated, because its effects
//! before the failure would occur twice.

use std::time::Duration;

use hospes::Outcome;
use hospes_model::{CallToolResult, Method, Reply, Revision, RpcError, code};
use memchr::memmem;
use tokio::time::timeout;

use super::handle::Gateway;
use crate::server::{Era, KnownProtocol, decoded};
use crate::upstream::{ReadyConnection, SupervisedConnection};

/// Time that a response may delay the end of its old connection.
const LEFT_WAIT: Duration = Duration::from_secs(2);

/// The requests that servers send up to 2025-11-25.
const REQUESTS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// Text in the errors of such servers.
const WORDS: &str = "server-initiated request";

impl Gateway {
    /// Returns the outcome of a call or, if the server failed only because of the era, an explanation. The server is
    /// then reconnected in the legacy era, unless its era is configured.
    pub(super) async fn check_era(
        &self,
        method: &Method,
        outcome: Outcome,
        server: usize,
        (line, live): (&SupervisedConnection, &ReadyConnection),
    ) -> Outcome {
        if live.connection.keeps_calls() || !asks_with_requests(method, &outcome) {
            return outcome;
        }
        let server = &self.shared.upstreams[server].server;
        let (name, spoken, older) = (&server.name, live.revision(), Revision::LATEST_LEGACY);
        let lead = format!(
            "the server `{name}` sends requests that exist only up to {older}, but is connected with {spoken}"
        );
        let why = match &server.definition {
            Some(definition) => {
                self.shared.memory.learn(definition, KnownProtocol { era: Era::Legacy, sse: false });
                let is_news = server.switch_to_legacy();
                if is_news {
                    tracing::warn!(server = %name, revision = %spoken, "{lead}; reconnecting with {older}");
                    // So that the next call does not go over the connection that is on its way out.
                    let left = line.wait(|phase| phase.ready().is_none_or(|now| now.id != live.id));
                    // Past the limit the answer goes out all the same: it says what happened either way.
                    let _ = timeout(LEFT_WAIT, left).await;
                }
                format!(
                    "{lead}. The host is reconnecting with {older} (setting era = \"legacy\"); the call was not \
                     retried: call again"
                )
            }
            None => format!("{lead}. Set era = \"legacy\" for it in the configuration"),
        };
        match method {
            Method::ToolsCall => Outcome::Complete(CallToolResult::error(why).into()),
            _ => Outcome::Failed(RpcError::internal(why)),
        }
    }
}

/// Returns true if the outcome says that the server could not send a request of its own. Only the error text shows
/// this.
fn asks_with_requests(method: &Method, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(error) => {
            error.code == code::INVALID_REQUEST && REQUESTS.iter().any(|name| error.message.contains(name))
        }
        Outcome::Complete(reply) if *method == Method::ToolsCall => {
            // Nearly all results are without these words, and need not be decoded to know it.
            if let Reply::Raw { json, .. } = reply
                && memmem::find(json.as_bytes(), WORDS.as_bytes()).is_none()
            {
                return false;
            }
            match decoded(method, reply.clone()) {
                Ok(Reply::CallTool(result)) => {
                    let text = result.all_text();
                    // One names the revision, the other the request.
                    let names_cause = text.contains(Revision::LATEST.as_str())
                        || REQUESTS.iter().any(|name| text.contains(name));
                    result.has_failed() && text.contains(WORDS) && names_cause
                }
                _ => false,
            }
        }
        _ => false,
    }
}
