//! Pages on which users connect accounts elsewhere: `/connect/…`, for links that are each bound to one user.
//!
//! ```text
//!  link ── opened ──► who is there? ── the link's user ──► shall it be? ── yes, once ──► signs in elsewhere
//!                          │ somebody else                    │ no                             │
//!                          ▼                                  ▼                                ▼
//!                       refused                            refused             callback: same browser, same user,
//!                                                                              same state ──► the tokens are kept
//! ```
//!
//! Opening a link changes nothing, so link previews do not use it up. Signing in at another server does not sign the
//! user in here.
//!
//! The session of this server's own sign-in page identifies the user. Users of a provider sign in there again for each
//! of these pages. On `/connect/accounts` users see and disconnect their accounts.

mod accounts;

use std::sync::Arc;

use bytes::Bytes;
use hospes_auth::metadata::ClientDocument;
use hospes_auth::{AccountConnections, AccountLink, ConnectAccountError, DisconnectResult};
use hospes_oauth_resource::TokenPrincipal;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::auth_server::AuthServer;
use super::browser::AuthBrowserSession;
use super::consent::{PageResult, SignInPurpose, redirect};
use super::form::RequestForm;
use super::pages::{ConnectPage, MessagePage, page};
use super::store::secrets::hash;
use super::store::{AuthRecord, RecordKind, TakeRecordResult, encode};

/// Path prefix of these pages, below the issuer.
const FOLDER: &str = "/connect/";
/// Path of the redirect URI, below the issuer.
const CALLBACK: &str = "/connect/callback";
/// Text of the page for a link that cannot be looked up.
pub(super) const UNAVAILABLE: &str = "Links to connect accounts are not available at the moment.";
/// The page of a user's accounts, as the last part of its path.
pub(super) const ACCOUNTS: &str = "accounts";

/// A user who signs in elsewhere, and the browser session.
#[derive(Serialize, Deserialize)]
struct PendingConnectionRecord {
    link: String,
    browser: String,
    principal: String,
}

/// User who is signed in with a browser.
struct SignedInUser {
    /// Name of the principal, as from [`TokenPrincipal::name`].
    principal: String,
    /// Display name.
    shown: String,
}

impl AuthServer {
    /// Has the pages on which users connect their accounts elsewhere.
    #[must_use]
    pub fn connecting(self, connections: Arc<dyn AccountConnections>) -> Self {
        self.with(|inner| inner.connections = Some(connections))
    }

    /// Returns the URL of the link with this id. It does not reveal its user and grants no access.
    #[must_use]
    pub fn link_url(&self, id: &str) -> String {
        format!("{}{FOLDER}{id}", self.settings().issuer.as_str().trim_end_matches('/'))
    }

    /// Returns the redirect URI for the authorization servers of other parties.
    #[must_use]
    pub fn connect_callback(&self) -> String {
        format!("{}{CALLBACK}", self.settings().issuer.as_str().trim_end_matches('/'))
    }

    /// Returns the URL of the page with the user's accounts.
    #[must_use]
    pub fn accounts_page(&self) -> String {
        self.link_url(ACCOUNTS)
    }

    /// Publishes this server's own client metadata document, for servers at which it is a client. It is served at the
    /// client's id, which must be below the issuer.
    #[must_use]
    pub fn publishing(self, document: ClientDocument) -> Self {
        self.with(|inner| inner.document = Some(document))
    }

    /// Returns true if this user may sign in here.
    #[must_use]
    pub fn knows_user(&self, user: &str) -> bool {
        self.0.sign_in.credential_digest(user).is_some()
    }

    pub(super) fn connections(&self) -> Option<&dyn AccountConnections> {
        self.0.connections.as_deref()
    }

    /// Returns true if a path below the issuer is one of these pages.
    pub(super) fn is_connect_path(&self, path: &str) -> bool {
        self.0.connections.is_some() && path.strip_prefix(FOLDER).is_some_and(is_id)
    }

    /// Answers on such a path.
    pub(super) async fn connect(&self, parts: &Parts, form: &RequestForm) -> PageResult {
        let Some(connections) = self.connections() else { return Ok(self.expired_page()) };
        let path = parts.uri.path();
        let path = path.strip_prefix(self.base()).unwrap_or(path);
        if path == CALLBACK {
            return self.finish_connection(connections, parts, form).await;
        }
        let id = path.strip_prefix(FOLDER).unwrap_or_default();
        if id == ACCOUNTS {
            return self.accounts(connections, parts, form).await;
        }
        let link = match connections.link(id).await {
            Ok(Some(link)) => link,
            Ok(None) => return Ok(self.expired_link_page()),
            Err(_) => return Ok(self.unavailable_page(UNAVAILABLE)),
        };
        let browser = self.browser(&parts.headers).await?;
        let Some(person) = self.signed_in_user(&browser, id) else {
            return self.require_sign_in(id, &browser).await;
        };
        // Before anything of the link is shown, which is the business of its own user only.
        if *person.principal != *link.principal {
            return Ok(self.wrong_user_page(&link, &person.principal));
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
        if !form.get("csrf").is_some_and(|shown| browser.verify_csrf(&mark, shown)) {
            return Ok(self.expired_page());
        }
        let principal = person.principal;
        if form.get("decision") != Some("allow") {
            tracing::info!(principal, server = %link.server, "user declined to connect an account");
            if connections.refuse(id).await.is_err() {
                return Ok(self.unavailable_page(UNAVAILABLE));
            }
            return Ok(self.message_page("No account connected", "You can close this page."));
        }
        // Looked for before the link is used up: without it no answer could be matched.
        let state = link.page.query_pairs().find(|(name, _)| name == "state");
        let Some(state) = state.map(|(_, state)| state.into_owned()) else {
            return Ok(self.expired_link_page());
        };
        match connections.take(id).await {
            Ok(true) => {}
            Ok(false) => return Ok(self.expired_link_page()),
            Err(_) => return Ok(self.unavailable_page(UNAVAILABLE)),
        }
        tracing::info!(principal, server = %link.server, "redirecting user to connect an account");
        let gone = PendingConnectionRecord { link: id.to_owned(), browser: browser.session_key(), principal };
        let until = self.now() + self.settings().lifetimes.pending.as_secs();
        self.store()
            .put(AuthRecord::new(RecordKind::Pending, pending_connection_key(&state), encode(&gone), until))
            .await?;
        Ok(redirect(link.page.as_str()))
    }

    /// Returns the signed-in user of this browser, as far as this page may know.
    fn signed_in_user(&self, browser: &AuthBrowserSession, page: &str) -> Option<SignedInUser> {
        if let Some(visitor) = browser.visitor.as_ref().filter(|visitor| visitor.page == page) {
            return Some(SignedInUser { principal: visitor.principal.clone(), shown: visitor.shown.clone() });
        }
        let user = browser.user.as_ref()?;
        Some(SignedInUser { principal: self.principal_name(user), shown: user.clone() })
    }

    /// Redirects the user to the sign-in and back to this page.
    async fn require_sign_in(&self, page: &str, browser: &AuthBrowserSession) -> PageResult {
        let errand = SignInPurpose::Connection(page.to_owned());
        match self.provider() {
            Some(provider) => self.redirect_to_provider(provider, errand).await,
            None => self.start_sign_in(errand, browser).await,
        }
    }

    /// Handles the return of the browser: session and user must be the same as before, and the response must be
    /// pending.
    async fn finish_connection(
        &self,
        connections: &dyn AccountConnections,
        parts: &Parts,
        form: &RequestForm,
    ) -> PageResult {
        let (None, Some(state), true) = (form.repeated(), form.get("state"), parts.method == Method::GET)
        else {
            return Ok(self.unexpected_answer_page());
        };
        let key = pending_connection_key(state);
        let Some(record) = self.store().get(RecordKind::Pending, &key, self.now()).await? else {
            return Ok(self.unexpected_answer_page());
        };
        let Ok(gone) = serde_json::from_str::<PendingConnectionRecord>(&record.value) else {
            return Ok(self.unexpected_answer_page());
        };
        let browser = self.browser(&parts.headers).await?;
        let person = self.signed_in_user(&browser, &gone.link);
        let is_same = browser.session_key() == gone.browser
            && person.is_some_and(|person| person.principal == gone.principal);
        if !is_same {
            tracing::warn!(
                "account callback rejected: the browser or user differs from the one that started"
            );
            return Ok(self.unexpected_answer_page());
        }
        // Taken only now, so that an answer in another browser does not use up what the user waits for.
        let TakeRecordResult::First(_) = self.store().take(RecordKind::Pending, &key, self.now()).await?
        else {
            return Ok(self.unexpected_answer_page());
        };
        // Built on the public URL, because the request itself only names a path.
        let redirected = format!("{}?{}", self.connect_callback(), parts.uri.query().unwrap_or_default());
        Ok(match connections.finish(&gone.link, redirected).await {
            Ok(()) => self.message_page(
                "Your account is connected",
                "You can close this page and return to the application.",
            ),
            Err(ConnectAccountError::Refused) => {
                self.message_page("No account connected", "You or the other server denied the request.")
            }
            Err(ConnectAccountError::Unknown) => self.unexpected_answer_page(),
            Err(ConnectAccountError::Failed) => self.refused_page(
                StatusCode::BAD_GATEWAY,
                "Your account could not be connected",
                "The other server's response is invalid. Start again from the application.",
            ),
        })
    }

    /// Returns the full principal name of a local user.
    pub(super) fn principal_name(&self, user: &str) -> String {
        TokenPrincipal::new(self.settings().issuer.clone(), user).name()
    }

    /// Returns the page for a link that was made for another user.
    pub(super) fn wrong_user_page(&self, link: &AccountLink, principal: &str) -> Response<Bytes> {
        tracing::warn!(
            principal,
            wanted = %link.principal,
            server = %link.server,
            "account link opened by another user than it was created for"
        );
        self.refused_page(
            StatusCode::FORBIDDEN,
            "This link is for another user",
            "It was created for another user of this host. Open only links from your own applications.",
        )
    }

    pub(super) fn expired_link_page(&self) -> Response<Bytes> {
        let text = "It was already used or has expired, or the host was restarted. Start again from the application.";
        self.refused_page(StatusCode::NOT_FOUND, "This link is no longer valid", text)
    }

    fn unexpected_answer_page(&self) -> Response<Bytes> {
        let text = "The response is late, repeated or from another browser, or the host was restarted. Start again \
                    from the application.";
        self.refused_page(StatusCode::BAD_REQUEST, "No connection is pending for this response", text)
    }

    pub(super) fn message_page(&self, title: &str, text: &str) -> Response<Bytes> {
        page(StatusCode::OK, &MessagePage { base: self.base(), title, text, is_problem: false })
    }

    pub(super) fn refused_page(&self, status: StatusCode, title: &str, text: &str) -> Response<Bytes> {
        page(status, &MessagePage { base: self.base(), title, text, is_problem: true })
    }
}

fn pending_connection_key(state: &str) -> String {
    hash(&format!("connect {state}"))
}

/// Returns true if this is the last part of such a path: an id, `callback` or `accounts`.
fn is_id(text: &str) -> bool {
    matches!(text, "callback" | ACCOUNTS)
        || (text.len() == 43
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)))
}
