//! Requests to a provider over HTTP, with retries and streamed answers.

mod attempt;
mod connector;
mod error_body;
mod framing;
mod retry;

use std::fmt;

use bytes::Bytes;
use hospes_http_client::is_this_machine;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use crate::answer_draft::ReadError;
use crate::error::sanitize_provider_text;
use crate::provider::DeltaListener;
use crate::{
    AnswerDelta, ApiKey, GenerationFailure, ModelError, ModelLimits, SettingError, TimeoutStage, TokenUsage,
};

pub(crate) use error_body::ProviderErrorBody;
pub(crate) use framing::StreamStyle;

/// Address of a provider, with the headers, limits and client for its requests.
#[derive(Clone)]
pub(crate) struct ProviderEndpoint {
    base: Url,
    /// Host, for messages.
    at: String,
    headers: HeaderMap,
    /// Secrets that must never be shown, even if the provider repeats them.
    secrets: Vec<ApiKey>,
    client: connector::ProviderHttpClient,
    pub(crate) limits: ModelLimits,
}

/// Decoder of the pieces of an answer.
pub(crate) trait AnswerReader: Send {
    /// Decodes a piece, or the whole of an answer without pieces.
    fn read(&mut self, json: &[u8], heard: &mut DeltaListener<'_>) -> Result<(), ReadError>;
    /// Returns true if no more pieces are expected.
    fn is_over(&self) -> bool;
    /// Returns true if the answer is complete if the stream ends now.
    fn is_whole(&self) -> bool;
    /// Returns the tokens counted so far.
    fn usage(&self) -> Option<TokenUsage>;
    /// Returns the text so far.
    fn partial(&self) -> String;
}

/// Form in which a key is sent in its header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// The key alone, in this header.
    Plain(&'static str),
}

impl ProviderEndpoint {
    /// Creates an endpoint below `base`.
    pub(crate) fn new(
        base: &str,
        key: Option<(&ApiKey, KeyHeader)>,
        extra: Vec<(String, ApiKey)>,
        limits: ModelLimits,
    ) -> Result<Self, SettingError> {
        let base = parse_base(base)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("hospes/", env!("CARGO_PKG_VERSION"))));
        let mut secrets = Vec::new();
        if let Some((key, how)) = key {
            let (name, value) = match how {
                KeyHeader::Bearer => (http::header::AUTHORIZATION, format!("Bearer {}", key.reveal())),
                KeyHeader::Plain(name) => (HeaderName::from_static(name), key.reveal().to_owned()),
            };
            headers.insert(
                name,
                secret_value(&value).ok_or_else(|| {
                    SettingError::new(
                        "api_key",
                        "it is empty or has characters that are not valid in a header",
                    )
                })?,
            );
            secrets.push(key.clone());
        }
        for (name, value) in extra {
            let setting = format!("headers.{name}");
            let header = HeaderName::try_from(name.as_str())
                .map_err(|_| SettingError::new(&setting, "it is not a valid header name"))?;
            let sent = secret_value(value.reveal()).ok_or_else(|| {
                SettingError::new(&setting, "it has characters that are not valid in a header")
            })?;
            headers.insert(header, sent);
            secrets.push(value);
        }
        if base.scheme() == "http"
            && !secrets.is_empty()
            && !is_this_machine(base.host_str().unwrap_or_default())
        {
            let why =
                "a key would be sent unencrypted over the network; use https, or a server on this machine";
            return Err(SettingError::new("base_url", why));
        }
        let client =
            connector::client(&base, limits.connect).map_err(|why| SettingError::new("base_url", why))?;
        let at = base.host_str().unwrap_or_default().to_owned();
        let at = base.port().map_or_else(|| at.clone(), |port| format!("{at}:{port}"));
        Ok(Self { base, at, headers, secrets, client, limits })
    }

    /// Sets a header that is not secret.
    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// Returns the host of the endpoint.
    pub(crate) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// Posts `body` to `path` below the base URL and reads the answer. Each attempt gets a new reader.
    pub(crate) async fn ask<R: AnswerReader>(
        &self,
        path: &str,
        body: Vec<u8>,
        style: StreamStyle,
        reader: impl Fn() -> R + Send + Sync,
        heard: &mut DeltaListener<'_>,
    ) -> Result<(R, u32), GenerationFailure> {
        let end = Instant::now() + self.limits.whole;
        // Outside the future, so that the received part is not dropped with it at the time limit.
        let mut state = RequestProgress { reader: reader(), tries: 0, asking: false, may_have_cost: false };
        let asked = self.request_with_retries(path, body.into(), style, &reader, heard, &mut state);
        let outcome = timeout_at(end, asked).await.unwrap_or_else(|_| {
            // Between two attempts nothing can cost money.
            state.may_have_cost |= state.asking;
            Err(self.timed_out(TimeoutStage::Whole))
        });
        match outcome {
            Ok(()) => Ok((state.reader, state.tries)),
            Err(error) => {
                let usage = state.reader.usage();
                let partial = state.reader.partial();
                tracing::debug!(
                    at = self.at,
                    error = error.kind(),
                    tries = state.tries,
                    "model request failed"
                );
                let may_have_cost = state.may_have_cost || usage.is_some() || !partial.is_empty();
                Err(GenerationFailure { error, tries: state.tries, may_have_cost, usage, partial })
            }
        }
    }

    async fn request_with_retries<R: AnswerReader>(
        &self,
        path: &str,
        body: Bytes,
        style: StreamStyle,
        reader: &(impl Fn() -> R + Send + Sync),
        heard: &mut DeltaListener<'_>,
        state: &mut RequestProgress<R>,
    ) -> Result<(), ModelError> {
        loop {
            state.tries += 1;
            if state.tries > 1 {
                heard(AnswerDelta::Again(state.tries));
                // Pieces of a failed attempt must not become part of the next one.
                state.reader = reader();
            }
            state.asking = true;
            // The clone of the body is cheap, because `Bytes` shares its memory.
            let tried = self.attempt(path, body.clone(), style, &mut state.reader, heard).await;
            state.asking = false;
            let Err(miss) = tried else { return Ok(()) };
            state.may_have_cost |= miss.may_have_cost;
            let Some(wait) = retry::wait(&miss, state.tries, &self.limits) else { return Err(miss.error) };
            tracing::debug!(at = self.at, error = miss.error.kind(), ?wait, "retrying model request");
            sleep(wait).await;
        }
    }

    fn timed_out(&self, stage: TimeoutStage) -> ModelError {
        let limit = match stage {
            TimeoutStage::Connecting => self.limits.connect,
            TimeoutStage::FirstByte => self.limits.first_byte,
            TimeoutStage::Idle => self.limits.idle,
            TimeoutStage::Whole => self.limits.whole,
        };
        ModelError::TimedOut { at: self.at.clone(), stage, limit }
    }

    /// Removes the keys of this endpoint from a provider's text.
    fn redact_keys(&self, text: &str) -> String {
        sanitize_provider_text(
            &self.secrets.iter().fold(text.to_owned(), |text, secret| secret.redact(&text)),
        )
    }

    /// Returns the error for an answer that a reader rejected.
    pub(crate) fn explain_read_error(&self, error: ReadError) -> ModelError {
        let at = self.at.clone();
        match error {
            ReadError::Malformed(why) => ModelError::Malformed { at, why: self.redact_keys(&why) },
            ReadError::Reported(message) => ModelError::Reported { at, message: self.redact_keys(&message) },
            ReadError::Blocked(reason) => ModelError::Blocked { at, reason: self.redact_keys(&reason) },
        }
    }
}

/// Progress of a request.
struct RequestProgress<R> {
    reader: R,
    tries: u32,
    /// True while an attempt is in progress.
    asking: bool,
    may_have_cost: bool,
}

/// A failed attempt.
pub(crate) struct FailedAttempt {
    pub(crate) error: ModelError,
    /// True if another attempt may succeed.
    pub(crate) again: bool,
    /// Time after which the provider accepts another request.
    pub(crate) after: Option<std::time::Duration>,
    /// True if the model may have worked.
    pub(crate) may_have_cost: bool,
}

fn secret_value(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok().filter(|value| !value.is_empty())?;
    // So that debug output of the headers does not show it.
    value.set_sensitive(true);
    Some(value)
}

fn parse_base(text: &str) -> Result<Url, SettingError> {
    let wrong = |why: &str| SettingError::new("base_url", why);
    // The text is not repeated, because it may contain a password.
    let mut base = Url::parse(text).map_err(|error| wrong(&format!("it is not a valid URL ({error})")))?;
    if !matches!(base.scheme(), "https" | "http") || base.host_str().is_none() {
        return Err(wrong("it must be an http or https URL"));
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err(wrong("it holds credentials, which would end up in logs; use api_key or headers"));
    }
    if base.query().is_some() || base.fragment().is_some() {
        return Err(wrong("it has a query or a fragment, and request paths are appended to it"));
    }
    // The path of each request begins with a slash.
    let path = base.path().trim_end_matches('/').to_owned();
    base.set_path(&path);
    Ok(base)
}

impl fmt::Debug for ProviderEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderEndpoint")
            .field("base", &self.base.as_str())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
