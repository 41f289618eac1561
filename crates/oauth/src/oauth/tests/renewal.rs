//! Renewals that are abandoned, that fail, and that others have done; and people who do not agree.

use std::sync::atomic::{AtomicBool, AtomicU32};

use hospes::client::{Authorizer as _, CallError, OutboundRequest};
use secrecy::{ExposeSecret as _, SecretString};

use super::*;
use crate::sign_in::SignInFuture;
use crate::{CredentialStore, MemoryCredentialStore, StepError};

/// Returns the token of a request.
async fn shown(site: &Site, oauth: &OAuthClient, method: http::Method) -> Option<String> {
    let url = Url::parse(&site.mcp()).unwrap();
    let headers = oauth.headers(OutboundRequest::new(&method, &url)).await.unwrap();
    headers.get("authorization").map(|value| value.to_str().unwrap().to_owned())
}

async fn post(site: &Site, oauth: &OAuthClient) -> String {
    shown(site, oauth, http::Method::POST).await.unwrap_or_default()
}

#[tokio::test]
async fn a_renewal_outlives_whoever_asked_for_it() {
    let site = Site::open().await;
    let oauth = site.oauth();
    oauth.sign_in(None).await.unwrap();
    site.pass(545);
    let hold = Arc::new(Hold::default());
    site.script().hold = Some(Arc::clone(&hold));
    tokio::select! {
        _ = post(&site, &oauth) => panic!("it is held up"),
        () = hold.arrived.notified() => {}
    }
    site.script().hold = None;
    hold.go.notify_one();
    assert_eq!(post(&site, &oauth).await, "Bearer token2");
    assert_eq!(site.script().refreshes, 1);
}

#[tokio::test]
async fn a_code_is_redeemed_whoever_waits_for_it() {
    let site = Site::open().await;
    let oauth = site.oauth();
    let hold = Arc::new(Hold::default());
    site.script().hold = Some(Arc::clone(&hold));
    tokio::select! {
        _ = oauth.sign_in(None) => panic!("it is held up"),
        () = hold.arrived.notified() => {}
    }
    site.script().hold = None;
    hold.go.notify_one();
    // In turn, so after it.
    drop(oauth.lock_authorization().await);
    assert_eq!(post(&site, &oauth).await, "Bearer token1");
    assert_eq!(site.script().authorizations, 1);
}

#[tokio::test]
async fn whoever_leaves_goes_with_the_token_that_is_held() {
    let site = Site::open().await;
    let oauth = site.oauth();
    oauth.sign_in(None).await.unwrap();
    site.pass(545);
    assert_eq!(shown(&site, &oauth, http::Method::DELETE).await.as_deref(), Some("Bearer token1"));
    assert_eq!(site.script().refreshes, 0);
}

#[tokio::test]
async fn a_renewal_that_failed_is_not_tried_again_at_once() {
    let site = Site::open().await;
    let oauth = site.oauth();
    oauth.sign_in(None).await.unwrap();
    site.script().refresh_fails = Some(503);
    site.pass(545);
    for _ in 0..3 {
        assert_eq!(post(&site, &oauth).await, "Bearer token1", "it is still good");
    }
    assert_eq!(site.script().refreshes, 1);
    site.pass(30);
    assert_eq!(post(&site, &oauth).await, "Bearer token1");
    assert_eq!(site.script().refreshes, 2);
    site.script().refresh_fails = None;
    site.pass(25);
    assert_eq!(post(&site, &oauth).await, "Bearer token2", "the old one is over, so it is tried");
}

/// Two that keep their tokens at one place, as two processes do; the first has signed in, and the other has used it.
async fn two_processes() -> (Arc<Site>, Arc<dyn CredentialStore>, OAuthClient, OAuthClient) {
    let site = Site::open().await;
    let store: Arc<dyn CredentialStore> = Arc::new(MemoryCredentialStore::new());
    let oauth = || site.builder().sign_in(site.person()).store(Arc::clone(&store)).build();
    let (one, two) = (oauth(), oauth());
    one.sign_in(None).await.unwrap();
    assert_eq!(post(&site, &two).await, "Bearer token1");
    (site, store, one, two)
}

#[tokio::test]
async fn who_was_signed_out_by_another_process_is_signed_out() {
    let (site, store, one, two) = two_processes().await;
    one.sign_out().await.unwrap();
    site.pass(545);
    assert_eq!(shown(&site, &two, http::Method::POST).await, None);
    assert_eq!(site.script().refreshes, 0);
    assert!(store.names("tokens ").unwrap().is_empty());
}

#[tokio::test]
async fn who_looks_again_goes_on_as_whoever_has_signed_in_elsewhere() {
    let (site, _store, one, two) = two_processes().await;
    one.sign_in(None).await.unwrap();
    two.recheck().await.unwrap();
    assert_eq!(post(&site, &two).await, "Bearer token2");
    one.sign_out().await.unwrap();
    two.recheck().await.unwrap();
    assert_eq!(post(&site, &two).await, "");
}

#[tokio::test]
async fn nobody_is_asked_for_what_nobody_waits_for() {
    let site = Site::open().await;
    site.script().is_silent = true;
    let oauth = site.oauth();
    let target = Target::url(site.mcp()).authorizer(Arc::new(oauth.clone()));
    let client = Client::builder().revision(Revision::V2025_11_25).connect(target).await.unwrap();
    call(&client, "x").await.unwrap();
    // In turn, so after whatever the session's stream led to.
    drop(oauth.lock_authorization().await);
    let script = site.script();
    assert_eq!((script.authorizations, script.refreshes), (1, 1));
}

#[tokio::test]
async fn tenants_and_accounts_share_no_tokens() {
    let site = Site::open().await;
    let store: Arc<dyn CredentialStore> = Arc::new(MemoryCredentialStore::new());
    let builder = |query: &str| {
        let url = format!("{}{query}", site.mcp());
        OAuthClient::builder(&url).unwrap().store(Arc::clone(&store)).sign_in(site.person())
    };
    let mine = builder("?tenant=s3cret").account("me").build();
    mine.sign_in(None).await.unwrap();
    assert!(builder("?tenant=s3cret").account("me").build().tokens().await.unwrap().is_some());
    for other in [builder("").account("me"), builder("?tenant=b").account("me"), builder("?tenant=s3cret")] {
        assert!(other.build().tokens().await.unwrap().is_none());
    }
    assert!(!format!("{:?}", store.names("").unwrap()).contains("s3cret"), "names are no secrets");
    // What was kept under its name for another resource is not for it.
    let name = store.names("tokens ").unwrap().remove(0);
    let document = store.read(&name).unwrap().unwrap();
    let document = document.expose_secret().replace("/mcp\"", "/other\"");
    store.write(&name, &document.into()).unwrap();
    assert!(builder("?tenant=s3cret").account("me").build().tokens().await.unwrap().is_none());
}

#[test]
fn nothing_is_signed_in_to_in_the_open() {
    for open in ["http://m.example/mcp", "http://10.0.0.1/mcp", "ftp://m/mcp", "http://localhost.example/mcp"]
    {
        assert_eq!(OAuthClient::builder(open).unwrap_err(), InvalidEndpoint::Insecure, "{open}");
    }
    assert!(matches!(OAuthClient::builder("m/mcp"), Err(InvalidEndpoint::Url(_))));
    for good in
        ["https://m.example/mcp", "http://127.0.0.1/mcp", "http://localhost:1/mcp", "http://[::1]/mcp"]
    {
        assert!(OAuthClient::builder(good).is_ok(), "{good}");
    }
}

/// A store that can be full.
#[derive(Debug, Default)]
struct Full {
    store: MemoryCredentialStore,
    is_full: AtomicBool,
}

impl CredentialStore for Full {
    fn read(&self, name: &str) -> Result<Option<SecretString>, StepError> {
        self.store.read(name)
    }

    fn write(&self, name: &str, document: &SecretString) -> Result<(), StepError> {
        if name.starts_with("tokens ") && self.is_full.load(Ordering::SeqCst) {
            return Err(StepError::new("it is full"));
        }
        self.store.write(name, document)
    }

    fn remove(&self, name: &str) -> Result<(), StepError> {
        self.store.remove(name)
    }

    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError> {
        self.store.names(beginning)
    }

    fn lock(&self, name: &str) -> Result<Option<Box<dyn Send>>, StepError> {
        self.store.lock(name)
    }
}

#[tokio::test]
async fn what_could_not_be_kept_is_not_given_up_for_what_is_older() {
    let site = Site::open().await;
    let store = Arc::new(Full::default());
    let shared: Arc<dyn CredentialStore> = Arc::<Full>::clone(&store);
    let oauth = || site.builder().sign_in(site.person()).store(Arc::clone(&shared)).build();
    let first = oauth();
    first.sign_in(None).await.unwrap();
    store.is_full.store(true, Ordering::SeqCst);
    for expected in ["Bearer token2", "Bearer token3"] {
        site.pass(545);
        assert_eq!(post(&site, &first).await, expected);
    }
    let second = oauth();
    second.sign_in(None).await.unwrap();
    assert_eq!(post(&site, &second).await, "Bearer token4", "the store still has the first");
}

/// Tokens that could not be stored are valid at the server; stored older ones may be valid too.
#[tokio::test]
async fn what_could_not_be_kept_is_given_back_before_what_is_older() {
    let site = Site::open().await;
    site.script().revokes = Some(200);
    let store = Arc::new(Full::default());
    let shared: Arc<dyn CredentialStore> = Arc::<Full>::clone(&store);
    let oauth = site.builder().sign_in(site.person()).store(shared).build();
    oauth.sign_in(None).await.unwrap();
    store.is_full.store(true, Ordering::SeqCst);
    site.pass(545);
    assert_eq!(post(&site, &oauth).await, "Bearer token2");
    assert_eq!(oauth.revoke().await.unwrap(), RevocationResult::Revoked);
    let revoked = site.script().revoked.clone();
    let given: Vec<&str> = revoked.iter().map(|form| form["token"].as_str()).collect();
    assert_eq!(given, ["refresh 2", "token2", "refresh 1", "token1"]);
    assert!(oauth.tokens().await.unwrap().is_none() && store.names("tokens ").unwrap().is_empty());
}

/// The mark distinguishes sign-ins, whatever their tokens are.
#[tokio::test]
async fn a_mark_stays_until_somebody_signs_in_anew() {
    let (site, _store, one, two) = two_processes().await;
    let mark = async |oauth: &OAuthClient| oauth.tokens().await.unwrap().unwrap().mark.clone();
    let first = mark(&one).await;
    assert!(first.len() > 20 && mark(&two).await == first);
    site.pass(545);
    assert_eq!(post(&site, &one).await, "Bearer token2");
    assert_eq!(mark(&one).await, first, "renewed");
    one.sign_in(None).await.unwrap();
    assert_ne!(mark(&one).await, first);
    two.recheck().await.unwrap();
    assert_eq!(mark(&two).await, mark(&one).await);
}

/// Agrees until it no longer does.
#[derive(Debug)]
struct Person {
    agreeing: UnattendedSignIn,
    denies: AtomicBool,
    asked: AtomicU32,
}

#[derive(Debug, Clone)]
struct Asked(Arc<Person>);

struct Asking(Arc<Person>, Box<dyn RedirectListener>);

impl SignInHandler for Asked {
    fn listen<'a>(
        &'a self,
        preferred: Option<&'a RedirectUri>,
    ) -> SignInFuture<'a, Box<dyn RedirectListener>> {
        Box::pin(async move {
            let ready = self.0.agreeing.listen(preferred).await?;
            Ok(Box::new(Asking(Arc::clone(&self.0), ready)) as Box<dyn RedirectListener>)
        })
    }
}

impl RedirectListener for Asking {
    fn redirect_uri(&self) -> RedirectUri {
        self.1.redirect_uri()
    }

    fn visit(
        self: Box<Self>,
        visit: crate::flow::AuthorizationPrompt,
    ) -> SignInFuture<'static, SignInAnswer> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        if self.0.denies.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StepError::new("they said no")) });
        }
        self.1.visit(visit)
    }
}

#[tokio::test]
async fn who_said_no_is_not_asked_by_all_who_waited() {
    let site = Site::open().await;
    let person = Arc::new(Person {
        agreeing: site.person(),
        denies: AtomicBool::new(false),
        asked: AtomicU32::new(0),
    });
    let oauth = site.builder().sign_in(Asked(Arc::clone(&person))).build();
    let client = site.connect(&oauth).await;
    site.script().good.clear();
    site.script().refresh_fails = Some(400);
    person.denies.store(true, Ordering::SeqCst);
    let (one, two, three) = tokio::join!(call(&client, "x"), call(&client, "y"), call(&client, "z"));
    for called in [one, two, three] {
        let Err(CallError::NotAuthorized(why)) = called else { panic!("it was let in") };
        assert!(why.to_string().contains("they said no"), "{why}");
    }
    assert_eq!(person.asked.load(Ordering::SeqCst), 2, "once to begin with, and once for all three");
    site.pass(COOL_DOWN_SECONDS);
    person.denies.store(false, Ordering::SeqCst);
    call(&client, "x").await.unwrap();
}
