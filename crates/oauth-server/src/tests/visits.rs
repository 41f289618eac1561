//! Users of a provider on our pages about accounts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hospes_auth::{
    AccountConnectionFuture, AccountConnections, AccountLink, AccountStatus, ClientId, DisconnectResult,
    Issuer, RedirectUri, Scopes, UnixClock,
};
use http::{Request, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use url::Url;

use super::delegated::{THIRD, Third, provider};
use super::{Answer, Ask, Site, settings};
use crate::{AuthServer, AuthStore, LocalSignIn, MemoryAuthStore, SignInProvider, UserAdmissionRules};

const LINK: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const OTHER: &str = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";
/// The user of the first link, as our own tokens name them.
const OURS: &str = "https://as.example user https://third.example u-17";
/// Principal name as in the provider's own tokens.
const THEIRS: &str = "https://third.example user u-17";

/// Links, and what became of them.
#[derive(Debug)]
struct Desk {
    principal: &'static str,
    taken: Mutex<Vec<String>>,
    finished: Mutex<Vec<String>>,
    given_up: Mutex<Vec<(String, String)>>,
}

impl Desk {
    fn of(principal: &'static str) -> Arc<Self> {
        let (taken, finished) = (Mutex::default(), Mutex::default());
        Arc::new(Self { principal, taken, finished, given_up: Mutex::default() })
    }
}

impl Desk {
    fn open_link(&self, id: &str) -> Option<AccountLink> {
        let is_open = [LINK, OTHER].contains(&id) && !self.taken.lock().iter().any(|one| one == id);
        let page = Url::parse(&format!("https://site.example/authorize?state=of-{id}")).unwrap();
        is_open.then(|| AccountLink::new(self.principal.into(), "mail".into(), "mail.example", page))
    }
}

impl AccountConnections for Desk {
    fn link<'a>(&'a self, id: &'a str) -> AccountConnectionFuture<'a, Option<AccountLink>> {
        Box::pin(async { Ok(self.open_link(id)) })
    }

    fn take<'a>(&'a self, id: &'a str) -> AccountConnectionFuture<'a, bool> {
        let was_open = self.open_link(id).is_some();
        self.taken.lock().push(id.to_owned());
        Box::pin(async move { Ok(was_open) })
    }

    fn refuse<'a>(&'a self, id: &'a str) -> AccountConnectionFuture<'a> {
        self.taken.lock().push(id.to_owned());
        Box::pin(async { Ok(()) })
    }

    fn finish<'a>(&'a self, _: &'a str, redirected: String) -> AccountConnectionFuture<'a> {
        self.finished.lock().push(redirected);
        Box::pin(async { Ok(()) })
    }

    fn accounts<'a>(&'a self, principal: &'a str) -> AccountConnectionFuture<'a, Vec<AccountStatus>> {
        let mut status = AccountStatus::new("mail".into(), "mail.example");
        status.granted = (principal == self.principal).then(|| Scopes::parse("read"));
        Box::pin(async { Ok(vec![status]) })
    }

    fn disconnect<'a>(
        &'a self,
        principal: &'a str,
        server: &'a str,
    ) -> AccountConnectionFuture<'a, DisconnectResult> {
        self.given_up.lock().push((principal.to_owned(), server.to_owned()));
        Box::pin(async { Ok(DisconnectResult::Revoked) })
    }
}

fn time() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(1_000_000))
}

fn on(store: &Arc<dyn AuthStore>, provider: SignInProvider, desk: &Arc<Desk>, time: &Arc<AtomicU64>) -> Site {
    let server = AuthServer::new(settings(), Arc::clone(store), LocalSignIn::default()).unwrap();
    of(server.delegating(provider), desk, time)
}

fn of(server: AuthServer, desk: &Arc<Desk>, time: &Arc<AtomicU64>) -> Site {
    let now = Arc::clone(time);
    let clock = UnixClock::new(move || now.load(std::sync::atomic::Ordering::Relaxed));
    Site::of(server.connecting(Arc::clone(desk) as _).clock(clock), Arc::clone(time))
}

fn site(third: &Third, desk: &Arc<Desk>) -> Site {
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    on(&store, provider(third), desk, &time())
}

/// A browser that keeps all its cookies.
#[derive(Clone)]
struct Jar {
    site: Site,
    cookies: BTreeMap<String, String>,
}

impl Jar {
    fn new(site: &Site) -> Self {
        Self { site: site.clone(), cookies: BTreeMap::new() }
    }

    async fn open(&mut self, path: &str) -> Answer {
        let all: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = Request::get(path).header("cookie", all.join("; "));
        let answer = self.site.send(request.body(()).unwrap().into_parts().0, "").await;
        self.keep(&answer);
        answer
    }

    async fn send(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let all: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let answer = self.site.form_with(path, fields, &[("cookie", &all.join("; "))]).await;
        self.keep(&answer);
        answer
    }

    fn keep(&mut self, answer: &Answer) {
        for line in answer.0.headers().get_all("set-cookie") {
            let pair = line.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Opens a page, and is sent to the provider: the way back.
    async fn go(&mut self, third: &Third, page: &str) -> String {
        let away = self.open(page).await;
        let (address, fields) = away.back().unwrap_or_else(|| panic!("not sent away: {}", away.text()));
        assert_eq!(address, "https://third.example/authorize");
        assert_eq!(fields["scope"], "openid", "nothing that lasts");
        let code = third.sign_in(&fields);
        format!("/upstream/callback?code={code}&state={}&iss={THIRD}", fields["state"])
    }

    /// Runs the whole sign-in and returns the final page.
    async fn visit(&mut self, third: &Third, page: &str) -> Answer {
        let back = self.go(third, page).await;
        let returned = self.open(&back).await;
        if returned.status() == StatusCode::SEE_OTHER {
            assert!(returned.header("location").ends_with(page), "{}", returned.header("location"));
            return self.open(page).await;
        }
        returned
    }
}

fn link(id: &str) -> String {
    format!("/connect/{id}")
}

/// From a link to the other server and back, for whom it was made.
///
/// covers: ELIC-25 ELIC-26
#[tokio::test]
async fn a_link_opens_for_its_user_who_has_signed_in_at_the_provider() {
    let (third, desk) = (Third::default(), Desk::of(OURS));
    let asking = provider(&third).scopes(Scopes::parse("openid offline_access"));
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let site = on(&store, asking, &desk, &time());
    let mut jar = Jar::new(&site);
    let page = jar.visit(&third, &link(LINK)).await;
    assert!(page.text().contains("Connect your account at mail.example?"), "{}", page.text());
    assert!(page.text().contains("Signed in here as u-17"), "{}", page.text());
    assert!(desk.taken.lock().is_empty(), "to look at it uses nothing up");
    let csrf = page.hidden("csrf");
    let left = jar.send(&link(LINK), &[("csrf", &csrf), ("decision", "allow")]).await;
    assert_eq!(left.header("location"), format!("https://site.example/authorize?state=of-{LINK}"));
    let callback = format!("/connect/callback?code=c&state=of-{LINK}");
    // Only the browser that left.
    assert_eq!(Jar::new(&site).open(&callback).await.status(), StatusCode::BAD_REQUEST);
    let done = jar.open(&callback).await;
    assert!(done.text().contains("Your account is connected"), "{}", done.text());
    assert_eq!(desk.finished.lock().len(), 1);
    assert_eq!(jar.open(&callback).await.status(), StatusCode::BAD_REQUEST, "once");
    // What the provider gave for it is kept nowhere.
    for kind in [crate::RecordKind::Browser, crate::RecordKind::Pending, crate::RecordKind::Upstream] {
        for record in store.list(kind, 0, 10).await.unwrap() {
            assert!(!record.value.contains("third-"), "{}", record.value);
        }
    }
}

/// covers: ELIC-26 ELIC-32
#[tokio::test]
async fn a_link_of_another_user_of_the_provider_opens_nothing() {
    let (third, desk) = (Third::default(), Desk::of(OURS));
    let site = site(&third, &desk);
    // What begins like it, and what it begins like.
    for stranger in ["u-18", "u-1", "u-17 ", "u-177", "U-17"] {
        third.is_visited_by(stranger);
        let mut jar = Jar::new(&site);
        let refused = jar.visit(&third, &link(LINK)).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{stranger}");
        assert!(refused.text().contains("This link is for another user"), "{}", refused.text());
        assert!(!jar.cookies.contains_key("__Host-hospes"), "nobody is signed in by that");
        // Again to the provider, where they may have signed in as somebody else meanwhile.
        assert!(jar.open(&link(LINK)).await.back().is_some());
    }
    assert!(desk.taken.lock().is_empty());
    third.is_visited_by("u-17");
    assert_eq!(Jar::new(&site).visit(&third, &link(LINK)).await.status(), StatusCode::OK);
}

/// A sign-in for one page is not valid on the next page, nor for an application.
#[tokio::test]
async fn a_visit_is_to_one_page() {
    let (third, desk) = (Third::default(), Desk::of(OURS));
    let time = time();
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let site = on(&store, provider(&third), &desk, &time);
    let mut jar = Jar::new(&site);
    jar.visit(&third, &link(LINK)).await;
    for page in [link(OTHER), link("accounts")] {
        assert!(jar.clone().open(&page).await.back().is_some(), "{page} wants to know anew who is there");
    }
    let consent = jar.clone().open(&Ask::new().path()).await;
    assert!(consent.back().is_none() && !consent.text().contains("u-17"), "{}", consent.text());
    // A form of one page is nothing on another.
    let csrf = jar.open(&link(LINK)).await.hidden("csrf");
    let other = jar.clone().send(&link(OTHER), &[("csrf", &csrf), ("decision", "allow")]).await;
    assert!(other.header("location").starts_with("https://third.example"), "{}", other.text());
    // Under other rules of who is let in, and where users sign in here, it is nothing.
    let others =
        provider(&third).admitting(UserAdmissionRules::only([("sub".to_owned(), vec!["u-17".to_owned()])]));
    let under = |site: Site| Jar { site, cookies: jar.cookies.clone() };
    assert!(under(on(&store, others, &desk, &time)).open(&link(LINK)).await.back().is_some());
    let here = AuthServer::new(settings(), Arc::clone(&store), LocalSignIn::users([])).unwrap();
    let asked = under(of(here, &desk, &time)).open(&link(LINK)).await;
    assert!(asked.text().contains("Sign in to continue"), "{}", asked.text());
    // And it ends.
    assert_eq!(jar.open(&link(LINK)).await.status(), StatusCode::OK);
    site.pass(1201);
    assert!(jar.open(&link(LINK)).await.back().is_some());
}

/// A local user is not the provider's user of the same name.
#[tokio::test]
async fn a_session_of_before_there_was_a_provider_is_none() {
    let (third, time) = (Third::default(), time());
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    let desk = Desk::of("https://as.example user owner");
    let code = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&code);
    let show = move |shown: &str| shown.clone_into(&mut sink.lock());
    let owned = |show| AuthServer::new(settings(), Arc::clone(&store), show).unwrap();
    let here = of(owned(LocalSignIn::owner(show)), &desk, &time);
    let mut jar = Jar::new(&here);
    let page = jar.open(&link(LINK)).await;
    let code = code.lock().clone();
    let fields = [("request", page.hidden("request")), ("csrf", page.hidden("csrf")), ("code", code)];
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    jar.send("/sign-in", &fields).await;
    assert!(jar.open(&link(LINK)).await.text().contains("Connect your account"));
    let delegating = owned(LocalSignIn::owner(|_| {})).delegating(provider(&third));
    let mut there = Jar { site: of(delegating, &desk, &time), cookies: jar.cookies.clone() };
    assert!(there.open(&link(LINK)).await.back().is_some());
}

#[tokio::test]
async fn an_answer_of_the_provider_is_for_the_browser_and_the_page_that_asked() {
    let (third, desk) = (Third::default(), Desk::of(OURS));
    let site = site(&third, &desk);
    let mut jar = Jar::new(&site);
    let back = jar.go(&third, &link(LINK)).await;
    let refused = StatusCode::BAD_REQUEST;
    assert_eq!(Jar::new(&site).open(&back).await.status(), refused, "without its cookie");
    let mut other = Jar::new(&site);
    other.go(&third, &link(LINK)).await;
    assert_eq!(other.open(&back).await.status(), refused, "with another's");
    assert_eq!(jar.open(&back).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(jar.open(&back).await.status(), refused, "once");
    for (answer, status, said) in [
        ("error=access_denied", StatusCode::OK, "Nothing has changed"),
        ("error=made_up&error_description=secret", StatusCode::BAD_GATEWAY, "is invalid"),
        ("code=wrong", StatusCode::BAD_GATEWAY, "is invalid"),
    ] {
        let mut jar = Jar::new(&site);
        let (_, fields) = jar.open(&link(LINK)).await.back().unwrap();
        let shown =
            jar.open(&format!("/upstream/callback?{answer}&state={}&iss={THIRD}", fields["state"])).await;
        assert_eq!(shown.status(), status, "{answer}");
        assert!(shown.text().contains(said) && !shown.text().contains("secret"), "{}", shown.text());
        assert!(!jar.cookies.contains_key("__Host-hospes"));
    }
    // Nobody is sent anywhere for a link that is none, and where the provider is not to be reached.
    let none = jar.open(&link(&"C".repeat(43))).await;
    assert_eq!(none.status(), StatusCode::NOT_FOUND);
    let away = Third::default();
    away.break_off(Some("away"));
    let later = Jar::new(&self::site(&away, &desk)).open(&link(LINK)).await;
    assert_eq!(later.status(), StatusCode::SERVICE_UNAVAILABLE, "{}", later.text());
}

/// If tokens come from another issuer, the browser's user is identified by the same issuer.
#[tokio::test]
async fn users_of_an_issuer_elsewhere_have_the_pages_and_nothing_else() {
    let (third, desk) = (Third::default(), Desk::of(THEIRS));
    let server = AuthServer::only_pages(Issuer::new(super::ISSUER).unwrap(), provider(&third)).unwrap();
    let site = of(server, &desk, &time());
    for path in
        ["/authorize", "/sign-in", "/consent", "/token", "/revoke", "/introspect", "/register", "/jwks"]
    {
        assert!(!site.server.serves(path), "{path}");
    }
    assert!(!site.server.serves("/.well-known/oauth-authorization-server"));
    let mut jar = Jar::new(&site);
    let page = jar.visit(&third, &link(LINK)).await;
    assert!(page.text().contains("Connect your account at mail.example?"), "{}", page.text());
    third.is_visited_by("u-18");
    let refused = Jar::new(&site).visit(&third, &link(LINK)).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    // A link of somebody whom we would name so is nobody's there.
    third.is_visited_by("u-17");
    let server = AuthServer::only_pages(Issuer::new(super::ISSUER).unwrap(), provider(&third)).unwrap();
    let refused = Jar::new(&of(server, &Desk::of(OURS), &time())).visit(&third, &link(LINK)).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert!(AuthServer::only_pages(Issuer::new("http://as.example").unwrap(), provider(&third)).is_err());
}

#[tokio::test]
async fn users_see_their_accounts_and_give_them_up() {
    let (third, desk) = (Third::default(), Desk::of(OURS));
    let site = site(&third, &desk);
    let mut jar = Jar::new(&site);
    let page = jar.visit(&third, &link("accounts")).await;
    assert!(page.text().contains("Connected for read"), "{}", page.text());
    let csrf = page.hidden("csrf");
    for (fields, cookies) in [
        (vec![("server", "mail")], jar.cookies.clone()),
        (vec![("server", "mail"), ("csrf", "forged")], jar.cookies.clone()),
        (vec![("server", "mail"), ("csrf", &csrf)], BTreeMap::new()),
    ] {
        let mut jar = Jar { site: site.clone(), cookies };
        jar.send(&link("accounts"), &fields).await;
        assert!(desk.given_up.lock().is_empty(), "{fields:?}");
    }
    let done = jar.send(&link("accounts"), &[("server", "mail"), ("csrf", &csrf)]).await;
    assert!(done.text().contains("its tokens are revoked"), "{}", done.text());
    assert_eq!(*desk.given_up.lock(), [(OURS.to_owned(), "mail".to_owned())]);
    // Others have other accounts.
    third.is_visited_by("u-18");
    let others = Jar::new(&site).visit(&third, &link("accounts")).await;
    assert!(
        others.text().contains("Not connected") && !others.text().contains("Disconnect<"),
        "{}",
        others.text()
    );
}

/// Our own client metadata is published at our client id, byte for byte.
///
/// covers: AUTC-37
#[tokio::test]
async fn a_document_of_ourselves_is_published() {
    let id = ClientId::new("https://as.example/connect/client.json").unwrap();
    assert!(!Site::new().server.serves("/connect/client.json"));
    let mut known = hospes_oauth::OAuthClientSettings::default();
    known.metadata_url = Some(id.clone());
    let server =
        AuthServer::new(settings(), Arc::new(MemoryAuthStore::new()), LocalSignIn::default()).unwrap();
    let back = RedirectUri::new(server.connect_callback()).unwrap();
    let server = server.publishing(known.document(vec![back], None).unwrap());
    let answer = Site::of(server, time()).get("/connect/client.json").await;
    assert_eq!((answer.status(), answer.header("content-type")), (StatusCode::OK, "application/json"));
    let said = answer.json();
    assert_eq!((&said["client_id"], &said["client_name"]), (&json!(id.as_str()), &json!("Hospes")));
    assert_eq!(said["redirect_uris"], json!(["https://as.example/connect/callback"]));
    assert_eq!(said["application_type"], "web");
}
