//! Requests to the running host of this user over its socket.

use hospes_console::{ClientError, LocalConsole};

use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::is_interactive;
use crate::{deciders, paths};

/// Sends a request to the most recently started host that answers. `what` describes the request at the start of an
/// error message.
pub(crate) async fn ask_running_host<T>(
    what: &str,
    asked: impl AsyncFn(&LocalConsole) -> Result<T, ClientError>,
) -> CliResult<(LocalConsole, T)> {
    let token = deciders::token();
    let mut without = false;
    for (file, note) in paths::list_host_notes() {
        let console = LocalConsole::at(paths::socket_beside(&file));
        let console = console.with_token(token.as_deref()).at_terminal(is_interactive());
        match asked(&console).await {
            Ok(answer) => return Ok((console, answer)),
            // This host has refused, so no older one is asked instead.
            Err(error @ ClientError::Refused { .. }) => {
                return Err(CliError::usage(what).with_cause(&error));
            }
            Err(error) => {
                tracing::debug!(pid = note.pid, %error, "console of recorded host does not answer");
                without = true;
            }
        }
    }
    let failure = |text: &str| CliError::new(FailureCode::Unreachable, text);
    Err(if without {
        failure("the running host has no console that answers").hint(
            "it may run with `--console off`, or may have ended; `hospes status` shows whether a host answers",
        )
    } else {
        failure("no host is running here").hint("start one with `hospes up`")
    })
}
