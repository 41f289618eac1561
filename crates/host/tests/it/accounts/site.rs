//! Sites on real sockets: a server that wants to know who is there, and a gateway before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hospes::client::{Client, ClientBuilder, Target, UrlTarget};
use hospes::transport::http_server::{CallGuard, Endpoint, HttpMiddleware, HttpServer, MiddlewareFuture};
use hospes::{Context, Server};
use hospes_auth::{ClientId, FetchFuture, HttpFetch, Issuer, RedirectUri, Resource, Scopes};
use hospes_host::config::ConfigLoader;
use hospes_host::{Host, PolicyEnforcer as Rules, UpstreamAccounts};
use hospes_model::{ElicitParams, ElicitResult, Revision};
use hospes_oauth::CredentialStore;
use hospes_oauth_resource::{
    AcceptedSchemes, AnyTokenVerifier, BearerAuth, BearerAuthError, ScopeRules, StaticTokenVerifier,
    TokenPrincipal,
};
use hospes_oauth_server::{
    AuthServer, AuthServerSettings, AuthStore as Records, LocalSignIn, MemoryAuthStore, PasswordHash,
    RegisteredClient as AsClient,
};
use hospes_policy::{Policy, PolicyEnvironment};
use http::header::AUTHORIZATION;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use crate::accounts::browser::{Browser, Page};

/// Hears what a site is shown.
struct Ear<F> {
    heard: Arc<Mutex<Vec<String>>>,
    sessions: Arc<Mutex<Vec<Heard>>>,
    /// Metadata URL that is announced, if the lists can be read without a token.
    lists_openly: Option<String>,
    front: F,
}

/// A request of a session.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) method: http::Method,
    pub(crate) session: String,
    /// Value of the `EndpointAuthorization` header.
    pub(crate) shown: Option<String>,
}

impl<F: HttpMiddleware> HttpMiddleware for Ear<F> {
    fn receive<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        request: &'a mut http::Request<hyper::body::Incoming>,
    ) -> MiddlewareFuture<'a> {
        let shown = request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        if let Some(session) = request.headers().get("mcp-session-id") {
            let (session, method) = (session.to_str().unwrap().to_owned(), request.method().clone());
            self.sessions.lock().push(Heard { method, session, shown: shown.clone() });
        }
        let is_nobody = shown.is_none() && request.uri().path() == "/mcp";
        // Nothing of what came to us goes there, in whatever header or place.
        let values =
            request.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        let all: Vec<String> = values.chain([request.uri().to_string()]).chain(shown).collect();
        self.heard.lock().extend(all);
        if let Some(metadata) = self.lists_openly.clone().filter(|_| is_nobody) {
            request.extensions_mut().insert(CallGuard::new(move |method, _| match method.name() {
                "tools/call" => {
                    let refused = BearerAuthError::NoToken.response(
                        &metadata,
                        &Scopes::parse("use"),
                        AcceptedSchemes::Bearer,
                    );
                    Err(Box::new(refused))
                }
                _ => Ok(()),
            }));
            return Box::pin(async { None });
        }
        self.front.receive(endpoint, request)
    }
}

/// A server at which everybody has an account: `NAME-there` with the password `there`.
pub(crate) struct Site {
    pub(crate) origin: String,
    /// All headers and paths of requests; `EndpointAuthorization` values are also collected separately.
    pub(crate) heard: Arc<Mutex<Vec<String>>>,
    /// The requests of its sessions.
    pub(crate) sessions: Arc<Mutex<Vec<Heard>>>,
    /// Number of calls of `admin`.
    pub(crate) admin_calls: Arc<AtomicUsize>,
    /// Server of client metadata documents.
    pub(crate) web: Web,
    task: JoinHandle<()>,
}

/// A client that is registered at the site by hand, with the secret `s3cret`.
pub(crate) const GIVEN: &str = "hospes-here";
/// URL of the gateway's own client metadata document, where a test server resolves it.
pub(crate) const DOCUMENT: &str = "https://gate.example/connect/client.json";

/// Finds the gateway's document, once it is known where the gateway is.
#[derive(Clone, Default)]
pub(crate) struct Web(pub(crate) Arc<Mutex<Option<String>>>);

impl HttpFetch for Web {
    fn fetch(&self, request: hospes_auth::FetchRequest) -> FetchFuture<'_> {
        assert_eq!(request.url.as_str(), DOCUMENT);
        let origin = self.0.lock().clone();
        Box::pin(async move {
            let origin = origin.ok_or("nobody was reached there")?;
            let page = Browser::default().open(&format!("{origin}/connect/client.json")).await;
            let mut response = hospes_auth::FetchResponse::new(page.status.try_into()?, page.text);
            response.headers.insert("content-type", page.kind.parse()?);
            Ok(response)
        })
    }
}

impl Site {
    pub(crate) async fn new() -> Self {
        Self::made(false).await
    }

    /// One that shows its lists to everybody, and wants to know only of calls who is there.
    pub(crate) async fn listing_openly() -> Self {
        Self::made(true).await
    }

    async fn made(lists_openly: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (issuer, resource) =
            (Issuer::new(&*origin).unwrap(), Resource::new(format!("{origin}/mcp")).unwrap());
        let mut settings = AuthServerSettings::new(issuer.clone(), resource.clone())
            .scope("use", "Use it")
            .scope("admin", "Change what matters");
        settings.registration = true;
        let here = RedirectUri::new("http://127.0.0.1/connect/callback").unwrap();
        settings.clients = vec![AsClient::confidential(ClientId::new(GIVEN).unwrap(), "s3cret", vec![here])];
        let users = ["alice-there", "bob-there"].map(|name| (name.to_owned(), hash("there")));
        let web = Web::default();
        let server = AuthServer::new(settings, Arc::new(MemoryAuthStore::new()), LocalSignIn::users(users))
            .unwrap()
            .fetching(web.clone());
        let tokens = server.tokens_for([resource.clone()]);
        let rules = ScopeRules::default().always(Scopes::parse("use")).tool("admin", Scopes::parse("admin"));
        let guard = BearerAuth::builder(resource, vec![issuer], tokens).rules(rules).build();
        let whoami = |ctx: Context| async move { who(&ctx) };
        let admin_calls: Arc<AtomicUsize> = Arc::default();
        let (counted, everybody) =
            (Arc::clone(&admin_calls), Arc::new(Barrier::new(2 * Revision::ALL.len())));
        let mcp = Server::new("site", "1")
            .tool("whoami", whoami)
            .tool("admin", move |ctx: Context| {
                counted.fetch_add(1, Ordering::SeqCst);
                async move { who(&ctx) }
            })
            // Nobody is answered before all the others are there.
            .tool("together", move |ctx: Context| {
                let everybody = Arc::clone(&everybody);
                async move {
                    everybody.wait().await;
                    who(&ctx)
                }
            })
            .resource("site://me", whoami);
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let sessions: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let front = Ear {
            heard: Arc::clone(&heard),
            sessions: Arc::clone(&sessions),
            lists_openly: lists_openly.then(|| format!("{origin}/.well-known/oauth-protected-resource/mcp")),
            front: server.in_front_of(guard),
        };
        let server =
            HttpServer::from_listener(listener, Endpoint::builder(mcp).build()).unwrap().middleware(front);
        let task = tokio::spawn(async move { server.serve().await.unwrap() });
        Self { origin, heard, sessions, admin_calls, web, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// Is there no more.
    pub(crate) async fn go_away(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn who(ctx: &Context) -> String {
    let principal = ctx.principal().unwrap_or("nobody").to_owned();
    principal.rsplit(' ').next().unwrap().to_owned()
}

fn hash(password: &str) -> PasswordHash {
    use std::sync::OnceLock;
    static HASHES: OnceLock<Mutex<std::collections::BTreeMap<String, PasswordHash>>> = OnceLock::new();
    // It takes a while, on purpose.
    let mut known = HASHES.get_or_init(Mutex::default).lock();
    known.entry(password.to_owned()).or_insert_with(|| PasswordHash::hash_password(password)).clone()
}

/// A gateway before a site. Its users are `alice` and `bob`, with the password `here`.
pub(crate) struct Gate {
    pub(crate) origin: String,
    pub(crate) accounts: UpstreamAccounts,
    pub(crate) host: Host,
    pub(crate) site: String,
    task: JoinHandle<()>,
}

/// State that outlives a gateway.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) store: Arc<dyn CredentialStore>,
    pub(crate) records: Arc<dyn Records>,
}

impl Kept {
    pub(crate) fn new() -> Self {
        Self {
            store: Arc::new(hospes_oauth::MemoryCredentialStore::new()),
            records: Arc::new(MemoryAuthStore::new()),
        }
    }
}

impl Gate {
    pub(crate) async fn new(site: &Site) -> Self {
        Self::with(site, &Kept::new(), "127.0.0.1:0", |accounts| accounts).await
    }

    pub(crate) async fn with(
        site: &Site,
        kept: &Kept,
        address: &str,
        change: impl FnOnce(UpstreamAccounts) -> UpstreamAccounts,
    ) -> Self {
        Self::made(site, kept, address, change, None, "").await
    }

    /// With rules about calls.
    pub(crate) async fn ruled(site: &Site, rules: &str) -> Self {
        let rules = Rules::new(Policy::read(rules, &PolicyEnvironment::default()).unwrap());
        Self::made(site, &Kept::new(), "127.0.0.1:0", |accounts| accounts, Some(Arc::new(rules)), "").await
    }

    /// With more in the server's entry of the configuration; and what it keeps.
    pub(crate) async fn told(
        site: &Site,
        change: impl FnOnce(UpstreamAccounts) -> UpstreamAccounts,
        entry: &str,
    ) -> (Self, Kept) {
        let kept = Kept::new();
        (Self::made(site, &kept, "127.0.0.1:0", change, None, entry).await, kept)
    }

    async fn made(
        site: &Site,
        kept: &Kept,
        address: &str,
        change: impl FnOnce(UpstreamAccounts) -> UpstreamAccounts,
        rules: Option<Arc<Rules>>,
        entry: &str,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (issuer, resource) =
            (Issuer::new(&*origin).unwrap(), Resource::new(format!("{origin}/mcp")).unwrap());
        let accounts = change(UpstreamAccounts::new(Arc::clone(&kept.store)).with_issuer(&origin).unwrap());
        let users = ["alice", "bob"].map(|name| (name.to_owned(), hash("here")));
        let settings = AuthServerSettings::new(issuer.clone(), resource.clone());
        let server = AuthServer::new(settings, Arc::clone(&kept.records), LocalSignIn::users(users))
            .unwrap()
            .connecting(Arc::new(accounts.clone()));
        let server = match accounts.client_document(Vec::new()) {
            Ok(document) => server.publishing(document),
            Err(_) => server,
        };
        let mut machine = TokenPrincipal::new(issuer.clone(), "robot");
        machine.is_client = true;
        let tokens = ["alice", "bob"].iter().fold(StaticTokenVerifier::none(), |tokens, name| {
            tokens.with(&format!("token-of-{name}"), TokenPrincipal::new(issuer.clone(), *name))
        });
        let tokens = AnyTokenVerifier::none().or(tokens.with("token-of-robot", machine));
        let guard = BearerAuth::builder(resource, vec![issuer], tokens).build();
        let text = format!("[servers.site]\nurl = \"{}\"\naccount = \"per-user\"\n{entry}\n", site.url());
        let config = ConfigLoader::new().parse("hospes.toml", &text).unwrap();
        let host = Host::builder(config).accounts(accounts.clone());
        let host = match rules {
            Some(rules) => host.guard(rules),
            None => host,
        };
        let host = host.start().unwrap();
        let endpoint = Endpoint::builder(host.gateway()).sse(true).build();
        let server = HttpServer::from_listener(listener, endpoint)
            .unwrap()
            .shutdown_timeout(Duration::ZERO)
            .middleware(server.in_front_of(guard));
        let task = tokio::spawn(async move { server.serve().await.unwrap() });
        Self { origin, accounts, host, site: site.origin.clone(), task }
    }

    /// The browser of a user of both.
    pub(crate) fn browser(&self, name: &str) -> Browser {
        Browser::default().user(&self.origin, name, "here").user(
            &self.site,
            &format!("{name}-there"),
            "there",
        )
    }

    /// An application of this user.
    pub(crate) async fn application(&self, name: &str, builder: ClientBuilder) -> Client {
        builder.connect(self.target(name)).await.unwrap()
    }

    pub(crate) fn target(&self, name: &str) -> UrlTarget {
        Target::url(format!("{}/mcp", self.origin)).header("authorization", format!("Bearer token-of-{name}"))
    }

    /// The application of a user who goes wherever they are sent, and agrees to everything; and what they were shown.
    pub(crate) async fn willing(&self, name: &str, revision: Revision) -> (Client, Arc<Mutex<Vec<Page>>>) {
        let pages: Arc<Mutex<Vec<Page>>> = Arc::default();
        let (browser, seen) = (self.browser(name), Arc::clone(&pages));
        let builder = Client::builder().revision(revision).elicitation_urls().elicitation(move |asked| {
            let (mut browser, seen) = (browser.clone(), Arc::clone(&seen));
            async move {
                let ElicitParams::Url(asked) = asked else { panic!("a form: {asked:?}") };
                let page = browser.agree(&asked.url).await;
                seen.lock().push(page);
                Ok(ElicitResult::accept(hospes_model::RawJson::empty_object()))
            }
        });
        (self.application(name, builder).await, pages)
    }

    /// Extracts the link from the text for an application that does not support URL elicitation.
    pub(crate) fn link(&self, text: &str) -> String {
        let start =
            text.find(&format!("{}/connect/", self.origin)).unwrap_or_else(|| panic!("no link: {text}"));
        text[start..].split(|sign: char| sign.is_whitespace()).next().unwrap().to_owned()
    }

    pub(crate) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
        self.host.stop().await;
    }
}
