//! Check of calling programs at an endpoint without sign-in.

use std::net::SocketAddr;

use hospes_auth::Seed;
use hospes_host::callers::{CallerMiddleware, CallerRule};
use hospes_host::config::AllowedCallers;

use crate::commands::connect::application_tokens;
use crate::exit::{CliError, CliResult};
use crate::output::CliOutput;
use crate::paths;

/// Middleware that checks callers before the endpoint, and its token.
pub(crate) struct CallerCheck {
    pub(crate) front: CallerMiddleware,
    /// Token for callers that are not admitted by their user id.
    pub(crate) token: String,
    /// True if applications need the token.
    pub(crate) is_wanted: bool,
}

/// Creates the check of callers. Returns `None` if everybody who reaches the endpoint may use it.
pub(crate) fn caller_check(
    said: Option<AllowedCallers>,
    bound: SocketAddr,
    output: CliOutput,
) -> CliResult<Option<CallerCheck>> {
    // Beyond loopback, serving without authentication has been configured explicitly.
    let usual = if bound.ip().is_loopback() { AllowedCallers::SameUser } else { AllowedCallers::Any };
    let rule = match said.unwrap_or(usual) {
        AllowedCallers::Any => {
            if bound.ip().is_loopback() {
                output.warn(format_args!(
                    "every program of any user on this machine can use the endpoint: `endpoint.callers` is \"any\""
                ));
            }
            return Ok(None);
        }
        // If the system cannot tell which user's program is calling, every caller needs the token.
        AllowedCallers::SameUser if cfg!(target_os = "linux") => CallerRule::SameUser,
        _ => CallerRule::Token,
    };
    // Also with `SameUser`, because programs of other users may show the token instead.
    let token = endpoint_token()?;
    let mut front = CallerMiddleware::new(rule, bound, &token);
    if let Some(tokens) = application_tokens() {
        front = front.application_tokens(tokens);
    }
    Ok(Some(CallerCheck { front, token, is_wanted: rule == CallerRule::Token }))
}

/// Returns the endpoint's token, which is created once and stored. Without a folder for it, the token is valid for this
/// run only.
fn endpoint_token() -> CliResult<String> {
    let made = || {
        let seed = Seed::from_system();
        seed.map(|mut seed| seed.draw_text())
            .map_err(|error| CliError::usage("cannot read random bytes from the system").with_cause(&error))
    };
    match paths::endpoint_token() {
        None => made(),
        Some(file) => paths::read_or_create_secret(&file, made),
    }
}
