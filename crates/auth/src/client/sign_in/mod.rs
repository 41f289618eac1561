//! How a person is brought to where they agree, and how what they said comes back.

mod browser;
mod device;
mod elsewhere;
mod unattended;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use browser::{Browser, Opener};
pub use device::DeviceCode;
pub use elsewhere::Elsewhere;
pub use unattended::Unattended;

use super::error::StepError;
use super::flow::{DevicePrompt, Visit};
use crate::RedirectUri;

/// What is being done for a sign-in.
pub type SigningIn<'a, T> = Pin<Box<dyn Future<Output = Result<T, StepError>> + Send + 'a>>;

/// Brings people to where they agree.
pub trait SignIn: Send + Sync + fmt::Debug {
    /// Gets ready where answers come to: at `preferred`, if that is possible.
    fn listen<'a>(&'a self, preferred: Option<&'a RedirectUri>) -> SigningIn<'a, Box<dyn Listening>>;

    /// Shows a code that is to be entered on another machine. Without this nobody can be asked so.
    fn show<'a>(&'a self, prompt: &'a DevicePrompt) -> SigningIn<'a, ()> {
        let _ = prompt;
        Box::pin(async { Err(StepError::new("no codes are shown here")) })
    }
}

/// Ready where answers come to.
pub trait Listening: Send + Sync {
    /// The place.
    fn redirect_uri(&self) -> RedirectUri;

    /// Brings the person to the page, and waits for what comes back.
    fn visit(self: Box<Self>, visit: Visit) -> SigningIn<'static, Answer>;
}

/// What came of it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The URL to which the browser was sent back.
    Redirected(String),
    /// It comes later and by another way: [`crate::client::OAuthClient::finish`].
    Later,
}

// The URL carries the code.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redirected(_) => "Redirected(..)",
            Self::Later => "Later",
        })
    }
}
