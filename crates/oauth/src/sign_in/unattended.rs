//! Sign-in without a user, for servers that ask for none, such as test servers.

use hospes_auth::egress::GuardedClient;
use hospes_auth::{FetchRequest, MAX_METADATA_BYTES, RedirectUri};
use http::header::LOCATION;

use super::{RedirectListener, SignInAnswer, SignInFuture, SignInHandler};
use crate::error::StepError;
use crate::flow::AuthorizationPrompt;

/// Requests the page and takes its redirect as the response. No user is involved, so it works only with servers that
/// ask for none.
#[derive(Clone, Debug)]
pub struct UnattendedSignIn {
    client: GuardedClient,
    redirect_uri: RedirectUri,
}

impl UnattendedSignIn {
    /// Creates a handler that uses this client. Nothing listens at `redirect_uri`.
    #[must_use]
    pub fn new(client: GuardedClient, redirect_uri: RedirectUri) -> Self {
        Self { client, redirect_uri }
    }
}

impl SignInHandler for UnattendedSignIn {
    fn listen<'a>(
        &'a self,
        _preferred: Option<&'a RedirectUri>,
    ) -> SignInFuture<'a, Box<dyn RedirectListener>> {
        Box::pin(async { Ok(Box::new(self.clone()) as Box<dyn RedirectListener>) })
    }
}

impl RedirectListener for UnattendedSignIn {
    fn redirect_uri(&self) -> RedirectUri {
        self.redirect_uri.clone()
    }

    fn visit(self: Box<Self>, visit: AuthorizationPrompt) -> SignInFuture<'static, SignInAnswer> {
        Box::pin(async move {
            let page = self.client.fetch(FetchRequest::get(visit.url, MAX_METADATA_BYTES)).await;
            let page =
                page.map_err(|error| StepError::new(format!("authorization request failed: {error}")))?;
            // The client follows no redirects, so the answer is in the header.
            let there = page.headers.get(LOCATION).and_then(|there| there.to_str().ok());
            match there {
                Some(there) if page.status.is_redirection() => Ok(SignInAnswer::Redirected(there.to_owned())),
                _ => Err(StepError::new("the authorization endpoint requires user interaction")),
            }
        })
    }
}
