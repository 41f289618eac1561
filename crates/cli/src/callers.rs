//! Check of calling programs at an endpoint without sign-in.

use std::net::SocketAddr;

use hospes_auth::Seed;
use hospes_host::callers::{CallerFront, Rule};
use hospes_host::config::Callers;

use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::place;

/// The check of callers that stands before the endpoint.
pub(crate) struct OwnCallers {
    pub(crate) front: CallerFront,
    /// The token that other callers show.
    pub(crate) token: String,
    /// True if applications need the token.
    pub(crate) is_wanted: bool,
}

/// The check of callers; none where everybody who reaches the endpoint may use it.
pub(crate) fn front(said: Option<Callers>, bound: SocketAddr, output: Output) -> Outcome<Option<OwnCallers>> {
    // Beyond loopback it was said that nobody is asked for anything.
    let usual = if bound.ip().is_loopback() { Callers::SameUser } else { Callers::Any };
    let rule = match said.unwrap_or(usual) {
        Callers::Any => {
            if bound.ip().is_loopback() {
                output.warn(format_args!(
                    "every program of this machine, of any user, is served: nobody is asked (`endpoint.callers` is \"any\")"
                ));
            }
            return Ok(None);
        }
        // Where nothing says which program calls, all need the token.
        Callers::SameUser if cfg!(target_os = "linux") => Rule::SameUser,
        _ => Rule::Token,
    };
    let token = token()?;
    Ok(Some(OwnCallers {
        front: CallerFront::new(rule, bound, &token),
        token,
        is_wanted: rule == Rule::Token,
    }))
}

/// The endpoint's token, made once; where there is no folder for it, one for this run.
fn token() -> Outcome<String> {
    let made = || {
        let seed = Seed::from_system();
        seed.map(|mut seed| seed.draw_text())
            .map_err(|error| Failure::usage("there is no randomness").because(&error))
    };
    match place::endpoint_token() {
        None => made(),
        Some(file) => place::kept_secret(&file, made),
    }
}
