//! Console of a team: people sign in at the organisation's OpenID provider, and each has roles.

mod logout;
mod person;
mod roles;
mod sessions;
mod sign_in;

use std::fmt;
use std::sync::Arc;

use hospes_store::console_sessions::ConsoleSessionRecords;

pub use self::logout::TeamLogout;
pub(crate) use self::person::TeamPerson;
pub(crate) use self::roles::NoRole;
pub use self::roles::{InvalidTeamRole, TeamRole, TeamRoles};
pub(crate) use self::sessions::TeamSessionSummary;
pub(crate) use self::sign_in::{BeginError, FinishError};
pub use self::sign_in::{
    BegunTeamSignIn, ClaimedPerson, TeamSignIn, TeamSignInError, TeamSignInFuture, TeamSignInResponse,
};

/// Returns the name of a principal, as calls have it, from issuer and subject.
pub type PrincipalName = Arc<dyn Fn(&str, &str) -> String + Send + Sync>;

/// Settings of a console for a team.
#[derive(Clone)]
pub struct TeamConsole {
    origin: String,
    authority: String,
    is_https: bool,
    roles: TeamRoles,
    principal: PrincipalName,
    sign_in: Arc<dyn TeamSignIn>,
    records: ConsoleSessionRecords,
}

/// The public URL of a console cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an https origin without a path, such as `https://console.example.org`")]
#[non_exhaustive]
pub struct InvalidPublicUrl;

impl TeamConsole {
    /// Creates the settings of a console at the origin `public_url`, which uses https, or http on loopback. Sessions are in
    /// `records`, which all nodes share. `principal` names people as their calls name them.
    ///
    /// # Errors
    /// If the URL is not such an origin.
    pub fn new(
        public_url: &str,
        roles: TeamRoles,
        principal: PrincipalName,
        sign_in: Arc<dyn TeamSignIn>,
        records: ConsoleSessionRecords,
    ) -> Result<Self, InvalidPublicUrl> {
        let origin = public_url.trim_end_matches('/').to_ascii_lowercase();
        let (scheme, authority) = origin.split_once("://").ok_or(InvalidPublicUrl)?;
        let named: http::uri::Authority = authority.parse().map_err(|_| InvalidPublicUrl)?;
        let is_https = scheme == "https";
        let is_loopback = scheme == "http" && matches!(named.host(), "127.0.0.1" | "[::1]" | "localhost");
        if authority.contains('@') || !(is_https || is_loopback) {
            return Err(InvalidPublicUrl);
        }
        // Browsers leave the usual port out of `Host` and `Origin`.
        let usual = if is_https { ":443" } else { ":80" };
        let authority = authority.strip_suffix(usual).unwrap_or(authority).to_owned();
        let origin = format!("{scheme}://{authority}");
        Ok(Self { origin, authority, is_https, roles, principal, sign_in, records })
    }

    /// Returns the public origin.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the name of the claim from which roles come.
    pub(crate) fn claim(&self) -> &str {
        self.roles.claim()
    }

    /// Returns the value of `Host` that requests have.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the URL to which the provider sends browsers back.
    #[must_use]
    pub fn redirect_uri(&self) -> String {
        format!("{}{CALLBACK_PATH}", self.origin)
    }

    /// Returns the header of a cookie. `__Host-` binds it to this host and to https; browsers reject it over plain http, which
    /// only loopback uses. There, all ports share cookies, so the name includes the port.
    pub(crate) fn cookie(&self, name: &str, value: &str, max_age: Option<u64>) -> String {
        let age = max_age.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
        let secure = if self.is_https { "; Secure" } else { "" };
        format!("{}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{age}", self.cookie_name(name))
    }

    /// Returns the full name of a cookie.
    pub(crate) fn cookie_name(&self, name: &str) -> String {
        if self.is_https {
            return format!("__Host-{name}");
        }
        let port = self.authority.rsplit_once(':').map_or("80", |(_, port)| port);
        format!("{name}-{port}")
    }
}

/// Path to which the provider sends browsers back.
pub(crate) const CALLBACK_PATH: &str = "/sign-in/callback";

/// Path at which the provider tells of sign-outs.
pub(crate) const LOGOUT_PATH: &str = "/sign-in/back-channel-logout";

/// Name of the cookie of a session. Not `hospes`, which is that of the authorization server: both may have one host.
pub(crate) const SESSION_COOKIE: &str = "hospes-console";

/// Name of the cookie that binds a sign-in to its browser.
pub(crate) const SIGN_IN_COOKIE: &str = "hospes-console-sign-in";

impl fmt::Debug for TeamConsole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TeamConsole")
            .field("origin", &self.origin)
            .field("roles", &self.roles)
            .finish_non_exhaustive()
    }
}
