//! Pages for load balancers and service managers at the endpoint: `/healthz`, `/readyz` and `/readyz/sessions`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hospes::transport::http_server::{Endpoint, HttpMiddleware, MiddlewareFuture};
use hospes_host::{HostHealth, HostServers};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::{Mutex, watch};

use crate::fleet::FleetMember;

/// Time for which a found health is used again, so that requests without sign-in do not keep the state database busy.
const HEALTH_LIFETIME: Duration = Duration::from_secs(1);

/// Phase of a host, from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ServingPhase {
    /// Required servers are not ready. Requests of applications wait.
    Starting,
    Serving,
    /// The host was asked to end.
    Draining,
}

/// Health of a host and its phase.
pub(super) struct HealthState {
    servers: HostServers,
    /// Membership in a fleet, if this host is a node.
    member: Option<FleetMember>,
    phase: watch::Sender<ServingPhase>,
    /// Last findings, and their time.
    found: Mutex<Option<(Instant, HostHealth)>>,
}

impl HealthState {
    /// Creates the state of a host that is starting.
    pub(super) fn new(servers: HostServers, member: Option<FleetMember>) -> Arc<Self> {
        let phase = watch::Sender::new(ServingPhase::Starting);
        Arc::new(Self { servers, member, phase, found: Mutex::default() })
    }

    /// Lets the requests of applications pass. From now on the host is ready.
    pub(super) fn begin_serving(&self) {
        self.phase.send_replace(ServingPhase::Serving);
    }

    /// Reports from now on that the host is not ready. Requests still pass.
    pub(super) fn begin_draining(&self) {
        self.phase.send_replace(ServingPhase::Draining);
    }

    fn phase(&self) -> ServingPhase {
        *self.phase.borrow()
    }

    /// Waits until the requests of applications may pass.
    async fn wait_until_served(&self) {
        // The sender is part of this state, so waiting does not fail.
        let _ = self.phase.subscribe().wait_for(|phase| *phase != ServingPhase::Starting).await;
    }

    async fn health(&self) -> HostHealth {
        // Held while the health is found, so that requests that come together share it.
        let mut found = self.found.lock().await;
        if let Some((at, health)) = found.as_ref()
            && at.elapsed() < HEALTH_LIFETIME
        {
            return health.clone();
        }
        let health = self.servers.health().await;
        *found = Some((Instant::now(), health.clone()));
        health
    }

    async fn answer(&self, page: HealthPage, method: &Method) -> Response<Bytes> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response =
                text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "method not allowed\n".into());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match page {
            HealthPage::Live => text(StatusCode::OK, "text/plain", "ok\n".into()),
            HealthPage::Sessions => {
                let phase = self.phase();
                let problem = match self.member.as_ref().and_then(FleetMember::problem) {
                    None if phase != ServingPhase::Serving => Some("this node is starting or about to end"),
                    problem => problem,
                };
                let status = if problem.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                text(
                    status,
                    "application/json",
                    format!("{}\n", json!({ "sessions": problem.is_none(), "problem": problem })),
                )
            }
            HealthPage::Ready => {
                let phase = self.phase();
                let is_ready = phase == ServingPhase::Serving;
                let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                text(status, "application/json", write_health(phase, &self.health().await))
            }
        }
    }
}

/// Writes a JSON object with one part a line.
fn write_health(phase: ServingPhase, health: &HostHealth) -> String {
    let status = match phase {
        ServingPhase::Starting => "starting",
        ServingPhase::Serving => "ready",
        ServingPhase::Draining => "draining",
    };
    let parts = [
        ("status", json!(status)),
        ("servers", json!(health.servers)),
        ("policy", json!({ "age_seconds": health.policy_age.map(|age| age.as_secs()) })),
        ("state", json!(health.state)),
        ("audit", json!(health.audit)),
    ];
    let lines = parts.map(|(name, value)| format!("  \"{name}\": {value}"));
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[derive(Clone, Copy, Debug)]
enum HealthPage {
    /// The process serves.
    Live,
    /// Requests may be sent here.
    Ready,
    /// Sessions of older revisions are served here.
    Sessions,
}

impl HealthPage {
    fn at(path: &str) -> Option<Self> {
        match path {
            "/healthz" => Some(Self::Live),
            "/readyz" => Some(Self::Ready),
            "/readyz/sessions" => Some(Self::Sessions),
            _ => None,
        }
    }
}

/// Middleware that answers at the paths of the pages, without sign-in, and passes all other requests on. `Host` is not
/// checked there, because balancers address a host by its address, and the answers have nothing to protect.
pub(super) struct HealthPages {
    pub(super) state: Arc<HealthState>,
    /// Middleware of the endpoint, if there is one.
    pub(super) front: Option<Box<dyn HttpMiddleware>>,
}

impl HttpMiddleware for HealthPages {
    fn receive<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        request: &'a mut Request<Incoming>,
    ) -> MiddlewareFuture<'a> {
        if let Some(page) = HealthPage::at(request.uri().path()) {
            let method = request.method();
            return Box::pin(async move { Some(self.state.answer(page, method).await) });
        }
        if self.state.phase() != ServingPhase::Starting {
            // Nearly all requests: no further future around that of the endpoint's middleware.
            return match &self.front {
                Some(front) => front.receive(endpoint, request),
                None => Box::pin(std::future::ready(None)),
            };
        }
        Box::pin(async move {
            self.state.wait_until_served().await;
            match &self.front {
                Some(front) => front.receive(endpoint, request).await,
                None => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_paths_are_pages() {
        for path in ["/healthz", "/readyz", "/readyz/sessions"] {
            assert!(HealthPage::at(path).is_some(), "{path}");
        }
        for path in ["/", "/mcp", "/mcp/healthz", "/healthz/", "/readyz/session", "/Healthz"] {
            assert!(HealthPage::at(path).is_none(), "{path}");
        }
    }
}
