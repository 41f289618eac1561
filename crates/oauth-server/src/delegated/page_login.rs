//! Users who have signed in at the provider to identify themselves on one page.
//!
//! The login is not stored: the provider's tokens are used once, to identify the user, and discarded. A cookie for that
//! one page identifies the browser for some minutes.

use bytes::Bytes;
use hospes_auth::Issuer;
use hospes_oauth_resource::TokenPrincipal;
use http::request::Parts;
use http::{Response, StatusCode};

use crate::auth_server::AuthServer;
use crate::browser::PageVisitor;
use crate::connect::{ACCOUNTS, UNAVAILABLE};
use crate::consent::redirect;
use crate::provider::{ProviderError, ProviderUser, SignInProvider};
use crate::store::AuthStoreError;

impl SignInProvider {
    /// Returns the name of a provider's user in this server's own tokens.
    pub(super) fn user(&self, subject: &str) -> String {
        provider_user(&self.issuer, subject)
    }
}

/// Returns the subject of a provider's user in the tokens of an authorization server that delegates sign-in there. No
/// two users have the same, because no issuer has a space in it.
#[must_use]
pub fn provider_user(issuer: &Issuer, subject: &str) -> String {
    format!("{issuer} {subject}")
}

impl AuthServer {
    /// Completes the sign-in for a page. A link works only for the user it was made for; other users get no session.
    pub(super) async fn finish_page_sign_in(
        &self,
        provider: &SignInProvider,
        parts: &Parts,
        page: &str,
        said: Result<ProviderUser, ProviderError>,
    ) -> Result<Response<Bytes>, AuthStoreError> {
        let Some(connections) = self.connections() else { return Ok(self.expired_page()) };
        let person = match said {
            Ok(person) => person,
            Err(ProviderError::Store(error)) => return Err(error),
            Err(ProviderError::Denied) => {
                return Ok(self
                    .message_page("You are not signed in", "Nothing has changed. You can close this page."));
            }
            Err(why @ ProviderError::NotAdmitted) => {
                tracing::warn!(provider = %provider.issuer, %why, "sign-in rejected: user not allowed");
                let text = format!("This account at {} is not allowed to use this host.", provider.name());
                return Ok(self.refused_page(StatusCode::FORBIDDEN, "You are not signed in", &text));
            }
            Err(why) => {
                tracing::warn!(provider = %provider.issuer, %why, "sign-in at the provider failed");
                let text = format!("The response from {} is invalid. Open the page again.", provider.name());
                return Ok(self.refused_page(StatusCode::BAD_GATEWAY, "You are not signed in", &text));
            }
        };
        let principal = self.visitor_name(provider, &person.subject);
        // The page of accounts is everybody's; a link belongs to one user.
        if page != ACCOUNTS {
            let link = match connections.link(page).await {
                Ok(Some(link)) => link,
                Ok(None) => return Ok(self.expired_link_page()),
                Err(_) => return Ok(self.unavailable_page(UNAVAILABLE)),
            };
            if principal != *link.principal {
                return Ok(self.wrong_user_page(&link, &principal));
            }
        }
        let before = self.browser(&parts.headers).await?;
        tracing::info!(principal, "user signed in to the accounts page");
        let visitor = PageVisitor { page: page.to_owned(), principal, shown: person.shown() };
        let browser = self.remember_visitor(provider, &before, visitor).await?;
        Ok(self.with_cookie(redirect(&self.link_url(page)), &browser))
    }

    /// Returns the principal name as in this user's tokens: those of this server, or the provider's own.
    fn visitor_name(&self, provider: &SignInProvider, subject: &str) -> String {
        match self.has_only_pages() {
            true => TokenPrincipal::new(provider.issuer.clone(), subject).name(),
            false => self.principal_name(&provider.user(subject)),
        }
    }
}

impl ProviderUser {
    /// Returns the display name from the provider's claims. It is shown only to the user.
    fn shown(&self) -> String {
        let text = |name: &&str| self.claims.get(*name).and_then(|said| said.as_str());
        let said = ["email", "preferred_username", "name"].iter().find_map(text);
        hospes_auth::shown(said.unwrap_or(&self.subject))
    }
}
