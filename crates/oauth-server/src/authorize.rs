//! Authorization requests and their validation.

use hospes_auth::{ErrorCode, RedirectUri, Resource, Scopes};
use serde::{Deserialize, Serialize};
use url::form_urlencoded::Serializer;

use super::clients::{AUTHORIZATION_CODE_GRANT, ClientOrigin, RegisteredClient};
use super::form::RequestForm;
use super::redirects;
use super::settings::{AuthServerSettings, OFFLINE};

/// Maximum length of a `state`, in bytes; it is returned in a URL.
const MAX_STATE: usize = 2048;

/// An authorization request that is in order, while its user decides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AuthorizationRequest {
    pub(super) client: RegisteredClient,
    pub(super) redirect_uri: RedirectUri,
    pub(super) state: Option<String>,
    pub(super) challenge: String,
    pub(super) resource: Resource,
    pub(super) scopes: Scopes,
    /// The key that has to be proven when the code is redeemed, by its thumbprint (`dpop_jkt`).
    #[serde(default)]
    pub(super) key: Option<String>,
}

/// Reasons an authorization request is rejected before consent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AuthorizationRequestError {
    /// The redirect is not trustworthy: the error is shown to the user and not sent to the client (AUTS-21).
    Page(&'static str),
    /// The error is sent to the client.
    Client { to: String, code: ErrorCode },
}

/// Checks the client's id and redirect URI, which must be valid before anything is sent there.
pub(super) fn check_redirect(
    form: &RequestForm,
    client: &RegisteredClient,
) -> Result<RedirectUri, AuthorizationRequestError> {
    if let Some("client_id" | "redirect_uri") = form.repeated() {
        return Err(AuthorizationRequestError::Page(
            "The application's request contains client_id or redirect_uri more than once.",
        ));
    }
    let asked = form.get("redirect_uri").and_then(|text| RedirectUri::new(text).ok());
    match asked {
        Some(asked) if client.redirect_uris.iter().any(|known| redirects::matches(known, &asked)) => {
            Ok(asked)
        }
        Some(asked) if client.origin != ClientOrigin::Configured && redirects::is_private_use(&asked) => {
            Err(AuthorizationRequestError::Page(
                "The redirect URI opens an installed application, and this host does not allow it. The administrator \
                 of this host can allow it with `redirect_uris` under [auth]; the application must register again.",
            ))
        }
        Some(_) => {
            Err(AuthorizationRequestError::Page("The redirect URI is not registered for this application."))
        }
        None => Err(AuthorizationRequestError::Page("The application's request contains no redirect_uri.")),
    }
}

/// Checks the remaining parameters of a request.
pub(super) fn check_authorization_request(
    form: &RequestForm,
    client: RegisteredClient,
    redirect_uri: RedirectUri,
    settings: &AuthServerSettings,
) -> Result<AuthorizationRequest, AuthorizationRequestError> {
    let state = form.get("state").filter(|state| state.len() <= MAX_STATE).map(str::to_owned);
    let refuse = |code: ErrorCode, why: &str| {
        let to = redirect_url(
            &redirect_uri,
            settings,
            state.as_deref(),
            &[("error", code.as_str()), ("error_description", why)],
        );
        Err(AuthorizationRequestError::Client { to, code })
    };
    // RFC 8707, section 2, allows several resources and this error for them: a token here has one audience.
    if form.repeated() == Some("resource") {
        return refuse(ErrorCode::InvalidTarget, "only one resource is allowed per request");
    }
    if form.repeated().is_some() {
        return refuse(ErrorCode::InvalidRequest, "a parameter occurs more than once");
    }
    if form.get("state").is_some() && state.is_none() {
        return refuse(ErrorCode::InvalidRequest, "the state is longer than 2048 bytes");
    }
    match form.get("response_type") {
        Some("code") => {}
        Some(_) => {
            return refuse(ErrorCode::UnsupportedResponseType, "the only supported response_type is code");
        }
        None => return refuse(ErrorCode::InvalidRequest, "response_type is missing"),
    }
    if form.get("response_mode").is_some_and(|mode| mode != "query") {
        return refuse(ErrorCode::InvalidRequest, "the only supported response_mode is query");
    }
    if form.get("request").is_some() || form.get("request_uri").is_some() {
        return refuse(ErrorCode::InvalidRequest, "request objects are not supported");
    }
    if !client.may_use_grant(AUTHORIZATION_CODE_GRANT) {
        return refuse(
            ErrorCode::UnauthorizedClient,
            "the client is not allowed to use the authorization code grant",
        );
    }
    // Without a method the challenge is `plain` (RFC 7636, section 4.3).
    if form.get("code_challenge_method") != Some("S256") {
        return refuse(ErrorCode::InvalidRequest, "PKCE with the method S256 is required");
    }
    let Some(challenge) = form.get("code_challenge").filter(|challenge| is_challenge(challenge)) else {
        return refuse(ErrorCode::InvalidRequest, "code_challenge is missing or malformed");
    };
    let Some(resource) = resolve_resource(form.get("resource"), settings) else {
        return refuse(ErrorCode::InvalidTarget, "the resource is not protected by this server");
    };
    let Some(scopes) = resolve_scopes(form.get("scope"), &client, settings) else {
        return refuse(ErrorCode::InvalidScope, "a scope is unknown or not allowed for this client");
    };
    let key = form.get("dpop_jkt").map(str::to_owned);
    if key.as_deref().is_some_and(|key| !is_challenge(key)) {
        return refuse(ErrorCode::InvalidRequest, "dpop_jkt is not a valid key thumbprint");
    }
    let challenge = challenge.to_owned();
    Ok(AuthorizationRequest { client, redirect_uri, state, challenge, resource, scopes, key })
}

/// Returns true if the text is a base64url-encoded SHA-256 hash.
fn is_challenge(text: &str) -> bool {
    text.len() == 43 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Returns the requested resource in the configured spelling. Clients of 2025-03-26 name none.
pub(super) fn resolve_resource(asked: Option<&str>, settings: &AuthServerSettings) -> Option<Resource> {
    let Some(asked) = asked else {
        return match &*settings.resources {
            [first, rest @ ..] if rest.is_empty() || settings.first_if_unnamed => Some(first.clone()),
            _ => None,
        };
    };
    let asked = Resource::new(asked).ok()?;
    let url = asked.url();
    // Clients that parse what they send write the same address differently.
    let same = |known: &&Resource| **known == asked || known.url() == url;
    settings.resources.iter().find(same).cloned()
}

/// Returns the requested scopes.
pub(super) fn resolve_scopes(
    asked: Option<&str>,
    client: &RegisteredClient,
    settings: &AuthServerSettings,
) -> Option<Scopes> {
    let allowed = |scope: &str| {
        settings.knows(scope)
            && client.scopes.as_ref().is_none_or(|scopes| scope == OFFLINE || scopes.contains(scope))
    };
    let Some(asked) = asked else {
        return Some(settings.default_scopes.iter().filter(|scope| allowed(scope)).collect());
    };
    let scopes = Scopes::parse(asked);
    // `parse` drops what cannot be a scope. The set of all words shows whether it has dropped any.
    let complete = scopes.len()
        == asked.split(' ').filter(|word| !word.is_empty()).collect::<std::collections::HashSet<_>>().len();
    (complete && scopes.iter().all(allowed)).then_some(scopes)
}

/// Returns the redirect URL of an authorization response: the registered URI with the response parameters appended. It
/// names the issuer (RFC 9207), also for errors.
pub(super) fn redirect_url(
    redirect_uri: &RedirectUri,
    settings: &AuthServerSettings,
    state: Option<&str>,
    fields: &[(&str, &str)],
) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(fields);
    if let Some(state) = state {
        query.append_pair("state", state);
    }
    query.append_pair("iss", settings.issuer.as_str());
    let uri = redirect_uri.as_str();
    let mark = if uri.contains('?') { '&' } else { '?' };
    format!("{uri}{mark}{}", query.finish())
}
