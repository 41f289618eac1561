//! When to notify, and what to say. Without clock and desktop.

use std::collections::HashMap;
use std::time::Duration;

use hospes_host::approvals::{Approval, ApprovalSentence};
use jiff::Timestamp;

/// Time for a person who is already looking to decide without a notification.
const GRACE: Duration = Duration::from_secs(5);
/// Number of approvals that one notification lists.
const MAX_LISTED: usize = 3;
/// Maximum length of a name, in characters.
const MAX_NAME_LENGTH: usize = 60;

/// Content of a notification, without markup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notification {
    pub(super) summary: String,
    pub(super) body: String,
    /// Time until the last of what waits expires.
    pub(super) lifetime: Duration,
}

/// Next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotificationStep {
    /// Show a notification, in place of an earlier one.
    Show(Notification),
    /// Close the notification, because nothing waits any more.
    Close,
    Nothing,
}

/// The notifications about one approval.
#[derive(Clone, Copy, Debug)]
struct Announcement {
    /// Time of the second and last notification.
    remind_at: Timestamp,
    is_reminded: bool,
}

/// What has been announced.
#[derive(Debug, Default)]
pub(super) struct NotificationPlan {
    announced: HashMap<String, Announcement>,
    is_shown: bool,
    wakes_at: Option<Timestamp>,
}

impl NotificationPlan {
    /// Decides what to do now. `last_decision` is when a person last decided anything.
    pub(super) fn next(
        &mut self,
        now: Timestamp,
        pending: &[Approval],
        last_decision: Option<Timestamp>,
    ) -> NotificationStep {
        self.announced.retain(|id, _| pending.iter().any(|approval| approval.id == *id));
        self.wakes_at = None;
        if pending.is_empty() {
            let was_shown = std::mem::take(&mut self.is_shown);
            return if was_shown { NotificationStep::Close } else { NotificationStep::Nothing };
        }
        // A person who has just decided sees what else waits.
        let quiet_until = last_decision.map(|at| at.saturating_add(GRACE).unwrap_or(Timestamp::MAX));
        let mut is_due = false;
        for approval in pending {
            let due = match self.announced.get(&approval.id) {
                None => approval.asked_at.saturating_add(GRACE).unwrap_or(Timestamp::MAX),
                Some(announced) if !announced.is_reminded => announced.remind_at,
                Some(_) => continue,
            };
            let due = quiet_until.map_or(due, |quiet| due.max(quiet));
            // An approval that expires first is not worth a notification.
            if due >= approval.expires_at {
                continue;
            }
            if due > now {
                self.wakes_at = Some(self.wakes_at.map_or(due, |at| at.min(due)));
                continue;
            }
            is_due = true;
            let left = approval.expires_at.duration_since(now);
            let remind_at = now.saturating_add(left / 2).unwrap_or(Timestamp::MAX);
            let is_reminded = self.announced.contains_key(&approval.id);
            self.announced.insert(approval.id.clone(), Announcement { remind_at, is_reminded });
            if !is_reminded {
                self.wakes_at = Some(self.wakes_at.map_or(remind_at, |at| at.min(remind_at)));
            }
        }
        if !is_due {
            return NotificationStep::Nothing;
        }
        self.is_shown = true;
        NotificationStep::Show(compose(now, pending))
    }

    /// Returns when `next` is to be called again if nothing changes before.
    pub(super) fn wakes_at(&self) -> Option<Timestamp> {
        self.wakes_at
    }
}

fn compose(now: Timestamp, pending: &[Approval]) -> Notification {
    let summary = match pending.len() {
        1 => "Hospes: 1 call waits for you".to_owned(),
        count => format!("Hospes: {count} calls wait for you"),
    };
    let mut lines: Vec<String> = pending.iter().take(MAX_LISTED).map(describe).collect();
    if pending.len() > MAX_LISTED {
        lines.push(format!("and {} more", pending.len() - MAX_LISTED));
    }
    let last = pending.iter().map(|approval| approval.expires_at).max().unwrap_or(now);
    let lifetime = Duration::try_from(last.duration_since(now)).unwrap_or_default();
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
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn approval(id: &str, asked: i64, expires: i64) -> Approval {
        let value = json!({
            "id": id, "asked_at": at(asked), "expires_at": at(expires), "state": "open", "server": "mail",
            "application": "Cursor", "offers": { "edit": false, "session": false, "always": false, "block": false },
            "card": { "kind": "url", "url": "https://secret.example/token", "host": "secret.example", "message": "prose of the server" },
        });
        serde_json::from_value(value).unwrap()
    }

    fn is_shown(step: &NotificationStep) -> bool {
        matches!(step, NotificationStep::Show(_))
    }

    #[test]
    fn a_notification_comes_after_the_grace_and_once_more_at_half_of_the_time_left() {
        let mut plan = NotificationPlan::default();
        let pending = [approval("a", 0, 125)];
        assert_eq!(plan.next(at(0), &pending, None), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), Some(at(5)));
        assert!(is_shown(&plan.next(at(5), &pending, None)));
        assert_eq!(plan.wakes_at(), Some(at(65)));
        assert_eq!(plan.next(at(30), &pending, None), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), Some(at(65)));
        assert!(is_shown(&plan.next(at(65), &pending, None)));
        assert_eq!(plan.wakes_at(), None);
        assert_eq!(plan.next(at(120), &pending, None), NotificationStep::Nothing);
        assert_eq!(plan.next(at(121), &[], None), NotificationStep::Close);
        assert_eq!(plan.next(at(122), &[], None), NotificationStep::Nothing);
    }

    #[test]
    fn nobody_is_notified_who_has_just_decided() {
        let mut plan = NotificationPlan::default();
        let pending = [approval("a", 0, 120)];
        assert_eq!(plan.next(at(6), &pending, Some(at(4))), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), Some(at(9)));
        assert!(is_shown(&plan.next(at(9), &pending, Some(at(4)))));
    }

    #[test]
    fn what_is_decided_or_expires_within_the_grace_is_never_announced() {
        let mut plan = NotificationPlan::default();
        assert_eq!(plan.next(at(0), &[approval("a", 0, 4)], None), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), None);
        assert_eq!(plan.next(at(1), &[], None), NotificationStep::Nothing, "nothing was shown");
    }

    #[test]
    fn all_that_waits_is_one_notification_without_arguments_and_prose() {
        let mut plan = NotificationPlan::default();
        let pending: Vec<Approval> = (0..5).map(|id| approval(&id.to_string(), 0, 100)).collect();
        let NotificationStep::Show(shown) = plan.next(at(10), &pending, None) else { panic!("not shown") };
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
