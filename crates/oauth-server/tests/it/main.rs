//! Our client, our authorization server and our guard, over real sockets: what one says the others understand.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod enterprise;
mod proofs;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use hospes::Server;
use hospes::client::{CallError, Client as McpClient, ConnectError, Target};
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes_auth::{ClientId, Issuer, RedirectUri, Resource, UnixClock};
use hospes_auth_testkit::{PATIENCE, TestSigningKey, form_with, get, key_set};
use hospes_oauth::sign_in::{RedirectListener, SignInAnswer, SignInFuture};
use hospes_oauth::{
    ClientAuth, ClientSigningKey, GrantType, OAuthClient, OAuthClientBuilder, PreregisteredOAuthClient,
    SignInHandler as Asking, StepError,
};
use hospes_oauth_resource::{BearerAuth, BearerAuthBuilder, TokenVerifier as _};
use hospes_oauth_server::{
    AuthServer, AuthServerSettings, ClientKeys, LocalSignIn, MemoryAuthStore, OwnTokenVerifier, PasswordHash,
    RegisteredClient,
};
use serde_json::json;
use tokio::net::TcpListener;

const CALLBACK: &str = "http://127.0.0.1:41233/callback";

/// Hash of Ann's password, which is slow to make.
static PASSWORD: LazyLock<PasswordHash> = LazyLock::new(|| PasswordHash::hash_password("correct horse"));

/// Creates a clock that stands still until it is advanced.
fn clock() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(1_800_000_000))
}

fn id(text: &str) -> ClientId {
    ClientId::new(text).unwrap()
}

/// The key as that of a client, which signs with it.
fn signing_key(key: &TestSigningKey) -> ClientSigningKey {
    ClientSigningKey::from_pem(&key.pem(), "ES256").unwrap().key_id(key.id.as_str())
}

/// An MCP server, and beside it the authorization server that makes out its tokens. Ann may sign in; `machine` has a
/// secret, `robot` a key.
struct AuthTestSite {
    address: SocketAddr,
    time: Arc<AtomicU64>,
    key: TestSigningKey,
    tokens: OwnTokenVerifier,
}

impl AuthTestSite {
    async fn open(
        time: Arc<AtomicU64>,
        settings: impl FnOnce(&mut AuthServerSettings),
        server: impl FnOnce(AuthServer) -> AuthServer,
        guard: impl FnOnce(BearerAuthBuilder, &AuthServer) -> BearerAuthBuilder,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (origin, now) = (format!("http://{address}"), Arc::clone(&time));
        let clock = UnixClock::new(move || now.load(Ordering::SeqCst));
        let (issuer, resource) =
            (Issuer::new(origin.as_str()).unwrap(), Resource::new(format!("{origin}/mcp")).unwrap());
        let key = TestSigningKey::new("robot's");
        let mut said = AuthServerSettings::new(issuer.clone(), resource.clone()).scope("mcp", "Use it all");
        let back = RedirectUri::new("http://127.0.0.1/callback").unwrap();
        said.clients = vec![
            RegisteredClient::public(id("app"), vec![back]),
            RegisteredClient::confidential(id("machine"), "the secret of machine", Vec::new()),
            RegisteredClient::signing(id("robot"), ClientKeys::Set(key_set([&key])), Vec::new())
                .with_assertions(),
        ];
        settings(&mut said);
        let users = LocalSignIn::users([("ann".to_owned(), PASSWORD.clone())]);
        let made =
            AuthServer::new(said, Arc::new(MemoryAuthStore::new()), users).unwrap().clock(clock.clone());
        let made = server(made);
        let tokens = made.tokens_for([resource.clone()]);
        let door =
            BearerAuth::builder(resource.clone(), vec![issuer], made.tokens_for([resource])).clock(clock);
        let door = guard(door, &made).build();
        let endpoint = Endpoint::builder(Server::new("site", "1").tool("greet", || async { "let in" }));
        let http =
            HttpServer::from_listener(listener, endpoint.build()).unwrap().middleware(made.in_front_of(door));
        tokio::spawn(http.serve());
        Self { address, time, key, tokens }
    }

    async fn plain() -> Self {
        Self::open(clock(), |_| {}, |server| server, |guard, _| guard).await
    }

    fn mcp(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    fn builder(&self) -> OAuthClientBuilder {
        let now = Arc::clone(&self.time);
        OAuthClient::builder(&self.mcp()).unwrap().clock(UnixClock::new(move || now.load(Ordering::SeqCst)))
    }

    /// The client that signs, with this grant.
    fn robot(&self, grant: GrantType) -> OAuthClient {
        let given = PreregisteredOAuthClient::new(id("robot")).auth(ClientAuth::Key(signing_key(&self.key)));
        self.builder().client(given).grant(grant).build()
    }

    async fn connect(&self, oauth: &OAuthClient) -> Result<McpClient, ConnectError> {
        let target = Target::url(self.mcp()).authorizer(Arc::new(oauth.clone()));
        tokio::time::timeout(PATIENCE, McpClient::builder().connect(target)).await.expect("in time")
    }

    fn pass(&self, seconds: u64) {
        self.time.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Whose token it is that is held, as the guard has it.
    async fn who(&self, oauth: &OAuthClient) -> String {
        use secrecy::ExposeSecret as _;
        let held = oauth.tokens().await.unwrap().expect("a token");
        let now = self.time.load(Ordering::SeqCst);
        let known = self.tokens.verify(held.access.expose_secret(), now).await.unwrap();
        known.name().replace(&format!("http://{} ", self.address), "")
    }
}

async fn call(client: &McpClient) -> Result<(), CallError> {
    client.call("greet", json!({})).await.map(drop)
}

/// Ann, who signs in on our pages and agrees.
#[derive(Clone, Debug)]
struct AnnSignIn(SocketAddr);

impl Asking for AnnSignIn {
    fn listen<'a>(&'a self, _: Option<&'a RedirectUri>) -> SignInFuture<'a, Box<dyn RedirectListener>> {
        Box::pin(async { Ok(Box::new(self.clone()) as Box<dyn RedirectListener>) })
    }
}

impl RedirectListener for AnnSignIn {
    fn redirect_uri(&self) -> RedirectUri {
        RedirectUri::new(CALLBACK).unwrap()
    }

    fn visit(
        self: Box<Self>,
        visit: hospes_oauth::flow::AuthorizationPrompt,
    ) -> SignInFuture<'static, SignInAnswer> {
        Box::pin(async move { sign_in_as_ann(self.0, &visit.url).await })
    }
}

/// Signs Ann in on the page at `url`, and agrees.
async fn sign_in_as_ann(address: SocketAddr, url: &url::Url) -> Result<SignInAnswer, StepError> {
    fn hidden(page: &str, name: &str) -> String {
        let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).expect("a form of ours");
        rest.split_once('"').unwrap().0.to_owned()
    }
    let path = format!("{}?{}", url.path(), url.query().unwrap_or_default());
    let mut page = get(address, &path).await;
    for (there, more) in [
        ("/sign-in", &[("user", "ann"), ("password", "correct horse")][..]),
        ("/consent", &[("decision", "allow")]),
    ] {
        let cookie = page.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
        let (request, csrf) = (hidden(&page.body, "request"), hidden(&page.body, "csrf"));
        let own = [("request", &*request), ("csrf", &*csrf)];
        page = form_with(address, there, &[&own, more].concat(), &[("cookie", &cookie)]).await;
    }
    let back = page.header("location").to_owned();
    if back.is_empty() { Err(StepError::new(page.body)) } else { Ok(SignInAnswer::Redirected(back)) }
}

#[tokio::test]
async fn a_client_is_let_in_for_itself_by_its_secret_and_by_its_key() {
    let site = AuthTestSite::plain().await;
    let secret = PreregisteredOAuthClient::new(id("machine")).secret("the secret of machine");
    let machine = site.builder().client(secret).grant(GrantType::ClientCredentials).build();
    for (oauth, name) in
        [(machine, "client machine"), (site.robot(GrantType::ClientCredentials), "client robot")]
    {
        let client = site.connect(&oauth).await.unwrap();
        call(&client).await.unwrap();
        assert_eq!(site.who(&oauth).await, name);
        // There is no refresh token: it asks again.
        site.pass(600);
        call(&client).await.unwrap();
    }
    let wrong = PreregisteredOAuthClient::new(id("robot"))
        .auth(ClientAuth::Key(signing_key(&TestSigningKey::new("robot's"))));
    let wrong = site.builder().client(wrong).grant(GrantType::ClientCredentials).build();
    let error = site.connect(&wrong).await.unwrap_err().to_string();
    assert!(error.contains("invalid_client"), "{error}");
}

/// Many concurrent requests redeem one code, each on its own connection. Exactly one gets tokens, and these are valid
/// until the code is used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_redemptions_of_a_code_at_once_exactly_one_succeeds() {
    let site = AuthTestSite::plain().await;
    let verifier = hospes_auth::pkce::CodeVerifier::new(&[7; 32]);
    let mut url = url::Url::parse(&format!("http://{}/authorize", site.address)).unwrap();
    url.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", "app"),
        ("redirect_uri", CALLBACK),
        ("code_challenge", &verifier.challenge()),
        ("code_challenge_method", "S256"),
    ]);
    let SignInAnswer::Redirected(back) = sign_in_as_ann(site.address, &url).await.unwrap() else {
        panic!("the browser is sent back")
    };
    let back = url::Url::parse(&back).unwrap();
    let code = back.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let address = site.address;
    let redeem = move |code: String, verifier: String| async move {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", &*code),
            ("code_verifier", &*verifier),
            ("redirect_uri", CALLBACK),
            ("client_id", "app"),
        ];
        let answer = form_with(address, "/token", &fields, &[]).await;
        (answer.status.as_u16(), serde_json::from_str::<serde_json::Value>(&answer.body).unwrap())
    };
    let all: Vec<_> =
        (0..50).map(|_| tokio::spawn(redeem(code.clone(), verifier.expose().to_owned()))).collect();
    let mut tokens = Vec::new();
    for one in all {
        match one.await.unwrap() {
            (200, said) => tokens.push(said["access_token"].as_str().unwrap().to_owned()),
            (status, said) => assert_eq!((status, &said["error"]), (400, &json!("invalid_grant"))),
        }
    }
    let [token] = &tokens[..] else { panic!("exactly one succeeds, not {}", tokens.len()) };
    let now = site.time.load(Ordering::SeqCst);
    assert!(site.tokens.verify(token, now).await.is_ok(), "and its token is good");
    site.pass(3);
    let later = redeem(code, verifier.expose().to_owned()).await;
    assert_eq!((later.0, &later.1["error"]), (400, &json!("invalid_grant")));
    assert!(site.tokens.verify(token, now).await.is_err(), "a later use ends the grant");
}

#[tokio::test]
async fn a_person_is_let_in_and_stays_so() {
    let site = AuthTestSite::plain().await;
    let given = PreregisteredOAuthClient::new(id("app"));
    let oauth = site.builder().client(given).sign_in(AnnSignIn(site.address)).build();
    let client = site.connect(&oauth).await.unwrap();
    call(&client).await.unwrap();
    assert_eq!(site.who(&oauth).await, "user ann");
    let before = oauth.tokens().await.unwrap().unwrap();
    site.pass(590);
    call(&client).await.unwrap();
    let after = oauth.tokens().await.unwrap().unwrap();
    assert!(after.issued_at > before.issued_at && after.refresh.is_some(), "it was renewed");
}
