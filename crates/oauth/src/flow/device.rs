//! Device authorization, in which the user enters a code on another device (RFC 8628).

use std::time::Duration;

use hospes_auth::egress::FetchError;
use hospes_auth::metadata::{is_loopback, is_secure};
use hospes_auth::{ErrorCode, FetchResponse, shown, without_query};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::Url;

use super::discovered_server::DiscoveredServer;
use super::effect::{DevicePrompt, FlowEffect, FlowInput};
use super::grant_types;
use super::step::{FlowContext, FlowStep, check_response};
use crate::credentials::ClientIdentity;
use crate::error::FlowError;
use crate::token_request::{TokenRequest, TokenRequestForm, nonce_wanted, read_success};

const DEVICE_ENDPOINT_NAME: &str = "the device authorization endpoint";
/// Polling interval at the token endpoint if the server gives none, in seconds.
const DEFAULT_INTERVAL: u64 = 5;
/// The longest that becomes, in seconds.
const MAX_INTERVAL: u64 = 60;
/// Maximum time to wait for a code to be entered, regardless of the server, in seconds.
const MAX_CODE_SECONDS: u64 = 30 * 60;

/// Requests a device code, shows it, and polls for the result.
#[derive(Debug)]
pub(super) struct DeviceAuthorization {
    order: TokenRequest,
    url: Url,
    stage: DeviceStage,
}

#[derive(Debug)]
enum DeviceStage {
    /// The server was asked for a code.
    Asked,
    /// The person is shown it.
    Shown(DevicePolling),
    /// The person has it, and is given time.
    Resting(DevicePolling),
    /// The token endpoint was polled. True for a repetition with the nonce that the server required.
    Polled(DevicePolling, bool),
}

#[derive(Debug)]
struct DevicePolling {
    code: SecretString,
    interval: u64,
    ends_at: u64,
}

#[derive(Deserialize)]
struct DeviceAuthorizationResponse {
    device_code: SecretString,
    user_code: String,
    verification_uri: String,
    #[serde(default)]
    verification_uri_complete: Option<String>,
    expires_in: u64,
    #[serde(default)]
    interval: Option<u64>,
}

impl DeviceAuthorization {
    pub(super) fn begin(
        facts: &mut FlowContext,
        found: &DiscoveredServer,
        client: ClientIdentity,
    ) -> FlowStep<Box<Self>> {
        let url = found.server.device_authorization_url()?;
        let order = found.token_request(facts, client)?;
        let scopes = order.scope_fields();
        let mut fields = vec![("resource", order.resource.as_str())];
        fields.extend(scopes.iter().map(|(name, value)| (*name, value.expose_secret())));
        let form = TokenRequestForm::of(&fields);
        let request =
            form.send(&url, &order.client, &order.issuer, &order.audience, &mut facts.seed, facts.now)?;
        let stage = DeviceStage::Asked;
        Ok((Box::new(Self { order, url, stage }), FlowEffect::Fetch(request)))
    }

    /// Returns true if the next response may contain tokens.
    pub(super) fn is_polling(&self) -> bool {
        matches!(self.stage, DeviceStage::Polled(..))
    }

    pub(super) fn order(&self) -> &TokenRequest {
        &self.order
    }

    /// Handles the result of an action. No state is left once there are tokens.
    pub(super) fn handle(mut self, facts: &mut FlowContext, input: FlowInput) -> FlowStep<Option<Box<Self>>> {
        match (self.stage, input) {
            (DeviceStage::Asked, FlowInput::Response(response)) => {
                let response = check_response(DEVICE_ENDPOINT_NAME, &self.url, response)?;
                let codes: DeviceAuthorizationResponse =
                    read_success(DEVICE_ENDPOINT_NAME, &response, &self.url)?;
                let prompt = prompt(facts, &self.url, &self.order, &codes)?;
                // Five seconds if none is given (RFC 8628, section 3.2). An interval of 0 would mean
                // polling without a pause.
                let interval = codes.interval.unwrap_or(DEFAULT_INTERVAL).clamp(1, MAX_INTERVAL);
                self.stage = DeviceStage::Shown(DevicePolling {
                    code: codes.device_code,
                    interval,
                    ends_at: prompt.ends_at,
                });
                Ok((Some(Box::new(self)), FlowEffect::Show(Box::new(prompt))))
            }
            (DeviceStage::Shown(waiting), FlowInput::Shown) => {
                // The match has moved the stage out of `self`, which must be whole again to be passed on.
                self.stage = DeviceStage::Asked;
                self.wait_interval(waiting)
            }
            (DeviceStage::Resting(waiting), FlowInput::Waited) => {
                if facts.now >= waiting.ends_at {
                    return Err(FlowError::CodeExpired);
                }
                self.stage = DeviceStage::Asked;
                self.poll(facts, waiting, None)
            }
            (DeviceStage::Polled(waiting, again), FlowInput::Response(response)) => {
                self.stage = DeviceStage::Asked;
                self.handle_poll(facts, waiting, again, response)
            }
            _ => Err(FlowError::OutOfOrder),
        }
    }

    fn wait_interval(mut self, waiting: DevicePolling) -> FlowStep<Option<Box<Self>>> {
        let interval = Duration::from_secs(waiting.interval);
        self.stage = DeviceStage::Resting(waiting);
        Ok((Some(Box::new(self)), FlowEffect::Wait(interval)))
    }

    fn poll(
        mut self,
        facts: &mut FlowContext,
        waiting: DevicePolling,
        nonce: Option<&str>,
    ) -> FlowStep<Option<Box<Self>>> {
        let fields = [("device_code", waiting.code.expose_secret())];
        let request =
            self.order.request(grant_types::DEVICE_CODE, &fields, nonce, &mut facts.seed, facts.now)?;
        self.stage = DeviceStage::Polled(waiting, nonce.is_some());
        Ok((Some(Box::new(self)), FlowEffect::Fetch(request)))
    }

    fn handle_poll(
        self,
        facts: &mut FlowContext,
        mut waiting: DevicePolling,
        again: bool,
        response: Result<FetchResponse, FetchError>,
    ) -> FlowStep<Option<Box<Self>>> {
        let response = match response {
            // Nothing was lost by it, for the code is still good; but whoever is overloaded is left alone (section 3.5).
            Err(FetchError::Timeout | FetchError::Unreachable | FetchError::Tls(_) | FetchError::Broken) => {
                waiting.interval = (waiting.interval * 2).min(MAX_INTERVAL);
                return self.wait_interval(waiting);
            }
            Ok(response) if response.status.is_server_error() => {
                waiting.interval = (waiting.interval * 2).min(MAX_INTERVAL);
                return self.wait_interval(waiting);
            }
            other => {
                check_response(crate::token_request::TOKEN_ENDPOINT_NAME, &self.order.token_endpoint, other)?
            }
        };
        if !again && let Some(nonce) = nonce_wanted(&response) {
            return self.poll(facts, waiting, Some(&nonce));
        }
        match self.order.read(&response, None, facts.now) {
            Ok(tokens) => Ok((None, FlowEffect::Done(Box::new(tokens)))),
            Err(FlowError::Refused(body)) => match body.error {
                ErrorCode::AuthorizationPending => self.wait_interval(waiting),
                ErrorCode::SlowDown => {
                    // Each `slow_down` adds five seconds, also to all later polls (RFC 8628, section 3.5).
                    waiting.interval = (waiting.interval + DEFAULT_INTERVAL).min(MAX_INTERVAL);
                    self.wait_interval(waiting)
                }
                ErrorCode::ExpiredToken => Err(FlowError::CodeExpired),
                _ => Err(FlowError::Refused(body)),
            },
            Err(error) => Err(error),
        }
    }
}

/// Builds the prompt for the user, if its contents are safe to display.
fn prompt(
    facts: &FlowContext,
    asked: &Url,
    order: &TokenRequest,
    codes: &DeviceAuthorizationResponse,
) -> Result<DevicePrompt, FlowError> {
    let page = |text: &str| {
        let url = Url::parse(text).ok()?;
        // A server elsewhere must not send people to a service on their own machine.
        let is_ours = !is_loopback(&url) || is_loopback(&facts.cause.endpoint);
        (is_secure(&url) && is_ours).then_some(url)
    };
    let malformed = |why: &str| FlowError::Malformed {
        what: DEVICE_ENDPOINT_NAME,
        url: without_query(asked),
        why: why.to_owned(),
    };
    let verification_uri = page(&codes.verification_uri).ok_or_else(|| {
        malformed("verification URI does not use https or has a host unrelated to the authorization server")
    })?;
    let user_code = shown(&codes.user_code);
    if user_code.is_empty() {
        return Err(malformed("response contains no user_code"));
    }
    Ok(DevicePrompt {
        verification_uri,
        // Of use only to whoever would rather not type; else it is left out.
        verification_uri_complete: codes.verification_uri_complete.as_deref().and_then(page),
        user_code,
        issuer: order.issuer.clone(),
        scopes: order.scopes.clone(),
        ends_at: facts.now.saturating_add(codes.expires_in.min(MAX_CODE_SECONDS)),
    })
}
