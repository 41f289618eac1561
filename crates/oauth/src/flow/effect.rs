//! Actions that a flow requires of its caller, and their results.

use std::fmt;
use std::time::Duration;

use hospes_auth::egress::FetchError;
use hospes_auth::{FetchRequest, FetchResponse, Issuer, RedirectUri, Scopes, without_query};
use url::Url;

use crate::error::FlowError;
use crate::settings::ClientRegistration;
use crate::tokens::TokenSet;

/// Next action that the flow requires from its caller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FlowEffect {
    /// Send this request; the result is [`FlowInput::Response`].
    Fetch(FetchRequest),
    /// Look up how this server knows us; [`FlowInput::Registration`].
    Recall(Issuer),
    /// Be ready where answers come to, there if that is possible; [`FlowInput::Listening`].
    Listen {
        /// Redirect URI that the server expects.
        preferred: Option<RedirectUri>,
    },
    /// Keep this, under its issuer; [`FlowInput::Kept`].
    Keep(Box<ClientRegistration>),
    /// Bring the user to this page and wait for the redirect; the result is [`FlowInput::Redirected`].
    Visit(AuthorizationPrompt),
    /// Show the user a code, and continue; [`FlowInput::Shown`].
    Show(Box<DevicePrompt>),
    /// Let so much time pass; [`FlowInput::Waited`].
    Wait(Duration),
    /// The flow has succeeded.
    Done(Box<TokenSet>),
    /// The flow has failed.
    Failed(FlowError),
}

/// Authorization page that a user has to visit.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationPrompt {
    /// The page. It is https, or on this machine.
    pub url: Url,
    /// Redirect URI that receives the response.
    pub redirect_uri: RedirectUri,
    /// Value of `state` that the matching response carries.
    pub state: String,
    /// Issuer that asks for authorization.
    pub issuer: Issuer,
    /// Requested scopes.
    pub scopes: Scopes,
}

impl fmt::Debug for AuthorizationPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationPrompt")
            .field("url", &without_query(&self.url))
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// Code and page for a user who authorizes on another device.
#[derive(Clone)]
#[non_exhaustive]
pub struct DevicePrompt {
    /// The page on which the code is entered. It is https, or on this machine.
    pub verification_uri: Url,
    /// The page with the code included, to be shown as a QR code or opened.
    pub verification_uri_complete: Option<Url>,
    /// Code to enter.
    pub user_code: String,
    /// Issuer that asks for authorization.
    pub issuer: Issuer,
    /// Requested scopes.
    pub scopes: Scopes,
    /// Until when it can be entered, in seconds since 1970; half an hour at the most.
    pub ends_at: u64,
}

// Whoever knows the code can enter it.
impl fmt::Debug for DevicePrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevicePrompt")
            .field("verification_uri", &without_query(&self.verification_uri))
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// Result of an action.
#[non_exhaustive]
pub enum FlowInput {
    /// The response, or the error that prevented it.
    Response(Result<FetchResponse, FetchError>),
    /// The known client registration with the server, if there is one.
    Registration(Option<Box<ClientRegistration>>),
    /// Redirect URI of the listener.
    Listening(RedirectUri),
    /// The data was stored.
    Kept,
    /// The URL to which the browser was sent back.
    Redirected(String),
    /// The person has the code.
    Shown,
    /// The time has passed.
    Waited,
    /// It could not be done.
    Failed(FlowError),
}

// The URL carries the code.
impl fmt::Debug for FlowInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Response(_) => "Response(..)",
            Self::Registration(_) => "Registration(..)",
            Self::Listening(_) => "Listening(..)",
            Self::Kept => "Kept",
            Self::Redirected(_) => "Redirected(..)",
            Self::Shown => "Shown",
            Self::Waited => "Waited",
            Self::Failed(_) => "Failed(..)",
        })
    }
}
