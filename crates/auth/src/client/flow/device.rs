//! A code that a person enters on another machine, for those without a browser (RFC 8628).

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use url::Url;

use super::authorize::order;
use super::redeem::scope_of;
use super::server::Found;
use super::{DevicePrompt, Effect, Facts, Input, Next, State, usable};
use crate::client::credentials::Client;
use crate::client::error::FlowError;
use crate::client::token_request::{Form, Order, nonce_wanted, read_success};
use crate::egress::FetchError;
use crate::exchange::without_query;
use crate::metadata::{is_loopback, is_secure};
use crate::{ErrorCode, Response, shown};

pub(super) const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
const WHAT: &str = "the device authorization endpoint";
/// How long the token endpoint is left alone between questions where the server says nothing, in seconds.
const INTERVAL: u64 = 5;
/// The longest that becomes, in seconds.
const MAX_INTERVAL: u64 = 60;
/// How long a code is waited for at the most, whatever the server says, in seconds.
const MAX_SECONDS: u64 = 30 * 60;

/// Asks for a code, shows it, and asks again and again what came of it.
#[derive(Debug)]
pub(super) struct Device {
    order: Order,
    url: Url,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The server was asked for a code.
    Asked,
    /// The person is shown it.
    Shown(Waiting),
    /// The person has it, and is given time.
    Resting(Waiting),
    /// The server was asked what came of it; again, with the nonce it wanted.
    Polled(Waiting, bool),
}

#[derive(Debug)]
struct Waiting {
    code: SecretString,
    interval: u64,
    ends_at: u64,
}

#[derive(Deserialize)]
struct Codes {
    device_code: SecretString,
    user_code: String,
    verification_uri: String,
    #[serde(default)]
    verification_uri_complete: Option<String>,
    expires_in: u64,
    #[serde(default)]
    interval: Option<u64>,
}

impl Device {
    pub(super) fn begin(facts: &mut Facts, found: &Found, client: Client) -> Next {
        let url = found.server.device_authorization_url()?;
        let order = order(facts, found, client)?;
        let scopes = scope_of(&order);
        let mut fields = vec![("resource", order.resource.as_str())];
        fields.extend(scopes.iter().map(|(name, value)| (*name, value.expose_secret())));
        let form = Form::of(&fields);
        let request =
            form.send(&url, &order.client, &order.issuer, &order.audience, &mut facts.seed, facts.now)?;
        let stage = Stage::Asked;
        Ok((State::Device(Box::new(Self { order, url, stage })), Effect::Fetch(request)))
    }

    /// Whether what comes next may be tokens.
    pub(super) fn is_polling(&self) -> bool {
        matches!(self.stage, Stage::Polled(..))
    }

    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    pub(super) fn handle(mut self, facts: &mut Facts, input: Input) -> Next {
        match (self.stage, input) {
            (Stage::Asked, Input::Response(response)) => {
                let response = usable(WHAT, &self.url, response)?;
                let codes: Codes = read_success(WHAT, &response, &self.url)?;
                let prompt = prompt(facts, &self.url, &self.order, &codes)?;
                let interval = codes.interval.unwrap_or(INTERVAL).clamp(1, MAX_INTERVAL);
                self.stage =
                    Stage::Shown(Waiting { code: codes.device_code, interval, ends_at: prompt.ends_at });
                Ok((State::Device(Box::new(self)), Effect::Show(Box::new(prompt))))
            }
            (Stage::Shown(waiting), Input::Shown) => {
                self.stage = Stage::Asked;
                self.rest(waiting)
            }
            (Stage::Resting(waiting), Input::Waited) => {
                if facts.now >= waiting.ends_at {
                    return Err(FlowError::CodeExpired);
                }
                self.stage = Stage::Asked;
                self.poll(facts, waiting, None)
            }
            (Stage::Polled(waiting, again), Input::Response(response)) => {
                self.stage = Stage::Asked;
                self.polled(facts, waiting, again, response)
            }
            _ => Err(FlowError::OutOfOrder),
        }
    }

    fn rest(mut self, waiting: Waiting) -> Next {
        let interval = Duration::from_secs(waiting.interval);
        self.stage = Stage::Resting(waiting);
        Ok((State::Device(Box::new(self)), Effect::Wait(interval)))
    }

    fn poll(mut self, facts: &mut Facts, waiting: Waiting, nonce: Option<&str>) -> Next {
        let fields = [("device_code", waiting.code.expose_secret())];
        let request = self.order.request(GRANT, &fields, nonce, &mut facts.seed, facts.now)?;
        self.stage = Stage::Polled(waiting, nonce.is_some());
        Ok((State::Device(Box::new(self)), Effect::Fetch(request)))
    }

    fn polled(
        self,
        facts: &mut Facts,
        mut waiting: Waiting,
        again: bool,
        response: Result<Response, FetchError>,
    ) -> Next {
        let response = match response {
            // Nothing was lost by it, for the code is still good; but whoever is overloaded is left alone (section 3.5).
            Err(FetchError::Timeout | FetchError::Unreachable | FetchError::Broken) => {
                waiting.interval = (waiting.interval * 2).min(MAX_INTERVAL);
                return self.rest(waiting);
            }
            Ok(response) if response.status.is_server_error() => {
                waiting.interval = (waiting.interval * 2).min(MAX_INTERVAL);
                return self.rest(waiting);
            }
            other => usable(crate::client::token_request::WHAT, &self.order.token_endpoint, other)?,
        };
        if !again && let Some(nonce) = nonce_wanted(&response) {
            return self.poll(facts, waiting, Some(&nonce));
        }
        match self.order.read(&response, None, facts.now) {
            Ok(tokens) => Ok((State::Over, Effect::Done(Box::new(tokens)))),
            Err(FlowError::Refused(body)) => match body.error {
                ErrorCode::AuthorizationPending => self.rest(waiting),
                ErrorCode::SlowDown => {
                    waiting.interval = (waiting.interval + INTERVAL).min(MAX_INTERVAL);
                    self.rest(waiting)
                }
                ErrorCode::ExpiredToken => Err(FlowError::CodeExpired),
                _ => Err(FlowError::Refused(body)),
            },
            Err(error) => Err(error),
        }
    }
}

/// What the person is shown, if it is fit to be shown.
fn prompt(facts: &Facts, asked: &Url, order: &Order, codes: &Codes) -> Result<DevicePrompt, FlowError> {
    let page = |text: &str| {
        let url = Url::parse(text).ok()?;
        let is_ours = !is_loopback(&url) || is_loopback(&facts.cause.endpoint);
        (is_secure(&url) && is_ours).then_some(url)
    };
    let malformed =
        |why: &str| FlowError::Malformed { what: WHAT, url: without_query(asked), why: why.to_owned() };
    let verification_uri = page(&codes.verification_uri).ok_or_else(|| {
        malformed("names a page that is not reached over https, or is none of its business")
    })?;
    let user_code = shown(&codes.user_code);
    if user_code.is_empty() {
        return Err(malformed("gave no code to enter"));
    }
    Ok(DevicePrompt {
        verification_uri,
        // Of use only to whoever would rather not type; else it is left out.
        verification_uri_complete: codes.verification_uri_complete.as_deref().and_then(page),
        user_code,
        issuer: order.issuer.clone(),
        scopes: order.scopes.clone(),
        ends_at: facts.now.saturating_add(codes.expires_in.min(MAX_SECONDS)),
    })
}
