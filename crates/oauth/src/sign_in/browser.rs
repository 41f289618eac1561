//! Sign-in with the user's browser, and a listener on this machine for the redirect (RFC 8252, section 7.3).

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hospes_auth::metadata::is_secure;
use hospes_auth::{PAGE_STYLE, RedirectUri};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, REFERRER_POLICY};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use url::Url;

use super::{RedirectListener, SignInAnswer, SignInFuture, SignInHandler};
use crate::error::StepError;
use crate::flow::AuthorizationPrompt;

/// Maximum time to wait for the redirect.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 16;
/// Maximum time of one connection.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
const PATH: &str = "/callback";
/// Host names of this listener. Loopback has other names, on which it does not listen.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Style sheet of all pages, also those of the authorization server.
const SUCCESS_PAGE: (&str, &str) =
    ("Sign-in response received", "Return to the application. You can close this page.");
const DENIED_PAGE: (&str, &str) =
    ("You are not signed in", "The application shows the details. You can close this page.");
const UNEXPECTED_PAGE: (&str, &str) = ("No sign-in is pending", "You can close this page.");

/// Opens a page in the user's browser. It gets the URL unchanged and must not pass it through a shell.
pub type BrowserOpener = Arc<dyn Fn(&Url) -> io::Result<()> + Send + Sync>;

/// Opens the user's browser and listens on loopback for the redirect.
#[derive(Clone)]
pub struct BrowserSignIn {
    opener: BrowserOpener,
    patience: Duration,
}

impl BrowserSignIn {
    /// Pages are opened by `opener`.
    pub fn new(opener: impl Fn(&Url) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { opener: Arc::new(opener), patience: CALLBACK_TIMEOUT }
    }

    /// Sets the maximum time to wait for the redirect. Default and maximum: 10 minutes.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience.min(CALLBACK_TIMEOUT);
        self
    }
}

impl fmt::Debug for BrowserSignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserSignIn").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl SignInHandler for BrowserSignIn {
    fn listen<'a>(
        &'a self,
        preferred: Option<&'a RedirectUri>,
    ) -> SignInFuture<'a, Box<dyn RedirectListener>> {
        Box::pin(async move {
            let failed =
                |error| StepError::new("cannot open a listener on the loopback address").because(error);
            // Anywhere else nobody would hear the answer: least of all under a name that is not this machine's.
            let preferred = preferred.and_then(RedirectUri::url);
            let is_ours = |url: &Url| {
                url.scheme() == "http" && url.host_str().is_some_and(|host| HOSTS.contains(&host))
            };
            let preferred = preferred.filter(is_ours);
            let path = preferred.as_ref().map_or(PATH, Url::path).to_owned();
            let host = preferred.as_ref().and_then(Url::host_str).unwrap_or(HOSTS[0]).to_owned();
            let port = preferred.as_ref().and_then(Url::port).unwrap_or_default();
            let first = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                Ok(listener) => listener,
                // Somebody else has it; the server will have to be told of another.
                Err(_) if port != 0 => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?,
                Err(error) => return Err(failed(error)),
            };
            let port = first.local_addr().map_err(failed)?.port();
            // A browser may take `localhost` for either.
            let second = TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await.ok();
            let host = if second.is_none() && host == HOSTS[2] { HOSTS[0] } else { &*host };
            let redirect_uri = RedirectUri::new(format!("http://{host}:{port}{path}"));
            let redirect_uri = redirect_uri.map_err(|error| StepError::new(error.to_string()))?;
            let listening = CallbackListener {
                browser: self.clone(),
                listeners: (first, second),
                redirect_uri,
                path,
                port,
            };
            Ok(Box::new(listening) as Box<dyn RedirectListener>)
        })
    }
}

struct CallbackListener {
    browser: BrowserSignIn,
    listeners: (TcpListener, Option<TcpListener>),
    redirect_uri: RedirectUri,
    path: String,
    port: u16,
}

impl RedirectListener for CallbackListener {
    fn redirect_uri(&self) -> RedirectUri {
        self.redirect_uri.clone()
    }

    fn visit(self: Box<Self>, visit: AuthorizationPrompt) -> SignInFuture<'static, SignInAnswer> {
        Box::pin(async move {
            let Self { browser, listeners: (first, second), path, port, redirect_uri } = *self;
            // The flow has looked at it; but whoever opens pages looks again.
            if !is_secure(&visit.url) {
                return Err(StepError::new("the sign-in page does not use https"));
            }
            (browser.opener)(&visit.url)
                .map_err(|error| StepError::new("cannot open a browser").because(error))?;
            // Room for one answer: a second one finds the channel full and is turned away.
            let (answers, mut arrived) = mpsc::channel(1);
            let wanted = Arc::new(ExpectedCallback { path, port, state: visit.state, redirect_uri, answers });
            // The accept loops never end, so only an answer or the time limit decides,
            // in whatever order the branches are polled.
            tokio::select! {
                answer = arrived.recv() => answer
                    .map(SignInAnswer::Redirected)
                    .ok_or_else(|| StepError::new("the redirect listener stopped")),
                () = accept(&first, &wanted) => Err(StepError::new("the redirect listener stopped")),
                () = accept_optional(second.as_ref(), &wanted) => Err(StepError::new("the redirect listener stopped")),
                () = tokio::time::sleep(browser.patience) => {
                    Err(StepError::new(format!("timed out after {:?} waiting for the sign-in", browser.patience)))
                }
            }
        })
    }
}

/// The expected redirect.
struct ExpectedCallback {
    path: String,
    port: u16,
    state: String,
    redirect_uri: RedirectUri,
    answers: mpsc::Sender<String>,
}

async fn accept_optional(listener: Option<&TcpListener>, wanted: &Arc<ExpectedCallback>) {
    match listener {
        Some(listener) => accept(listener, wanted).await,
        None => std::future::pending().await,
    }
}

async fn accept(listener: &TcpListener, wanted: &Arc<ExpectedCallback>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The usual cause is a lack of file descriptors, with which the loop would spin without a
            // pause.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Closed at once instead of queued: every place is free again after CONNECTION_TIME.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let wanted = Arc::clone(wanted);
        // A task of its own: the page is still delivered when the answer has ended the accept loop.
        tokio::spawn(async move {
            let _place = place;
            // A connection that fails or takes too long changes nothing; the browser may come again.
            let _ = tokio::time::timeout(CONNECTION_TIME, serve(stream, &wanted)).await;
        });
    }
}

async fn serve(stream: TcpStream, wanted: &ExpectedCallback) {
    let answer = service_fn(|request| async move { Ok::<_, Infallible>(wanted.answer(&request)) });
    // Whoever breaks off wanted no answer.
    let _ = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), answer).await;
}

impl ExpectedCallback {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let (status, (title, text)) = match self.accept_callback(request) {
            Some(true) => (StatusCode::OK, SUCCESS_PAGE),
            Some(false) => (StatusCode::OK, DENIED_PAGE),
            None => (StatusCode::NOT_FOUND, UNEXPECTED_PAGE),
        };
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title} · hospes</title>\
             <style>{PAGE_STYLE}</style></head><body><main><p class=\"brand\">hospes</p><h1>{title}</h1>\
             <p class=\"soft\">{text}</p></main></body></html>"
        );
        let mut response = Response::new(Full::new(Bytes::from(page)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // That one style and nothing else: it is known by its hash.
        let hash = STANDARD.encode(digest(&SHA256, PAGE_STYLE.as_bytes()));
        let policy = format!("default-src 'none'; style-src 'sha256-{hash}'; frame-ancestors 'none'");
        if let Ok(policy) = HeaderValue::try_from(policy) {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
        }
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    }

    /// Returns `None` if this is not the expected redirect, else true for success and false for an error. Other
    /// requests, such as a page that guesses the port, change nothing.
    fn accept_callback(&self, request: &Request<Incoming>) -> Option<bool> {
        // The host is checked because a web page can have its own name lead to this listener (DNS
        // rebinding).
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
        if request.method() != Method::GET
            || request.uri().path() != self.path
            || !HOSTS.contains(&name)
            || port.parse() != Ok(self.port)
        {
            return None;
        }
        let query = request.uri().query().unwrap_or_default();
        let mut states = url::form_urlencoded::parse(query.as_bytes())
            .filter(|(name, _)| name == "state")
            .map(|(_, value)| value);
        if states.next().as_deref() != Some(&*self.state) {
            return None;
        }
        let said_no = url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "error");
        // Built on the registered URI: the browser may have come by another name of this machine.
        self.answers.try_send(format!("{}?{query}", self.redirect_uri)).ok().map(|()| !said_no)
    }
}
