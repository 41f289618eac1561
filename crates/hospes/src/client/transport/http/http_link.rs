//! [`HttpLink`]: a server that is reached over crate::client::transport::http::.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use hospes_http_client::NetworkSettings;
use hospes_model::{ListToolsResult, Method, Notification};
use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::{HeaderMap, Uri};

use crate::client::error::{CallError, ConnectionClosed};
use crate::client::link::{
    self, ClientLimits, InFlightRequest, InboundMessages, Link, LinkCall, LinkEvent, LinkFuture,
    NegotiatedProtocol, OutgoingRequest, ReplyTo,
};
use crate::client::target::UrlTarget;
use crate::client::transport::http::call::{self, HttpCall};
use crate::client::transport::http::link_shared::{HttpLinkShared, path_of};
use crate::client::transport::http::pool::HttpConnectionPool;
use crate::client::transport::http::session_lifecycle::wait_until_listening;

/// A server that is reached over HTTP. Dropping it ends the session, in the background.
#[derive(Debug)]
pub(crate) struct HttpLink {
    pub(super) shared: Arc<HttpLinkShared>,
}

impl HttpLink {
    /// A link to `url`; nothing is sent yet.
    pub(crate) fn new(
        target: &UrlTarget,
        limits: ClientLimits,
        network: &NetworkSettings,
        inbound: Arc<dyn InboundMessages>,
    ) -> Result<Self, String> {
        let url = url::Url::parse(&target.url).map_err(|error| format!("not a URL: {error}"))?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or("the URL has no host")?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        if url.scheme() == "https" && cfg!(not(feature = "tls")) {
            return Err("https support is not compiled in (feature tls)".into());
        }
        let origin =
            format!("{}://{authority}", url.scheme()).parse::<Uri>().map_err(|error| error.to_string())?;
        let path = path_of(&url).map_err(|error| error.to_string())?;
        let mut headers = HeaderMap::new();
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| "a header value contains invalid characters")
        };
        headers.insert(HOST, value(&authority)?);
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("hospes/", env!("CARGO_PKG_VERSION"))));
        if !url.username().is_empty() || url.password().is_some() {
            use base64::Engine as _;
            let pair = format!("{}:{}", url.username(), url.password().unwrap_or_default());
            let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
            headers.insert(AUTHORIZATION, value(&format!("Basic {encoded}"))?);
        }
        for (name, text) in &target.headers {
            let name =
                name.parse::<HeaderName>().map_err(|_| format!("{name:?} is not a valid header name"))?;
            let mut text = value(text)?;
            text.set_sensitive(true);
            headers.append(name, text);
        }
        let pool = HttpConnectionPool::new(origin, network)?;
        let authorizer = target.authorizer.as_ref().map(|shared| Arc::clone(&shared.0));
        let shared = HttpLinkShared::new(pool, path, headers, authorizer, limits, inbound);
        Ok(Self { shared: Arc::new(shared) })
    }

    fn fail_all(&self, closed: ConnectionClosed) {
        let closed = Arc::new(closed);
        // The receiver first: a stream that is entered from now
        // on finds the end there, the others are told below.
        self.shared.inbound.handle_connection_lost(Arc::clone(&closed));
        for mailbox in self.shared.streaming().values() {
            mailbox.put_answer(Err(CallError::Closed(Arc::clone(&closed))));
        }
    }
}

impl Link for HttpLink {
    fn open<'a>(
        &'a self,
        outgoing: &'a OutgoingRequest<'a>,
        protocol: &'a NegotiatedProtocol,
    ) -> LinkFuture<'a, Result<LinkCall, CallError>> {
        link::waiting(async move {
            // An answer that is there wins over the end of the
            // connection. Dropping `call::open` cancels the request.
            let opened = tokio::select! {
                biased;
                opened = call::open(&self.shared, outgoing, protocol), if self.shared.closed().is_none() => opened,
                closed = link::wait_closed(self.shared.inbound.subscribe_closed()) => Err(CallError::Closed(closed)),
            };
            Ok(LinkCall::Boxed(Box::new(OpenHttpCall { call: opened?, shared: Arc::clone(&self.shared) })))
        })
    }

    /// Unlike other notifications, the one that the session is open must arrive before anything else is sent.
    fn start_session<'a>(&'a self, protocol: &'a NegotiatedProtocol) -> LinkFuture<'a, ()> {
        if !protocol.revision.is_legacy() {
            return link::ready(());
        }
        link::waiting(async move {
            self.shared.post_initialized(protocol).await;
            wait_until_listening(self.shared.keep_listening(protocol)).await;
        })
    }

    /// Sends a notification in the background; a failure is not reported.
    fn notify(&self, notification: &Notification, protocol: &NegotiatedProtocol) {
        let mut body = Vec::new();
        if notification.encode(protocol.revision, None, &mut body).unwrap_or(false) {
            let method = notification.method();
            let session = self.shared.session();
            self.shared.post_in_background(body, Some(method), protocol.clone(), session);
        }
    }

    /// Waits until the server has accepted it.
    fn tell<'a>(
        &'a self,
        method: &'a Method,
        body: Vec<u8>,
        protocol: &'a NegotiatedProtocol,
    ) -> LinkFuture<'a, Result<(), CallError>> {
        let session = self.shared.session();
        link::waiting(async move { self.shared.post(body, Some(method), protocol, &session).await })
    }

    /// Ends the session. What still waits fails, and so does everything after it.
    fn close(&self) -> LinkFuture<'_, ()> {
        link::waiting(async move {
            self.fail_all(ConnectionClosed::new("the connection was closed"));
            self.shared.end_session().await;
        })
    }

    fn close_with_reason(&self, closed: ConnectionClosed) {
        self.fail_all(closed);
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move { shared.end_session().await });
    }

    fn is_busy(&self) -> bool {
        // There are servers that do one thing at a time, over HTTP too.
        self.shared.calls.load(Ordering::Relaxed) > 0
    }

    fn authorization_time(&self) -> Duration {
        self.shared.away.total()
    }

    /// Learns which arguments go into headers, and drops tools whose annotations break the rules (HHDR-29).
    fn record_tools(&self, result: &mut ListToolsResult, protocol: &NegotiatedProtocol) {
        if !protocol.revision.is_legacy() {
            self.shared.learn_tools(result);
        }
    }

    fn needs_tool_list(&self, protocol: &NegotiatedProtocol) -> bool {
        !protocol.revision.is_legacy()
    }

    fn on_renewed(&self, then: Box<dyn Fn() + Send + Sync>) {
        // Set once, when the client is made.
        let _ = self.shared.on_renewed.set(then);
    }
}

/// A request of [`HttpLink`], with what its answers to questions need.
#[derive(Debug)]
struct OpenHttpCall {
    call: HttpCall,
    shared: Arc<HttpLinkShared>,
}

impl InFlightRequest for OpenHttpCall {
    fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<LinkEvent> {
        self.call.poll_event(cx)
    }

    fn reply_to(&self) -> ReplyTo {
        // The session may have been replaced since the call: the
        // answer goes to the one that the question came from.
        let session = self.call.session().cloned().unwrap_or_else(|| self.shared.session());
        self.shared.reply_to(&session)
    }
}

impl Drop for HttpLink {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        shared.ended.store(true, Ordering::Relaxed);
        shared.stop_listening();
        if shared.session().id.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { shared.end_session().await });
        }
    }
}
