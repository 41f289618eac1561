//! The server as its clients and users see it.

mod assertions;
mod authorize;
#[cfg(all(feature = "postgres", target_os = "linux"))]
mod broken_connections;
mod clients;
mod delegated;
mod errors;
mod grants;
#[cfg(all(feature = "sqlite", unix))]
mod killed;
mod logout_token;
#[cfg(feature = "sqlite")]
mod once;
mod person_sign_in;
mod proofs;
mod signing;
mod visits;
mod watched;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use hospes_auth::pkce::CodeVerifier;
use hospes_auth::{ClientId, FetchFuture, HttpFetch, Issuer, RedirectUri, Resource, UnixClock};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use super::{
    AuthServer, AuthServerSettings, AuthStore, LocalSignIn, MemoryAuthStore, PasswordHash, RegisteredClient,
};

const ISSUER: &str = "https://as.example";
const RESOURCE: &str = "https://as.example/mcp";
const APP: &str = "app";
const REDIRECT: &str = "http://127.0.0.1/callback";
const ASKED: &str = "http://127.0.0.1:41233/callback";

/// A password that costs little to check.
fn password() -> PasswordHash {
    PasswordHash::cheap("correct horse")
}

fn client_id(text: &str) -> ClientId {
    ClientId::new(text).unwrap()
}

fn redirect_uri(text: &str) -> RedirectUri {
    RedirectUri::new(text).unwrap()
}

fn settings() -> AuthServerSettings {
    let mut settings =
        AuthServerSettings::new(Issuer::new(ISSUER).unwrap(), Resource::new(RESOURCE).unwrap())
            .scope("mcp", "Use the tools behind this address");
    settings.scopes.push(("files".to_owned(), "Read and change your files".to_owned()));
    settings.clients = vec![
        RegisteredClient::public(client_id(APP), vec![redirect_uri(REDIRECT)]).named("The App"),
        RegisteredClient::public(client_id("other"), vec![redirect_uri(REDIRECT)]),
        RegisteredClient::confidential(
            client_id("machine"),
            "s3cret:%+ä",
            vec![redirect_uri("https://machine.example/callback")],
        )
        .serving([Resource::new(RESOURCE).unwrap()]),
        RegisteredClient::confidential(client_id("elsewhere"), "secret", Vec::new()),
    ];
    settings.registration = true;
    // Those who come too often have tests of their own.
    (settings.registrations_per_minute, settings.sign_ins_per_minute) = (1000, 1000);
    settings.authorizations_per_minute = 1000;
    settings
}

/// A server in memory, with a clock that the test turns.
#[derive(Clone)]
struct Site {
    server: AuthServer,
    time: Arc<AtomicU64>,
    /// Another node on the same store: requests come to one and the other in turn.
    twin: Option<AuthServer>,
    turn: Arc<AtomicUsize>,
    _folder: Option<Arc<tempfile::TempDir>>,
}

impl Site {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut AuthServerSettings)) -> Self {
        Self::on(Arc::new(MemoryAuthStore::new()), change, Arc::new(AtomicU64::new(1_000_000)))
    }

    fn on(
        store: Arc<dyn AuthStore>,
        change: impl FnOnce(&mut AuthServerSettings),
        time: Arc<AtomicU64>,
    ) -> Self {
        let mut settings = settings();
        change(&mut settings);
        Self::of(Self::node(settings, store, &time), time)
    }

    fn of(server: AuthServer, time: Arc<AtomicU64>) -> Self {
        Self { server, time, twin: None, turn: Arc::default(), _folder: None }
    }

    /// Over every store, at one node and at two.
    fn everywhere() -> Vec<Self> {
        let time = || Arc::new(AtomicU64::new(1_000_000));
        let memory: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
        let mut all = vec![Self::new(), Self::twins([Arc::clone(&memory), memory], time())];
        #[cfg(feature = "sqlite")]
        {
            let folder = tempfile::tempdir().unwrap();
            let open = || -> Arc<dyn AuthStore> {
                Arc::new(super::SqlAuthStore::open(folder.path().join("auth.db")).unwrap())
            };
            let twins = Self::twins([open(), open()], time());
            all.push(Self { _folder: Some(Arc::new(folder)), ..twins });
        }
        all
    }

    fn twins([one, other]: [Arc<dyn AuthStore>; 2], time: Arc<AtomicU64>) -> Self {
        let twin = Some(Self::node(settings(), other, &time));
        Self { twin, ..Self::on(one, |_| {}, time) }
    }

    fn node(settings: AuthServerSettings, store: Arc<dyn AuthStore>, time: &Arc<AtomicU64>) -> AuthServer {
        let sign_in = LocalSignIn::users([("ann".to_owned(), password())]);
        let now = Arc::clone(time);
        let clock = UnixClock::new(move || now.load(Ordering::Relaxed));
        AuthServer::new(settings, store, sign_in).unwrap().clock(clock)
    }

    fn pass(&self, seconds: u64) {
        self.time.fetch_add(seconds, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.time.load(Ordering::Relaxed)
    }

    async fn send(&self, mut parts: Parts, body: &str) -> Answer {
        parts.headers.entry("host").or_insert_with(|| "as.example".parse().unwrap());
        let first = self.turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let server = self.twin.as_ref().filter(|_| !first).unwrap_or(&self.server);
        let response = server.answer(&parts, body.as_bytes()).await.expect("a path of the server's");
        Answer(response)
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(()).unwrap().into_parts().0, "").await
    }

    async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.form_with(path, fields, &[]).await
    }

    async fn form_with(&self, path: &str, fields: &[(&str, &str)], headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.send(request.body(()).unwrap().into_parts().0, &body).await
    }

    async fn register(&self, metadata: &Value) -> Answer {
        let request = Request::post("/register").header("content-type", "application/json");
        self.send(request.body(()).unwrap().into_parts().0, &metadata.to_string()).await
    }

    /// Goes through the whole flow as Ann and returns the code.
    async fn code(&self, asked: &Ask) -> String {
        let mut browser = Browser::new(self);
        let consent = browser.sign_in(asked).await;
        let back = browser.decide(&consent, "allow").await;
        back.answer()["code"].clone()
    }

    async fn redeem(&self, asked: &Ask, code: &str) -> Answer {
        let verifier = asked.verifier.expose();
        self.form(
            "/token",
            &[
                ("grant_type", "authorization_code"),
                ("code", code),
                ("code_verifier", verifier),
                ("redirect_uri", &asked.redirect),
                ("client_id", &asked.client),
                ("resource", RESOURCE),
            ],
        )
        .await
    }

    /// Access and refresh token of a new grant.
    async fn tokens(&self) -> (String, String) {
        let asked = Ask::new();
        let code = self.code(&asked).await;
        self.redeem(&asked, &code).await.tokens()
    }

    async fn refresh(&self, token: &str, client: &str, more: &[(&str, &str)]) -> Answer {
        let own = [("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", client)];
        self.form("/token", &[&own, more].concat()).await
    }

    async fn is_good(&self, token: &str) -> bool {
        use hospes_oauth_resource::TokenVerifier as _;
        self.guard().verify(token, self.now()).await.is_ok()
    }

    /// Returns the token verifier for all resources of the server.
    fn guard(&self) -> super::OwnTokenVerifier {
        self.server.tokens_for(self.server.settings().resources.clone())
    }
}

/// HTTP Basic, each part form-encoded.
fn basic(id: &str, secret: &str) -> String {
    use base64::Engine as _;
    let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encode(id), encode(secret));
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
}

struct Answer(Response<Bytes>);

impl Answer {
    fn status(&self) -> StatusCode {
        self.0.status()
    }

    fn header(&self, name: &str) -> &str {
        self.0.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(self.0.body()).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    fn tokens(&self) -> (String, String) {
        assert_eq!(self.status(), StatusCode::OK, "{}", self.text());
        let token = |name: &str| self.json()[name].as_str().unwrap_or_default().to_owned();
        (token("access_token"), token("refresh_token"))
    }

    /// Returns the status and the error of a response, which must not be cached.
    fn error(&self) -> (u16, String) {
        assert_eq!(self.header("cache-control"), "no-store");
        assert_eq!(self.header("content-type"), "application/json");
        (self.status().as_u16(), self.json()["error"].as_str().unwrap_or_default().to_owned())
    }

    /// The answer in the address that the browser is sent to; none when it is not sent anywhere.
    fn back(&self) -> Option<(String, HashMap<String, String>)> {
        let location = self.0.headers().get("location")?.to_str().unwrap();
        let url = Url::parse(location).unwrap();
        let mut fields = HashMap::new();
        for (name, value) in url.query_pairs() {
            assert!(fields.insert(name.to_string(), value.to_string()).is_none(), "{name} twice");
        }
        let (address, _) = location.split_once('?').unwrap();
        Some((address.to_owned(), fields))
    }

    fn answer(&self) -> HashMap<String, String> {
        self.back().unwrap_or_else(|| panic!("no redirect: {}", self.text())).1
    }

    /// The value of a hidden field of a page.
    fn hidden(&self, name: &str) -> String {
        let mark = format!("name=\"{name}\" value=\"");
        let (_, rest) = self.text().split_once(&mark).unwrap_or_else(|| panic!("no {name}: {}", self.text()));
        rest.split_once('"').unwrap().0.to_owned()
    }
}

/// Parameters of an authorization request.
struct Ask {
    verifier: CodeVerifier,
    client: String,
    redirect: String,
    fields: Vec<(String, String)>,
}

impl Ask {
    fn new() -> Self {
        Self::of(APP, ASKED)
    }

    fn of(client: &str, redirect: &str) -> Self {
        static SEED: AtomicUsize = AtomicUsize::new(0);
        let seed = u8::try_from(SEED.fetch_add(1, Ordering::Relaxed) % 256).unwrap();
        let verifier = CodeVerifier::new(&[seed; 32]);
        let fields = [
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", redirect),
            ("state", "st&te=1"),
            ("code_challenge", &verifier.challenge()),
            ("code_challenge_method", "S256"),
            ("resource", RESOURCE),
            ("scope", "mcp"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { verifier, client: client.to_owned(), redirect: redirect.to_owned(), fields }
    }

    /// With this instead; without it when it is empty.
    fn but(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.fields.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    fn and(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self) -> String {
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.fields).finish();
        format!("/authorize?{query}")
    }
}

/// A browser: it keeps a cookie.
struct Browser {
    site: Site,
    cookie: Option<String>,
}

impl Browser {
    fn new(site: &Site) -> Self {
        Self { site: site.clone(), cookie: None }
    }

    async fn open(&mut self, asked: &Ask) -> Answer {
        let mut request = Request::get(asked.path());
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        let answer = self.site.send(request.body(()).unwrap().into_parts().0, "").await;
        self.keep(&answer);
        answer
    }

    async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let cookie = self.cookie.clone().unwrap_or_default();
        let answer = self.site.form_with(path, fields, &[("cookie", &format!("theme=dark; {cookie}"))]).await;
        self.keep(&answer);
        answer
    }

    fn keep(&mut self, answer: &Answer) {
        if let Some((cookie, _)) = answer.header("set-cookie").split_once(';') {
            self.cookie = Some(cookie.to_owned());
        }
    }

    /// Opens the page and signs in as Ann; the consent page.
    async fn sign_in(&mut self, asked: &Ask) -> Answer {
        let page = self.open(asked).await;
        assert_eq!(page.status(), StatusCode::OK, "{}", page.text());
        self.take_sign_in(&page, "ann", "correct horse").await
    }

    async fn take_sign_in(&mut self, page: &Answer, user: &str, password: &str) -> Answer {
        let (request, csrf) = (page.hidden("request"), page.hidden("csrf"));
        let fields = [("request", &*request), ("csrf", &*csrf), ("user", user), ("password", password)];
        self.post("/sign-in", &fields).await
    }

    async fn decide(&mut self, page: &Answer, decision: &str) -> Answer {
        let (request, csrf) = (page.hidden("request"), page.hidden("csrf"));
        self.post("/consent", &[("request", &request), ("csrf", &csrf), ("decision", decision)]).await
    }
}

/// Documents that are somewhere, and how often they were fetched.
#[derive(Clone, Default)]
struct Web {
    documents: Arc<Mutex<HashMap<String, hospes_auth::FetchResponse>>>,
    fetched: Arc<AtomicUsize>,
}

impl Web {
    fn with(self, url: &str, response: hospes_auth::FetchResponse) -> Self {
        self.put(url, response);
        self
    }

    fn put(&self, url: &str, response: hospes_auth::FetchResponse) {
        self.documents.lock().insert(url.to_owned(), response);
    }

    /// Makes the URL unreachable.
    fn cut(&self, url: &str) {
        self.documents.lock().remove(url);
    }
}

impl HttpFetch for Web {
    fn fetch(&self, request: hospes_auth::FetchRequest) -> FetchFuture<'_> {
        self.fetched.fetch_add(1, Ordering::Relaxed);
        let found = self.documents.lock().get(request.url.as_str()).cloned();
        Box::pin(async move {
            // Whoever else asks comes first.
            tokio::task::yield_now().await;
            found.ok_or_else(|| "nobody was reached there".into())
        })
    }
}

/// Without TLS, passwords, codes and tokens would cross the network in the clear.
///
/// covers: AUTG-08
#[test]
fn an_issuer_without_tls_is_this_machine() {
    let new = |issuer: &str| {
        let mut settings = settings();
        settings.issuer = Issuer::new(issuer).unwrap();
        AuthServer::new(settings, Arc::new(MemoryAuthStore::new()), LocalSignIn::default())
    };
    for good in ["https://as.example", "http://127.0.0.1:8080", "http://localhost:1/t", "http://[::1]"] {
        assert!(new(good).is_ok(), "{good}");
    }
    for bad in ["http://as.example", "http://10.0.0.1", "http://localhost.evil.example"] {
        let error = new(bad).unwrap_err();
        assert!(error.to_string().contains(bad), "{error}");
    }
}

/// The server says of itself what it does.
///
/// covers: AUTS-02 AUTS-03 AUTS-04 AUTS-05 AUTS-06 AUTS-29 DEPR-02
#[tokio::test]
async fn metadata_says_what_is_there_and_no_more() {
    let site = Site::new();
    let answer = site.get("/.well-known/oauth-authorization-server").await;
    assert_eq!((answer.status(), answer.header("content-type")), (StatusCode::OK, "application/json"));
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    let said = answer.json();
    assert_eq!(said["issuer"], ISSUER);
    assert_eq!(said["authorization_endpoint"], "https://as.example/authorize");
    assert_eq!(said["token_endpoint"], "https://as.example/token");
    assert_eq!(said["registration_endpoint"], "https://as.example/register");
    assert_eq!(said["response_types_supported"], serde_json::json!(["code"]));
    assert_eq!(said["code_challenge_methods_supported"], serde_json::json!(["S256"]));
    assert_eq!(said["authorization_response_iss_parameter_supported"], true);
    assert_eq!(said["protected_resources"], serde_json::json!([RESOURCE]));
    assert_eq!(said.get("client_id_metadata_document_supported"), None, "it cannot fetch any");
    assert_eq!(said.get("jwks_uri"), None);
    let metadata: hospes_auth::metadata::AuthorizationServerMetadata = serde_json::from_value(said).unwrap();
    metadata.check_code_flow().unwrap();

    let closed = Site::with(|settings| {
        settings.registration = false;
        settings.issuer = Issuer::new("https://as.example/t1").unwrap();
    });
    let server = closed.server.clone();
    assert!(server.serves("/t1/authorize") && !server.serves("/authorize") && !server.serves("/t1/register"));
    assert!(!server.serves("/.well-known/oauth-authorization-server"));
    let said = closed.get("/.well-known/oauth-authorization-server/t1").await.json();
    assert_eq!(said["token_endpoint"], "https://as.example/t1/token");
    assert_eq!(said.get("registration_endpoint"), None);
    let web = Web::default();
    let fetching = AuthServer::new(settings(), Arc::new(MemoryAuthStore::new()), LocalSignIn::default())
        .unwrap()
        .fetching(web);
    assert_eq!(fetching.metadata().client_id_metadata_document_supported, Some(true));
}
