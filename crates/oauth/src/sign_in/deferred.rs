//! Deferred sign-in: another component brings the user to the page, such as a console or an application that shows the
//! URL.

use hospes_auth::RedirectUri;

use super::{RedirectListener, SignInAnswer, SignInFuture, SignInHandler};
use crate::flow::AuthorizationPrompt;

/// Defers the sign-in to the application. The call fails with the URL to open, and the application passes the redirect
/// to [`crate::OAuthClient::finish`].
#[derive(Clone, Debug)]
pub struct DeferredSignIn(RedirectUri);

impl DeferredSignIn {
    /// Answers come to this place.
    #[must_use]
    pub fn new(redirect_uri: RedirectUri) -> Self {
        Self(redirect_uri)
    }
}

impl SignInHandler for DeferredSignIn {
    fn listen<'a>(
        &'a self,
        _preferred: Option<&'a RedirectUri>,
    ) -> SignInFuture<'a, Box<dyn RedirectListener>> {
        Box::pin(async { Ok(Box::new(self.clone()) as Box<dyn RedirectListener>) })
    }
}

impl RedirectListener for DeferredSignIn {
    fn redirect_uri(&self) -> RedirectUri {
        self.0.clone()
    }

    fn visit(self: Box<Self>, _visit: AuthorizationPrompt) -> SignInFuture<'static, SignInAnswer> {
        Box::pin(async { Ok(SignInAnswer::Later) })
    }
}
