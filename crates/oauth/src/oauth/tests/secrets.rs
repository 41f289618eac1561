//! No secret is ever printed: all logs, errors and debug output of a client's life are searched.

use hospes_auth_testkit::AuthTestLog;
use secrecy::ExposeSecret as _;

use super::*;
use crate::{DeferredSignIn, DeviceCodeSignIn, FileCredentialStore, GrantType, StoreKey};

const MARK: &str = "s3cret-";

/// covers: AUTG-12
#[tokio::test]
async fn nothing_secret_is_said() {
    let heard = AuthTestLog::default();
    let _listening = heard.listen();
    let mut said = Vec::new();
    let site = Site::open().await;
    site.script().mark = MARK;
    site.script().gives_secrets = true;
    let folder = tempfile::tempdir().unwrap();
    let key = StoreKey::passphrase(format!("{MARK}passphrase"));
    said.push(format!("{key:?}"));
    let store = Arc::new(FileCredentialStore::new(folder.path().join("credentials"), key));
    let shared: Arc<dyn CredentialStore> = Arc::<FileCredentialStore>::clone(&store);
    let oauth = site.builder().sign_in(site.person()).store(Arc::clone(&shared)).build();
    let client = site.connect(&oauth).await;
    call(&client, "x").await.unwrap();
    // More scopes, a renewal, and one that fails; a server that takes nothing.
    site.script().wants = Some("write");
    call(&client, "x").await.unwrap();
    site.pass(545);
    call(&client, "x").await.unwrap();
    site.script().refresh_fails = Some(503);
    site.pass(545);
    call(&client, "x").await.unwrap();
    let tokens = oauth.tokens().await.unwrap().unwrap();
    assert!(tokens.access.expose_secret().starts_with(MARK), "what is looked for is there");
    assert!(tokens.refresh.as_ref().unwrap().expose_secret().starts_with(MARK));
    said.push(format!("{tokens:?} {oauth:?} {store:?} {:?}", store.names("").unwrap()));
    site.script().is_blind = true;
    let error = call(&client, "x").await.unwrap_err();
    said.push(format!("{error} {error:?}"));
    site.script().is_blind = false;
    // Somebody else signs in; the page that they are sent to is told, and nothing of what comes back.
    let callback = RedirectUri::new("https://console.example/oauth/callback").unwrap();
    let elsewhere = site.builder().sign_in(DeferredSignIn::new(callback)).build();
    let Err(FlowError::Visit(page)) = elsewhere.sign_in(None).await else { panic!("nobody was asked") };
    let asked = GuardedClient::new(EgressPolicy::public().allow_loopback());
    let back = asked.fetch(hospes_auth::FetchRequest::get(page, 1000)).await.unwrap();
    said.push(format!("{back:?}"));
    let back = back.headers["location"].to_str().unwrap().to_owned();
    let forged = elsewhere.finish(&back.replace("state=", "state=x")).await.unwrap_err();
    said.push(format!("{forged} {forged:?}"));
    elsewhere.finish(&back).await.unwrap();
    // A code for another machine.
    let shared_site = Arc::clone(&site);
    let codes = DeviceCodeSignIn::new(move |_| {
        shared_site.script().is_entered = true;
        Ok(())
    });
    let device = site.builder().grant(GrantType::Device).sign_in(codes).build();
    device.sign_in(None).await.unwrap();
    said.push(format!("{device:?}"));
    // A store that cannot be opened.
    let wrong = FileCredentialStore::new(store.path(), StoreKey::passphrase(format!("{MARK}other")));
    let error = wrong.read("x").unwrap_err();
    said.push(format!("{error} {error:?}"));

    let logs = heard.text();
    assert!(logs.contains("access token replaced"), "it was listened to: {logs}");
    said.push(logs);
    let script = site.script();
    let asked = |query: &str| url::form_urlencoded::parse(query.as_bytes()).into_owned().collect::<Vec<_>>();
    let states = script.seen.iter().flat_map(|(_, query, _)| asked(query));
    let mut secrets: Vec<String> =
        states.filter(|(name, _)| name == "state").map(|(_, state)| state).collect();
    assert!(secrets.len() >= 3, "{secrets:?}");
    secrets.push(MARK.to_owned());
    for text in &said {
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "{secret} is in: {text}");
        }
    }
    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
        let text = std::fs::read(entry.path()).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains(MARK), "{}", entry.path().display());
    }
}
