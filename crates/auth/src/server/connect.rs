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
use super::pages::{ConnectPage, Done, Problem, page};
use super::store::{Kind, Record, Taken};
use super::tokens::encode;
use super::{AuthServer, hash};
use crate::resource::Principal;

/// Where all of this is, below the issuer.
const FOLDER: &str = "/connect/";
/// Where browsers come back to, below the issuer.
const CALLBACK: &str = "/connect/callback";

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
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<(), NotConnected>> + Send + 'a>>;

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
}

/// A user who signs in elsewhere, and the browser that they left with.
#[derive(Serialize, Deserialize)]
struct Gone {
    link: String,
    browser: String,
    principal: String,
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

    /// Whether this user may sign in here.
    #[must_use]
    pub fn knows_user(&self, user: &str) -> bool {
        self.0.sign_in.mark(user).is_some()
    }

    /// Whether a path below the issuer is one of these. Users who sign in elsewhere have no session here that would say
    /// who they are.
    pub(super) fn is_connect_path(&self, path: &str) -> bool {
        self.0.connections.is_some()
            && self.provider().is_none()
            && path.strip_prefix(FOLDER).is_some_and(is_id)
    }

    /// Answers on such a path.
    pub(super) async fn connect(&self, parts: &Parts, form: &Form) -> Page {
        let Some(connections) = &self.0.connections else { return Ok(self.too_late()) };
        let path = parts.uri.path();
        let path = path.strip_prefix(self.base()).unwrap_or(path);
        if path == CALLBACK {
            return self.connected(&**connections, parts, form).await;
        }
        let id = path.strip_prefix(FOLDER).unwrap_or_default();
        let Some(link) = connections.link(id) else { return Ok(self.no_link()) };
        let browser = self.browser(&parts.headers).await?;
        let Some(user) = browser.user.clone() else {
            return self.begin(Errand::Connection(id.to_owned()), &browser).await;
        };
        if self.named(&user) != *link.principal {
            tracing::warn!(user, server = %link.server, "a link was opened by another user than it was made for");
            return Ok(self.refused(
                StatusCode::FORBIDDEN,
                "This link is for somebody else",
                "It was made for another user of this host. Open links only from your own applications.",
            ));
        }
        let mark = format!("connect {id}");
        if parts.method != Method::POST {
            return Ok(self.connect_page(id, &link, &browser, &user, &mark));
        }
        if !form.get("csrf").is_some_and(|shown| browser.checks(&mark, shown)) {
            return Ok(self.too_late());
        }
        if form.get("decision") != Some("allow") {
            tracing::info!(user, server = %link.server, "a user does not connect an account");
            connections.refuse(id);
            return Ok(self.done("Nothing was connected", "You can close this page."));
        }
        let state = link.page.query_pairs().find(|(name, _)| name == "state");
        let Some(state) = state.map(|(_, state)| state.into_owned()) else { return Ok(self.no_link()) };
        if !connections.take(id) {
            return Ok(self.no_link());
        }
        tracing::info!(user, server = %link.server, "a user goes to connect an account");
        let gone = Gone { link: id.to_owned(), browser: browser.mark(), principal: self.named(&user) };
        let until = self.now() + self.settings().lifetimes.pending.as_secs();
        self.store().put(Record::new(Kind::Pending, gone_key(&state), encode(&gone), until)).await?;
        Ok(redirect(link.page.as_str()))
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
        let is_same = browser.mark() == gone.browser
            && browser.user.as_ref().is_some_and(|user| self.named(user) == gone.principal);
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

    fn named(&self, user: &str) -> String {
        Principal::new(self.settings().issuer.clone(), user).name()
    }

    fn connect_page(
        &self,
        id: &str,
        link: &Link,
        browser: &Browser,
        user: &str,
        mark: &str,
    ) -> Response<Bytes> {
        let csrf = browser.csrf(mark);
        let template = ConnectPage {
            base: self.base(),
            link: id,
            csrf: &csrf,
            server: &link.server,
            host: &link.host,
            provider: link.page.host_str().unwrap_or_default(),
            user,
        };
        page(StatusCode::OK, &template)
    }

    fn no_link(&self) -> Response<Bytes> {
        let text = "It was used, or it is too old, or the host was started again since. Begin again from the application.";
        self.refused(StatusCode::NOT_FOUND, "This link is no longer good", text)
    }

    fn no_answer(&self) -> Response<Bytes> {
        let text = "It came too late, or twice, or with another browser, or the host was started again since. Begin again \
                    from the application.";
        self.refused(StatusCode::BAD_REQUEST, "Nobody waits for this answer", text)
    }

    fn done(&self, title: &str, text: &str) -> Response<Bytes> {
        page(StatusCode::OK, &Done { base: self.base(), title, text })
    }

    fn refused(&self, status: StatusCode, title: &str, text: &str) -> Response<Bytes> {
        page(status, &Problem { base: self.base(), title, text })
    }
}

fn gone_key(state: &str) -> String {
    hash(&format!("connect {state}"))
}

/// Whether this is the last part of such a path: an id, or `callback`.
fn is_id(text: &str) -> bool {
    text == "callback"
        || (text.len() == 43
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)))
}
