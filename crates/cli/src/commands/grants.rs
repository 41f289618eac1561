//! `hospes grants`: lists and revokes lasting decisions of the running host.

use hospes_console::{ClientError, LocalConsole};
use hospes_host::approvals::{ApprovalGrant, GrantEffect};
use hospes_policy::visible_line;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::args::GrantsCommand;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::local_host;
use crate::output::{CliOutput, DIM, GREEN, RED, YELLOW, paint};

/// Number of characters of an id in lists.
const SHOWN_ID_LENGTH: usize = 8;
/// Minimum number of characters of an id given on the command line.
const MIN_ID_LENGTH: usize = 4;

pub(crate) async fn run(command: Option<GrantsCommand>, output: CliOutput) -> CliResult {
    let wanted = async |console: &LocalConsole| console.get::<Value>("console").await;
    let (console, _) = local_host::ask_running_host("cannot identify the running console", wanted).await?;
    let grants = fetch(&console).await.map_err(|error| failed(&error))?;
    match command.unwrap_or(GrantsCommand::List) {
        GrantsCommand::List => list(&grants, output),
        GrantsCommand::Revoke { id } => {
            let grant = find(&id, &grants)?;
            let _answer: Value = console
                .post(&format!("grants/{}/revoke", grant.id), &json!({}))
                .await
                .map_err(|error| failed(&error))?;
            match output.json {
                true => output.value(&json!({ "revoked": grant.id })),
                false => output.result(format_args!("revoked: {}", subject(grant))),
            }
        }
    }
    Ok(())
}

/// Fetches the grants of a running host, the newest first.
pub(super) async fn fetch(console: &LocalConsole) -> Result<Vec<ApprovalGrant>, ClientError> {
    #[derive(Deserialize)]
    struct GrantsReply {
        grants: Vec<ApprovalGrant>,
    }
    console.get::<GrantsReply>("grants").await.map(|reply| reply.grants)
}

fn list(grants: &[ApprovalGrant], output: CliOutput) {
    if output.json {
        return output.value(&grants);
    }
    if grants.is_empty() {
        return output.say(paint(DIM, "no lasting decisions"));
    }
    for grant in grants {
        output.line(&lines(grant, Timestamp::now()));
    }
}

/// Returns the grant whose id begins with `id`.
fn find<'a>(id: &str, grants: &'a [ApprovalGrant]) -> CliResult<&'a ApprovalGrant> {
    let mut found = grants.iter().filter(|grant| grant.id.starts_with(id));
    match (found.next(), found.next()) {
        // A shorter prefix could match another grant than the one that was seen.
        (Some(grant), None) if id.len() >= MIN_ID_LENGTH => Ok(grant),
        (Some(_), None) => {
            Err(CliError::usage(format!("expected at least {MIN_ID_LENGTH} characters of an id")))
        }
        (Some(_), Some(_)) => Err(CliError::usage(format!("`{id}` matches more than one grant"))),
        (None, _) => {
            Err(CliError::usage(format!("no grant with id `{id}`")).hint("`hospes grants` lists the grants"))
        }
    }
}

/// Subject of a grant: the known values, the calls of a plan, or a tool of a server.
fn subject(grant: &ApprovalGrant) -> String {
    if grant.effect == GrantEffect::Plan {
        return visible_line(&grant.name);
    }
    match grant.values.is_empty() {
        false => grant.values.iter().map(|value| visible_line(value)).collect::<Vec<_>>().join(", "),
        true => format!("{} of {}", visible_line(&grant.name), visible_line(&grant.server)),
    }
}

/// Formats a grant for people: what it is, then for whom, since when, by whom, how often it was used, and until when.
fn lines(grant: &ApprovalGrant, now: Timestamp) -> String {
    let (colour, word) = match grant.effect {
        GrantEffect::Allow => (GREEN, "allowed"),
        GrantEffect::Deny => (RED, "denied"),
        GrantEffect::Known => (YELLOW, "known"),
        GrantEffect::Plan => (YELLOW, "plan"),
    };
    let day = |at: Timestamp| at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string();
    let mut facts = vec![match &grant.application {
        Some(application) if !grant.any_application => format!("for {}", visible_line(application)),
        None if !grant.any_application => "for an unnamed application".to_owned(),
        _ => "for any application".to_owned(),
    }];
    if !grant.arguments.is_empty() || grant.other_arguments.is_some() || !grant.destinations.is_empty() {
        let conditions = grant.arguments.iter().map(|(name, condition)| format!("{name}: {condition}"));
        let places = grant.destinations.iter().map(|place| format!("points to {place}"));
        let others = grant.other_arguments.iter().map(|others| match others.is_empty() {
            true => "no other arguments".to_owned(),
            false => format!("other arguments: only {}", others.join(", ")),
        });
        let all: Vec<String> =
            conditions.chain(others).chain(places).map(|text| visible_line(&text)).collect();
        facts.push(format!("if {}", all.join(", ")));
    }
    facts.push(format!("since {} by {}", day(grant.given_at), visible_line(&grant.by)));
    facts.push(match (grant.uses, grant.used_at) {
        (0, _) | (_, None) => "not used yet".to_owned(),
        (uses, Some(at)) => {
            let minutes = now.duration_since(at).as_mins().max(0);
            let ago = if minutes < 120 { format!("{minutes} min ago") } else { day(at) };
            format!("used {uses} {}, last {ago}", if uses == 1 { "time" } else { "times" })
        }
    });
    facts.push(match (&grant.session, grant.until) {
        (Some(session), _) => format!("in the session of {}", visible_line(session)),
        (None, Some(until)) => format!("until {}", day(until)),
        (None, None) => "until it is revoked".to_owned(),
    });
    let id = grant.id.get(..SHOWN_ID_LENGTH).unwrap_or(&grant.id);
    let word = paint(colour, format!("{word:<7}"));
    format!("{id}  {word}  {}\n{:19}{}", subject(grant), "", paint(DIM, facts.join(" · ")))
}

fn failed(error: &ClientError) -> CliError {
    match error {
        ClientError::Refused { message, .. } => CliError::usage(message.clone()),
        other => CliError::new(FailureCode::Unreachable, "the host does not answer").with_cause(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(more: &Value) -> ApprovalGrant {
        let mut whole = json!({
            "id": "3f9a2c1b00", "given_at": "2026-06-01T12:00:00Z", "by": "the person at the console", "effect": "known",
            "application": "editor", "server": "mail", "what": "tool", "name": "send",
            "values": ["anna@corp.example", "a\u{202e}b"], "until": "2026-07-01T12:00:00Z",
        });
        for (name, value) in more.as_object().unwrap() {
            whole[name] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn a_grant_is_listed_with_its_values_since_when_by_whom_and_its_uses() {
        let now = "2026-06-02T12:00:00Z".parse().unwrap();
        let text = lines(&grant(&json!({ "uses": 2, "used_at": "2026-06-02T11:30:00Z" })), now);
        for words in [
            "3f9a2c1b  ",
            "known",
            "anna@corp.example, a\\u{202e}b",
            "for editor",
            "by the person at the console",
            "used 2 times, last 30 min ago",
            "until 2026-07-01",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let text = lines(
            &grant(&json!({ "effect": "deny", "values": [], "until": null, "any_application": true })),
            now,
        );
        for words in ["denied", "send of mail", "for any application", "not used yet", "until it is revoked"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_grant_is_found_by_the_beginning_of_its_id() {
        let grants = [grant(&json!({})), grant(&json!({ "id": "3f9b000000" }))];
        assert_eq!(find("3f9a", &grants).unwrap().id, "3f9a2c1b00");
        for id in ["3f9", "3", "0000", ""] {
            assert!(find(id, &grants).is_err(), "{id}");
        }
    }
}
