//! `hospes approve`: shows the pending approvals of the running host in the terminal and decides them.

mod card;
mod console_requests;
mod draft;
pub(crate) mod draw;
mod editor;
mod edits;
mod elsewhere;
mod json;
mod key_argument;
mod line_editor;
mod permission_editor;
mod screen;
mod script;
mod sentence;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod text;

pub(crate) use card::{ApprovalRisk, bold, card, dim, title};
use console_requests::fetch_queue;
pub(crate) use draft::{ApprovalDraft, original};
pub(crate) use editor::edit;
pub(crate) use elsewhere::QueuedApproval;
use hospes_console::LocalConsole;
pub(crate) use key_argument::key_argument;
pub(crate) use sentence::sentence;
pub(crate) use state::{ARMING_DELAY, done, ending};

use crate::args::ApproveArgs;
use crate::deciders;
use crate::exit::CliResult;
use crate::output::{CliOutput, is_screen};

pub(crate) async fn run(args: ApproveArgs, output: CliOutput) -> CliResult {
    // Tokens are in a file of this user, so these three options need no running host.
    if let Some(name) = &args.make_token {
        return deciders::create_token(name, args.days, output);
    }
    if args.tokens {
        return deciders::list_tokens(output);
    }
    if let Some(name) = &args.end_token {
        return deciders::end_token(name, output);
    }
    if let Some(decided) = script::ScriptedDecision::of(&args)? {
        return script::decide(&decided, output).await;
    }
    let (console, _) = console_requests::find_host().await?;
    if args.follow {
        return script::follow(&console, output).await;
    }
    if args.list || output.json || !is_screen() {
        return script::list(&console, output).await;
    }
    screen::run(console, false).await
}

/// Shows the pending approvals of the host in this process on the terminal. Nothing is selected at first, so that no key
/// that was meant for another screen decides.
pub(crate) async fn show_own(console: LocalConsole) -> CliResult {
    screen::run(console, true).await
}
