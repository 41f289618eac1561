//! Sign-in of a user with a browser on another device, by a code.

use std::fmt;
use std::sync::Arc;

use hospes_auth::RedirectUri;

use super::{RedirectListener, SignInFuture, SignInHandler};
use crate::error::StepError;
use crate::flow::DevicePrompt;

type ShowPrompt = Arc<dyn Fn(&DevicePrompt) -> Result<(), StepError> + Send + Sync>;

/// Shows the code of [`crate::GrantType::Device`], and leaves the rest to the person. For that grant alone.
#[derive(Clone)]
pub struct DeviceCodeSignIn(ShowPrompt);

impl DeviceCodeSignIn {
    /// Codes are shown by `show`.
    pub fn new(show: impl Fn(&DevicePrompt) -> Result<(), StepError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }
}

impl SignInHandler for DeviceCodeSignIn {
    fn listen<'a>(
        &'a self,
        _preferred: Option<&'a RedirectUri>,
    ) -> SignInFuture<'a, Box<dyn RedirectListener>> {
        Box::pin(async { Err(StepError::new("sign-in needs the device grant (set the grant to Device)")) })
    }

    fn show<'a>(&'a self, prompt: &'a DevicePrompt) -> SignInFuture<'a, ()> {
        Box::pin(async move { (self.0)(prompt) })
    }
}

impl fmt::Debug for DeviceCodeSignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceCodeSignIn")
    }
}
