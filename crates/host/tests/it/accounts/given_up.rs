//! Tests of the users' account page, of disconnecting accounts, and of the limit of users.

use std::collections::BTreeSet;
use std::sync::Arc;

use hospes::client::Client;
use hospes::{Call, Context, Outcome, Peer, Service as _};
use hospes_auth::{ClientId, RedirectUri};
use hospes_host::catalogue::ACCOUNTS_URI;
use hospes_host::config::ConfigLoader;
use hospes_host::{AccountLimits, Host, UpstreamAccounts};
use hospes_model::{ClientCapabilities, Method, RawJson, Revision};
use hospes_oauth::{
    CredentialStore, DeferredSignIn, FlowError, MemoryCredentialStore, OAuthClient, PreregisteredOAuthClient,
    StoredTokens as Tokens,
};
use serde_json::{Value, json};

use crate::accounts::browser::{Browser, PATIENCE, Page};
use crate::accounts::says;
use crate::accounts::site::{GIVEN, Gate, Heard, Kept, Site};

/// Address without a listener.
const HERE: &str = "http://127.0.0.1/connect/callback";

/// Reads the gateway's list of accounts of this application's user.
async fn accounts(client: &Client) -> Value {
    let read = client.read(ACCOUNTS_URI).await.unwrap();
    let read = serde_json::to_value(&read.contents).unwrap();
    serde_json::from_str(read[0]["text"].as_str().unwrap()).unwrap()
}

/// Opens the page of accounts and disconnects the only one.
async fn disconnect(browser: &mut Browser, gate: &Gate) -> Page {
    let page = browser.agree_to_sign_in(&format!("{}/connect/accounts", gate.origin)).await;
    assert!(page.text.contains("Disconnect<"), "{page:?}");
    browser.press(&page, "disconnect").await
}

/// Limits of which one is another.
fn limited(change: impl FnOnce(&mut AccountLimits)) -> AccountLimits {
    let mut limits = AccountLimits::default();
    change(&mut limits);
    limits
}

fn kept_of(kept: &Kept) -> Vec<String> {
    let known = Tokens::all(&*kept.store).unwrap();
    known.iter().map(|one| one.account.rsplit(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_user_sees_their_accounts_and_gives_them_up() {
    let site = Site::new().await;
    let (gate, kept) = Gate::told(&site, |accounts| accounts, "").await;
    let mut clients = Vec::new();
    for name in ["alice", "bob"] {
        let client = gate.application(name, Client::builder()).await;
        let told = accounts(&client).await;
        let host = site.origin.trim_start_matches("http://");
        assert_eq!(
            told,
            json!({ "accounts": [{ "server": "site", "host": host, "connected": false, "scopes": null }],
                "manage": format!("{}/connect/accounts", gate.origin) })
        );
        let link = gate.link(&says(&client, "site__whoami").await);
        assert_eq!(gate.browser(name).agree(&link).await.status, 200);
        assert_eq!(says(&client, "site__whoami").await, format!("{name}-there"));
        let told = accounts(&client).await;
        let scopes = told["accounts"][0]["scopes"].as_array().unwrap();
        assert!(told["accounts"][0]["connected"] == true && scopes.contains(&json!("use")), "{told}");
        let listed = client.resources().all().await.unwrap();
        assert!(listed.iter().any(|resource| resource.uri == ACCOUNTS_URI), "{listed:?}");
        clients.push(client);
    }
    let robot = gate.application("robot", Client::builder()).await;
    assert!(robot.read(ACCOUNTS_URI).await.is_err(), "a program has none");

    let bobs = site.heard.lock().iter().rfind(|shown| shown.starts_with("Bearer ")).cloned().unwrap();
    let done = disconnect(&mut gate.browser("bob"), &gate).await;
    assert!(done.text.contains("is disconnected, and its tokens are revoked"), "{done:?}");
    assert!(done.text.contains("Not connected"), "{done:?}");
    // The server knows the token no more that was shown last, which was his.
    let direct = hospes::client::Target::url(site.url()).header("authorization", bobs);
    assert!(Client::connect(direct).await.is_err());
    assert_eq!(kept_of(&kept), ["alice"]);
    let told = accounts(&clients[1]).await;
    assert_eq!(told["accounts"][0]["connected"], false, "{told}");
    // The connection on it is closed meanwhile, with whatever was about to go over it.
    let asked = async {
        loop {
            match clients[1].call("site__whoami", json!({})).await {
                Ok(said) if said.all_text().contains("/connect/") => break,
                Ok(said) => assert!(!said.all_text().contains("-there"), "{said:?}"),
                Err(error) => assert!(error.to_string().contains("closed"), "{error}"),
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("he is not asked to connect it again");
    assert_eq!(says(&clients[0], "site__whoami").await, "alice-there", "hers is hers");
    // He may have it again, by a link of afterwards.
    let (again, _) = gate.willing("bob", Revision::LATEST).await;
    assert_eq!(says(&again, "site__whoami").await, "bob-there");
}

/// Asks until the answer is one that `wanted` takes; what was about to go over a connection that is closed fails with it.
async fn asked_until(client: &Client, wanted: impl Fn(&str) -> bool) -> String {
    let asking = async {
        loop {
            match client.call("site__whoami", json!({})).await {
                Ok(said) if wanted(&said.all_text()) => break said.all_text(),
                Ok(_) => {}
                Err(error) => assert!(error.to_string().contains("closed"), "{error}"),
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("it never says so")
}

/// A session of one account does not continue with another, or without one. This holds even at a server that shows its
/// lists without sign-in, so that nothing else would end the session.
#[tokio::test]
async fn a_session_ends_with_the_account_that_it_was_for() {
    let site = Site::listing_openly().await;
    let (gate, _) = Gate::told(&site, |accounts| accounts, "era = \"legacy\"").await;
    let alice = gate.application("alice", Client::builder()).await;
    let link = gate.link(&asked_until(&alice, |said| said.contains("/connect/")).await);
    assert_eq!(gate.browser("alice").agree(&link).await.status, 200);
    asked_until(&alice, |said| said == "alice-there").await;
    let hers = site.sessions.lock().last().unwrap().clone();
    assert!(hers.shown.is_some(), "{hers:?}");
    disconnect(&mut gate.browser("alice"), &gate).await;
    // Nobody has to call for that.
    let closed = async {
        let is_end = |one: &Heard| one.session == hers.session && one.method == http::Method::DELETE;
        while !site.sessions.lock().iter().any(is_end) {
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(PATIENCE, closed).await.is_err() {
        panic!("the connection of {hers:?} still stands: {:?}", site.sessions.lock());
    }
    // At the server she is somebody else now.
    let link = gate.link(&asked_until(&alice, |said| said.contains("/connect/")).await);
    let mut other =
        Browser::default().user(&gate.origin, "alice", "here").user(&gate.site, "bob-there", "there");
    assert_eq!(other.agree(&link).await.status, 200);
    asked_until(&alice, |said| said == "bob-there").await;
    let heard = site.sessions.lock().clone();
    let tokens = |session: &str| -> BTreeSet<String> {
        heard.iter().filter(|one| one.session == session).filter_map(|one| one.shown.clone()).collect()
    };
    assert!(heard.iter().all(|one| tokens(&one.session).len() <= 1), "{heard:?}");
    let all: BTreeSet<_> = heard.iter().filter_map(|one| one.shown.clone()).collect();
    assert_eq!(all.len(), 2, "{heard:?}");
}

/// Another program signs the operator in with another identity.
#[tokio::test]
async fn a_session_ends_when_another_program_signs_in_as_somebody_else() {
    let site = Site::listing_openly().await;
    let store: Arc<dyn CredentialStore> = Arc::new(MemoryCredentialStore::new());
    // The same place, as another program has it.
    let sign_in = async |name: &str| {
        let here = RedirectUri::new(HERE).unwrap();
        let given = PreregisteredOAuthClient::new(ClientId::new(GIVEN).unwrap()).secret("s3cret");
        let oauth = OAuthClient::builder(&site.url()).unwrap().client(given).store(Arc::clone(&store));
        let oauth = oauth.sign_in(DeferredSignIn::new(here)).build();
        let Err(FlowError::Visit(page)) = oauth.sign_in(None).await else { panic!("nobody was asked") };
        let browser = Browser::default().user(&site.origin, name, "there");
        let back = browser.stop_at(HERE).agree(page.as_str()).await;
        oauth.finish(back.url.as_str()).await.unwrap();
    };
    sign_in("alice-there").await;
    let text = format!("[servers.site]\nurl = \"{}\"\nera = \"legacy\"\n", site.url());
    let config = ConfigLoader::new().parse("hospes.toml", &text).unwrap();
    let host = Host::builder(config).accounts(UpstreamAccounts::new(Arc::clone(&store))).start().unwrap();
    let client = Client::builder().in_memory(host.gateway()).await.unwrap();
    asked_until(&client, |said| said == "alice-there").await;
    sign_in("bob-there").await;
    asked_until(&client, |said| said == "bob-there").await;
    // The server may have ended her session by then, and the client begun another on the same connection: it ends as well.
    let closed = async {
        let is_end = |one: &Heard| one.method == http::Method::DELETE;
        while !site.sessions.lock().iter().any(is_end) {
            asked_until(&client, |said| said == "bob-there").await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.expect("the connection still stands");
    host.stop().await;
}

#[tokio::test]
async fn an_account_is_gone_here_whatever_the_server_says() {
    let mut site = Site::new().await;
    let (gate, kept) = Gate::told(&site, |accounts| accounts, "").await;
    let (alice, _) = gate.willing("alice", Revision::LATEST).await;
    assert_eq!(says(&alice, "site__whoami").await, "alice-there");
    site.go_away().await;
    let done = disconnect(&mut gate.browser("alice"), &gate).await;
    assert!(done.text.contains("did not revoke them"), "{done:?}");
    assert!(kept_of(&kept).is_empty());
}

/// A link from before the disconnection is invalid, and its holder cannot connect anything.
#[tokio::test]
async fn a_link_does_not_outlive_what_its_user_gave_up() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    let (alice, _) = gate.willing("alice", Revision::LATEST).await;
    assert_eq!(says(&alice, "site__whoami").await, "alice-there");
    // For more than she has agreed to so far.
    let silent = gate.application("alice", Client::builder()).await;
    let link = gate.link(&says(&silent, "site__admin").await);
    disconnect(&mut gate.browser("alice"), &gate).await;
    let gone = gate.browser("alice").agree(&link).await;
    assert!(gone.status == 404 && gone.text.contains("no longer valid"), "{gone:?}");
}

#[tokio::test]
async fn there_are_only_so_many_users_at_once() {
    let site = Site::new().await;
    let limits = limited(|limits| limits.max_users = 1);
    let (gate, _) = Gate::told(&site, |accounts| accounts.limits(limits), "").await;
    let alice = gate.application("alice", Client::builder()).await;
    assert!(says(&alice, "site__whoami").await.contains("/connect/"));
    let bob = Client::builder().connect(gate.target("bob")).await;
    let refused = match bob {
        Ok(bob) => format!("{:?}", bob.call("site__whoami", json!({})).await.unwrap_err()),
        Err(error) => error.to_string(),
    };
    assert!(refused.contains("max_users"), "{refused}");
    assert!(says(&alice, "site__whoami").await.contains("/connect/"));
}

/// Lists are kept for each profile of a user, and the limit is of users.
#[tokio::test]
async fn a_user_with_several_profiles_is_one_user() {
    let site = Site::new().await;
    let limits = limited(|limits| limits.max_users = 1);
    let (gate, _) = Gate::told(&site, |accounts| accounts.limits(limits), "[profiles.work]").await;
    let list = async |gateway: hospes_host::Gateway, name: &str| {
        let mut peer = Peer::new(Revision::LATEST, None, ClientCapabilities::new());
        peer.principal = Some(format!("https://issuer.example user {name}").into());
        let context = Context::new(Arc::new(peer));
        gateway.call(Call::new(Method::ToolsList, RawJson::empty_object(), context)).await
    };
    let work = || gate.host.gateway_of_profile("work").unwrap();
    for gateway in [gate.host.gateway(), work(), gate.host.gateway()] {
        let outcome = list(gateway, "alice").await;
        assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
    }
    let Outcome::Failed(error) = list(work(), "bob").await else { panic!("one user too many") };
    assert!(error.message.contains("max_users"), "{error}");
}
