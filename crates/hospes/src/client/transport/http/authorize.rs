//! Authorization of requests by the client's authorizer, and the time that takes.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderMap, Method as Verb, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::client::error::CallError;
use crate::client::target::authorizer::{OutboundRequest, RejectedRequest, RetryDecision};
use crate::client::transport::http::HttpLinkShared;

/// Maximum number of times a request is sent again after a refusal.
const MAX_ATTEMPTS: u32 = 8;

/// Time spent on obtaining authorization. It counts towards no limit: a person may have to find their password.
#[derive(Debug)]
pub(super) struct AuthorizationWait(watch::Sender<AuthorizationPauses>);

#[derive(Clone, Copy, Debug, Default)]
struct AuthorizationPauses {
    /// Number of authorizations in progress, and their start if there is one.
    now: u32,
    since: Option<Instant>,
    /// All earlier absences.
    before: Duration,
}

impl Default for AuthorizationWait {
    fn default() -> Self {
        Self(watch::Sender::new(AuthorizationPauses::default()))
    }
}

impl AuthorizationWait {
    async fn measure<T>(&self, work: impl Future<Output = T>) -> T {
        // A guard, so that the pause also ends when the future is dropped.
        let _away = AuthorizationPause::new(self);
        work.await
    }

    /// In all.
    pub(super) fn total(&self) -> Duration {
        let absence = *self.0.borrow();
        absence.before + absence.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits for `work` until `by`, extended by the time spent on authorization meanwhile. None when it took too long.
    pub(super) async fn timeout_at<T>(
        &self,
        by: Instant,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let before = self.total();
        let mut back = self.0.subscribe();
        loop {
            let until = by + self.total().saturating_sub(before);
            if let Ok(done) = timeout_at(until, &mut work).await {
                return Some(done);
            }
            // Finished work counts even if it comes with the end
            // of the pause; a dropped `wait_for` loses nothing.
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                _ = back.wait_for(|absence| absence.now == 0) => {}
            }
            if by + self.total().saturating_sub(before) <= Instant::now() {
                return None;
            }
        }
    }

    /// Waits for `work` for `limit` from now, like `timeout_at`.
    pub(super) async fn timeout<T>(
        &self,
        limit: Duration,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        self.timeout_at(Instant::now() + limit, work).await
    }
}

struct AuthorizationPause<'a>(&'a AuthorizationWait);

impl<'a> AuthorizationPause<'a> {
    fn new(away: &'a AuthorizationWait) -> Self {
        away.0.send_modify(|absence| {
            absence.now += 1;
            absence.since.get_or_insert_with(Instant::now);
        });
        Self(away)
    }
}

impl Drop for AuthorizationPause<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|absence| {
            absence.now -= 1;
            if absence.now == 0
                && let Some(since) = absence.since.take()
            {
                absence.before += since.elapsed();
            }
        });
    }
}

/// Subject of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSubject<'a> {
    /// MCP method, or another word in its place.
    method: &'a str,
    /// Name of the item that the method addresses.
    name: Option<&'a str>,
    /// True if no caller waits for it.
    pub(super) background: bool,
}

impl<'a> RequestSubject<'a> {
    pub(super) fn new(method: &'a str, name: Option<&'a str>) -> Self {
        Self { method, name, background: false }
    }

    pub(super) fn background(mut self, background: bool) -> Self {
        self.background = background;
        self
    }
}

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

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_absence_counts_towards_no_limit() {
        let away = AuthorizationWait::default();
        let minute = Duration::from_secs(60);
        let slow = away.timeout(minute, pin!(std::future::pending::<()>())).await;
        assert_eq!(slow, None);
        let work = async {
            away.measure(tokio::time::sleep(10 * minute)).await;
            tokio::time::sleep(minute / 2).await;
        };
        assert_eq!(away.timeout(minute, pin!(work)).await, Some(()));
        assert!(away.total() >= 10 * minute && away.total() < 11 * minute);
        let too_long = async {
            away.measure(tokio::time::sleep(10 * minute)).await;
            std::future::pending::<()>().await;
        };
        let began = Instant::now();
        assert_eq!(away.timeout(minute, pin!(too_long)).await, None);
        assert!(began.elapsed() >= 11 * minute && began.elapsed() < 12 * minute);
    }
}
