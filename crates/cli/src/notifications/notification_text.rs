//! Text of a notification: names, verbs and the last part of targets, but no other argument and no prose of a server.

use std::time::Duration;

use hospes_host::approvals::{Approval, ApprovalCard, CallSummary};
use jiff::Timestamp;

use super::notification_plan::Notification;
use super::server_notices::ServerTrouble;

/// Number of approvals, and of servers, that one notification lists.
const MAX_LISTED: usize = 3;
/// Maximum length of a name, in characters.
const MAX_NAME_LENGTH: usize = 60;
/// Lifetime of a notification about servers alone.
const SERVER_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Composes one notification about all that waits.
pub(super) fn compose(
    now: Timestamp,
    pending: &[Approval],
    servers: &[(&str, ServerTrouble)],
) -> Notification {
    let summary = match (pending.len(), servers.len()) {
        (0, 1) => "Hospes: 1 server needs you".to_owned(),
        (0, count) => format!("Hospes: {count} servers need you"),
        (1, _) => "Hospes: 1 call waits for you".to_owned(),
        (count, _) => format!("Hospes: {count} calls wait for you"),
    };
    let mut lines: Vec<String> = pending.iter().take(MAX_LISTED).map(describe).collect();
    let troubles = servers.iter().take(MAX_LISTED).map(|(name, trouble)| {
        let what = match trouble {
            ServerTrouble::SignIn => "needs a sign-in",
            ServerTrouble::Failure => "has failed for 5 minutes",
        };
        format!("{}: {what}", clean(name))
    });
    lines.extend(troubles);
    let rest = pending.len().saturating_sub(MAX_LISTED) + servers.len().saturating_sub(MAX_LISTED);
    if rest > 0 {
        lines.push(format!("and {rest} more"));
    }
    let last = pending.iter().map(|approval| approval.expires_at).max();
    let lifetime =
        last.map_or(SERVER_LIFETIME, |last| Duration::try_from(last.duration_since(now)).unwrap_or_default());
    Notification { summary, body: lines.join("\n"), lifetime }
}

/// Describes an approval.
fn describe(approval: &Approval) -> String {
    let what = match &approval.card {
        ApprovalCard::Call(card) if !card.summary.verb.is_empty() => {
            let deed = deed(&card.summary);
            // Without a target the verb alone says little.
            if card.summary.targets.is_empty() { format!("{deed} with {}", clean(&card.name)) } else { deed }
        }
        ApprovalCard::Call(card) => format!("call {}", clean(&card.name)),
        ApprovalCard::Result(card) => format!("see the result of {}", clean(&card.name)),
        ApprovalCard::SamplingRequest(_) | ApprovalCard::SamplingResult(_) => "use a model".to_owned(),
        ApprovalCard::Form(_) => "fill in a form".to_owned(),
        ApprovalCard::Url(_) => "open a URL".to_owned(),
        ApprovalCard::Plan(_) => "carry out a plan".to_owned(),
        _ => "decide something".to_owned(),
    };
    let who = approval.application.as_deref().map_or_else(|| "An application".to_owned(), clean);
    format!("{who}: {what} ({})", clean(&approval.server))
}

/// Describes a call by its verb and the last part of its first target.
fn deed(summary: &CallSummary) -> String {
    let mut letters = summary.verb.chars();
    let verb: String =
        letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default();
    let Some(first) = summary.targets.first() else { return verb };
    let between =
        if summary.preposition.is_empty() { String::new() } else { format!("{} ", summary.preposition) };
    let more = match summary.targets.len() - 1 + summary.more_targets {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{verb} {between}{}{more}", clean(last_part(first)))
}

/// Returns the last part of a path, or the host of a URL, whose path may be secret.
fn last_part(target: &str) -> &str {
    if let Some((_, rest)) = target.split_once("://") {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        return host.rsplit('@').next().unwrap_or_default();
    }
    let mut parts = target.rsplit(['/', '\\']).filter(|part| !part.is_empty());
    parts.next().unwrap_or(target)
}

/// Makes hidden characters visible and cuts a name, so that it can neither imitate nor push out other text.
fn clean(name: &str) -> String {
    let mut safe = String::new();
    for (at, letter) in name.chars().enumerate() {
        if at == MAX_NAME_LENGTH {
            safe.push('…');
            break;
        }
        if letter.is_control() || hospes_policy::is_hidden(letter) {
            safe.extend(letter.escape_unicode());
        } else {
            safe.push(letter);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::notification_plan::tests::{approval, at};
    use super::*;
    use serde_json::json;

    #[test]
    fn all_that_waits_is_one_notification_without_arguments_and_prose() {
        let pending: Vec<Approval> = (0..5).map(|id| approval(&id.to_string(), 0, 100)).collect();
        let shown = compose(at(10), &pending, &[]);
        assert_eq!(shown.summary, "Hospes: 5 calls wait for you");
        let lines: Vec<&str> = shown.body.lines().collect();
        assert_eq!(lines, [&["Cursor: open a URL (mail)"; 3][..], &["and 2 more"]].concat());
        assert_eq!(shown.lifetime, Duration::from_secs(90));
    }

    #[test]
    fn a_call_is_described_by_its_verb_and_the_last_part_of_its_target() {
        let summary = |value| serde_json::from_value::<CallSummary>(value).unwrap();
        let one = |target: &str| deed(&summary(json!({ "verb": "Overwrite", "targets": [target] })));
        assert_eq!(one("/home/me/work/secret-project/notes.md"), "overwrite notes.md");
        assert_eq!(one("C:\\Users\\me\\notes.md"), "overwrite notes.md");
        assert_eq!(one("/srv/folder/"), "overwrite folder");
        assert_eq!(one("https://user:pass@host.example/path?token=x"), "overwrite host.example");
        let several = summary(
            json!({ "verb": "Send a message", "preposition": "to", "targets": ["a@b", "c@d"], "more_targets": 2 }),
        );
        assert_eq!(deed(&several), "send a message to a@b and 3 more");
    }

    #[test]
    fn names_can_neither_hide_nor_fill_the_notification() {
        assert_eq!(clean("a\u{202e}b\n"), "a\\u{202e}b\\u{a}");
        assert_eq!(clean(&"x".repeat(500)).chars().count(), MAX_NAME_LENGTH + 1);
    }
}
