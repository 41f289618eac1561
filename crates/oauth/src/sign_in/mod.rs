//! Handlers that ask a user to authorize and return the result.

mod browser;
mod deferred;
mod device;
mod unattended;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use hospes_auth::RedirectUri;

pub use browser::{BrowserOpener, BrowserSignIn};
pub use deferred::DeferredSignIn;
pub use device::DeviceCodeSignIn;
pub use unattended::UnattendedSignIn;

use super::error::StepError;
use super::flow::{AuthorizationPrompt, DevicePrompt};

/// Future of a sign-in step.
pub type SignInFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StepError>> + Send + 'a>>;

/// Brings people to where they agree.
pub trait SignInHandler: Send + Sync + fmt::Debug {
    /// Gets ready where answers come to: at `preferred`, if that is possible.
    fn listen<'a>(
        &'a self,
        preferred: Option<&'a RedirectUri>,
    ) -> SignInFuture<'a, Box<dyn RedirectListener>>;

    /// Shows a code that the user enters on another device. Without an implementation, the device grant fails.
    fn show<'a>(&'a self, prompt: &'a DevicePrompt) -> SignInFuture<'a, ()> {
        let _ = prompt;
        Box::pin(async { Err(StepError::new("this sign-in handler does not support the device grant")) })
    }
}

/// Ready where answers come to.
pub trait RedirectListener: Send + Sync {
    /// Returns the redirect URI.
    fn redirect_uri(&self) -> RedirectUri;

    /// Brings the user to the page and waits for the response.
    fn visit(self: Box<Self>, visit: AuthorizationPrompt) -> SignInFuture<'static, SignInAnswer>;
}

/// Result of a sign-in.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignInAnswer {
    /// The URL to which the browser was sent back.
    Redirected(String),
    /// It comes later and by another way: [`crate::OAuthClient::finish`].
    Later,
}

// The URL carries the code.
impl fmt::Debug for SignInAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redirected(_) => "Redirected(..)",
            Self::Later => "Later",
        })
    }
}
