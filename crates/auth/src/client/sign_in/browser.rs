//! The person's own browser, and a listener on this machine for what it brings back (RFC 8252, section 7.3).

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
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

use super::{Answer, Listening, SignIn, SigningIn};
use crate::RedirectUri;
use crate::client::error::StepError;
use crate::client::flow::Visit;
use crate::metadata::{is_loopback, is_secure};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(600);
/// How many connections are listened to at once.
const MAX_CONNECTIONS: usize = 16;
/// How long one may take to say what it wants.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
const PATH: &str = "/callback";

const THANKS: &str = "<!doctype html><meta charset=utf-8><title>Signed in</title><h1>That is all</h1>\
    <p>The answer has arrived. You can close this page.</p>";
const SORRY: &str =
    "<!doctype html><meta charset=utf-8><title>Not here</title><h1>Nothing is waited for here</h1>";

/// What opens a page in the person's browser. It is given the URL as it is, and must not let a shell read it.
pub type Opener = Arc<dyn Fn(&Url) -> io::Result<()> + Send + Sync>;

/// Opens the person's browser and listens on loopback for what it brings back.
#[derive(Clone)]
pub struct Browser {
    opener: Opener,
    patience: Duration,
}

impl Browser {
    /// Pages are opened by `opener`.
    pub fn new(opener: impl Fn(&Url) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self { opener: Arc::new(opener), patience: PATIENCE }
    }

    /// How long an answer is waited for; 10 minutes without this, and never longer.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience.min(PATIENCE);
        self
    }
}

impl fmt::Debug for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Browser").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl SignIn for Browser {
    fn listen<'a>(&'a self, preferred: Option<&'a RedirectUri>) -> SigningIn<'a, Box<dyn Listening>> {
        Box::pin(async move {
            let failed = |error| StepError::new("no listener could be opened on this machine").because(error);
            // Anywhere else nobody would hear the answer: least of all under a name that is not this machine's.
            let preferred = preferred.and_then(RedirectUri::url);
            let preferred = preferred.filter(|url| url.scheme() == "http" && is_loopback(url));
            let path = preferred.as_ref().map_or(PATH, Url::path).to_owned();
            let host = preferred.as_ref().and_then(Url::host_str).unwrap_or("127.0.0.1").to_owned();
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
            let redirect_uri = RedirectUri::new(format!("http://{host}:{port}{path}"));
            let redirect_uri = redirect_uri.map_err(|error| StepError::new(error.to_string()))?;
            let listening =
                Listener { browser: self.clone(), listeners: (first, second), redirect_uri, path, port };
            Ok(Box::new(listening) as Box<dyn Listening>)
        })
    }
}

struct Listener {
    browser: Browser,
    listeners: (TcpListener, Option<TcpListener>),
    redirect_uri: RedirectUri,
    path: String,
    port: u16,
}

impl Listening for Listener {
    fn redirect_uri(&self) -> RedirectUri {
        self.redirect_uri.clone()
    }

    fn visit(self: Box<Self>, visit: Visit) -> SigningIn<'static, Answer> {
        Box::pin(async move {
            let Self { browser, listeners: (first, second), path, port, redirect_uri } = *self;
            // The flow has looked at it; but whoever opens pages looks again.
            if !is_secure(&visit.url) {
                return Err(StepError::new("the page is not https, so it is not opened"));
            }
            (browser.opener)(&visit.url)
                .map_err(|error| StepError::new("no browser could be opened").because(error))?;
            let (answers, mut arrived) = mpsc::channel(1);
            let wanted = Arc::new(Wanted { path, port, state: visit.state, redirect_uri, answers });
            tokio::select! {
                answer = arrived.recv() => answer
                    .map(Answer::Redirected)
                    .ok_or_else(|| StepError::new("the listener ended")),
                () = accept(&first, &wanted) => Err(StepError::new("the listener ended")),
                () = accept_too(second.as_ref(), &wanted) => Err(StepError::new("the listener ended")),
                () = tokio::time::sleep(browser.patience) => {
                    Err(StepError::new(format!("nobody signed in within {:?}", browser.patience)))
                }
            }
        })
    }
}

/// What is waited for.
struct Wanted {
    path: String,
    port: u16,
    state: String,
    redirect_uri: RedirectUri,
    answers: mpsc::Sender<String>,
}

async fn accept_too(listener: Option<&TcpListener>, wanted: &Arc<Wanted>) {
    match listener {
        Some(listener) => accept(listener, wanted).await,
        None => std::future::pending().await,
    }
}

async fn accept(listener: &TcpListener, wanted: &Arc<Wanted>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let wanted = Arc::clone(wanted);
        tokio::spawn(async move {
            let _place = place;
            let _ = tokio::time::timeout(CONNECTION_TIME, serve(stream, &wanted)).await;
        });
    }
}

async fn serve(stream: TcpStream, wanted: &Wanted) {
    let answer = service_fn(|request| async move { Ok::<_, Infallible>(wanted.answer(&request)) });
    // Whoever breaks off wanted no answer.
    let _ = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), answer).await;
}

impl Wanted {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let (status, text) =
            if self.take(request) { (StatusCode::OK, THANKS) } else { (StatusCode::NOT_FOUND, SORRY) };
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    }

    /// Whether this is what was waited for. Whatever else comes by, a page that guesses at the port for one, changes
    /// nothing.
    fn take(&self, request: &Request<Incoming>) -> bool {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let ours = ["127.0.0.1", "localhost", "[::1]"];
        let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
        if request.method() != Method::GET
            || request.uri().path() != self.path
            || !ours.contains(&name)
            || port.parse() != Ok(self.port)
        {
            return false;
        }
        let query = request.uri().query().unwrap_or_default();
        let mut states = url::form_urlencoded::parse(query.as_bytes())
            .filter(|(name, _)| name == "state")
            .map(|(_, value)| value);
        if states.next().as_deref() != Some(&*self.state) {
            return false;
        }
        self.answers.try_send(format!("{}?{query}", self.redirect_uri)).is_ok()
    }
}
