//! Entries with the URL of the endpoint, and the tokens in them. Each application has a token of its own, which
//! `hospes disconnect` revokes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hospes::transport::http_server::DEFAULT_PATH;
use hospes_auth::Seed;
use hospes_host::callers::{ProgramTokenError, ProgramTokenStore};
use hospes_host::config::applications::{ApplicationFile, PlaceScope};
use hospes_host::config::{AllowedCallers, HostConfig};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::args::{ConfigFileArgs, ConnectApplicationArgs};
use crate::exit::{CliError, CliResult};
use crate::paths;
use crate::settings::load_without_secrets;

/// Lifetime of a token, in days. It ends with the connection.
const TOKEN_DAYS: i64 = 3650;
/// Text in place of a token that is not made yet.
const NO_TOKEN: &str = "<TOKEN>";

/// Endpoint in the entry of an application.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndpointEntry {
    pub(super) url: String,
    /// Token of the application, if the endpoint asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
}

impl std::fmt::Debug for EndpointEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointEntry").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Returns the endpoint to write for an application. `None` if its entry starts a program. A token is only made later, by
/// [`EndpointEntry::make_token`].
pub(super) fn wanted(
    args: &ConnectApplicationArgs,
    file: &ApplicationFile,
) -> CliResult<Option<EndpointEntry>> {
    let files = ConfigFileArgs { config: Vec::new(), allow_unset: true, strict: false };
    // An entry that starts a program works with any configuration, so a mistake in it does not matter.
    let config = match load_without_secrets(&files) {
        Ok(loaded) => loaded.config,
        Err(problem) if args.http => return Err(problem),
        Err(_) => HostConfig::default(),
    };
    // Programs cannot attach to a host that asks for a token; each would run one of its own.
    let asks = config.callers == Some(AllowedCallers::Token) && config.auth.is_none();
    if !args.http && !asks {
        return Ok(None);
    }
    let name = file.application.name;
    if file.application.shape.http.is_none() {
        let problem = CliError::usage(format!("{name} cannot be given a URL in its file"));
        return if args.http { Err(problem.hint("connect it without --http")) } else { Ok(None) };
    }
    let needs_token = asks
        || config.auth.is_none() && !cfg!(target_os = "linux") && config.callers != Some(AllowedCallers::Any);
    if file.scope == PlaceScope::Project && needs_token {
        let problem =
            CliError::usage("a token is never written into the file of a project, which others read");
        return if args.http { Err(problem.hint("connect it without --project")) } else { Ok(None) };
    }
    Ok(Some(EndpointEntry {
        url: url(&config, args.profile.as_deref())?,
        token: needs_token.then(|| NO_TOKEN.to_owned()),
    }))
}

/// Returns the URL at which the endpoint, or that of a profile, is reached on this machine.
fn url(config: &HostConfig, profile: Option<&str>) -> CliResult<String> {
    let listen = config.listen.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7337));
    if listen.port() == 0 {
        return Err(CliError::usage(
            "the port of the endpoint is another one each time that `hospes up` starts",
        )
        .hint("set `endpoint.listen` to an address with a port, or connect without --http"));
    }
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let endpoint = format!("http://{}{DEFAULT_PATH}", SocketAddr::new(ip, listen.port()));
    Ok(match profile {
        Some(profile) => format!("{endpoint}/{profile}"),
        None => endpoint,
    })
}

impl EndpointEntry {
    /// Makes the token, if one is needed, and lets the endpoint accept it.
    pub(super) fn make_token(&mut self, application: &str) -> CliResult {
        if self.token.is_none() {
            return Ok(());
        }
        let mut seed = Seed::from_system().map_err(|error| {
            CliError::usage("cannot read random bytes from the system").with_cause(&error)
        })?;
        let secret = format!("hospes-{}", seed.draw_text());
        let wrong = |error: &dyn std::error::Error| {
            CliError::usage("the token of the application cannot be stored").with_cause(error)
        };
        let expires = Timestamp::now()
            .checked_add(SignedDuration::from_hours(24 * TOKEN_DAYS))
            .map_err(|error| wrong(&error))?;
        let store =
            tokens().ok_or_else(|| CliError::usage("no home folder found for the token").hint("set HOME"))?;
        // One that is left of an earlier connection.
        revoke_token_of(application)?;
        store.add(application, &secret, expires).map_err(|error| wrong(&error))?;
        self.token = Some(secret);
        Ok(())
    }

    /// Revokes the token. A running host refuses it from now on.
    ///
    /// # Errors
    /// If the tokens cannot be read or written.
    pub(super) fn revoke_token(&self, application: &str) -> CliResult {
        if self.token.is_some() { revoke_token_of(application) } else { Ok(()) }
    }
}

/// Revokes the token of an application, if it has one.
///
/// # Errors
/// If the tokens cannot be read or written, so that it may stay valid.
pub(super) fn revoke_token_of(application: &str) -> CliResult {
    match tokens().map(|store| store.end(application)) {
        None | Some(Ok(()) | Err(ProgramTokenError::Missing(_))) => Ok(()),
        Some(Err(error)) => {
            Err(CliError::usage(format!("the token of {application} cannot be revoked, and may stay valid"))
                .with_cause(&error)
                .hint(format!("make the file writable, and run `hospes disconnect {application}` again")))
        }
    }
}

/// Returns the tokens of applications. `None` without a home folder.
pub(crate) fn tokens() -> Option<ProgramTokenStore> {
    paths::application_tokens().map(ProgramTokenStore::at)
}
