//! The page on which users see and disconnect their accounts elsewhere.

use http::request::Parts;
use http::{Method, StatusCode};

use super::{ACCOUNTS, AccountConnections, DisconnectResult};
use crate::auth_server::AuthServer;
use crate::consent::PageResult;
use crate::form::RequestForm;
use crate::pages::{AccountRow, AccountsPage, page};

/// Subject of the CSRF token of this page.
const MARK: &str = "connect accounts";

impl AuthServer {
    /// Answers on the page of accounts.
    pub(super) async fn accounts(
        &self,
        connections: &dyn AccountConnections,
        parts: &Parts,
        form: &RequestForm,
    ) -> PageResult {
        let browser = self.browser(&parts.headers).await?;
        let Some(person) = self.signed_in_user(&browser, ACCOUNTS) else {
            return self.require_sign_in(ACCOUNTS, &browser).await;
        };
        let mut said = None;
        if parts.method == Method::POST {
            if !form.get("csrf").is_some_and(|shown| browser.verify_csrf(MARK, shown)) {
                return Ok(self.expired_page());
            }
            let server = form.get("server").unwrap_or_default();
            let name = hospes_auth::shown(server);
            said = Some(match connections.disconnect(&person.principal, server).await {
                Ok(DisconnectResult::Revoked) => {
                    format!("Your account at {name} is disconnected, and its tokens are revoked.")
                }
                Ok(DisconnectResult::NotOffered) => format!(
                    "Your account at {name} is disconnected and its tokens are deleted here. {name} does not support \
                     token revocation; the tokens remain valid until they expire."
                ),
                Ok(DisconnectResult::NotRevoked) => format!(
                    "Your account at {name} is disconnected and its tokens are deleted here, but {name} did not revoke \
                     them. You can revoke this host's access in your account settings there."
                ),
                Ok(DisconnectResult::Nothing) => format!("You have no account connected at {name}."),
                Err(_) => format!("Your account at {name} could not be disconnected. Try again later."),
            });
        }
        let Ok(known) = connections.accounts(&person.principal).await else {
            return Ok(self.unavailable_page("Your accounts are not available at the moment."));
        };
        let mut rows: Vec<AccountRow<'_>> = Vec::new();
        for account in &known {
            let scopes = account.granted.as_ref().map(ToString::to_string);
            rows.push(AccountRow { server: &account.server, host: &account.host, scopes });
        }
        let template = AccountsPage {
            base: self.base(),
            csrf: &browser.csrf(MARK),
            user: &person.shown,
            said: said.as_deref(),
            accounts: rows,
        };
        Ok(page(StatusCode::OK, &template))
    }
}
