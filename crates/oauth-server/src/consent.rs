//! Sign-in and consent of the user.

mod pending;
mod remembered;

use std::time::Duration;

use bytes::Bytes;
use hospes_auth::ClientId;
use hospes_auth::metadata::is_loopback;
use http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};

use super::auth_server::AuthServer;
use super::authorize::{
    AuthorizationRequest, AuthorizationRequestError, check_authorization_request, check_redirect,
    redirect_url,
};
use super::browser::AuthBrowserSession;
use super::clients::{ClientOrigin, RegisteredClient};
use super::documents::ClientLookup;
use super::form::RequestForm;
use super::limits::RETRY_SECONDS;
use super::pages::{ConsentPage, MessagePage, SignInPage, page};
use super::provider::SignInProvider;
use super::redirects;
use super::settings::OFFLINE;
use super::sign_in::{MAX_PASSWORD_VERIFICATIONS, OWNER, VerifyPasswordError};
use super::store::secrets::{hash, random_text};
use super::store::{AuthRecord, AuthStoreError, RecordKind, TakeRecordResult, encode};
use super::tokens::{CodeRecord, GrantSource, GrantedAccess};

use pending::PendingRecord;
pub(super) use pending::SignInPurpose;

pub(super) type PageResult = Result<Response<Bytes>, AuthStoreError>;

impl AuthServer {
    /// Answers the authorization endpoint: with a page, or by sending the browser back.
    pub(super) async fn authorize(&self, parts: &Parts, form: &RequestForm) -> PageResult {
        let unknown = || {
            let text = "Its registration may have expired, or belong to another host. Start again from the \
                        application; if that does not help, remove this server from the application and add it again.";
            Ok(self.problem_page("Unknown application", text))
        };
        let Some(id) = form.get("client_id").and_then(|id| ClientId::new(id).ok()) else { return unknown() };
        let client = match self.client(&id).await? {
            ClientLookup::Client(client) => *client,
            ClientLookup::Nobody => {
                tracing::info!(client = %id, "authorization request from an unknown client");
                return unknown();
            }
            // Not to where it says: who it is cannot be known.
            ClientLookup::Unavailable => {
                return Ok(self.unavailable_page(
                    "The application's metadata document is not available at the moment.",
                ));
            }
        };
        let checked = check_redirect(form, &client)
            .and_then(|redirect| check_authorization_request(form, client, redirect, self.settings()));
        let asked = match checked {
            Ok(asked) => asked,
            Err(AuthorizationRequestError::Page(why)) => {
                tracing::info!(client = %id, why, "authorization request rejected");
                return Ok(self.problem_page("Invalid authorization request", why));
            }
            Err(AuthorizationRequestError::Client { to, code }) => {
                tracing::info!(client = %id, error = %code, "authorization request rejected");
                return Ok(redirect(&to));
            }
        };
        let browser = self.browser(&parts.headers).await?;
        // With a provider, who it is shows only after the sign-in there, so no earlier consent can be
        // looked up.
        if self.provider().is_none()
            && let Some(user) = &browser.user
            && self.has_consented(user, &asked).await?
        {
            return self.issue_code(user, &asked).await;
        }
        self.start_sign_in(SignInPurpose::Authorization(Box::new(asked)), &browser).await
    }

    /// Starts a sign-in for this purpose and returns its first page.
    pub(super) async fn start_sign_in(
        &self,
        errand: SignInPurpose,
        browser: &AuthBrowserSession,
    ) -> PageResult {
        let request = random_text();
        self.put_pending(&request, &errand, browser).await?;
        let response = self.next_page(&request, &errand, browser, None);
        Ok(self.with_cookie(response, browser))
    }

    /// Handles the sign-in form: a name and a password, or a code.
    pub(super) async fn take_sign_in(&self, parts: &Parts, form: &RequestForm) -> PageResult {
        let before = self.browser(&parts.headers).await?;
        let Some((request, errand)) = self.pending(form, &before).await? else {
            return Ok(self.expired_page());
        };
        let has_users = self.0.sign_in.has_users();
        let from = self.sender(parts);
        // Names may be as long as a form, and are not kept.
        let name = hash(if has_users { form.get("user").unwrap_or_default() } else { OWNER });
        // Before the password is checked, which costs a good part of a second on purpose.
        if let Err(wait) = self.0.sign_ins.check_name(&name, from).await {
            let user = hospes_auth::shown(form.get("user").unwrap_or(OWNER));
            tracing::warn!(user, ?from, "too many sign-in attempts");
            return Ok(self.rate_limited_page("Too many sign-in attempts for this name.", wait));
        }
        let user = match (form.get("user"), form.get("password"), form.get("code")) {
            (Some(user), Some(password), _) if has_users => {
                match self.0.sign_in.check(user, password).await {
                    Ok(is_right) => is_right.then(|| user.to_owned()),
                    Err(error @ VerifyPasswordError::Stopped) => {
                        tracing::error!(%error, "sign-in failed");
                        return Ok(self.unavailable_page("The server failed to check your password."));
                    }
                    Err(error @ VerifyPasswordError::Busy) => {
                        tracing::warn!(limit = "max_password_verifications", %error, "sign-in rejected");
                        // Nothing was guessed, so that others cannot use up the attempts of a user.
                        self.0.sign_ins.uncount_name(&name, from).await;
                        return Ok(self.busy_page());
                    }
                }
            }
            (_, _, Some(code)) => self.0.sign_in.take_code(code, self.now()).then(|| OWNER.to_owned()),
            _ => None,
        };
        let Some(user) = user else {
            tracing::warn!("sign-in failed");
            let problem = match has_users {
                true => "Wrong user name or password.",
                false => "Wrong code. If it is older than 10 minutes, the terminal shows a newer one.",
            };
            let mut response = self.next_page(&request, &errand, &before, Some(problem));
            *response.status_mut() = StatusCode::FORBIDDEN;
            return Ok(response);
        };
        // Sign-ins that succeed do not count.
        self.0.sign_ins.record_success(&name, from).await;
        let browser = self.start_session(&before, &user).await?;
        let response = match &errand {
            SignInPurpose::Authorization(_) => {
                // The session is a new one, and the pending request and its CSRF token are bound to that.
                self.put_pending(&request, &errand, &browser).await?;
                self.next_page(&request, &errand, &browser, None)
            }
            // The link says the rest.
            SignInPurpose::Connection(link) => {
                self.store().forget(RecordKind::Pending, &hash(&request)).await?;
                redirect(&self.link_url(link))
            }
        };
        Ok(self.with_cookie(response, &browser))
    }

    /// Handles the consent form.
    pub(super) async fn decide(&self, parts: &Parts, form: &RequestForm) -> PageResult {
        let browser = self.browser(&parts.headers).await?;
        let pending = self.pending(form, &browser).await?;
        let Some((request, _)) = pending else { return Ok(self.expired_page()) };
        let user = match (self.provider(), &browser.user) {
            // Who it is, the other will say.
            (Some(_), _) => "a user",
            (None, Some(user)) => user,
            (None, None) => return Ok(self.expired_page()),
        };
        // Once: a page that is sent again decides nothing.
        let TakeRecordResult::First(record) =
            self.store().take(RecordKind::Pending, &hash(&request), self.now()).await?
        else {
            return Ok(self.expired_page());
        };
        let Ok(PendingRecord { errand: SignInPurpose::Authorization(asked), .. }) =
            serde_json::from_str(&record.value)
        else {
            return Ok(self.expired_page());
        };
        let asked = *asked;
        if form.get("decision") != Some("allow") {
            tracing::info!(user, client = %asked.client.id, "user denied the request");
            let to = redirect_url(
                &asked.redirect_uri,
                self.settings(),
                asked.state.as_deref(),
                &[("error", "access_denied")],
            );
            return Ok(redirect(&to));
        }
        tracing::info!(user, client = %asked.client.id, scopes = %asked.scopes, "user approved the request");
        if let Some(provider) = self.provider() {
            return self.redirect_to_provider(provider, SignInPurpose::Authorization(Box::new(asked))).await;
        }
        self.remember_consent(user, &asked).await?;
        self.issue_code(user, &asked).await
    }

    /// Returns the next page of a pending request.
    fn next_page(
        &self,
        request: &str,
        errand: &SignInPurpose,
        browser: &AuthBrowserSession,
        problem: Option<&str>,
    ) -> Response<Bytes> {
        let csrf = browser.csrf(request);
        let provider = self.provider().map(SignInProvider::name);
        let is_known = provider.is_some() || browser.user.is_some();
        let (asked, why) = match errand {
            SignInPurpose::Authorization(asked) => {
                (asked, format!("{} wants to connect.", client_label(&asked.client)))
            }
            SignInPurpose::Connection(_) if is_known => return self.expired_page(),
            SignInPurpose::Connection(_) => {
                return self.sign_in_page(
                    request,
                    &csrf,
                    "This page manages your accounts on other servers.",
                    problem,
                );
            }
        };
        let client = client_label(&asked.client);
        if !is_known {
            return self.sign_in_page(request, &csrf, &why, problem);
        }
        let redirect = asked.redirect_uri.url();
        // What stands in the place of a host after a private-use scheme is no host.
        let is_private_use = redirects::is_private_use(&asked.redirect_uri);
        let host = redirect.as_ref().map_or_else(String::new, |url| match (url.host_str(), url.port()) {
            _ if is_private_use => format!("the application that opens {}: links", url.scheme()),
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        });
        let scopes = asked.scopes.iter().map(|scope| (scope, self.describe_scope(scope))).collect();
        let template = ConsentPage {
            base: self.base(),
            request,
            csrf: &csrf,
            client: &client,
            document: (asked.client.origin == ClientOrigin::Document).then(|| asked.client.id.as_str()),
            unknown: asked.client.origin == ClientOrigin::Registered,
            host: &host,
            loopback: redirect.as_ref().is_some_and(is_loopback),
            link: is_private_use.then(|| asked.redirect_uri.as_str()),
            anybody: !redirects::has_certain_recipient(&asked.redirect_uri),
            resource: asked.resource.as_str(),
            scopes,
            user: browser.user.as_deref().filter(|_| provider.is_none()),
            provider: provider.as_deref(),
        };
        page(StatusCode::OK, &template)
    }

    fn sign_in_page(&self, request: &str, csrf: &str, why: &str, problem: Option<&str>) -> Response<Bytes> {
        let users = self.0.sign_in.has_users();
        if !users {
            self.0.sign_in.show_code(self.now());
        }
        page(StatusCode::OK, &SignInPage { base: self.base(), request, csrf, why, users, problem })
    }

    fn describe_scope<'a>(&'a self, scope: &'a str) -> &'a str {
        if scope == OFFLINE {
            return "Keep access while you are offline";
        }
        let known = self.settings().scopes.iter().find(|(known, _)| known == scope);
        known.map_or(scope, |(_, words)| words)
    }

    /// Sends the browser back with a code.
    async fn issue_code(&self, user: &str, asked: &AuthorizationRequest) -> PageResult {
        self.issue_code_for_grant(user, asked, random_text(), None).await
    }

    /// Issues a code for an existing grant, which ends at `end`.
    pub(super) async fn issue_code_for_grant(
        &self,
        user: &str,
        asked: &AuthorizationRequest,
        grant: String,
        end: Option<u64>,
    ) -> PageResult {
        let code = random_text();
        let lifetimes = &self.settings().lifetimes;
        let by = match end {
            Some(_) => GrantSource::Upstream,
            None => GrantSource::User { mark: self.0.sign_in.credential_digest(user).unwrap_or_default() },
        };
        let given = GrantedAccess {
            subject: user.to_owned(),
            resource: asked.resource.clone(),
            scopes: asked.scopes.clone(),
            end: end.unwrap_or_else(|| self.now() + lifetimes.grant.as_secs()),
            by,
        };
        let value = encode(&CodeRecord {
            client_id: asked.client.id.clone(),
            redirect_uri: asked.redirect_uri.clone(),
            challenge: asked.challenge.clone(),
            key: asked.key.clone(),
            given,
        });
        // A client redeems a code right after the redirect, so no configuration makes it last longer than a
        // minute.
        let until = self.now() + lifetimes.code.as_secs().min(60);
        self.store().put(AuthRecord::new(RecordKind::Code, hash(&code), value, until).of(grant)).await?;
        let to =
            redirect_url(&asked.redirect_uri, self.settings(), asked.state.as_deref(), &[("code", &code)]);
        Ok(redirect(&to))
    }

    pub(super) fn with_cookie(
        &self,
        mut response: Response<Bytes>,
        browser: &AuthBrowserSession,
    ) -> Response<Bytes> {
        let cookie = self.cookie_for(browser).and_then(|cookie| HeaderValue::try_from(cookie).ok());
        if let Some(cookie) = cookie {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    pub(super) fn problem_page(&self, title: &str, text: &str) -> Response<Bytes> {
        page(StatusCode::BAD_REQUEST, &MessagePage { base: self.base(), title, text, is_problem: true })
    }

    /// Creates a page for a temporary failure.
    pub(super) fn unavailable_page(&self, text: &str) -> Response<Bytes> {
        let mut response = self.problem_page("Temporarily unavailable", text);
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
        response
    }

    /// Returns the page for a password that was not verified.
    fn busy_page(&self) -> Response<Bytes> {
        self.unavailable_page(&format!(
            "Your password was not checked, because too many users sign in at the moment. This server verifies at most \
             {MAX_PASSWORD_VERIFICATIONS} passwords at once (max_password_verifications). Go back and try again in \
             {RETRY_SECONDS} seconds."
        ))
    }

    /// Returns the page for a rate limit, with the time to wait.
    pub(super) fn rate_limited_page(&self, why: &str, wait: Duration) -> Response<Bytes> {
        let seconds = wait.as_secs().max(1);
        let unit = if seconds == 1 { "second" } else { "seconds" };
        let text = format!("{why} Go back and try again in {seconds} {unit}.");
        let mut response = self.problem_page("Too many attempts", &text);
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        response
    }

    pub(super) fn expired_page(&self) -> Response<Bytes> {
        self.problem_page("This page is no longer valid", "Return to the application and start again.")
    }
}

fn client_label(client: &RegisteredClient) -> String {
    client.name.as_deref().map_or_else(|| hospes_auth::shown(client.id.as_str()), hospes_auth::shown)
}

pub(super) fn redirect(to: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    // Not 307, with which the browser would send the form on to the client (RFC 9700, section 4.12).
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    match HeaderValue::try_from(to) {
        Ok(to) => drop(headers.insert(LOCATION, to)),
        Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
    }
    response
}
