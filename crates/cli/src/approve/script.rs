//! Lists of approvals and single decisions without a screen, for scripts.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use hospes::model::RawJson;
use hospes_console::{ClientError, LocalConsole};
use hospes_host::approvals::{Approval, ApprovalDecision, ApprovalScope, ApprovalState};
use jiff::Timestamp;

use super::card::title;
use super::draw::left;
use super::key_argument::key_argument;
use super::{console_requests, editor, fetch_queue};
use crate::args::ApproveArgs;
use crate::commands::InterruptListener;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{CliOutput, DIM, paint};

/// Minimum number of characters of an id given on the command line.
const MIN_ID_LENGTH: usize = 4;
/// Number of characters of an id in lists for people.
const SHOWN_ID_LENGTH: usize = 8;

/// Maximum number of missed approvals that lists for people show.
const MAX_MISSED: usize = 10;
/// Width of the argument in a row, in columns.
const ARGUMENT_WIDTH: usize = 60;

/// A decision given on the command line.
#[derive(Debug)]
pub(super) struct ScriptedDecision {
    id: String,
    decision: ApprovalDecision,
}

impl ScriptedDecision {
    /// Returns the decision that the arguments ask for. Returns `None` if they ask for none.
    ///
    /// # Errors
    /// If the edited value or the permission is not valid JSON.
    pub(super) fn of(args: &ApproveArgs) -> CliResult<Option<Self>> {
        if let Some(id) = &args.deny {
            let reason = args.reason.clone().filter(|reason| !reason.is_empty());
            let decision = ApprovalDecision::Deny { reason, block: args.block };
            return Ok(Some(Self { id: id.clone(), decision }));
        }
        let Some(id) = &args.allow else { return Ok(None) };
        let edited = args.edit.as_deref().map(edit).transpose()?;
        let scope =
            match &args.always {
                Some(rule) => ApprovalScope::Always(serde_json::from_str(rule).map_err(|error| {
                    CliError::usage("--always: not a valid permission").with_cause(&error)
                })?),
                None if args.session => ApprovalScope::Session,
                None if args.remember_targets => ApprovalScope::Targets,
                None if args.trust_values => ApprovalScope::Values,
                None => ApprovalScope::Once,
            };
        Ok(Some(Self { id: id.clone(), decision: ApprovalDecision::Allow { edited, scope } }))
    }
}

fn edit(file: &Path) -> CliResult<RawJson> {
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        // One byte more than allowed, to tell a text of just the limit from a longer one.
        let read = std::io::stdin().lock().take(editor::MAX_EDIT + 1).read_to_string(&mut text);
        match read {
            Ok(read) if read as u64 > editor::MAX_EDIT => {
                Err(format!("standard input is longer than {} bytes", editor::MAX_EDIT))
            }
            Ok(_) => Ok(text),
            Err(error) => Err(format!("cannot read standard input: {error}")),
        }
    } else {
        editor::read(file)
    };
    let text = text.map_err(|why| CliError::usage(format!("--edit: {why}")))?;
    RawJson::parse(text).map_err(|error| CliError::usage("--edit: not valid JSON").with_cause(&error))
}

/// Sends the decision to the host and prints the decided approval.
pub(super) async fn decide(decided: &ScriptedDecision, output: CliOutput) -> CliResult {
    let (console, _) = console_requests::find_host().await?;
    let queue = fetch_queue(&console).await.map_err(|error| failed(&error))?;
    let id = resolve_id(&decided.id, &queue.open)?;
    let answer: Result<RawJson, ClientError> =
        console.post(&format!("approvals/{id}"), &decided.decision).await;
    let answer = answer.map_err(|error| match error {
        // A model may read it through the program that it runs, so no way round is named.
        ClientError::Refused { code, message } if code == "not-a-decider" => CliError::usage(message),
        error => failed(&error),
    })?;
    if output.json {
        output.json_line(answer.as_str());
        return Ok(());
    }
    let approval: Approval =
        answer.decode().map_err(|error| CliError::usage("cannot parse the response").with_cause(&error))?;
    let (what, server) = title(&approval);
    output.result(format_args!("{}: {what} of {server}", state(approval.state)));
    Ok(())
}

/// Returns the full id of the pending approval whose id begins with `id`.
fn resolve_id(id: &str, open: &[Approval]) -> CliResult<String> {
    let mut found = open.iter().filter(|approval| approval.id.starts_with(id));
    match (found.next(), found.next()) {
        // A shorter prefix could match an approval other than the one that was seen.
        (Some(one), None) if id.len() >= MIN_ID_LENGTH => Ok(one.id.clone()),
        (Some(_), None) => {
            Err(CliError::usage(format!("expected at least {MIN_ID_LENGTH} characters of an id")))
        }
        (Some(_), Some(_)) => Err(CliError::usage(format!("`{id}` matches more than one pending approval"))),
        // May be an approval that is over; the host then reports how it ended. Only hexadecimal digits are put into the
        // URL.
        (None, _) if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(id.to_owned()),
        (None, _) => Err(CliError::usage(format!("no pending approval with id `{id}`"))
            .hint("`hospes approve --list` lists the pending approvals")),
    }
}

/// Prints the pending approvals.
pub(super) async fn list(console: &LocalConsole, output: CliOutput) -> CliResult {
    if output.json {
        let written = console_requests::fetch_raw_queue(console).await.map_err(|error| failed(&error))?;
        written.open.iter().for_each(|approval| output.json_line(approval.as_str()));
        return Ok(());
    }
    let queue = fetch_queue(console).await.map_err(|error| failed(&error))?;
    if queue.open.is_empty() {
        output.say(paint(DIM, "no pending approvals"));
    }
    for approval in &queue.open {
        output.line(&row(approval, queue.now));
    }
    let missed: Vec<&Approval> = queue
        .recent
        .iter()
        .filter(|approval| approval.state == ApprovalState::Expired)
        .take(MAX_MISSED)
        .collect();
    if !missed.is_empty() {
        output.say(paint(DIM, "missed: expired without a decision and denied"));
    }
    for approval in missed {
        output.line(&row(approval, queue.now));
    }
    Ok(())
}

/// Prints pending approvals, new ones, and the outcome of each, until the program or the host ends.
pub(super) async fn follow(console: &LocalConsole, output: CliOutput) -> CliResult {
    let mut ending = InterruptListener::new()?;
    // Boxed, because its future is large and every caller's would have to hold it.
    let followed = ending.unless(Box::pin(follow_on(console, output))).await;
    followed.unwrap_or(Ok(()))
}

async fn follow_on(console: &LocalConsole, output: CliOutput) -> CliResult {
    let mut news = console.follow().await.map_err(|error| failed(&error))?;
    let mut known: HashMap<String, ApprovalState> = HashMap::new();
    let mut is_first = true;
    while let Some(heard) = news.next().await {
        if !matches!(heard.as_str(), "hello" | "approvals" | "grants") {
            continue;
        }
        let written = console_requests::fetch_raw_queue(console).await.map_err(|error| failed(&error))?;
        let now = Timestamp::now();
        let mut seen = HashMap::new();
        // Oldest first: decided approvals, then pending ones.
        for json in written.recent.iter().rev().chain(&written.open) {
            let Ok(approval) = json.decode::<Approval>() else { continue };
            let is_new = known.get(&approval.id) != Some(&approval.state);
            // Approvals that were over before the first look are not reported.
            if is_new && (!is_first || approval.state == ApprovalState::Open) {
                match output.json {
                    true => output.json_line(json.as_str()),
                    false => output.line(&row(&approval, now)),
                }
            }
            seen.insert(approval.id, approval.state);
        }
        // Replaced instead of merged, or ids that the host has forgotten would accumulate.
        known = seen;
        is_first = false;
    }
    Err(CliError::new(FailureCode::Unreachable, "the host has stopped"))
}

/// Formats an approval on one line.
fn row(approval: &Approval, now: Timestamp) -> String {
    let (what, server) = title(approval);
    let id = &approval.id[..approval.id.len().min(SHOWN_ID_LENGTH)];
    let how = match approval.state {
        ApprovalState::Open => left(approval.expires_at, now),
        over => state(over).to_owned(),
    };
    let who = approval.application.as_deref().map(hospes_policy::visible_line).unwrap_or_default();
    let gist = key_argument(approval, ARGUMENT_WIDTH).map(|gist| format!("  {gist}")).unwrap_or_default();
    format!("{id}  {how:>9}  {server} · {what}{gist}  {}", paint(DIM, who)).trim_end().to_owned()
}

fn state(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::Open => "pending",
        ApprovalState::Allowed => "allowed",
        ApprovalState::Denied => "denied",
        ApprovalState::Expired => "expired",
        ApprovalState::Withdrawn => "withdrawn",
        _ => "closed",
    }
}

fn failed(error: &ClientError) -> CliError {
    match error {
        ClientError::Refused { code, message } => {
            let failure = CliError::usage(message.clone());
            match code.as_str() {
                "nothing" | "over" => failure.hint("`hospes approve --list` lists the pending approvals"),
                "edit" => failure.hint("`--edit FILE` replaces the whole request, as JSON"),
                _ => failure,
            }
        }
        other => CliError::new(FailureCode::Unreachable, "the host does not answer").with_cause(other),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::args::{Cli, CliCommand};

    fn decision(words: &[&str]) -> Result<Value, String> {
        let words = [&["hospes", "approve"], words].concat();
        let CliCommand::Approve(args) =
            Cli::try_parse_from(words).map_err(|error| error.to_string())?.command
        else {
            return Err("another command".to_owned());
        };
        let decided = ScriptedDecision::of(&args).map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(decided.map(|decided| decided.decision)).unwrap())
    }

    #[test]
    fn each_flag_says_how_long_a_permission_lasts() {
        let allow = |scope: &str| json!({ "decision": "allow", "scope": scope });
        for (flag, scope) in
            [("--session", "session"), ("--remember-targets", "targets"), ("--trust-values", "values")]
        {
            assert_eq!(decision(&["--allow", "3f9a", flag]), Ok(allow(scope)), "{flag}");
            assert!(decision(&[flag]).is_err(), "{flag} belongs to a permission");
        }
        // Two of them would mean different things, and an edit is not what the card has shown.
        for flags in [["--remember-targets", "--session"], ["--trust-values", "--remember-targets"]] {
            assert!(decision(&[&["--allow", "3f9a"][..], &flags].concat()).is_err(), "{flags:?}");
        }
        assert!(decision(&["--allow", "3f9a", "--remember-targets", "--edit", "x.json"]).is_err());
    }
}
