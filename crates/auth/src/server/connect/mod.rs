//! Accounts that users have elsewhere: the pages `/connect/…` of links that were made for one user each.
//!
//! ```text
//!  link ── opened ──► who is there? ── the link's user ──► shall it be? ── yes, once ──► signs in elsewhere
//!                          │ somebody else                    │ no                             │
//!                          ▼                                  ▼                                ▼
//!                       refused                            refused             callback: same browser, same user,
//!                                                                              same state ──► the tokens are kept
//! ```
//!
//! Opening a link changes nothing, so what opens links to look at them uses none up. Being signed in elsewhere signs
//! nobody in here.
//!
//! Who is there is known by the session of our own sign-in page; where users sign in at a provider they do so again for
//! each of these pages. On `/connect/accounts` users see their accounts, and give them up.

mod accounts;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde::{Deserialize, Serialize};
use url::Url;

use super::browser::Browser;
use super::consent::{Errand, Page, redirect};
use super::form::Form;
use super::pages::{ConnectPage, Told, page};
use super::store::{Kind, Record, Taken};
use super::tokens::encode;
use super::{AuthServer, hash};
use crate::Scopes;
use crate::metadata::ClientDocument;
use crate::resource::Principal;

/// Where all of this is, below the issuer.
const FOLDER: &str = "/connect/";
/// Where browsers come back to, below the issuer.
const CALLBACK: &str = "/connect/callback";
/// The page of a user's accounts, as the last part of its path.
pub(super) const ACCOUNTS: &str = "accounts";

/// What a user is asked to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Whose it is, as [`Principal::name`] says it. Nobody else may use it.
    pub principal: Arc<str>,
    /// What the operator calls the server.
    pub server: Arc<str>,
    /// The host that the account is at.
    pub host: String,
    /// Where the user signs in. In its query is a `state`, which the answer brings back.
    pub page: Url,
}

impl Link {
    /// A link for this principal.
    #[must_use]
    pub fn new(principal: Arc<str>, server: Arc<str>, host: impl Into<String>, page: Url) -> Self {
        Self { principal, server, host: host.into(), page }
    }
}

/// Why an account was not connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotConnected {
    /// Nobody waits for this answer: it is too late, or the host was started again since.
    Unknown,
    /// The other server, or the user there, said no.
    Refused,
    /// Something failed. What exactly is for the log alone.
    Failed,
}

/// What a [`Connections`] does later.
pub type Connecting<'a, T = ()> = Pin<Box<dyn Future<Output = Result<T, NotConnected>> + Send + 'a>>;

/// How a user's account at a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountStatus {
    /// What the operator calls the server.
    pub server: Arc<str>,
    /// The host that the account is at.
    pub host: String,
    /// What it may be used for, if it is connected; nothing where the other server does not say.
    pub granted: Option<Scopes>,
}

impl AccountStatus {
    /// That of an account which is not connected.
    #[must_use]
    pub fn new(server: Arc<str>, host: impl Into<String>) -> Self {
        Self { server, host: host.into(), granted: None }
    }

    /// Whether it is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.granted.is_some()
    }
}

/// What became of an account that its user gave up. Its tokens are kept here no more, in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disconnected {
    /// There was none.
    Nothing,
    /// The other server has taken its tokens back (RFC 7009).
    Revoked,
    /// The other server has no way to take them back: there they are good until they run out.
    NotOffered,
    /// The other server has not taken them back. Why is for the log alone.
    NotRevoked,
}

/// Keeps the accounts that users have elsewhere, and makes links for those that are missing.
pub trait Connections: fmt::Debug + Send + Sync + 'static {
    /// The link of this id, while it is good.
    fn link(&self, id: &str) -> Option<Link>;

    /// Uses a link up: true for one caller only, while it is good.
    fn take(&self, id: &str) -> bool;

    /// The user does not want it.
    fn refuse(&self, id: &str);

    /// The browser came back for a link that was taken: `redirected` is where to, with the answer in its query.
    fn finish<'a>(&'a self, id: &'a str, redirected: String) -> Connecting<'a>;

    /// All accounts that this principal has or could have.
    fn accounts<'a>(&'a self, principal: &'a str) -> Connecting<'a, Vec<AccountStatus>>;

    /// Gives up the account of this principal at a server: forgets its tokens, and has the other server take them back.
    fn disconnect<'a>(&'a self, principal: &'a str, server: &'a str) -> Connecting<'a, Disconnected>;
}

/// A user who signs in elsewhere, and the browser that they left with.
#[derive(Serialize, Deserialize)]
struct Gone {
    link: String,
    browser: String,
    principal: String,
}

/// Who is there with a browser.
struct Somebody {
    /// As [`Principal::name`] says it.
    principal: String,
    /// What people call them.
    shown: String,
}

impl AuthServer {
    /// Has the pages on which users connect their accounts elsewhere.
    #[must_use]
    pub fn connecting(self, connections: Arc<dyn Connections>) -> Self {
        self.with(|inner| inner.connections = Some(connections))
    }

    /// The address of the link with this id: nothing in it says whose it is, and it lets nobody in.
    #[must_use]
    pub fn link_url(&self, id: &str) -> String {
        format!("{}{FOLDER}{id}", self.settings().issuer.as_str().trim_end_matches('/'))
    }

    /// Where the authorization servers of others send browsers back to.
    #[must_use]
    pub fn connect_callback(&self) -> String {
        format!("{}{CALLBACK}", self.settings().issuer.as_str().trim_end_matches('/'))
    }

    /// Where users see their accounts.
    #[must_use]
    pub fn accounts_page(&self) -> String {
        self.link_url(ACCOUNTS)
    }

    /// Publishes the document that says who we are where we are a client of others. It is at its client's id, which is to
    /// be below the issuer.
    #[must_use]
    pub fn publishing(self, document: ClientDocument) -> Self {
        self.with(|inner| inner.document = Some(document))
    }

    /// Whether this user may sign in here.
    #[must_use]
    pub fn knows_user(&self, user: &str) -> bool {
        self.0.sign_in.mark(user).is_some()
    }

    pub(super) fn connections(&self) -> Option<&dyn Connections> {
        self.0.connections.as_deref()
    }

    /// Whether a path below the issuer is one of these.
    pub(super) fn is_connect_path(&self, path: &str) -> bool {
        self.0.connections.is_some() && path.strip_prefix(FOLDER).is_some_and(is_id)
    }

    /// Answers on such a path.
    pub(super) async fn connect(&self, parts: &Parts, form: &Form) -> Page {
        let Some(connections) = self.connections() else { return Ok(self.too_late()) };
        let path = parts.uri.path();
        let path = path.strip_prefix(self.base()).unwrap_or(path);
        if path == CALLBACK {
            return self.connected(connections, parts, form).await;
        }
        let id = path.strip_prefix(FOLDER).unwrap_or_default();
        if id == ACCOUNTS {
            return self.accounts(connections, parts, form).await;
        }
        let Some(link) = connections.link(id) else { return Ok(self.no_link()) };
        let browser = self.browser(&parts.headers).await?;
        let Some(person) = self.person(&browser, id) else { return self.who_is_there(id, &browser).await };
        if *person.principal != *link.principal {
            return Ok(self.anothers(&link, &person.principal));
        }
        let mark = format!("connect {id}");
        if parts.method != Method::POST {
            let template = ConnectPage {
                base: self.base(),
                link: id,
                csrf: &browser.csrf(&mark),
                server: &link.server,
                host: &link.host,
                provider: link.page.host_str().unwrap_or_default(),
                user: &person.shown,
            };
            return Ok(page(StatusCode::OK, &template));
        }
        if !form.get("csrf").is_some_and(|shown| browser.checks(&mark, shown)) {
            return Ok(self.too_late());
        }
        let principal = person.principal;
        if form.get("decision") != Some("allow") {
            tracing::info!(principal, server = %link.server, "a user does not connect an account");
            connections.refuse(id);
            return Ok(self.done("Nothing was connected", "You can close this page."));
        }
        let state = link.page.query_pairs().find(|(name, _)| name == "state");
        let Some(state) = state.map(|(_, state)| state.into_owned()) else { return Ok(self.no_link()) };
        if !connections.take(id) {
            return Ok(self.no_link());
        }
        tracing::info!(principal, server = %link.server, "a user goes to connect an account");
        let gone = Gone { link: id.to_owned(), browser: browser.mark(), principal };
        let until = self.now() + self.settings().lifetimes.pending.as_secs();
        self.store().put(Record::new(Kind::Pending, gone_key(&state), encode(&gone), until)).await?;
        Ok(redirect(link.page.as_str()))
    }

    /// Who is there with this browser, as far as this page may know.
    fn person(&self, browser: &Browser, page: &str) -> Option<Somebody> {
        if let Some(visitor) = browser.visitor.as_ref().filter(|visitor| visitor.page == page) {
            return Some(Somebody { principal: visitor.principal.clone(), shown: visitor.shown.clone() });
        }
        let user = browser.user.as_ref()?;
        Some(Somebody { principal: self.named(user), shown: user.clone() })
    }

    /// Has the browser's user say who they are, and come back to this page.
    async fn who_is_there(&self, page: &str, browser: &Browser) -> Page {
        let errand = Errand::Connection(page.to_owned());
        match self.provider() {
            Some(provider) => self.send_away(provider, errand).await,
            None => self.begin(errand, browser).await,
        }
    }

    /// The browser comes back: it has to be the one that left, with the same user, for an answer that is waited for.
    async fn connected(&self, connections: &dyn Connections, parts: &Parts, form: &Form) -> Page {
        let (None, Some(state), true) = (form.repeated(), form.get("state"), parts.method == Method::GET)
        else {
            return Ok(self.no_answer());
        };
        let key = gone_key(state);
        let Some(record) = self.store().get(Kind::Pending, &key, self.now()).await? else {
            return Ok(self.no_answer());
        };
        let Ok(gone) = serde_json::from_str::<Gone>(&record.value) else { return Ok(self.no_answer()) };
        let browser = self.browser(&parts.headers).await?;
        let person = self.person(&browser, &gone.link);
        let is_same =
            browser.mark() == gone.browser && person.is_some_and(|person| person.principal == gone.principal);
        if !is_same {
            tracing::warn!("an answer about an account came with another browser than the one that left");
            return Ok(self.no_answer());
        }
        let Taken::First(_) = self.store().take(Kind::Pending, &key, self.now()).await? else {
            return Ok(self.no_answer());
        };
        let redirected = format!("{}?{}", self.connect_callback(), parts.uri.query().unwrap_or_default());
        Ok(match connections.finish(&gone.link, redirected).await {
            Ok(()) => self
                .done("Your account is connected", "You can close this page and go back to the application."),
            Err(NotConnected::Refused) => {
                self.done("Nothing was connected", "The other server, or you there, said no.")
            }
            Err(NotConnected::Unknown) => self.no_answer(),
            Err(NotConnected::Failed) => self.refused(
                StatusCode::BAD_GATEWAY,
                "Your account could not be connected",
                "The other server's answer cannot be used. Begin again from the application.",
            ),
        })
    }

    /// The whole name of a user of ours.
    pub(super) fn named(&self, user: &str) -> String {
        Principal::new(self.settings().issuer.clone(), user).name()
    }

    /// Somebody opened a link that was made for somebody else.
    pub(super) fn anothers(&self, link: &Link, principal: &str) -> Response<Bytes> {
        tracing::warn!(
            principal,
            wanted = %link.principal,
            server = %link.server,
            "a link was opened by another user than it was made for"
        );
        self.refused(
            StatusCode::FORBIDDEN,
            "This link is for somebody else",
            "It was made for another user of this host. Open links only from your own applications.",
        )
    }

    pub(super) fn no_link(&self) -> Response<Bytes> {
        let text = "It was used, or it is too old, or the host was started again since. Begin again from the application.";
        self.refused(StatusCode::NOT_FOUND, "This link is no longer good", text)
    }

    fn no_answer(&self) -> Response<Bytes> {
        let text = "It came too late, or twice, or with another browser, or the host was started again since. Begin again \
                    from the application.";
        self.refused(StatusCode::BAD_REQUEST, "Nobody waits for this answer", text)
    }

    pub(super) fn done(&self, title: &str, text: &str) -> Response<Bytes> {
        page(StatusCode::OK, &Told { base: self.base(), title, text, is_problem: false })
    }

    pub(super) fn refused(&self, status: StatusCode, title: &str, text: &str) -> Response<Bytes> {
        page(status, &Told { base: self.base(), title, text, is_problem: true })
    }
}

fn gone_key(state: &str) -> String {
    hash(&format!("connect {state}"))
}

/// Whether this is the last part of such a path: an id, or one of our own words.
fn is_id(text: &str) -> bool {
    matches!(text, "callback" | ACCOUNTS)
        || (text.len() == 43
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)))
}
