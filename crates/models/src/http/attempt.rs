//! A single attempt to send a request.

use std::error::Error as StdError;

use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use hospes_http_client::ConnectTimeout;
use http::header::{ACCEPT, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use tokio::time::{Instant, timeout, timeout_at};

use super::error_body::ProviderErrorBody;
use super::framing::{AnswerFraming, FramingError, StreamStyle};
use super::{AnswerReader, FailedAttempt, ProviderEndpoint, retry};
use crate::provider::DeltaListener;
use crate::{ModelError, TimeoutStage};

/// Maximum size of an error body that is read.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;

impl FailedAttempt {
    fn fatal(error: ModelError) -> Self {
        Self { error, again: false, after: None, may_have_cost: true }
    }
}

impl ProviderEndpoint {
    /// Sends the request once and reads the answer.
    pub(super) async fn attempt<R: AnswerReader>(
        &self,
        path: &str,
        body: Bytes,
        style: StreamStyle,
        reader: &mut R,
        heard: &mut DeltaListener<'_>,
    ) -> Result<(), FailedAttempt> {
        // One deadline up to the first byte of the body, because providers may send the headers immediately.
        let first = Instant::now() + self.limits.first_byte;
        let request = self.request(path, body, style)?;
        let response = match timeout_at(first, self.client.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.connect_failure(&error)),
            Err(_) => return Err(FailedAttempt::fatal(self.timed_out(TimeoutStage::FirstByte))),
        };
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let framing = AnswerFraming::of(&response, style, self.limits.max_answer_bytes);
        self.answer(response.into_body(), framing, first, reader, heard).await
    }

    fn request(
        &self,
        path: &str,
        body: Bytes,
        style: StreamStyle,
    ) -> Result<Request<Full<Bytes>>, FailedAttempt> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        let uri = format!("{}{path}", self.base.as_str().trim_end_matches('/')).parse();
        *request.uri_mut() = uri.map_err(|error| {
            let why = format!("invalid URL ({error})");
            FailedAttempt {
                may_have_cost: false,
                ..FailedAttempt::fatal(ModelError::Unreachable { at: self.at.clone(), why })
            }
        })?;
        request.headers_mut().clone_from(&self.headers);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(style.accept()));
        Ok(request)
    }

    /// Creates the failure for a request without a response.
    fn connect_failure(&self, error: &legacy::Error) -> FailedAttempt {
        let at = self.at.clone();
        let (mut causes, mut why) = (Some(error as &(dyn StdError + 'static)), String::new());
        while let Some(cause) = causes {
            if cause.is::<ConnectTimeout>() {
                let error = self.timed_out(TimeoutStage::Connecting);
                return FailedAttempt { error, again: true, after: None, may_have_cost: false };
            }
            // The last cause is the most specific one.
            why = cause.to_string();
            causes = cause.source();
        }
        let why = self.redact_keys(&why);
        if error.is_connect() {
            return FailedAttempt {
                error: ModelError::Unreachable { at, why },
                again: true,
                after: None,
                may_have_cost: false,
            };
        }
        FailedAttempt { error: ModelError::Broken { at, why }, again: true, after: None, may_have_cost: true }
    }

    /// Reads the body of a response with an error status, and classifies the failure.
    async fn refusal(&self, response: Response<Incoming>) -> FailedAttempt {
        let (head, mut body) = response.into_parts();
        let mut text = BytesMut::new();
        let reading = async {
            while let Some(Ok(frame)) = body.frame().await {
                if let Ok(data) = frame.into_data() {
                    text.extend_from_slice(&data[..data.len().min(MAX_REFUSAL_BYTES - text.len())]);
                    if text.len() == MAX_REFUSAL_BYTES {
                        break;
                    }
                }
            }
        };
        // On timeout, the part received so far is used.
        let _late = timeout(self.limits.idle, reading).await;
        let refusal = ProviderErrorBody::read(&text);
        let after = retry::parse_retry_after(&head.headers, jiff::Timestamp::now()).or(refusal.retry_after);
        let (at, status) = (self.at.clone(), head.status.as_u16());
        let message = self.redact_keys(&refusal.message);
        let busy = match head.status {
            StatusCode::REQUEST_TIMEOUT => true,
            // Waiting does not help an exhausted account.
            StatusCode::TOO_MANY_REQUESTS => !refusal.is_final(),
            StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => false,
            status => status.is_server_error(),
        };
        let error = match head.status {
            // Providers repeat parts of the key in their messages.
            StatusCode::UNAUTHORIZED => ModelError::Unauthorized { at, status, code: self.code(&refusal) },
            _ if busy => ModelError::Busy { at, status, message, retry_after: after },
            status if status.is_redirection() => {
                let message =
                    "unexpected redirect, not followed with a key; set base_url to the final address".into();
                ModelError::Refused { at, status: status.as_u16(), message }
            }
            _ => ModelError::Refused { at, status, message },
        };
        // A gateway timeout does not tell if the model has answered.
        let may_have_cost = head.status == StatusCode::GATEWAY_TIMEOUT;
        FailedAttempt { error, again: busy, after, may_have_cost }
    }

    fn code(&self, refusal: &ProviderErrorBody) -> String {
        if refusal.code.is_empty() { String::new() } else { self.redact_keys(&refusal.code) }
    }

    async fn answer<R: AnswerReader>(
        &self,
        mut body: Incoming,
        mut framing: AnswerFraming,
        first: Instant,
        reader: &mut R,
        heard: &mut DeltaListener<'_>,
    ) -> Result<(), FailedAttempt> {
        let (mut begun, mut until, mut bytes) = (false, first, 0_usize);
        loop {
            let stage = if begun { TimeoutStage::Idle } else { TimeoutStage::FirstByte };
            let frame = match timeout_at(until, body.frame()).await {
                Err(_) => return Err(FailedAttempt::fatal(self.timed_out(stage))),
                Ok(None) => break,
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    let error =
                        ModelError::Broken { at: self.at.clone(), why: self.redact_keys(&error.to_string()) };
                    // Headers alone are not yet an answer.
                    return Err(FailedAttempt { again: !begun, ..FailedAttempt::fatal(error) });
                }
            };
            let Ok(data) = frame.into_data() else { continue };
            if data.is_empty() {
                continue;
            }
            bytes = bytes.saturating_add(data.len());
            if bytes > self.limits.max_answer_bytes {
                let error = ModelError::TooLong { at: self.at.clone(), limit: self.limits.max_answer_bytes };
                return Err(FailedAttempt::fatal(error));
            }
            begun = true;
            until = Instant::now() + self.limits.idle;
            framing
                .feed(data, &mut |json| reader.read(json, heard))
                .map_err(|trouble| self.framing_failure(trouble))?;
            if reader.is_over() {
                // The end of the body usually has already arrived; the connection can then be reused.
                let _end = body.frame().now_or_never();
                return Ok(());
            }
        }
        framing
            .finish(&mut |json| reader.read(json, heard))
            .map_err(|trouble| self.framing_failure(trouble))?;
        if reader.is_whole() {
            return Ok(());
        }
        let why = if begun { "it ended before it was complete" } else { "it is empty" }.to_owned();
        Err(FailedAttempt {
            again: !begun,
            ..FailedAttempt::fatal(ModelError::Broken { at: self.at.clone(), why })
        })
    }

    fn framing_failure(&self, trouble: FramingError) -> FailedAttempt {
        FailedAttempt::fatal(match trouble {
            FramingError::Read(error) => self.explain_read_error(error),
            FramingError::TooLong => {
                ModelError::TooLong { at: self.at.clone(), limit: self.limits.max_answer_bytes }
            }
        })
    }
}
