//! The card of a call: what it does and to whom, what is unusual, where the values come from, then the rest.

use hospes_host::approvals::{
    Approval, ApprovalCallKind, ApprovalSentence, CallCard, GuardCard, GuardFinding, GuardSource, GuardValue,
};
use hospes_host::pins::PinnedServer;
use hospes_policy::visible_line;
use jiff::tz::TimeZone;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::page::{CardPage, NAMES, label};
use super::{bad, bold, dim};
use crate::approve::draft::ApprovalDraft;
use crate::approve::text;

/// Maximum number of values whose source is shown above the arguments.
pub(super) const MAX_SOURCES: usize = 2;

impl CardPage {
    pub(super) fn call(
        &mut self,
        card: &CallCard,
        approval: &Approval,
        draft: &ApprovalDraft,
        pins: Option<&[PinnedServer]>,
    ) {
        self.first_look(card, approval);
        let verb = match card.what {
            ApprovalCallKind::Tool => "call the tool",
            ApprovalCallKind::Prompt => "fetch the prompt",
            ApprovalCallKind::Resource => "read",
            _ => "use",
        };
        let name = text::lines(&visible_line(&card.name), self.width.saturating_sub(verb.len() + 1).max(1));
        for (at, line) in name.into_iter().enumerate() {
            let verb = if at == 0 { format!("{verb} ") } else { String::new() };
            self.lines.push(Line::from(vec![Span::styled(verb, dim()), Span::styled(line, bold())]));
        }
        let values = card.guard.as_ref().map(|guard| guard.values.as_slice()).unwrap_or_default();
        self.marks = values.iter().map(|value| visible_line(&value.value)).collect();
        self.values("Arguments", &card.arguments, draft);
        self.marks.clear();
        // Everything below this line is explanation, and the server decides how long its part of it is.
        self.needed = Some(self.lines.len());
        self.part("Why it is asked", "");
        self.who(approval, pins);
        self.fact("because", &card.because);
        if let Some(guard) = &card.guard {
            self.found(guard, &card.because);
        }
        if let Some(session) = &approval.session {
            self.fact("session", &format!("s allows it for {session}"));
        }
        if let Some(flow) = &card.data_flow {
            self.styled("data flow", &format!("{flow}; this call can send data out"), bad());
        }
        for (at, destination) in card.destinations.iter().enumerate() {
            self.styled(if at == 0 { "points to" } else { "" }, destination, bold());
        }
        self.effects(card);
        if let Some(last) = &card.last_arguments {
            let now = draft.edited.as_ref().unwrap_or(&card.arguments);
            self.part("Against the last approved call", "");
            self.difference(last, now, "the same arguments");
        }
        if card.title.is_some() || card.description.is_some() {
            self.part("Description by the server", "");
            card.title.iter().chain(&card.description).for_each(|said| self.said(said));
        }
    }

    /// Adds the head of the card. Its words are Hospes' own, except for targets, values and excerpts.
    fn first_look(&mut self, card: &CallCard, approval: &Approval) {
        let summary = &card.summary;
        let is_final = summary.irreversible;
        if is_final {
            let style = Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED | Modifier::BOLD);
            self.lines.push(Line::styled(" CANNOT BE UNDONE ", style));
        }
        if !summary.verb.is_empty() {
            let style = if is_final { bad() } else { bold() };
            let said = ApprovalSentence::of(approval).render(visible_line);
            for line in text::lines(&said, self.width) {
                self.lines.push(Line::styled(line, style));
            }
        }
        if !summary.unusual.is_empty() {
            for line in text::lines(&visible_line(&summary.unusual), self.width) {
                self.lines.push(Line::styled(line, Style::new().fg(Color::Yellow)));
            }
        }
        let values = card.guard.iter().flat_map(|guard| &guard.values);
        for value in values.filter(|value| value.source.is_some()).take(MAX_SOURCES) {
            self.source(value);
        }
        if self.lines.is_empty() {
            return;
        }
        self.lines.push(Line::default());
    }

    /// Adds the place where a value stands, with the text around it.
    pub(super) fn source(&mut self, value: &GuardValue) {
        let Some(GuardSource { server, name, at, before, found, after, .. }) = &value.source else { return };
        let time = at.to_zoned(TimeZone::system()).strftime("%H:%M:%S");
        let place = format!("from {} · {} · {time}", visible_line(server), visible_line(name));
        for line in text::lines(&place, self.width) {
            self.lines.push(Line::styled(line, dim()));
        }
        let excerpt = match found.is_empty() {
            true => format!("[{}] in an encoded form", visible_line(&value.value)),
            false => {
                format!("… {}[{}]{} …", visible_line(before), visible_line(found), visible_line(after))
            }
        };
        self.marks = vec![visible_line(if found.is_empty() { &value.value } else { found })];
        self.said(&excerpt);
        self.marks.clear();
    }

    /// Adds all values that the guard points out.
    fn found(&mut self, guard: &GuardCard, because: &str) {
        if guard.because != because {
            self.fact("and because", &guard.because);
        }
        for (at, value) in guard.values.iter().enumerate() {
            let words = match value.finding {
                GuardFinding::Untrusted => "stands in a text that somebody else wrote",
                GuardFinding::Unknown => "was not approved before",
                GuardFinding::Private => "comes from private data",
                GuardFinding::Secret => "is a secret of another server",
                GuardFinding::Address => "is a private or local address",
                GuardFinding::Shell => "has characters that a shell interprets",
                _ => "is unusual",
            };
            self.fact(if at == 0 { "found" } else { "" }, &format!("{} {words}", value.value));
        }
        if !guard.targets.is_empty() {
            self.fact("t remembers", &guard.targets.join(", "));
        }
    }

    fn effects(&mut self, card: &CallCard) {
        let Some(said) = card.effects else { return };
        let mut words = Vec::new();
        if said.read_only {
            words.push(("read-only", Color::Green));
        } else if said.destructive {
            words.push(("may be destructive", Color::Red));
        } else {
            words.push(("additive changes only", Color::Yellow));
        }
        match said.open_world {
            true => words.push(("external access", Color::Yellow)),
            false => words.push(("no external access", Color::Green)),
        }
        if said.idempotent && !said.read_only {
            words.push(("idempotent", Color::Green));
        }
        // Annotations of an untrusted server are never shown in the reassuring colour.
        let color = |color| if said.trusted || color != Color::Green { color } else { Color::Reset };
        let whole: Vec<&str> = words.iter().map(|(text, _)| *text).collect();
        let whole = whole.join(" · ");
        if whole.len() + NAMES <= self.width {
            let mut spans = vec![label("effects")];
            for (at, (text, hue)) in words.iter().enumerate() {
                spans.extend((at > 0).then(|| Span::styled(" · ", dim())));
                spans.push(Span::styled(*text, Style::new().fg(color(*hue))));
            }
            self.lines.push(Line::from(spans));
        } else {
            self.fact("effects", &whole);
        }
        let belief = if said.trusted {
            "this server's annotations are trusted"
        } else {
            "this server's annotations are not trusted"
        };
        self.styled("", belief, dim());
    }
}
