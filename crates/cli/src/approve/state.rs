//! State of the screen and the effects of keys, without a terminal, a clock or a host.
//!
//! ```text
//!               d, b            Enter: denied
//!   watching ──────────► reason ─────────────► watching
//!      │   A             A: allowed within the rule
//!      ├───────► rule ───────────────────────► watching
//!      │   f                  after the last field
//!      ├───────► filling ────────────────────► watching
//!      │   o, s, t, V: allowed, once the card has been there for a while
//!      └─────────────────────────────────────► watching
//! ```
//!
//! Esc leads back to `watching` from every mode, and so does the end of the approval.

use std::collections::HashMap;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use hospes::model::RawJson;
use hospes_host::approvals::{
    Approval, ApprovalCard, ApprovalDecision, ApprovalScope, ApprovalState, MAX_REASON_BYTES,
    ONE_BY_ONE_REASON,
};
use hospes_host::pins::PinnedServer;
use jiff::{SignedDuration, Timestamp};

use super::card::title;
use super::draft::{ApprovalDraft, FormEditor, original};
use super::line_editor::LineEditor;
use super::permission_editor::{PermissionEditor, PermissionInput};

/// Time a card is shown before a key can allow anything. A key pressed just after the card has changed was not meant
/// for it.
pub(crate) const ARMING_DELAY: Duration = Duration::from_secs(1);

/// State of the screen: the queue, the selected approval, drafts, and the mode of the keys.
#[derive(Debug, Default)]
pub(crate) struct ScreenState {
    pub(crate) open: Vec<Approval>,
    selected: Option<String>,
    /// Time from which a key that allows is accepted.
    armed_at: Duration,
    /// The host's time and the local time at which it was received.
    clock: Option<(Timestamp, Duration)>,
    pub(crate) now: Duration,
    drafts: HashMap<String, ApprovalDraft>,
    pub(crate) mode: ScreenMode,
    pub(crate) said: Option<(MessageTone, String)>,
    /// Id of the approval whose decision has been sent to the host and not answered yet.
    busy: Option<String>,
    /// Id of the approval that was last decided on this screen.
    decided: Option<String>,
    /// True after a decision, until an approval is selected again. Keys cannot decide in between.
    must_choose: bool,
    /// True if another screen opened this one, and is shown again after it.
    pub(crate) is_inner: bool,
    /// Furthest line of the card that was scrolled into view.
    furthest: usize,
    pub(crate) lost: Option<String>,
    pub(crate) pins: Option<Vec<PinnedServer>>,
    pub(crate) scroll: usize,
    /// Maximum scroll position, lines of one page, and the position that has to be reached before the card can be
    /// allowed.
    pub(crate) room: (usize, usize, usize),
}

/// Mode that determines the meaning of keys.
#[derive(Clone, Debug, Default)]
pub(crate) enum ScreenMode {
    /// The list and the card are shown.
    #[default]
    Watching,
    /// A reason for a denial is being written. If `block` is set, later calls of the tool are denied too.
    Reason { entry: LineEditor, block: bool },
    /// A lasting permission is being edited.
    Rule(Box<PermissionEditor>),
    /// The fields of a form are being filled in.
    Filling(Box<FormEditor>),
    /// The overview of the keys is shown.
    Help,
}

/// Tone of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageTone {
    Good,
    Bad,
    Plain,
}

/// Event that changes the screen.
#[derive(Debug)]
pub(crate) enum ScreenEvent {
    Key(KeyEvent),
    Paste(String),
    /// A new state of the approval queue.
    Seen(Box<QueueSnapshot>),
    /// The connection to the host was lost, with the reason.
    Lost(String),
    /// The host's answer to a decision: a description of the result, or a code and a message.
    Decided {
        id: String,
        done: Result<String, (String, String)>,
    },
    /// Text returned by the editor, or the reason why there is none.
    Edited {
        id: String,
        text: Result<String, String>,
    },
    /// Time has passed.
    Tick,
}

/// State of the approval queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueSnapshot {
    pub(crate) open: Vec<Approval>,
    pub(crate) recent: Vec<Approval>,
    pub(crate) now: Timestamp,
    pub(crate) pins: Option<Vec<PinnedServer>>,
}

/// Action that the event loop performs.
#[derive(Debug, PartialEq)]
pub(crate) enum ScreenEffect {
    /// Sends the decision to the host and shows `words` once it is applied.
    Decide {
        id: String,
        decision: ApprovalDecision,
        words: String,
    },
    /// Opens a text in the person's editor.
    Edit {
        id: String,
        text: String,
    },
    Quit,
}

impl ScreenState {
    /// Creates the state of a screen. If another screen opened it, keys decide nothing before an approval is selected.
    pub(crate) fn new(is_inner: bool) -> Self {
        let words = "nothing is selected yet: j or Enter selects this card, Esc goes back";
        let said = is_inner.then(|| (MessageTone::Plain, words.to_owned()));
        Self { must_choose: is_inner, is_inner, said, ..Self::default() }
    }

    /// Returns the approval that the card shows.
    pub(crate) fn selected_approval(&self) -> Option<&Approval> {
        self.open.iter().find(|approval| Some(&approval.id) == self.selected.as_ref())
    }

    /// Returns the edits to the current approval.
    pub(crate) fn draft(&self) -> ApprovalDraft {
        self.selected.as_ref().and_then(|id| self.drafts.get(id)).cloned().unwrap_or_default()
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.now >= self.armed_at && self.busy.is_none() && self.lost.is_none()
    }

    /// Returns the host's current time, extrapolated from its last message.
    pub(crate) fn time(&self) -> Timestamp {
        let Some((then, at)) = self.clock else { return Timestamp::UNIX_EPOCH };
        let since = SignedDuration::try_from(self.now.saturating_sub(at)).unwrap_or_default();
        then.checked_add(since).unwrap_or(Timestamp::MAX)
    }

    /// Handles an event at a time since the start.
    pub(crate) fn handle_event(&mut self, event: ScreenEvent, now: Duration) -> Option<ScreenEffect> {
        self.now = now;
        match event {
            ScreenEvent::Key(key) => return self.key(key),
            ScreenEvent::Paste(text) => match &mut self.mode {
                ScreenMode::Reason { entry, .. } => entry.paste(&text),
                ScreenMode::Rule(rule) => rule.paste(&text),
                ScreenMode::Filling(filling) => filling.entry.paste(&text),
                // No mode with an input line is open, so pasted text is ignored.
                ScreenMode::Watching | ScreenMode::Help => {}
            },
            ScreenEvent::Seen(seen) => self.seen(*seen),
            ScreenEvent::Lost(why) => self.lost = Some(why),
            ScreenEvent::Decided { id, done } => self.decided(id, done),
            ScreenEvent::Edited { id, text } => self.edited(&id, text),
            ScreenEvent::Tick => {}
        }
        None
    }

    fn seen(&mut self, seen: QueueSnapshot) {
        let QueueSnapshot { open, recent, now, pins } = seen;
        self.lost = None;
        self.clock = Some((now, self.now));
        // `None` may also mean that fetching failed, so the known definitions are kept.
        if pins.is_some() {
            self.pins = pins;
        }
        let gone = self.selected.clone();
        self.replace(open);
        if self.selected == gone {
            return;
        }
        // Decisions made here are reported when the host has confirmed them.
        let is_ours = gone == self.busy || gone == self.decided;
        let over = recent.iter().find(|approval| Some(&approval.id) == gone.as_ref());
        if let Some(over) = over.filter(|_| !is_ours) {
            self.said = Some((MessageTone::Plain, ending(over)));
        }
    }

    /// Replaces the list of pending approvals. The card stays on the same approval for as long as that is pending.
    fn replace(&mut self, open: Vec<Approval>) {
        let at = self.open.iter().position(|approval| Some(&approval.id) == self.selected.as_ref());
        self.open = open;
        self.drafts.retain(|id, _| self.open.iter().any(|approval| approval.id == *id));
        if self.selected_approval().is_none() {
            let next = at.unwrap_or(0).min(self.open.len().saturating_sub(1));
            self.show(self.open.get(next).map(|approval| approval.id.clone()));
        }
    }

    fn show(&mut self, id: Option<String>) {
        if id == self.selected {
            return;
        }
        self.selected = id;
        (self.scroll, self.furthest) = (0, 0);
        self.armed_at = self.now + ARMING_DELAY;
        // A reason or rule in progress was meant for the card that is gone.
        if !matches!(self.mode, ScreenMode::Help) {
            self.mode = ScreenMode::Watching;
        }
    }

    fn decided(&mut self, id: String, done: Result<String, (String, String)>) {
        self.busy.take_if(|busy| *busy == id);
        match done {
            Ok(words) => {
                // The host's next queue update no longer contains it either.
                let open = self.open.iter().filter(|approval| approval.id != id).cloned().collect();
                self.replace(open);
                self.decided = Some(id);
                // The next card appears by itself, and the key that decided this one must not decide it too.
                self.must_choose = true;
                self.said = Some((MessageTone::Good, words));
            }
            Err((code, why)) => {
                if let ScreenMode::Rule(rule) = &mut self.mode {
                    rule.problem = Some(why.clone());
                }
                // An error in an edit is shown beside the edited text.
                if code == "edit" && self.open.iter().any(|approval| approval.id == id) {
                    self.drafts.entry(id).or_default().problem = Some(why.clone());
                }
                self.said = Some((MessageTone::Bad, why));
            }
        }
    }

    fn edited(&mut self, id: &str, text: Result<String, String>) {
        // Keys pressed in the meantime were meant for the editor.
        self.armed_at = self.now + ARMING_DELAY;
        let Some(approval) = self.open.iter().find(|approval| approval.id == id) else {
            self.said =
                Some((MessageTone::Bad, "the approval was closed before you finished editing".to_owned()));
            return;
        };
        let draft = self.drafts.entry(id.to_owned()).or_default();
        match text {
            Ok(text) => {
                draft.take(text, &original(approval));
                self.said = match (&draft.problem, &draft.edited) {
                    (Some(why), _) => Some((MessageTone::Bad, why.clone())),
                    (None, Some(_)) => Some((MessageTone::Plain, "edited; nothing is sent yet".to_owned())),
                    (None, None) => Some((MessageTone::Plain, "nothing was changed".to_owned())),
                };
            }
            Err(why) => self.said = Some((MessageTone::Bad, why)),
        }
    }

    fn key(&mut self, key: KeyEvent) -> Option<ScreenEffect> {
        // In raw mode Ctrl-C is a key and sends no signal.
        if key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c')) {
            return Some(ScreenEffect::Quit);
        }
        // Taken out, so that every mode returns to the list unless it is put back explicitly.
        match std::mem::take(&mut self.mode) {
            ScreenMode::Watching => self.watch(key),
            ScreenMode::Help => None,
            ScreenMode::Reason { entry, block } => self.reason(key, entry, block),
            ScreenMode::Rule(rule) => self.rule(key, rule),
            ScreenMode::Filling(filling) => self.fill(key, filling),
        }
    }

    fn watch(&mut self, key: KeyEvent) -> Option<ScreenEffect> {
        self.said = None;
        // A key combination was meant for something else, so that Ctrl-O is no `o`.
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return None;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(ScreenEffect::Quit),
            KeyCode::Char('?') => self.mode = ScreenMode::Help,
            KeyCode::Char('j') | KeyCode::Down => self.step(1),
            KeyCode::Char('k') | KeyCode::Up => self.step(-1),
            KeyCode::Char(' ') | KeyCode::PageDown => {
                self.scroll = (self.scroll + self.room.1).min(self.room.0);
            }
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(self.room.1),
            KeyCode::Char('J') => self.scroll = (self.scroll + 1).min(self.room.0),
            KeyCode::Char('K') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Home => self.scroll = 0,
            KeyCode::End => self.scroll = self.room.0,
            KeyCode::Char(character) => {
                if self.must_choose && matches!(character, 'd' | 'b' | 'n' | 'o' | 's' | 't' | 'V' | 'A') {
                    let words = "nothing is selected: select this card first (j or Enter)";
                    self.said =
                        self.selected_approval().is_some().then(|| (MessageTone::Plain, words.to_owned()));
                    return None;
                }
                return self.act(character);
            }
            KeyCode::Enter if self.must_choose => self.choose(),
            _ => {}
        }
        // Lines that were scrolled into view count as seen, also after scrolling back.
        self.furthest = self.furthest.max(self.scroll);
        None
    }

    /// Marks the shown card as chosen. Keys can decide about it once it has been shown for a while.
    fn choose(&mut self) {
        if self.must_choose {
            self.must_choose = false;
            self.armed_at = self.now + ARMING_DELAY;
        }
    }

    fn step(&mut self, by: isize) {
        let at = self.open.iter().position(|approval| Some(&approval.id) == self.selected.as_ref());
        let next = at.unwrap_or(0).saturating_add_signed(by).min(self.open.len().saturating_sub(1));
        // The card that appeared by itself after a decision is the next one.
        let next = if self.must_choose { at.unwrap_or(0) } else { next };
        self.choose();
        self.show(self.open.get(next).map(|approval| approval.id.clone()));
    }

    /// Handles a key that acts on the selected approval.
    fn act(&mut self, key: char) -> Option<ScreenEffect> {
        let approval = self.selected_approval()?.clone();
        let offers = approval.offers;
        let draft = self.drafts.entry(approval.id.clone()).or_default();
        match key {
            'd' => {
                self.mode = ScreenMode::Reason { entry: LineEditor::new("", MAX_REASON_BYTES), block: false }
            }
            'n' if matches!(approval.card, ApprovalCard::Plan(_)) => {
                let decision = ApprovalDecision::deny_because(ONE_BY_ONE_REASON);
                let words = format!("asked one by one: {}", title(&approval).0);
                return self.decide(approval.id, decision, words);
            }
            'b' if offers.block => {
                self.mode = ScreenMode::Reason { entry: LineEditor::new("", MAX_REASON_BYTES), block: true };
            }
            'v' => {
                draft.is_raw = !draft.is_raw;
                self.scroll = 0;
            }
            'e' if offers.edit => {
                return Some(ScreenEffect::Edit {
                    id: approval.id.clone(),
                    text: draft.text(&original(&approval)),
                });
            }
            'u' if draft.edited.is_some() || draft.broken.is_some() => {
                *draft = ApprovalDraft { is_raw: draft.is_raw, ..ApprovalDraft::default() };
                self.said = Some((MessageTone::Plain, "changes discarded".to_owned()));
            }
            'f' => {
                if let ApprovalCard::Form(card) = &approval.card {
                    let now = draft.edited.clone().unwrap_or_else(|| original(&approval));
                    match FormEditor::new(&card.schema, &now) {
                        Some(filling) => self.mode = ScreenMode::Filling(Box::new(filling)),
                        None => draft.edited = Some(RawJson::empty_object()),
                    }
                }
            }
            'A' if offers.always => {
                if let (ApprovalCard::Call(card), true) = (&approval.card, self.may_allow()) {
                    let arguments = self.draft().edited.unwrap_or_else(|| card.arguments.clone());
                    let rule = PermissionEditor::new(&arguments, card.suggestion.as_ref());
                    self.mode = ScreenMode::Rule(Box::new(rule));
                    // The same key confirms the permission, so a second press in haste must not count.
                    self.armed_at = self.now + ARMING_DELAY;
                }
            }
            'o' => {
                let words = format!("{}: {}", done(&approval), title(&approval).0);
                return self.allow(ApprovalScope::Once, words);
            }
            's' if offers.session => {
                let words = format!("allowed for the session: {}", title(&approval).0);
                return self.allow(ApprovalScope::Session, words);
            }
            't' if offers.targets => {
                let words = format!("allowed once, target remembered for 30 days: {}", title(&approval).0);
                return self.allow(ApprovalScope::Targets, words);
            }
            'V' if offers.values => {
                let words = format!("allowed once, value right for this session: {}", title(&approval).0);
                return self.allow(ApprovalScope::Values, words);
            }
            _ => {}
        }
        None
    }

    /// Returns true if a key that allows is accepted. If not, the wait starts again, so a key that is held down allows
    /// nothing.
    fn may_allow(&mut self) -> bool {
        if self.busy.is_some() || self.lost.is_some() {
            return false;
        }
        if self.now < self.armed_at {
            self.armed_at = self.now + ARMING_DELAY;
            self.said = Some((MessageTone::Plain, "wait a moment: the card has just changed".to_owned()));
            return false;
        }
        if self.furthest < self.room.2 {
            self.said = Some((MessageTone::Plain, "scroll to the end first: press space".to_owned()));
            return false;
        }
        true
    }

    fn allow(&mut self, scope: ApprovalScope, words: String) -> Option<ScreenEffect> {
        let approval = self.selected_approval()?.clone();
        if let Some(approvers) = &approval.approvers {
            let words =
                format!("only a member of {approvers} can allow this, at the team's console (d: deny it)");
            self.said = Some((MessageTone::Plain, words));
            return None;
        }
        if !self.may_allow() {
            return None;
        }
        let draft = self.draft();
        // Allowing now would send the last valid version instead of what was written.
        if let Some(problem) = draft.problem.filter(|_| draft.broken.is_some()) {
            self.said = Some((MessageTone::Bad, format!("{problem} (e: edit again, u: discard changes)")));
            return None;
        }
        let is_form = matches!(approval.card, ApprovalCard::Form(_));
        if is_form && draft.edited.is_none() {
            self.said =
                Some((MessageTone::Plain, "fill in the form first: f here, or e in your editor".to_owned()));
            return None;
        }
        self.decide(approval.id, ApprovalDecision::Allow { edited: draft.edited, scope }, words)
    }

    fn decide(&mut self, id: String, decision: ApprovalDecision, words: String) -> Option<ScreenEffect> {
        if self.busy.is_some() {
            return None;
        }
        self.busy = Some(id.clone());
        Some(ScreenEffect::Decide { id, decision, words })
    }

    fn reason(&mut self, key: KeyEvent, mut entry: LineEditor, block: bool) -> Option<ScreenEffect> {
        match key.code {
            KeyCode::Esc => None,
            KeyCode::Enter => {
                let approval = self.selected_approval()?.clone();
                let reason = Some(entry.text().trim().to_owned()).filter(|reason| !reason.is_empty());
                let name = title(&approval).0;
                let words = if block {
                    format!("denied, now and in future: {name}")
                } else {
                    format!("denied: {name}")
                };
                self.decide(approval.id, ApprovalDecision::Deny { reason, block }, words)
            }
            _ => {
                entry.key(key);
                self.mode = ScreenMode::Reason { entry, block };
                None
            }
        }
    }

    fn rule(&mut self, key: KeyEvent, mut rule: Box<PermissionEditor>) -> Option<ScreenEffect> {
        let gives = rule.writing.is_none() && key.code == KeyCode::Char('A');
        // Before the editor sees the key, so that a refused key creates no permission.
        if gives && !self.may_allow() {
            self.mode = ScreenMode::Rule(rule);
            return None;
        }
        self.said = None;
        match rule.key(key, self.time()) {
            PermissionInput::Closed => None,
            PermissionInput::Nothing => {
                self.mode = ScreenMode::Rule(rule);
                None
            }
            PermissionInput::Given(permission) => {
                let name = self.selected_approval().map(|approval| title(approval).0)?;
                let words = format!("allowed by this rule for {} days: {name}", rule.days());
                // If the host rejects the permission, the editor is still open to correct it.
                self.mode = ScreenMode::Rule(rule);
                let effect = self.allow(ApprovalScope::Always(permission), words);
                if effect.is_none() {
                    self.mode = ScreenMode::Watching;
                }
                effect
            }
        }
    }

    fn fill(&mut self, key: KeyEvent, mut filling: Box<FormEditor>) -> Option<ScreenEffect> {
        let is_last = match key.code {
            KeyCode::Esc => return None,
            KeyCode::Enter | KeyCode::Tab | KeyCode::Down => filling.step(true),
            KeyCode::BackTab | KeyCode::Up => filling.step(false),
            _ => {
                filling.entry.key(key);
                false
            }
        };
        if !is_last {
            self.mode = ScreenMode::Filling(filling);
            return None;
        }
        match filling.content() {
            Ok(content) => {
                let id = self.selected.clone()?;
                self.drafts.insert(id, ApprovalDraft { edited: Some(content), ..ApprovalDraft::default() });
                self.said = Some((MessageTone::Plain, "form filled in; press o to send it".to_owned()));
                self.armed_at = self.now + ARMING_DELAY;
            }
            Err(why) => {
                self.said = Some((MessageTone::Bad, why));
                self.mode = ScreenMode::Filling(filling);
            }
        }
        None
    }
}

/// Returns the past tense of the action for an allowed approval.
pub(crate) fn done(approval: &Approval) -> &'static str {
    match approval.card {
        ApprovalCard::SamplingRequest(_) | ApprovalCard::Form(_) => "sent",
        ApprovalCard::SamplingResult(_) | ApprovalCard::Result(_) => "delivered",
        ApprovalCard::Url(_) => "confirmed as visited",
        ApprovalCard::Plan(_) => "allowed",
        _ => "allowed once",
    }
}

/// Describes the outcome of an approval that was not decided here.
pub(crate) fn ending(approval: &Approval) -> String {
    let name = title(approval).0;
    match (approval.state, &approval.decided) {
        (ApprovalState::Expired, _) => format!("{name}: expired without a decision, so denied"),
        (ApprovalState::Withdrawn, _) if approval.node_ended => {
            format!("{name}: withdrawn, because the node at which the call waited has ended")
        }
        (ApprovalState::Withdrawn, _) => format!("{name}: withdrawn by the requester"),
        (ApprovalState::Allowed, Some(decided)) => format!("{name}: allowed by {}", decided.by),
        (ApprovalState::Denied, Some(decided)) => format!("{name}: denied by {}", decided.by),
        _ => format!("{name}: closed"),
    }
}
