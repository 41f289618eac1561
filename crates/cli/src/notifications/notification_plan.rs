//! When to notify, and what to say. Without clock and desktop.

use std::collections::HashMap;
use std::time::Duration;

use hospes_host::approvals::Approval;
use hospes_host::upstream::UpstreamStatus;
use jiff::Timestamp;

use super::notification_text::compose;
use super::server_notices::ServerNotices;

/// Time for a person who is already looking to decide without a notification.
const GRACE: Duration = Duration::from_secs(5);

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
    /// Close the notification, because nothing waits any more or the person is looking.
    Close,
    Nothing,
}

/// Facts that may be told, and whether the person is looking.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NotificationInput<'a> {
    pub(super) pending: &'a [Approval],
    pub(super) servers: &'a [UpstreamStatus],
    /// Time at which a person last decided anything.
    pub(super) last_decision: Option<Timestamp>,
    /// True if a page of the console, or the screen of `hospes up`, has the focus.
    pub(super) is_focused: bool,
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
    servers: ServerNotices,
    is_shown: bool,
    /// True if what is shown has calls, which may be decided meanwhile.
    shows_calls: bool,
    was_focused: bool,
    /// Time at which the person looked away.
    left_at: Option<Timestamp>,
    wakes_at: Option<Timestamp>,
}

impl NotificationPlan {
    /// Decides what to do now.
    pub(super) fn next(&mut self, now: Timestamp, input: NotificationInput<'_>) -> NotificationStep {
        let NotificationInput { pending, servers, last_decision, is_focused } = input;
        self.announced.retain(|id, _| pending.iter().any(|approval| approval.id == *id));
        self.servers.observe(now, servers);
        self.wakes_at = None;
        if std::mem::replace(&mut self.was_focused, is_focused) && !is_focused {
            self.left_at = Some(now);
        }
        if is_focused {
            // What is on the screen was seen, and comes again only if it still waits after the person has left.
            return self.close();
        }
        // A person who has just decided or looked away sees what else waits.
        let quiet_until = last_decision.max(self.left_at).map(|at| later(at, GRACE));
        let not_before = |due: Timestamp| quiet_until.map_or(due, |quiet| due.max(quiet));
        let mut is_due = self.announce_calls(now, pending, not_before);
        if self.servers.due().map(not_before).is_some_and(|due| due <= now) {
            self.servers.mark_told(now);
            is_due = true;
        }
        if let Some(due) = self.servers.due() {
            self.wake(not_before(due));
        }
        let open = self.servers.open();
        if is_due {
            (self.is_shown, self.shows_calls) = (true, !pending.is_empty());
            return NotificationStep::Show(compose(now, pending, &open));
        }
        match pending.is_empty() && (self.shows_calls || open.is_empty()) {
            true => self.close(),
            false => NotificationStep::Nothing,
        }
    }

    fn close(&mut self) -> NotificationStep {
        self.shows_calls = false;
        if std::mem::take(&mut self.is_shown) { NotificationStep::Close } else { NotificationStep::Nothing }
    }

    /// Notes the announcements of pending calls that are due. Returns true if there are any.
    fn announce_calls(
        &mut self,
        now: Timestamp,
        pending: &[Approval],
        not_before: impl Fn(Timestamp) -> Timestamp,
    ) -> bool {
        let mut is_due = false;
        for approval in pending {
            let due = match self.announced.get(&approval.id) {
                None => later(approval.asked_at, GRACE),
                Some(announced) if !announced.is_reminded => announced.remind_at,
                Some(_) => continue,
            };
            let due = not_before(due);
            // An approval that expires first is not worth a notification.
            if due >= approval.expires_at {
                continue;
            }
            if due > now {
                self.wake(due);
                continue;
            }
            is_due = true;
            let left = approval.expires_at.duration_since(now);
            let remind_at = now.saturating_add(left / 2).unwrap_or(Timestamp::MAX);
            let is_reminded = self.announced.contains_key(&approval.id);
            self.announced.insert(approval.id.clone(), Announcement { remind_at, is_reminded });
            if !is_reminded {
                self.wake(remind_at);
            }
        }
        is_due
    }

    fn wake(&mut self, at: Timestamp) {
        self.wakes_at = Some(self.wakes_at.map_or(at, |known| known.min(at)));
    }

    /// Returns when `next` is to be called again if nothing changes before.
    pub(super) fn wakes_at(&self) -> Option<Timestamp> {
        self.wakes_at
    }
}

/// Returns a later time.
pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    pub(in crate::notifications) fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    pub(in crate::notifications) fn approval(id: &str, asked: i64, expires: i64) -> Approval {
        let value = json!({
            "id": id, "asked_at": at(asked), "expires_at": at(expires), "state": "open", "server": "mail",
            "application": "Cursor", "offers": { "edit": false, "session": false, "always": false, "block": false },
            "card": { "kind": "url", "url": "https://secret.example/token", "host": "secret.example", "message": "prose of the server" },
        });
        serde_json::from_value(value).unwrap()
    }

    pub(in crate::notifications) fn server(name: &str, state: &str, hint: Option<&str>) -> UpstreamStatus {
        let value = json!({
            "name": name, "target": "prose", "state": state, "tools": 0, "prompts": 0, "resources": 0, "templates": 0,
            "problem": "prose of the server", "hint": hint,
        });
        serde_json::from_value(value).unwrap()
    }

    fn next(plan: &mut NotificationPlan, second: i64, pending: &[Approval]) -> NotificationStep {
        plan.next(at(second), NotificationInput { pending, ..NotificationInput::default() })
    }

    fn is_shown(step: &NotificationStep) -> bool {
        matches!(step, NotificationStep::Show(_))
    }

    #[test]
    fn a_notification_comes_after_the_grace_and_once_more_at_half_of_the_time_left() {
        let mut plan = NotificationPlan::default();
        let pending = [approval("a", 0, 125)];
        assert_eq!(next(&mut plan, 0, &pending), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), Some(at(5)));
        assert!(is_shown(&next(&mut plan, 5, &pending)));
        assert_eq!(plan.wakes_at(), Some(at(65)));
        assert_eq!(next(&mut plan, 30, &pending), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), Some(at(65)));
        assert!(is_shown(&next(&mut plan, 65, &pending)));
        assert_eq!(plan.wakes_at(), None);
        assert_eq!(next(&mut plan, 120, &pending), NotificationStep::Nothing);
        assert_eq!(next(&mut plan, 121, &[]), NotificationStep::Close);
        assert_eq!(next(&mut plan, 122, &[]), NotificationStep::Nothing);
    }

    #[test]
    fn nobody_is_notified_who_has_just_decided() {
        let mut plan = NotificationPlan::default();
        let pending = [approval("a", 0, 120)];
        let decided = |second| NotificationInput {
            pending: &pending,
            last_decision: Some(at(second)),
            ..NotificationInput::default()
        };
        assert_eq!(plan.next(at(6), decided(4)), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), Some(at(9)));
        assert!(is_shown(&plan.next(at(9), decided(4))));
    }

    #[test]
    fn nobody_is_notified_who_is_looking_until_they_look_away() {
        let mut plan = NotificationPlan::default();
        let pending = [approval("a", 0, 120)];
        let looks =
            |is_focused| NotificationInput { pending: &pending, is_focused, ..NotificationInput::default() };
        assert_eq!(plan.next(at(20), looks(true)), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), None);
        assert_eq!(plan.next(at(40), looks(false)), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), Some(at(45)));
        assert!(is_shown(&plan.next(at(45), looks(false))));
        // What is shown is closed when the person looks.
        assert_eq!(plan.next(at(50), looks(true)), NotificationStep::Close);
        assert_eq!(plan.next(at(51), looks(true)), NotificationStep::Nothing);
    }

    #[test]
    fn what_is_decided_or_expires_within_the_grace_is_never_announced() {
        let mut plan = NotificationPlan::default();
        assert_eq!(next(&mut plan, 0, &[approval("a", 0, 4)]), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), None);
        assert_eq!(next(&mut plan, 1, &[]), NotificationStep::Nothing, "nothing was shown");
    }

    #[test]
    fn a_sign_in_is_announced_once_a_day_and_a_failure_after_five_minutes() {
        let mut plan = NotificationPlan::default();
        let signs_in = [server("mail", "failed", Some("sign in with `hospes auth login mail`"))];
        let fails = [server("build", "retrying", None)];
        let well = [server("build", "ready", None)];
        let of = |servers| NotificationInput { servers, ..NotificationInput::default() };
        let NotificationStep::Show(shown) = plan.next(at(0), of(&signs_in)) else { panic!("not shown") };
        assert_eq!((&*shown.summary, &*shown.body), ("Hospes: 1 server needs you", "mail: needs a sign-in"));
        assert_eq!(plan.next(at(60), of(&signs_in)), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), Some(at(86_400)));
        assert!(is_shown(&plan.next(at(86_400), of(&signs_in))));
        assert_eq!(plan.next(at(86_500), of(&[])), NotificationStep::Close, "it is signed in");

        let mut plan = NotificationPlan::default();
        assert_eq!(plan.next(at(0), of(&fails)), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), Some(at(300)));
        assert_eq!(plan.next(at(200), of(&well)), NotificationStep::Nothing);
        assert_eq!(plan.wakes_at(), None);
        assert_eq!(plan.next(at(250), of(&fails)), NotificationStep::Nothing);
        let NotificationStep::Show(shown) = plan.next(at(550), of(&fails)) else { panic!("not shown") };
        assert_eq!(shown.body, "build: has failed for 5 minutes");
        assert_eq!(
            plan.next(at(9000), of(&fails)),
            NotificationStep::Nothing,
            "once each time that it fails"
        );
        assert_eq!(plan.next(at(9001), of(&well)), NotificationStep::Close);
        assert_eq!(plan.next(at(9002), of(&fails)), NotificationStep::Nothing);
        assert!(is_shown(&plan.next(at(9302), of(&fails))));
    }

    #[test]
    fn calls_and_servers_are_one_notification() {
        let mut plan = NotificationPlan::default();
        let servers = [server("mail", "failed", Some("`hospes auth login mail`"))];
        let pending = [approval("a", 0, 100)];
        let all = NotificationInput { pending: &pending, servers: &servers, ..NotificationInput::default() };
        assert!(is_shown(&plan.next(at(0), all)), "of the server");
        let NotificationStep::Show(shown) = plan.next(at(5), all) else { panic!("not shown") };
        assert_eq!(shown.summary, "Hospes: 1 call waits for you");
        assert_eq!(shown.body, "mail: open a page · secret.example\nmail: needs a sign-in");
    }
}
