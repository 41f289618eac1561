//! Admission of HTTP requests, and their routing to an era.
//!
//! [`AdmissionRules::admit`] checks the head before the body is read. [`AdmissionRules::route`] then checks the message
//! and decides if it is served with or without a session.

use hospes_model::{Era, JsonRpcMessage, Method, RequestId, Revision, RpcError};
use http::header::{ACCEPT, HOST};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::allowed_peers::{AllowedHosts, AllowedOrigins};
use super::headers::{self, SessionId};
use super::media::{AcceptedMedia, is_json};
use super::routing_fields::RoutingFields;
use super::status::HttpRejection;
use crate::RevisionSet;
use crate::frame::line::DEFAULT_MAX_MESSAGE_BYTES;

/// Admission rules of an endpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AdmissionRules {
    /// Allowed values of `Host`: the setting `allowed_hosts`.
    pub hosts: AllowedHosts,
    /// Allowed values of `Origin`: the setting `allowed_origins`.
    pub origins: AllowedOrigins,
    /// Maximum size of a message, in bytes: the setting `max_message_bytes`.
    pub max_message_bytes: usize,
    /// Supported revisions.
    pub revisions: RevisionSet,
}

impl Default for AdmissionRules {
    fn default() -> Self {
        Self {
            hosts: AllowedHosts::default(),
            origins: AllowedOrigins::default(),
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            revisions: RevisionSet::ALL,
        }
    }
}

/// HTTP method of a request to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the specification names these three")]
pub enum EndpointMethod {
    /// POST: sends a message.
    Post,
    /// GET: opens the stream of unsolicited messages, or resumes a stream (legacy).
    Get,
    /// DELETE: ends a session (legacy).
    Delete,
}

/// Endpoint of HTTP+SSE, the transport of 2024-11-05.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the specification names these two")]
pub enum SseEndpoint {
    /// The stream that a client receives: GET.
    Stream,
    /// The endpoint that a client sends messages to: POST.
    Messages,
}

/// Head of an admitted request, borrowed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AdmittedHead<'a> {
    /// HTTP method of the request.
    pub verb: EndpointMethod,
    /// `MCP-Protocol-Version`.
    pub version: Option<&'a HeaderValue>,
    /// `Mcp-Session-Id`, if it is syntactically valid.
    pub session: Option<&'a str>,
    /// `Mcp-Method`.
    pub method: Option<&'a HeaderValue>,
    /// `Mcp-Name`.
    pub name: Option<&'a HeaderValue>,
    /// `Last-Event-ID`.
    pub last_event_id: Option<&'a HeaderValue>,
    /// `Origin`, which is allowed.
    pub origin: Option<&'a HeaderValue>,
    /// `Content-Length`, if present; never over the limit.
    pub content_length: Option<usize>,
}

/// Route of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are two eras")]
pub enum MessageRoute {
    /// A modern request, served without a session.
    Modern(Revision),
    /// A legacy message, which belongs to a session or opens one.
    Legacy {
        /// Version in the header. If it is absent and the session does not know better, 2025-03-26 applies (HHDR-03).
        header: Option<Revision>,
    },
}

impl AdmissionRules {
    /// Checks the head of a request. `authority` is that of the target (HTTP/2's `:authority`), if there is one; the
    /// rules for `Host` apply to it too.
    ///
    /// # Errors
    /// [`HttpRejection`] to respond with; the body must not be read.
    pub fn admit<'a>(
        &self,
        method: &http::Method,
        authority: Option<&Authority>,
        headers: &'a HeaderMap,
    ) -> Result<AdmittedHead<'a>, HttpRejection> {
        let (seen, verb, content_length) = self.check_head(authority, headers, |seen| {
            let verb = match *method {
                http::Method::POST => EndpointMethod::Post,
                http::Method::GET if self.revisions.has_era(Era::Legacy) => EndpointMethod::Get,
                http::Method::DELETE if self.revisions.has_era(Era::Legacy) => EndpointMethod::Delete,
                _ => return Err(HttpRejection::method_not_allowed(self.allow())),
            };
            if verb != EndpointMethod::Post
                && seen.version.is_some_and(|v| v == Revision::V2026_07_28.as_str())
            {
                return Err(HttpRejection::method_not_allowed("POST"));
            }
            Ok(verb)
        })?;
        if verb == EndpointMethod::Post {
            check_content_type(&seen)?;
        }
        check_accept(verb, &seen, headers)?;
        let head = seen.head(verb, content_length);
        if verb != EndpointMethod::Post {
            self.check_legacy_version(&head, None)?;
        }
        Ok(head)
    }

    /// Checks the head of a request to an endpoint of HTTP+SSE. Each endpoint serves one method. Responses are sent on
    /// the stream only, so a POST needs no `Accept` header.
    ///
    /// # Errors
    /// [`HttpRejection`] to respond with; the body must not be read.
    pub fn admit_sse<'a>(
        &self,
        endpoint: SseEndpoint,
        method: &http::Method,
        authority: Option<&Authority>,
        headers: &'a HeaderMap,
    ) -> Result<AdmittedHead<'a>, HttpRejection> {
        // SSE-06: `Host` and `Origin` are checked on every connection.
        let (seen, verb, content_length) = self.check_head(authority, headers, |_| match endpoint {
            SseEndpoint::Stream if method == http::Method::GET => Ok(EndpointMethod::Get),
            SseEndpoint::Messages if method == http::Method::POST => Ok(EndpointMethod::Post),
            SseEndpoint::Stream => Err(HttpRejection::method_not_allowed("GET")),
            SseEndpoint::Messages => Err(HttpRejection::method_not_allowed("POST")),
        })?;
        match endpoint {
            SseEndpoint::Stream => check_accept(verb, &seen, headers)?,
            SseEndpoint::Messages => check_content_type(&seen)?,
        }
        let head = seen.head(verb, content_length);
        self.check_legacy_version(&head, None)?;
        Ok(head)
    }

    /// Checks that apply to every request: host, origin, method and length.
    fn check_head<'a>(
        &self,
        authority: Option<&Authority>,
        headers: &'a HeaderMap,
        verb: impl FnOnce(&HeadHeaders<'a>) -> Result<EndpointMethod, HttpRejection>,
    ) -> Result<(HeadHeaders<'a>, EndpointMethod, Option<usize>), HttpRejection> {
        let seen = HeadHeaders::collect(headers)?;
        self.check_peer(authority, &seen)?;
        let verb = verb(&seen)?;
        let length = self.check_length(&seen)?;
        Ok((seen, verb, length))
    }

    /// Checks only host and origin, for pages that are served beside the endpoint.
    ///
    /// # Errors
    /// [`HttpRejection`] if the host or the origin is not allowed.
    pub fn admit_sender(
        &self,
        authority: Option<&Authority>,
        headers: &HeaderMap,
    ) -> Result<(), HttpRejection> {
        self.check_peer(authority, &HeadHeaders::collect(headers)?)
    }

    /// Routes a message to its era and checks the headers that this era requires. `facts` are the routing fields of its
    /// params, needed for requests and notifications.
    ///
    /// # Errors
    /// [`HttpRejection`] to respond with.
    pub fn route(
        &self,
        head: &AdmittedHead<'_>,
        message: &JsonRpcMessage<'_>,
        facts: &RoutingFields<'_>,
    ) -> Result<MessageRoute, HttpRejection> {
        match message {
            JsonRpcMessage::Request(request) => {
                self.route_request(head, &request.id, &Method::from_name(&request.method), facts)
            }
            // The specification leaves open which headers a modern notification has, so none are required.
            JsonRpcMessage::Notification(_) if is_modern(head, facts) => {
                Ok(MessageRoute::Modern(self.modern_revision()))
            }
            JsonRpcMessage::Notification(_) => {
                Ok(MessageRoute::Legacy { header: self.check_legacy_version(head, None)? })
            }
            JsonRpcMessage::Response(response) if is_modern(head, &RoutingFields::default()) => {
                let error = RpcError::invalid_request("clients cannot send responses in this revision");
                Err(HttpRejection::bad_request(response.id.as_ref(), error))
            }
            JsonRpcMessage::Response(_) => {
                Ok(MessageRoute::Legacy { header: self.check_legacy_version(head, None)? })
            }
        }
    }

    /// Routes a request whose method has already been looked up.
    ///
    /// # Errors
    /// [`HttpRejection`] to respond with.
    pub fn route_request(
        &self,
        head: &AdmittedHead<'_>,
        id: &RequestId,
        method: &Method,
        facts: &RoutingFields<'_>,
    ) -> Result<MessageRoute, HttpRejection> {
        if is_modern(head, facts) {
            return self
                .check_modern(head, method, facts)
                .map(MessageRoute::Modern)
                .map_err(|error| HttpRejection::bad_request(Some(id), error));
        }
        if *method == Method::Initialize {
            // The body negotiates the version, so a header has no meaning here.
            if self.revisions.has_era(Era::Legacy) {
                return Ok(MessageRoute::Legacy { header: None });
            }
            let requested = facts.name.as_deref().unwrap_or_default();
            return Err(HttpRejection::bad_request(
                Some(id),
                self.revisions.unsupported_version_error(requested),
            ));
        }
        Ok(MessageRoute::Legacy { header: self.check_legacy_version(head, Some(id))? })
    }

    /// Routes a batch: only 2025-03-26 and older have them (BATCH-01, BATCH-09). The session must still check that its
    /// own revision has batches.
    ///
    /// # Errors
    /// [`HttpRejection`] if no supported revision has batches.
    pub fn route_batch(&self, head: &AdmittedHead<'_>) -> Result<MessageRoute, HttpRejection> {
        let refusal = || {
            RpcError::invalid_request("this revision does not support batches: send one message per request")
        };
        if is_modern(head, &RoutingFields::default()) {
            return Err(HttpRejection::bad_request(None, refusal()));
        }
        match self.check_legacy_version(head, None)? {
            Some(revision) if revision > Revision::V2025_03_26 => {
                Err(HttpRejection::bad_request(None, refusal()))
            }
            header => Ok(MessageRoute::Legacy { header }),
        }
    }

    fn check_peer(&self, authority: Option<&Authority>, seen: &HeadHeaders<'_>) -> Result<(), HttpRejection> {
        // A request may name its host twice, and intermediaries may use either one.
        let host = seen.host.map(|host| host.to_str().unwrap_or("\u{fffd}"));
        let mut hosts = authority.map(Authority::as_str).into_iter().chain(host).peekable();
        if hosts.peek().is_none() && !self.hosts.allows("") {
            return Err(forbidden_header("Host", None, "allowed_hosts"));
        }
        if let Some(host) = hosts.find(|host| !self.hosts.allows(host)) {
            return Err(forbidden_header("Host", Some(host), "allowed_hosts"));
        }
        if let Some(origin) = seen.origin {
            // A value that is not text becomes a character that no origin contains.
            let origin = origin.to_str().unwrap_or("\u{fffd}");
            if !self.origins.allows(origin) {
                return Err(forbidden_header("Origin", Some(origin), "allowed_origins"));
            }
        }
        Ok(())
    }

    fn check_length(&self, seen: &HeadHeaders<'_>) -> Result<Option<usize>, HttpRejection> {
        let Some(value) = seen.content_length else { return Ok(None) };
        // The HTTP library has checked the syntax. A number that cannot be parsed is too large.
        let length = value.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
        if length > self.max_message_bytes {
            Err(HttpRejection::too_large(self.max_message_bytes))
        } else {
            Ok(Some(length))
        }
    }

    /// Returns the version in the header of a legacy request, which must be supported (HHDR-04).
    fn check_legacy_version(
        &self,
        head: &AdmittedHead<'_>,
        id: Option<&RequestId>,
    ) -> Result<Option<Revision>, HttpRejection> {
        let unsupported =
            |name: &str| Err(HttpRejection::bad_request(id, self.revisions.unsupported_version_error(name)));
        match head.version {
            None if self.revisions.has_era(Era::Legacy) => Ok(None),
            // Only 2026-07-28 is supported, in which every request has the header (HHDR-10).
            None => Err(HttpRejection::bad_request(
                id,
                headers::mismatch("the header MCP-Protocol-Version is missing"),
            )),
            Some(value) => {
                let name = value.to_str().unwrap_or("\u{fffd}");
                match self.revisions.find_by_name(name) {
                    Some(revision) if revision.is_legacy() => Ok(Some(revision)),
                    _ => unsupported(name),
                }
            }
        }
    }

    fn check_modern(
        &self,
        head: &AdmittedHead<'_>,
        method: &Method,
        facts: &RoutingFields<'_>,
    ) -> Result<Revision, RpcError> {
        // Checked in this order: missing, contradictory, unsupported.
        let version = facts.version()?;
        headers::check_agreement(head, method, facts, version)?;
        facts.check(self.revisions)
    }

    fn modern_revision(&self) -> Revision {
        self.revisions.latest_of(Era::Modern).unwrap_or(Revision::LATEST)
    }

    fn allow(&self) -> &'static str {
        if self.revisions.has_era(Era::Legacy) { "GET, POST, DELETE" } else { "POST" }
    }
}

fn check_content_type(seen: &HeadHeaders<'_>) -> Result<(), HttpRejection> {
    if seen.content_type.is_some_and(is_json) {
        return Ok(());
    }
    let error = RpcError::invalid_request("the header Content-Type must be application/json");
    Err(HttpRejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
}

fn check_accept(
    verb: EndpointMethod,
    seen: &HeadHeaders<'_>,
    headers: &HeaderMap,
) -> Result<(), HttpRejection> {
    if verb == EndpointMethod::Delete {
        return Ok(());
    }
    let accepts = match seen.accept {
        // Without the header every media type is acceptable (RFC 9110, section 12.5.1).
        None => AcceptedMedia::ALL,
        Some(_) if seen.accept_again => AcceptedMedia::read(headers.get_all(ACCEPT)),
        Some(only) => AcceptedMedia::read(std::iter::once(only)),
    };
    let why = match verb {
        EndpointMethod::Post if !(accepts.json && accepts.sse) => {
            "the header Accept must allow application/json and text/event-stream"
        }
        EndpointMethod::Get if !accepts.sse => "the header Accept must allow text/event-stream",
        _ => return Ok(()),
    };
    Err(HttpRejection::new(StatusCode::NOT_ACCEPTABLE, RpcError::invalid_request(why)))
}

/// Returns true if the body or the header of a request says that it is modern (conformance.md §3).
fn is_modern(head: &AdmittedHead<'_>, facts: &RoutingFields<'_>) -> bool {
    facts.modern || head.version.is_some_and(|value| value == Revision::V2026_07_28.as_str())
}

fn forbidden_header(header: &str, value: Option<&str>, setting: &str) -> HttpRejection {
    let value: String = value.unwrap_or("(none)").chars().take(100).collect();
    let why = format!("{header} {value:?} is not allowed; to allow it, add it to the setting {setting}");
    HttpRejection::new(StatusCode::FORBIDDEN, RpcError::invalid_request(why))
}

/// The relevant headers, collected in one pass.
#[derive(Default)]
struct HeadHeaders<'a> {
    host: Option<&'a HeaderValue>,
    origin: Option<&'a HeaderValue>,
    accept: Option<&'a HeaderValue>,
    accept_again: bool,
    content_type: Option<&'a HeaderValue>,
    content_length: Option<&'a HeaderValue>,
    version: Option<&'a HeaderValue>,
    session: Option<&'a HeaderValue>,
    method: Option<&'a HeaderValue>,
    name: Option<&'a HeaderValue>,
    last_event_id: Option<&'a HeaderValue>,
}

impl<'a> HeadHeaders<'a> {
    fn collect(headers: &'a HeaderMap) -> Result<Self, HttpRejection> {
        let mut seen = Self::default();
        for (name, value) in headers {
            let slot = match name.as_str() {
                "host" => &mut seen.host,
                "origin" => &mut seen.origin,
                "content-type" => &mut seen.content_type,
                "content-length" => &mut seen.content_length,
                "mcp-protocol-version" => &mut seen.version,
                "mcp-session-id" => &mut seen.session,
                "mcp-method" => &mut seen.method,
                "mcp-name" => &mut seen.name,
                "last-event-id" => &mut seen.last_event_id,
                "accept" => {
                    // A list may be spread over several header lines.
                    seen.accept_again = seen.accept.replace(value).is_some();
                    continue;
                }
                _ => continue,
            };
            // With two values, an intermediary could use one and this server the other. `Host` is refused even if both
            // are equal (RFC 9112 §3.2).
            if slot.replace(value).is_some_and(|first| first != value || name == HOST) {
                let why = format!("the header {name} appears twice");
                return Err(HttpRejection::new(StatusCode::BAD_REQUEST, RpcError::invalid_request(why)));
            }
        }
        Ok(seen)
    }

    fn head(&self, verb: EndpointMethod, content_length: Option<usize>) -> AdmittedHead<'a> {
        AdmittedHead {
            verb,
            version: self.version,
            session: self.session.and_then(SessionId::read),
            method: self.method,
            name: self.name,
            last_event_id: self.last_event_id,
            origin: self.origin,
            content_length,
        }
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
