//! Users who have signed in at the provider so that one page of ours knows who is there.
//!
//! Nothing lasts of it: what the provider gives us for it is used once, to learn who it is, and kept nowhere; the browser is
//! known on that one page, and for minutes.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use super::asked::Person;
use super::{Failed, Provider};
use crate::resource::Principal;
use crate::server::AuthServer;
use crate::server::browser::Visitor;
use crate::server::connect::ACCOUNTS;
use crate::server::consent::redirect;
use crate::server::store::StoreError;

impl Provider {
    /// The name under which our own tokens know a user of the provider.
    pub(super) fn user(&self, subject: &str) -> String {
        format!("{} {subject}", self.issuer)
    }
}

impl AuthServer {
    /// The browser comes back to a page of ours. A link is the user's for whom it was made, and nobody else's: there is no
    /// session for anybody else either.
    pub(super) async fn visited_there(
        &self,
        provider: &Provider,
        parts: &Parts,
        page: &str,
        said: Result<Person, Failed>,
    ) -> Result<Response<Bytes>, StoreError> {
        let Some(connections) = self.connections() else { return Ok(self.too_late()) };
        let person = match said {
            Ok(person) => person,
            Err(Failed::Store(error)) => return Err(error),
            Err(Failed::Denied) => {
                return Ok(
                    self.done("You are not signed in", "Nothing was changed. You can close this page.")
                );
            }
            Err(why @ Failed::NotAdmitted) => {
                tracing::warn!(provider = %provider.issuer, %why, "somebody was turned away");
                let text = format!("This account of {} may not use this host.", provider.name());
                return Ok(self.refused(StatusCode::FORBIDDEN, "You are not signed in", &text));
            }
            Err(why) => {
                tracing::warn!(provider = %provider.issuer, %why, "nobody signed in at the provider");
                let text = format!("The answer of {} cannot be used. Open the page again.", provider.name());
                return Ok(self.refused(StatusCode::BAD_GATEWAY, "You are not signed in", &text));
            }
        };
        let principal = self.visitor_name(provider, &person.subject);
        if page != ACCOUNTS {
            let Some(link) = connections.link(page) else { return Ok(self.no_link()) };
            if principal != *link.principal {
                return Ok(self.anothers(&link, &principal));
            }
        }
        let before = self.browser(&parts.headers).await?;
        tracing::info!(principal, "a user has signed in for a page about accounts");
        let visitor = Visitor { page: page.to_owned(), principal, shown: person.shown() };
        let browser = self.visited(provider, &before, visitor).await?;
        Ok(self.with_cookie(redirect(&self.link_url(page)), &browser))
    }

    /// As the tokens of this user name them: ours, or the provider's own.
    fn visitor_name(&self, provider: &Provider, subject: &str) -> String {
        match self.has_only_pages() {
            true => Principal::new(provider.issuer.clone(), subject).name(),
            false => self.named(&provider.user(subject)),
        }
    }
}

impl Person {
    /// What people call them; whatever the provider says of that is for their own eyes.
    fn shown(&self) -> String {
        let text = |name: &&str| self.claims.get(*name).and_then(|said| said.as_str());
        let said = ["email", "preferred_username", "name"].iter().find_map(text);
        crate::shown(said.unwrap_or(&self.subject))
    }
}
