//! Identity of the decider on the command line: the person at a terminal, or a program with a token that the person
//! made.

use std::path::PathBuf;

use hospes_auth::Seed;
use hospes_console::LocalConsole;
use hospes_host::callers::{ProgramToken, ProgramTokenError, ProgramTokenStore};
use hospes_host::deciders::{Decider, DecisionSource};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::args::ConfigFileArgs;
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, DIM, is_interactive, paint, printable, table_cell};
use crate::{local_host, paths, settings};

/// Environment variable with the token of a program that decides approvals.
pub(crate) const TOKEN_VARIABLE: &str = "HOSPES_APPROVE_TOKEN";

/// Returns the token given to this program, if any.
pub(crate) fn token() -> Option<String> {
    std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty())
}

/// Returns the decision tokens of this user. `None` without a home folder.
pub(crate) fn tokens() -> Option<ProgramTokenStore> {
    paths::decision_tokens().map(ProgramTokenStore::at)
}

/// Describes the decider of this process for the audit log.
///
/// # Errors
/// If this process belongs to a program that may not decide.
pub(crate) async fn decider() -> CliResult<String> {
    let this = current_process();
    let shown = match token() {
        None => None,
        Some(secret) => {
            let name = tokens().and_then(|tokens| tokens.name_of(&secret));
            let wrong = || CliError::usage(format!("{TOKEN_VARIABLE} holds an unknown or expired token"));
            Some(name.ok_or_else(wrong)?)
        }
    };
    this.check(decisions_from().await?, shown.as_deref()).map_err(|why| CliError::usage(why.to_string()))?;
    Ok(this.describe(shown.as_deref()))
}

/// Identifies this process. If the system does not report its terminal, the process checks its own standard input.
fn current_process() -> Decider {
    match Decider::this() {
        Decider::Unidentified if is_interactive() => {
            Decider::Terminal { terminal: "of this process".to_owned(), program: "hospes".to_owned() }
        }
        this => this,
    }
}

/// Returns the setting for a decision that this process makes itself: the strictest of the configuration files and of the
/// running host, and never that all programs decide.
///
/// A program chooses the environment of a command that it runs, and with it the file that is read and the host that
/// answers. So neither can let it decide. What a running host is asked, that host decides by its own file.
async fn decisions_from() -> CliResult<DecisionSource> {
    let named = std::env::var_os("HOSPES_CONFIG").map(PathBuf::from);
    let mut strictest = DecisionSource::Terminal;
    // The files of the person count beside one that a variable names, which may be empty.
    for file in named.into_iter().chain(paths::own_configs()) {
        let files = ConfigFileArgs { config: vec![file], allow_unset: true, strict: false };
        // An error in a server's entry must not loosen who may decide.
        let said = settings::load_without_secrets(&files)?.config.decisions_from;
        strictest = strictest.min(said.unwrap_or_default());
    }
    let asked = async |console: &LocalConsole| console.get::<serde_json::Value>("console").await;
    let running = local_host::ask_running_host("cannot read the decision settings of the console", asked)
        .await
        .ok()
        .and_then(|(_, about)| {
            DecisionSource::ALL.into_iter().find(|from| about["decisionsFrom"] == from.as_str())
        });
    // The smallest value is the strictest, by the order in which they are declared.
    Ok(strictest.min(running.unwrap_or_default()))
}

/// Creates a token and prints it once.
pub(crate) fn create_token(name: &str, days: u16, output: CliOutput) -> CliResult {
    // A program that could create a token would not need one.
    if !matches!(current_process(), Decider::Terminal { .. }) {
        return Err(CliError::usage(
            "tokens can only be created interactively, in the foreground of a terminal",
        ));
    }
    let mut seed = Seed::from_system()
        .map_err(|error| CliError::usage("cannot read random bytes from the system").with_cause(&error))?;
    let secret = format!("hospes-{}", seed.draw_text());
    let expires = Timestamp::now()
        .checked_add(SignedDuration::from_hours(24 * i64::from(days)))
        .map_err(|error| CliError::usage("--days").with_cause(&error))?;
    let made = open_tokens()?.add(name, &secret, expires).map_err(|error| failed(&error))?;
    if output.json {
        output.value(&json!({ "name": made.name, "token": secret, "expires": made.expires }));
        return Ok(());
    }
    output.result(&secret);
    output.say(paint(
        DIM,
        format!(
            "the token is shown only once; a program that has it in {TOKEN_VARIABLE} can decide for you until {}",
            made.expires.strftime("%Y-%m-%d")
        ),
    ));
    Ok(())
}

/// Prints the tokens, without their secrets.
pub(crate) fn list_tokens(output: CliOutput) -> CliResult {
    let all = open_tokens()?.list().map_err(|error| failed(&error))?;
    if output.json {
        let shown = |token: &ProgramToken| json!({ "name": token.name, "created": token.created, "expires": token.expires });
        output.value(&all.iter().map(shown).collect::<Vec<_>>());
        return Ok(());
    }
    if all.is_empty() {
        output.say(paint(DIM, "no tokens"));
    }
    let now = Timestamp::now();
    for token in &all {
        let day = token.expires.strftime("%Y-%m-%d");
        let until = if token.expires > now { format!("valid until {day}") } else { format!("expired {day}") };
        output.line(&format!("{} {until}", table_cell(&token.name, 24)));
    }
    Ok(())
}

/// Revokes a token.
pub(crate) fn end_token(name: &str, output: CliOutput) -> CliResult {
    open_tokens()?.end(name).map_err(|error| failed(&error))?;
    output.say(paint(DIM, format!("token {} was revoked", printable(name))));
    Ok(())
}

fn open_tokens() -> CliResult<ProgramTokenStore> {
    tokens().ok_or_else(|| CliError::usage("no home folder found in which to store tokens").hint("set HOME"))
}

fn failed(error: &ProgramTokenError) -> CliError {
    CliError::usage(crate::exit::error_chain(error))
}
