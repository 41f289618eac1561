//! Delegated sign-in: this server is authorization server to its clients, and a client of the provider where users sign
//! in.
//!
//! The provider's tokens are never passed on. They are stored encrypted, under a key that is not in the store. The
//! tokens of this server's clients are valid only as long as the provider's tokens are.

mod page_login;

pub use page_login::provider_user;
mod redirect;
mod upstream_tokens;

use super::auth_server::AuthServer;
use super::provider::SignInProvider;

impl AuthServer {
    /// Delegates the sign-in of users to `provider`. [`LocalSignIn`](super::LocalSignIn) is not used then.
    #[must_use]
    pub fn delegating(self, provider: SignInProvider) -> Self {
        self.with(|inner| inner.provider = Some(provider))
    }

    pub(super) fn provider(&self) -> Option<&SignInProvider> {
        self.0.provider.as_ref()
    }
}
