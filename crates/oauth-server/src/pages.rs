//! HTML pages.

use askama::Template;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};

/// A title and a sentence: how it went.
#[derive(Template)]
#[template(path = "told.html")]
pub(super) struct MessagePage<'a> {
    pub(super) base: &'a str,
    pub(super) title: &'a str,
    pub(super) text: &'a str,
    /// True if the page reports an error, which is not sent to the application.
    pub(super) is_problem: bool,
}

/// Sign-in page.
#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignInPage<'a> {
    pub(super) base: &'a str,
    pub(super) request: &'a str,
    pub(super) csrf: &'a str,
    /// Reason for the sign-in, a sentence.
    pub(super) why: &'a str,
    /// With a name and a password, else with a code.
    pub(super) users: bool,
    pub(super) problem: Option<&'a str>,
}

/// May this application do that?
#[derive(Template)]
#[template(path = "consent.html")]
pub(super) struct ConsentPage<'a> {
    pub(super) base: &'a str,
    pub(super) request: &'a str,
    pub(super) csrf: &'a str,
    pub(super) client: &'a str,
    /// URL of the client's metadata document, which identifies it better than its own name.
    pub(super) document: Option<&'a str>,
    /// True if the client registered itself, so that its name is unverified.
    pub(super) unknown: bool,
    /// Recipient of the authorization response.
    pub(super) host: &'a str,
    pub(super) loopback: bool,
    /// The redirect, where a private-use scheme opens an application.
    pub(super) link: Option<&'a str>,
    /// Any program of the user's machine could be waiting for the answer.
    pub(super) anybody: bool,
    pub(super) resource: &'a str,
    pub(super) scopes: Vec<(&'a str, &'a str)>,
    pub(super) user: Option<&'a str>,
    /// Provider where the user signs in after this page.
    pub(super) provider: Option<&'a str>,
}

/// Shall this account of yours be used by this host?
#[derive(Template)]
#[template(path = "connect.html")]
pub(super) struct ConnectPage<'a> {
    pub(super) base: &'a str,
    pub(super) link: &'a str,
    pub(super) csrf: &'a str,
    /// Name of the server in the configuration.
    pub(super) server: &'a str,
    /// Host of the account.
    pub(super) host: &'a str,
    /// Provider where the user signs in.
    pub(super) provider: &'a str,
    pub(super) user: &'a str,
}

/// Page of the user's connected accounts.
#[derive(Template)]
#[template(path = "accounts.html")]
pub(super) struct AccountsPage<'a> {
    pub(super) base: &'a str,
    pub(super) csrf: &'a str,
    pub(super) user: &'a str,
    /// Result of the last action, a sentence.
    pub(super) said: Option<&'a str>,
    pub(super) accounts: Vec<AccountRow<'a>>,
}

/// Row of one account.
pub(super) struct AccountRow<'a> {
    /// Name of the server in the configuration.
    pub(super) server: &'a str,
    /// Host of the account.
    pub(super) host: &'a str,
    /// Granted scopes, if it is connected.
    pub(super) scopes: Option<String>,
}

/// Returns an HTML page. It runs no scripts, cannot be framed, and sends no referrer to other origins.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Response<Bytes> {
    let Ok(text) = template.render() else {
        let mut response = Response::new(Bytes::from_static(b"internal error: cannot render the page"));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return response;
    };
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    // No form-action: browsers hold it against the redirect that follows a form, which goes to the application.
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'self'; script-src 'none'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
        ),
    );
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Not `no-referrer`: browsers would hide the origin of our own forms from us.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
