//! Authorization of requests by the client's authorizer.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{HeaderMap, Method as Verb, Response, StatusCode};
use hyper::body::Incoming;

use crate::client::error::CallError;
use crate::client::target::authorizer::{OutboundRequest, RejectedRequest, RetryDecision};
use crate::client::transport::http::link_shared::HttpLinkShared;
use crate::client::transport::http::request_subject::RequestSubject;

/// Maximum number of times a request is sent again after a refusal.
const MAX_ATTEMPTS: u32 = 8;

impl HttpLinkShared {
    /// Adds what lets a request in. Returns what was added.
    pub(super) async fn authorize_request(
        &self,
        verb: &Verb,
        subject: RequestSubject<'_>,
        headers: &mut HeaderMap,
    ) -> Result<HeaderMap, CallError> {
        let Some(authorizer) = &self.authorizer else { return Ok(HeaderMap::new()) };
        let Some(url) = self.url() else { return Ok(HeaderMap::new()) };
        let request = self.outbound(verb, subject, &url);
        let given = self.away.measure(authorizer.headers(request)).await;
        let given = given.map_err(|why| CallError::NotAuthorized(Arc::new(why)))?;
        for (name, value) in &given {
            let mut value = value.clone();
            // HTTP libraries leave sensitive values out of what they log.
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(given)
    }

    /// Returns true if a request with this response is to be sent again.
    pub(super) async fn should_retry(
        &self,
        verb: &Verb,
        subject: RequestSubject<'_>,
        sent: &HeaderMap,
        response: &Response<Incoming>,
        attempt: u32,
    ) -> Result<bool, CallError> {
        let status = response.status();
        let Some(authorizer) = &self.authorizer else { return Ok(false) };
        let operation = || match subject.name {
            Some(name) => Cow::Owned(format!("{} {name}", subject.method)),
            None => Cow::Borrowed(subject.method),
        };
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            if attempt > 0 && status.is_success() {
                authorizer.record_success(&operation());
            }
            return Ok(false);
        }
        // Nobody is to sign in in order to leave.
        if attempt >= MAX_ATTEMPTS || *verb == Verb::DELETE {
            return Ok(false);
        }
        let Some(url) = self.url() else { return Ok(false) };
        let request = self.outbound(verb, subject, &url);
        let headers = response.headers();
        let operation = &*operation();
        let refusal = RejectedRequest { request, sent, operation, status, headers, attempt };
        match self.away.measure(authorizer.handle_rejection(refusal)).await {
            Ok(verdict) => Ok(verdict == RetryDecision::Retry),
            Err(mut why) => {
                why.status = Some(status);
                Err(CallError::NotAuthorized(Arc::new(why)))
            }
        }
    }

    fn outbound<'a>(
        &self,
        verb: &'a Verb,
        subject: RequestSubject<'_>,
        url: &'a url::Url,
    ) -> OutboundRequest<'a> {
        let mut request = OutboundRequest::new(verb, url);
        request.background = subject.background;
        request.announced = self.is_announced.load(Ordering::Relaxed);
        request
    }
}
