//! The page on which users see their accounts elsewhere, and give them up.

use http::request::Parts;
use http::{Method, StatusCode};

use super::{ACCOUNTS, AccountConnections, DisconnectResult};
use crate::server::AuthServer;
use crate::server::consent::PageResult;
use crate::server::form::RequestForm;
use crate::server::pages::{AccountRow, AccountsPage, page};

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
            let name = crate::shown(server);
            said = Some(match connections.disconnect(&person.principal, server).await {
                Ok(DisconnectResult::Revoked) => {
                    format!("Your account at {name} is disconnected, and its tokens are taken back there.")
                }
                Ok(DisconnectResult::NotOffered) => format!(
                    "Your account at {name} is disconnected: its tokens are forgotten here. {name} has no way to take \
                     them back, so they end there by themselves."
                ),
                Ok(DisconnectResult::NotRevoked) => format!(
                    "Your account at {name} is disconnected: its tokens are forgotten here. But {name} did not take them \
                     back; you can take this host's access back there, in the settings of your account."
                ),
                Ok(DisconnectResult::Nothing) => format!("You have no account connected at {name}."),
                Err(_) => format!("Your account at {name} could not be disconnected. Try again later."),
            });
        }
        let Ok(known) = connections.accounts(&person.principal).await else {
            return Ok(self.unavailable_page("Your accounts cannot be looked up now."));
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
