//! Lists and single decisions for scripts.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use hospes::model::RawJson;
use hospes_console::{ClientError, LocalConsole};
use hospes_host::desk::{Decision, Matter, MatterState, Scope};
use jiff::Timestamp;

use super::card::title;
use super::draw::left;
use super::gist::gist;
use super::{editor, look, reach};
use crate::args::Approve;
use crate::commands::Ending;
use crate::exit::{Code, Failure, Outcome};
use crate::output::{DIM, Output, paint};

/// Minimum number of characters of an id that is given by hand.
const SHORTEST: usize = 4;
/// Number of characters of an id in lists for people.
const SHOWN: usize = 8;

/// Maximum number of missed matters that lists for people show.
const MAX_MISSED: usize = 10;
/// Width of the argument in a row, in columns.
const GIST: usize = 60;

/// A decision that stands on the command line.
#[derive(Debug)]
pub(super) struct Decided {
    id: String,
    decision: Decision,
}

impl Decided {
    /// The decision, if the command line has one.
    pub(super) fn of(args: &Approve) -> Outcome<Option<Self>> {
        if let Some(id) = &args.deny {
            let reason = args.reason.clone().filter(|reason| !reason.is_empty());
            let decision = Decision::Deny { reason, block: args.block };
            return Ok(Some(Self { id: id.clone(), decision }));
        }
        let Some(id) = &args.allow else { return Ok(None) };
        let edited = args.edit.as_deref().map(edit).transpose()?;
        let scope = match &args.always {
            Some(rule) => Scope::Always(
                serde_json::from_str(rule)
                    .map_err(|error| Failure::usage("--always: this is no permission").because(&error))?,
            ),
            None if args.session => Scope::Session,
            None => Scope::Once,
        };
        Ok(Some(Self { id: id.clone(), decision: Decision::Allow { edited, scope } }))
    }
}

fn edit(file: &Path) -> Outcome<RawJson> {
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(editor::MAX_EDIT + 1).read_to_string(&mut text);
        match read {
            Ok(read) if read as u64 > editor::MAX_EDIT => {
                Err(format!("standard input is longer than {} bytes", editor::MAX_EDIT))
            }
            Ok(_) => Ok(text),
            Err(error) => Err(format!("standard input cannot be read: {error}")),
        }
    } else {
        editor::read(file)
    };
    let text = text.map_err(|why| Failure::usage(format!("--edit: {why}")))?;
    RawJson::parse(text).map_err(|error| Failure::usage("--edit: this is no JSON").because(&error))
}

/// Does it.
pub(super) async fn decide(decided: &Decided, output: Output) -> Outcome {
    let (console, _) = reach::find().await?;
    let desk = look(&console).await.map_err(|error| failed(&error))?;
    let id = whole(&decided.id, &desk.open)?;
    let answer: Result<RawJson, ClientError> =
        console.post(&format!("approvals/{id}"), &decided.decision).await;
    let answer = answer.map_err(|error| failed(&error))?;
    if output.json {
        output.json_line(answer.as_str());
        return Ok(());
    }
    let matter: Matter =
        answer.decode().map_err(|error| Failure::usage("the answer cannot be read").because(&error))?;
    let (what, server) = title(&matter);
    output.result(format_args!("{}: {what} of {server}", state(matter.state)));
    Ok(())
}

/// The id that begins so.
fn whole(id: &str, open: &[Matter]) -> Outcome<String> {
    let mut found = open.iter().filter(|matter| matter.id.starts_with(id));
    match (found.next(), found.next()) {
        (Some(one), None) if id.len() >= SHORTEST => Ok(one.id.clone()),
        (Some(_), None) => Err(Failure::usage(format!("at least {SHORTEST} characters of an id are wanted"))),
        (Some(_), Some(_)) => Err(Failure::usage(format!("`{id}` begins more than one of what waits"))),
        // The host knows whether it was, and says how it ended. Nothing else is put into an address.
        (None, _) if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(id.to_owned()),
        (None, _) => Err(Failure::usage(format!("nothing waits that is called `{id}`"))
            .hint("`hospes approve --list` has what waits")),
    }
}

/// Prints what waits.
pub(super) async fn list(console: &LocalConsole, output: Output) -> Outcome {
    if output.json {
        let written = reach::written(console).await.map_err(|error| failed(&error))?;
        written.open.iter().for_each(|matter| output.json_line(matter.as_str()));
        return Ok(());
    }
    let desk = look(console).await.map_err(|error| failed(&error))?;
    if desk.open.is_empty() {
        output.say(paint(DIM, "nothing waits for you"));
    }
    for matter in &desk.open {
        output.line(&row(matter, desk.now));
    }
    let missed: Vec<&Matter> =
        desk.recent.iter().filter(|matter| matter.state == MatterState::Expired).take(MAX_MISSED).collect();
    if !missed.is_empty() {
        output.say(paint(DIM, "missed: nobody decided these in time, so they were refused"));
    }
    for matter in missed {
        output.line(&row(matter, desk.now));
    }
    Ok(())
}

/// Prints what waits, what comes, and how each ends, until the program is asked to end or the host does.
pub(super) async fn follow(console: &LocalConsole, output: Output) -> Outcome {
    let mut ending = Ending::new()?;
    let followed = ending.unless(Box::pin(follow_on(console, output))).await;
    followed.unwrap_or(Ok(()))
}

async fn follow_on(console: &LocalConsole, output: Output) -> Outcome {
    let mut news = console.follow().await.map_err(|error| failed(&error))?;
    let mut known: HashMap<String, MatterState> = HashMap::new();
    let mut is_first = true;
    while let Some(heard) = news.next().await {
        if !matches!(heard.as_str(), "hello" | "approvals" | "grants") {
            continue;
        }
        let written = reach::written(console).await.map_err(|error| failed(&error))?;
        let now = Timestamp::now();
        let mut seen = HashMap::new();
        // The oldest first, those that are over before those that wait.
        for json in written.recent.iter().rev().chain(&written.open) {
            let Ok(matter) = json.decode::<Matter>() else { continue };
            let is_new = known.get(&matter.id) != Some(&matter.state);
            // What was over before anybody looked is no news.
            if is_new && (!is_first || matter.state == MatterState::Open) {
                match output.json {
                    true => output.json_line(json.as_str()),
                    false => output.line(&row(&matter, now)),
                }
            }
            seen.insert(matter.id, matter.state);
        }
        known = seen;
        is_first = false;
    }
    Err(Failure::new(Code::Unreachable, "the host has ended"))
}

/// A matter on one line.
fn row(matter: &Matter, now: Timestamp) -> String {
    let (what, server) = title(matter);
    let id = &matter.id[..matter.id.len().min(SHOWN)];
    let how = match matter.state {
        MatterState::Open => left(matter.expires_at, now),
        over => state(over).to_owned(),
    };
    let who = matter.application.as_deref().map(hospes_policy::visible_line).unwrap_or_default();
    let gist = gist(matter, GIST).map(|gist| format!("  {gist}")).unwrap_or_default();
    format!("{id}  {how:>9}  {server} · {what}{gist}  {}", paint(DIM, who)).trim_end().to_owned()
}

fn state(state: MatterState) -> &'static str {
    match state {
        MatterState::Open => "waits",
        MatterState::Allowed => "allowed",
        MatterState::Denied => "denied",
        MatterState::Expired => "expired",
        MatterState::Withdrawn => "withdrawn",
        _ => "over",
    }
}

fn failed(error: &ClientError) -> Failure {
    match error {
        ClientError::Refused { code, message } => {
            let failure = Failure::usage(message.clone());
            match code.as_str() {
                "nothing" | "over" => failure.hint("`hospes approve --list` has what waits"),
                "edit" => failure.hint("`--edit FILE` is what would happen instead: all of it, as JSON"),
                _ => failure,
            }
        }
        other => Failure::new(Code::Unreachable, "the host does not answer").because(other),
    }
}
