//! Somebody else brings the person to the page: a console, an application that shows the URL.

use super::{Answer, Listening, SignIn, SigningIn};
use crate::RedirectUri;
use crate::client::flow::Visit;

/// Leaves the visit to somebody else. The call fails with the URL to open; whoever receives the redirect gives it to
/// [`crate::client::OAuthClient::finish`].
#[derive(Clone, Debug)]
pub struct Elsewhere(RedirectUri);

impl Elsewhere {
    /// Answers come to this place.
    #[must_use]
    pub fn new(redirect_uri: RedirectUri) -> Self {
        Self(redirect_uri)
    }
}

impl SignIn for Elsewhere {
    fn listen<'a>(&'a self, _preferred: Option<&'a RedirectUri>) -> SigningIn<'a, Box<dyn Listening>> {
        Box::pin(async { Ok(Box::new(self.clone()) as Box<dyn Listening>) })
    }
}

impl Listening for Elsewhere {
    fn redirect_uri(&self) -> RedirectUri {
        self.0.clone()
    }

    fn visit(self: Box<Self>, _visit: Visit) -> SigningIn<'static, Answer> {
        Box::pin(async { Ok(Answer::Later) })
    }
}
