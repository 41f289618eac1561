//! Text of a notification: names, verbs and the last part of targets, but no other argument and no prose of a server.

use std::time::Duration;

use hospes_host::approvals::{Approval, ApprovalSentence};
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

/// Describes an approval in the words of its card: who does what to which thing. Of a path only the last part is named.
fn describe(approval: &Approval) -> String {
    let sentence = ApprovalSentence::of(approval);
    format!("{}: {}", clean(&sentence.who), sentence.render_notice(clean))
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

    #[test]
    fn all_that_waits_is_one_notification_without_arguments_and_prose() {
        let pending: Vec<Approval> = (0..5).map(|id| approval(&id.to_string(), 0, 100)).collect();
        let shown = compose(at(10), &pending, &[]);
        assert_eq!(shown.summary, "Hospes: 5 calls wait for you");
        let lines: Vec<&str> = shown.body.lines().collect();
        assert_eq!(lines, [&["mail: open a page · secret.example"; 3][..], &["and 2 more"]].concat());
        assert_eq!(shown.lifetime, Duration::from_secs(90));
    }

    #[test]
    fn names_can_neither_hide_nor_fill_the_notification() {
        assert_eq!(clean("a\u{202e}b\n"), "a\\u{202e}b\\u{a}");
        assert_eq!(clean(&"x".repeat(500)).chars().count(), MAX_NAME_LENGTH + 1);
    }
}
