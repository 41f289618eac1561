//! Lines of a card: headings, facts, foreign text, JSON values and differences.

use hospes::model::RawJson;
use hospes_host::approvals::{Approval, ApprovalCard};
use hospes_host::pins::{PinState, PinnedServer};
use hospes_policy::visible_line;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::{bad, bold, dim};
use crate::approve::draft::ApprovalDraft;
use crate::approve::edits::text_edits;
use crate::approve::{json, text};

/// Width of the names of facts, in columns.
pub(super) const NAMES: usize = 12;

/// Lines of a card that is being laid out.
pub(super) struct CardPage {
    pub(super) width: usize,
    pub(super) lines: Vec<Line<'static>>,
    /// Number of lines to the end of the part that says what would happen. `None` if the card has not marked it.
    pub(super) needed: Option<usize>,
    /// Values that are marked where they stand.
    pub(super) marks: Vec<String>,
}

impl CardPage {
    pub(super) fn heading(&mut self, verb: &str, name: &str) {
        let room = self.width.saturating_sub(verb.len() + 1).max(NAMES);
        let mut lines = text::lines(&visible_line(name), room).into_iter();
        let first = lines.next().unwrap_or_default();
        self.lines.push(Line::from(vec![Span::raw(format!("{verb} ")), Span::styled(first, bold())]));
        for line in lines {
            self.lines.push(Line::styled(line, bold()));
        }
        self.lines.push(Line::default());
    }

    pub(super) fn who(&mut self, approval: &Approval, pins: Option<&[PinnedServer]>) {
        self.fact("server", &approval.server_label());
        if let Some(pinned) = pins.and_then(|pins| pins.iter().find(|one| one.server == approval.server)) {
            let name = match &approval.card {
                ApprovalCard::Call(card) => Some(&card.name),
                _ => None,
            };
            let waiting = pinned.items.iter().filter(|item| item.state != PinState::Accepted).count();
            let by = pinned.decided_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
            let (words, style) = match pinned.state {
                // First, because the definitions of built-in servers need no acceptance.
                _ if pinned.is_builtin => ("built in".to_owned(), dim()),
                PinState::Accepted if waiting > 0 => {
                    let words =
                        format!("{waiting} of its definitions changed and await review (`hospes pins show`)");
                    (words, Style::new().fg(Color::Yellow))
                }
                PinState::Accepted => (format!("definitions accepted{by}"), dim()),
                state => (format!("definitions {}", state.as_str()), bad()),
            };
            self.styled("", &words, style);
            let item = name.and_then(|name| pinned.items.iter().find(|item| item.name == *name));
            if let Some(item) = item.filter(|item| item.before.is_some()) {
                let words = format!("the definition of this tool changed; status: {}", item.state.as_str());
                self.styled("", &words, Style::new().fg(Color::Yellow));
            }
            for lint in item.map(|item| item.lints.as_slice()).unwrap_or_default() {
                self.styled("", &lint.text, Style::new().fg(Color::Yellow));
            }
        }
        match &approval.application {
            // `clientInfo` is not verified, so it is no evidence of the caller's identity (CAP-18).
            Some(name) => self.fact("asked by", &format!("{name} (self-reported)")),
            None => self.fact("asked by", "an unnamed application"),
        }
        if let Some(principal) = &approval.principal {
            self.fact("signed in", principal);
        }
    }

    pub(super) fn cause(&mut self, cause: Option<&str>) {
        if let Some(cause) = cause {
            self.fact("during call", cause);
        }
    }

    pub(super) fn fact(&mut self, name: &str, value: &str) {
        self.styled(name, value, Style::new());
    }

    pub(super) fn styled(&mut self, name: &str, value: &str, style: Style) {
        let room = self.width.saturating_sub(NAMES);
        // Joined to one line first: a foreign line break must not start a line that looks like the host's.
        for (at, line) in text::lines(&visible_line(value), room).into_iter().enumerate() {
            let mut spans = vec![label(if at == 0 { name } else { "" })];
            spans.extend(self.marked(&line, style));
            self.lines.push(Line::from(spans));
        }
    }

    pub(super) fn alarm(&mut self, words: &str) {
        for line in text::lines(words, self.width.saturating_sub(2)) {
            self.lines.push(Line::styled(format!("! {line}"), bad()));
        }
    }

    pub(super) fn part(&mut self, name: &'static str, note: &'static str) {
        self.lines.push(Line::default());
        let note = if note.is_empty() { String::new() } else { format!("  {note}") };
        let style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
        self.lines.push(Line::from(vec![
            Span::styled(name, style),
            Span::styled(note, Style::new().fg(Color::Yellow)),
        ]));
    }

    pub(super) fn problem(&mut self, draft: &ApprovalDraft) {
        if let Some(problem) = &draft.problem {
            self.alarm(problem);
        }
    }

    /// Adds foreign text, each line behind a bar.
    pub(super) fn said(&mut self, words: &str) {
        for line in text::lines(words, self.width.saturating_sub(2)) {
            let mut spans = vec![Span::styled("│ ", dim())];
            spans.extend(self.marked(&line, Style::new()));
            self.lines.push(Line::from(spans));
        }
    }

    /// Splits a line so that the values in it stand out. Of a value that is broken over lines, no part is marked.
    fn marked(&self, line: &str, style: Style) -> Vec<Span<'static>> {
        let mark = style.fg(Color::Yellow).add_modifier(Modifier::BOLD | Modifier::REVERSED);
        let mut spans = Vec::new();
        let mut rest = line;
        let first = |rest: &str| {
            let found = self.marks.iter().filter(|mark| !mark.is_empty());
            found.filter_map(|mark| Some((rest.find(mark.as_str())?, mark.len()))).min()
        };
        while let Some((at, length)) = first(rest) {
            spans.push(Span::styled(rest[..at].to_owned(), style));
            spans.push(Span::styled(rest[at..at + length].to_owned(), mark));
            rest = &rest[at + length..];
        }
        spans.push(Span::styled(rest.to_owned(), style));
        spans
    }

    pub(super) fn values(&mut self, name: &'static str, base: &RawJson, draft: &ApprovalDraft) {
        let now = draft.edited.as_ref().unwrap_or(base);
        self.part(name, edited(draft));
        self.problem(draft);
        if draft.is_raw {
            self.raw(now)
        } else {
            self.object(now)
        }
        self.changes(base, draft);
    }

    pub(super) fn changes(&mut self, base: &RawJson, draft: &ApprovalDraft) {
        if let Some(edited) = &draft.edited {
            self.part("Your changes", "");
            self.difference(base, edited, "no changes");
        }
    }

    pub(super) fn raw(&mut self, value: &RawJson) {
        self.said(&json::pretty(value));
    }

    pub(super) fn object(&mut self, value: &RawJson) {
        match json::members(value) {
            Some(members) if members.is_empty() => self.styled("", "none", dim()),
            Some(members) => members.iter().for_each(|(name, value)| self.member(name, value)),
            None => self.raw(value),
        }
    }

    /// Adds a result that would be passed on, followed by the changes made to it.
    pub(super) fn answer(&mut self, was: &RawJson, now: &RawJson, draft: &ApprovalDraft) {
        match json::members(now).filter(|_| !draft.is_raw) {
            None => self.raw(now),
            Some(members) => {
                for (name, value) in members {
                    if name == "content" {
                        self.blocks(&value);
                    } else {
                        // It is part of the result, so it is shown.
                        self.member(&name, &value);
                    }
                }
            }
        }
        self.changes(was, draft);
    }

    /// Adds a member of an object: a short value beside its name, a longer one below it.
    pub(super) fn member(&mut self, name: &str, value: &RawJson) {
        if let Some(edits) = text_edits(value) {
            self.styled_name(name, "removed and added text", dim());
            for edit in edits {
                self.side('-', &edit.old);
                self.side('+', &edit.new);
                if !edit.rest.is_empty() {
                    self.said(&edit.rest);
                }
            }
            return;
        }
        let laid = json::pretty(value);
        match json::text(value).filter(|text| text.contains('\n')) {
            Some(long) => {
                self.styled_name(name, &format!("text of {} lines", long.split('\n').count()), dim());
                self.said(&long);
            }
            None if laid.contains('\n') => {
                self.styled_name(name, "", dim());
                self.said(&laid);
            }
            None => self.styled_name(name, &laid, Style::new()),
        }
    }

    pub(super) fn styled_name(&mut self, name: &str, value: &str, style: Style) {
        let name = text::line(name, self.width.saturating_sub(4));
        // In columns, because a wide character takes two of them.
        let width = ratatui::text::Span::raw(name.as_str()).width();
        if width >= NAMES {
            self.lines.push(Line::styled(name, dim()));
            self.styled("", value, style);
        } else {
            self.styled(&name, value, style);
        }
    }

    pub(super) fn conversation(&mut self, request: &RawJson) {
        let members = json::members(request).unwrap_or_default();
        let system = members.iter().find(|(name, _)| name == "systemPrompt").map(|(_, value)| value);
        if let Some(system) = system.and_then(json::text) {
            self.styled("system", &format!("{} bytes", system.len()), dim());
            self.said(&system);
        }
        let messages = members.iter().find(|(name, _)| name == "messages").map(|(_, value)| value);
        let messages: Vec<RawJson> = messages.and_then(|list| list.decode().ok()).unwrap_or_default();
        for message in messages {
            let members = json::members(&message).unwrap_or_default();
            let find = |name: &str| members.iter().find(|(one, _)| one == name).map(|(_, value)| value);
            let role = find("role").and_then(json::text).unwrap_or_default();
            self.styled(&text::line(&role, NAMES - 2), "", dim());
            if let Some(content) = find("content") {
                self.blocks(content);
            }
        }
        // Other members are part of the block, so they are shown.
        for (name, value) in &members {
            if !matches!(name.as_str(), "systemPrompt" | "messages") {
                self.member(name, value);
            }
        }
    }

    /// Adds one content block or a list of them.
    pub(super) fn blocks(&mut self, content: &RawJson) {
        // Older revisions have one block in a message, 2025-11-25 and later allow a list.
        let list: Vec<RawJson> = content.decode().unwrap_or_else(|_| vec![content.clone()]);
        for block in list {
            let value = block.to_value().unwrap_or_default();
            let text = |name: &str| value.get(name).and_then(Value::as_str);
            match (text("type"), text("text"), text("data")) {
                (Some("text"), Some(said), _) => self.said(said),
                (Some(what @ ("image" | "audio")), _, Some(data)) => {
                    // Four characters of base64 are three bytes; padding makes the size below an estimate.
                    let mime = text("mimeType").unwrap_or("unknown type");
                    self.styled(what, &format!("{mime}, {} bytes", data.len() / 4 * 3), dim());
                }
                // A block of an unknown type is shown as JSON, so that nothing is passed on unseen.
                _ => self.raw(&block),
            }
        }
    }

    /// Adds the differences between two values, member by member.
    pub(super) fn difference(&mut self, before: &RawJson, after: &RawJson, none: &str) {
        let (Some(old), Some(new)) = (json::members(before), json::members(after)) else {
            if json::is_same(before, after) {
                return self.styled("", none, dim());
            }
            self.side('-', &json::pretty(before));
            self.side('+', &json::pretty(after));
            return;
        };
        let find = |list: &[(String, RawJson)], name: &str| {
            // Of several members with one name the last counts, as it does for `serde_json`.
            list.iter().rfind(|(one, _)| one == name).map(|(_, value)| value.clone())
        };
        let count = self.lines.len();
        for (name, value) in &old {
            let now = find(&new, name);
            if now.as_ref().is_some_and(|now| json::is_same(now, value)) {
                continue;
            }
            self.side('-', &format!("{name}: {}", json::pretty(value)));
            if let Some(now) = now {
                self.side('+', &format!("{name}: {}", json::pretty(&now)));
            }
        }
        for (name, value) in new.iter().filter(|(name, _)| find(&old, name).is_none()) {
            self.side('+', &format!("{name}: {}", json::pretty(value)));
        }
        if self.lines.len() == count {
            self.styled("", none, dim());
        }
    }

    pub(super) fn side(&mut self, sign: char, words: &str) {
        let color = if sign == '+' { Color::Green } else { Color::Red };
        for line in text::lines(words, self.width.saturating_sub(2)) {
            self.lines.push(Line::styled(format!("{sign} {line}"), Style::new().fg(color)));
        }
    }
}

pub(super) fn label(name: &str) -> Span<'static> {
    Span::styled(format!("{name:<NAMES$}"), dim())
}

pub(super) fn edited(draft: &ApprovalDraft) -> &'static str {
    if draft.edited.is_some() { "changed by you" } else { "" }
}
