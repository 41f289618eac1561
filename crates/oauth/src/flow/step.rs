//! One step of a flow: the data that all states share, and the next state with its action.

use std::sync::Arc;

use hospes_auth::egress::FetchError;
use hospes_auth::{FetchResponse, Seed, without_query};
use url::Url;

use super::cause::AuthorizationCause;
use super::effect::FlowEffect;
use crate::error::FlowError;
use crate::settings::OAuthClientSettings;

/// Data that all states share.
#[derive(Debug)]
pub(super) struct FlowContext {
    pub(super) settings: Arc<OAuthClientSettings>,
    pub(super) cause: AuthorizationCause,
    pub(super) seed: Seed,
    pub(super) now: u64,
    /// Authorization endpoint that is assumed for want of metadata.
    pub(super) assumed: Option<Url>,
}

/// Next state and action, or the error that ends the flow. Each state names the states that may follow it in a type of
/// its own.
pub(super) type FlowStep<S> = Result<(S, FlowEffect), FlowError>;

/// Converts the state of a step, to that of a state before it.
pub(super) fn into_state<S, T: From<S>>((state, effect): (S, FlowEffect)) -> (T, FlowEffect) {
    (state.into(), effect)
}

/// Returns the response, unless it is a failure of the other side.
pub(super) fn check_response(
    what: &'static str,
    url: &Url,
    response: Result<FetchResponse, FetchError>,
) -> Result<FetchResponse, FlowError> {
    match response {
        Err(why) => Err(FlowError::Fetch { what, url: without_query(url), why }),
        // Redirects are not followed: a code or a secret would be sent to a place that nobody has checked.
        Ok(response) if response.status.is_server_error() || response.status.is_redirection() => {
            Err(FlowError::Status { what, url: without_query(url), status: response.status })
        }
        Ok(response) => Ok(response),
    }
}
