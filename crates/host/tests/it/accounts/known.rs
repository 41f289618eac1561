//! Tests of the gateway's client identity at a server's authorization server: a client of the configuration, or a
//! client metadata document.

use hospes::client::Client;
use hospes_auth::ClientId;
use hospes_model::Revision;
use hospes_oauth::StoredTokens as Tokens;

use crate::accounts::site::{DOCUMENT, GIVEN, Gate, Kept, Site};
use crate::accounts::{call, says};

fn clients(kept: &Kept) -> Vec<String> {
    let known = Tokens::all(&*kept.store).unwrap();
    known.into_iter().map(|tokens| tokens.client_id.as_str().to_owned()).collect()
}

/// Returns the dynamic registrations.
fn registrations(kept: &Kept) -> Vec<String> {
    kept.store.names("registration ").unwrap()
}

#[tokio::test]
async fn a_server_may_be_given_a_client_of_its_own() {
    let site = Site::new().await;
    let entry = format!("client_id = \"{GIVEN}\"\nclient_secret = \"s3cret\"");
    let (gate, kept) = Gate::told(&site, |accounts| accounts, &entry).await;
    for name in ["alice", "bob"] {
        let (client, _) = gate.willing(name, Revision::LATEST).await;
        assert_eq!(says(&client, "site__whoami").await, format!("{name}-there"));
    }
    assert_eq!(clients(&kept), [GIVEN, GIVEN]);
    assert!(registrations(&kept).is_empty(), "it introduced itself all the same");
}

/// The client secret is sent only to its own issuer, even if the server names another one later.
#[tokio::test]
async fn a_given_client_goes_to_its_own_issuer_alone() {
    let site = Site::new().await;
    let entry = format!(
        "client_id = \"{GIVEN}\"\nclient_secret = \"s3cret\"\nclient_issuer = \"https://other.example\""
    );
    let (gate, kept) = Gate::told(&site, |accounts| accounts, &entry).await;
    let (alice, pages) = gate.willing("alice", Revision::LATEST).await;
    assert_eq!(call(&alice, "site__whoami").await.is_error, Some(true));
    assert!(pages.lock().is_empty(), "nobody is sent anywhere");
    assert!(clients(&kept).is_empty() && registrations(&kept).is_empty());
    // Without a word about it, it belongs to whom it was first shown, for all users.
    let entry = format!("client_id = \"{GIVEN}\"\nclient_secret = \"s3cret\"");
    let (gate, kept) = Gate::told(&site, |accounts| accounts, &entry).await;
    for name in ["alice", "bob"] {
        let (client, _) = gate.willing(name, Revision::LATEST).await;
        assert_eq!(says(&client, "site__whoami").await, format!("{name}-there"));
    }
    assert_eq!(kept.store.names("binding ").unwrap().len(), 1);
}

#[tokio::test]
async fn a_wrong_secret_connects_nothing() {
    let site = Site::new().await;
    let entry = format!("client_id = \"{GIVEN}\"\nclient_secret = \"wr0ng\"");
    let (gate, kept) = Gate::told(&site, |accounts| accounts, &entry).await;
    let (alice, pages) = gate.willing("alice", Revision::LATEST).await;
    let said = call(&alice, "site__whoami").await;
    assert_eq!(said.is_error, Some(true), "{said:?}");
    let pages = pages.lock().clone();
    assert!(pages[0].status == 502 && pages[0].text.contains("could not be connected"), "{pages:?}");
    assert!(!format!("{said:?}{pages:?}").contains("wr0ng"));
    assert!(clients(&kept).is_empty() && registrations(&kept).is_empty(), "no other way is tried");
}

/// covers: AUTC-36 AUTC-37 AUTC-39
#[tokio::test]
async fn where_documents_are_read_nobody_registers() {
    let site = Site::new().await;
    let described = |accounts: hospes_host::UpstreamAccounts| {
        accounts.with_metadata_url(ClientId::new(DOCUMENT).unwrap())
    };
    let (gate, kept) = Gate::told(&site, described, "").await;
    *site.web.0.lock() = Some(gate.origin.clone());
    let (alice, pages) = gate.willing("alice", Revision::LATEST).await;
    assert_eq!(says(&alice, "site__whoami").await, "alice-there", "{:?}", pages.lock().last());
    assert_eq!(clients(&kept), [DOCUMENT]);
    assert!(registrations(&kept).is_empty());
}

/// The other server says so to the person, on its own page; nothing is connected, and the next try is a new one.
#[tokio::test]
async fn a_document_that_cannot_be_reached_connects_nothing() {
    let site = Site::new().await;
    let described = |accounts: hospes_host::UpstreamAccounts| {
        accounts.with_metadata_url(ClientId::new(DOCUMENT).unwrap())
    };
    let (gate, kept) = Gate::told(&site, described, "").await;
    let alice = gate.application("alice", Client::builder()).await;
    let link = gate.link(&says(&alice, "site__whoami").await);
    let page = gate.browser("alice").agree(&link).await;
    assert!(page.url.as_str().starts_with(&site.origin) && page.status == 503, "{page:?}");
    let again = call(&alice, "site__whoami").await;
    assert_eq!(again.is_error, Some(true), "{again:?}");
    assert!(clients(&kept).is_empty() && registrations(&kept).is_empty());
    // Once it can be, it goes on.
    *site.web.0.lock() = Some(gate.origin.clone());
    let link = gate.link(&again.all_text());
    assert_eq!(gate.browser("alice").agree(&link).await.status, 200);
    assert_eq!(says(&alice, "site__whoami").await, "alice-there");
}
