//! For servers that ask nobody, as those of tests do.

use http::header::LOCATION;

use super::{Answer, Listening, SignIn, SigningIn};
use crate::client::error::StepError;
use crate::client::flow::Visit;
use crate::egress::GuardedClient;
use crate::{MAX_METADATA_BYTES, RedirectUri, Request};

/// Asks for the page and takes where it points. Nobody is asked, so this is of use only with servers that ask nobody.
#[derive(Clone, Debug)]
pub struct Unattended {
    client: GuardedClient,
    redirect_uri: RedirectUri,
}

impl Unattended {
    /// By this client; answers are said to come to `redirect_uri`, where nobody listens.
    #[must_use]
    pub fn new(client: GuardedClient, redirect_uri: RedirectUri) -> Self {
        Self { client, redirect_uri }
    }
}

impl SignIn for Unattended {
    fn listen<'a>(&'a self, _preferred: Option<&'a RedirectUri>) -> SigningIn<'a, Box<dyn Listening>> {
        Box::pin(async { Ok(Box::new(self.clone()) as Box<dyn Listening>) })
    }
}

impl Listening for Unattended {
    fn redirect_uri(&self) -> RedirectUri {
        self.redirect_uri.clone()
    }

    fn visit(self: Box<Self>, visit: Visit) -> SigningIn<'static, Answer> {
        Box::pin(async move {
            let page = self.client.fetch(Request::get(visit.url, MAX_METADATA_BYTES)).await;
            let page = page.map_err(|error| StepError::new(format!("the page cannot be asked: {error}")))?;
            let there = page.headers.get(LOCATION).and_then(|there| there.to_str().ok());
            match there {
                Some(there) if page.status.is_redirection() => Ok(Answer::Redirected(there.to_owned())),
                _ => Err(StepError::new("the page asks somebody, and nobody is here")),
            }
        })
    }
}
