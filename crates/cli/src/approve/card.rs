//! One matter as a person reads it. What others say stands behind a bar or in a column of its own, never where we speak.

use hospes::model::RawJson;
use hospes_host::desk::{
    CallCard, CallKind, Card, FormCard, Matter, ResultCard, SamplingRequestCard, SamplingResultCard, UrlCard,
};
use hospes_host::pins::{PinState, PinnedServer};
use hospes_policy::visible_line;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::draft::{self, Draft, Field};
use super::edits::text_edits;
use super::{json, text};

/// How wide the names of facts are, in columns.
const NAMES: usize = 12;

/// How much there is to lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Risk {
    Sharp,
    Wide,
    Calm,
}

impl Risk {
    pub(crate) fn of(matter: &Matter) -> Self {
        match &matter.card {
            Card::Call(card) if card.data_flow.is_some() => Self::Sharp,
            Card::Call(card) => match (card.what, card.effects) {
                (CallKind::Tool, Some(said)) => match (said.read_only, said.destructive, said.trusted) {
                    (true, _, true) if !said.open_world => Self::Calm,
                    (false, true, _) => Self::Sharp,
                    _ => Self::Wide,
                },
                _ => Self::Wide,
            },
            Card::Form(card) if !card.secrets.is_empty() => Self::Sharp,
            Card::SamplingResult(card) if !card.findings.is_empty() => Self::Sharp,
            Card::Url(card) if !card.warnings.is_empty() => Self::Sharp,
            _ => Self::Wide,
        }
    }

    pub(crate) fn color(self) -> Color {
        match self {
            Self::Sharp => Color::Red,
            Self::Wide => Color::Yellow,
            Self::Calm => Color::Green,
        }
    }
}

/// What a matter is about and whose it is, each on one line.
pub(crate) fn title(matter: &Matter) -> (String, String) {
    let what = match &matter.card {
        Card::Call(card) => text::line(&card.name, 120),
        Card::Result(card) => format!("what {} answered", text::line(&card.name, 120)),
        Card::SamplingRequest(_) => "ask a model".to_owned(),
        Card::SamplingResult(_) => "what the model answered".to_owned(),
        Card::Form(_) => "fill in a form".to_owned(),
        Card::Url(_) => "go to an address".to_owned(),
        _ => "something new".to_owned(),
    };
    (what, text::line(&matter.server, 120))
}

/// The whole card, in lines no wider than `width`.
pub(crate) fn card(
    matter: &Matter,
    draft: &Draft,
    pins: Option<&[PinnedServer]>,
    width: usize,
) -> Vec<Line<'static>> {
    laid_out(matter, draft, pins, width).0
}

/// The same, and how many of its lines have to be shown before it is allowed: to the end of what would happen.
pub(super) fn laid_out(
    matter: &Matter,
    draft: &Draft,
    pins: Option<&[PinnedServer]>,
    width: usize,
) -> (Vec<Line<'static>>, usize) {
    let mut page = Page { width, lines: Vec::new(), needed: None };
    match &matter.card {
        Card::Call(card) => page.call(card, matter, draft, pins),
        Card::Result(card) => page.result(card, matter, draft, pins),
        Card::SamplingRequest(card) => page.sampling_request(card, matter, draft, pins),
        Card::SamplingResult(card) => page.sampling_result(card, matter, draft, pins),
        Card::Form(card) => page.form(card, matter, draft, pins),
        Card::Url(card) => page.url(card, matter, pins),
        other => page.said(&format!("{other:?}")),
    }
    let needed = page.needed.unwrap_or(page.lines.len());
    (page.lines, needed)
}

pub(crate) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

pub(crate) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn bad() -> Style {
    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
}

struct Page {
    width: usize,
    lines: Vec<Line<'static>>,
    /// Number of lines to the end of what would happen, where more follows.
    needed: Option<usize>,
}

impl Page {
    fn call(&mut self, card: &CallCard, matter: &Matter, draft: &Draft, pins: Option<&[PinnedServer]>) {
        let verb = match card.what {
            CallKind::Tool => "call the tool",
            CallKind::Prompt => "fetch the prompt",
            CallKind::Resource => "read",
            _ => "use",
        };
        self.heading(verb, &card.name);
        self.effects(card);
        self.who(matter, pins);
        self.fact("because", &card.because);
        if let Some(flow) = &card.data_flow {
            self.styled("take care", &format!("{flow}; this can send things out"), bad());
        }
        for (at, destination) in card.destinations.iter().enumerate() {
            self.styled(if at == 0 { "points to" } else { "" }, destination, bold());
        }
        self.values("Arguments", &card.arguments, draft);
        self.needed = Some(self.lines.len());
        if let Some(last) = &card.last_arguments {
            let now = draft.edited.as_ref().unwrap_or(&card.arguments);
            self.part("Against the last approved call", "");
            self.difference(last, now, "the same arguments");
        }
        if card.title.is_some() || card.description.is_some() {
            self.part("What the server says of it", "");
            card.title.iter().chain(&card.description).for_each(|said| self.said(said));
        }
    }

    fn effects(&mut self, card: &CallCard) {
        let Some(said) = card.effects else { return };
        let mut words = Vec::new();
        if said.read_only {
            words.push(("changes nothing", Color::Green));
        } else if said.destructive {
            words.push(("may destroy something", Color::Red));
        } else {
            words.push(("changes something, destroys nothing", Color::Yellow));
        }
        match said.open_world {
            true => words.push(("reaches outside", Color::Yellow)),
            false => words.push(("reaches nothing outside", Color::Green)),
        }
        if said.idempotent && !said.read_only {
            words.push(("twice is as once", Color::Green));
        }
        // What nobody believes calms nobody.
        let color = |color| if said.trusted || color != Color::Green { color } else { Color::Reset };
        let whole: Vec<&str> = words.iter().map(|(text, _)| *text).collect();
        let whole = whole.join(" · ");
        if whole.len() + NAMES <= self.width {
            let mut spans = vec![label("it says")];
            for (at, (text, hue)) in words.iter().enumerate() {
                spans.extend((at > 0).then(|| Span::styled(" · ", dim())));
                spans.push(Span::styled(*text, Style::new().fg(color(*hue))));
            }
            self.lines.push(Line::from(spans));
        } else {
            self.fact("it says", &whole);
        }
        let belief = if said.trusted {
            "the server's word is believed here"
        } else {
            "nobody here trusts this server's word"
        };
        self.styled("", belief, dim());
    }

    fn result(&mut self, card: &ResultCard, matter: &Matter, draft: &Draft, pins: Option<&[PinnedServer]>) {
        self.heading("hand over the answer of", &card.name);
        self.who(matter, pins);
        self.fact("because", &card.because);
        let now = draft.edited.as_ref().unwrap_or(&card.result);
        self.part("What would go to the application", edited(draft));
        self.problem(draft);
        self.answer(&card.result, now, draft);
        self.part("What was sent", "");
        self.object(&card.arguments);
    }

    fn sampling_request(
        &mut self,
        card: &SamplingRequestCard,
        matter: &Matter,
        draft: &Draft,
        pins: Option<&[PinnedServer]>,
    ) {
        self.heading("ask the model", &card.model);
        self.cause(card.cause.as_deref());
        self.who(matter, pins);
        self.fact("model", &card.model);
        self.styled("", &card.reason, dim());
        if card.models.len() > 1 {
            self.styled("", &format!("others: {} (\"model\" in an edit)", card.models.join(", ")), dim());
        }
        let cost = card
            .cost
            .as_deref()
            .map(|cost| format!(", at most {cost} in the currency of your prices"))
            .unwrap_or_default();
        let size = format!("about {} tokens sent, at most {} back{cost}", card.tokens, card.max_tokens);
        self.fact("size", &size);
        self.fact("budget left", &card.remaining);
        let now = draft.edited.as_ref().unwrap_or(&card.request);
        self.part("What would be sent", edited(draft));
        self.problem(draft);
        if draft.is_raw {
            self.raw(now);
        } else {
            self.conversation(now);
        }
        if let Some(context) = &card.context {
            self.part("Context", "");
            self.said(context);
        }
        self.changes(&card.request, draft);
    }

    fn sampling_result(
        &mut self,
        card: &SamplingResultCard,
        matter: &Matter,
        draft: &Draft,
        pins: Option<&[PinnedServer]>,
    ) {
        self.heading("deliver what the model answered to", &matter.server);
        card.findings.iter().for_each(|found| self.alarm(found));
        self.cause(card.cause.as_deref());
        self.who(matter, pins);
        if let Some((sent, back)) = card.usage {
            let cost = card
                .cost
                .as_deref()
                .map(|cost| format!(", {cost} in the currency of your prices"))
                .unwrap_or_default();
            self.fact("size", &format!("{sent} tokens sent, {back} back{cost}"));
        }
        let now = draft.edited.as_ref().unwrap_or(&card.result);
        self.part("What the server would get", edited(draft));
        self.problem(draft);
        self.answer(&card.result, now, draft);
        self.part("What was sent", "");
        self.conversation(&card.request);
    }

    fn form(&mut self, card: &FormCard, matter: &Matter, draft: &Draft, pins: Option<&[PinnedServer]>) {
        self.heading("fill in a form of", &matter.server);
        if !card.secrets.is_empty() {
            let names = card.secrets.join(", ");
            self.alarm(&format!("It seems to ask for a secret ({names}). No server may do that in a form."));
        }
        self.cause(card.cause.as_deref());
        self.who(matter, pins);
        self.part("It says", "");
        self.said(&card.message);
        self.part("The form", edited(draft));
        self.problem(draft);
        if draft.is_raw {
            self.raw(&card.schema);
        }
        let now = draft.edited.clone().unwrap_or_else(|| draft::original(matter));
        let given = json::members(&now).unwrap_or_default();
        for field in draft::fields(&card.schema) {
            let value = given.iter().find(|(name, _)| *name == field.name);
            match value {
                Some((name, value)) => self.member(name, value),
                None => self.styled_name(&field.name, "–", dim()),
            }
            self.styled("", &kind(&field), dim());
        }
    }

    fn url(&mut self, card: &UrlCard, matter: &Matter, pins: Option<&[PinnedServer]>) {
        self.heading("go to an address for", &matter.server);
        card.warnings.iter().for_each(|warning| self.alarm(warning));
        self.cause(card.cause.as_deref());
        self.who(matter, pins);
        let host = if card.host.is_empty() { "none" } else { &card.host };
        self.styled("host", host, bold().fg(Color::Yellow));
        self.part("It says", "");
        self.said(&card.message);
        self.part("The whole address", "");
        // The host is where it stands after the scheme, not where a path repeats it.
        let url = visible_line(&card.url);
        let from = url.find("://").map_or(0, |at| at + 3);
        let end = url[from..].find(['/', '?', '#']).map_or(url.len(), |at| from + at);
        let at = url[..end].rfind(&*card.host).filter(|_| !card.host.is_empty());
        let inside = at.map(|at| at..at + card.host.len()).unwrap_or_default();
        let mut used = 0;
        for line in text::lines(&url, self.width.saturating_sub(2)) {
            let mut spans = vec![Span::styled("│ ", dim())];
            for (start, character) in line.char_indices() {
                let style =
                    if inside.contains(&(used + start)) { bold().fg(Color::Yellow) } else { Style::new() };
                spans.push(Span::styled(character.to_string(), style));
            }
            used += line.len();
            self.lines.push(Line::from(spans));
        }
        self.styled("", "Nothing of it was fetched. Go there only if you know this host.", dim());
    }

    fn heading(&mut self, verb: &str, name: &str) {
        let room = self.width.saturating_sub(verb.len() + 1).max(NAMES);
        let mut lines = text::lines(&visible_line(name), room).into_iter();
        let first = lines.next().unwrap_or_default();
        self.lines.push(Line::from(vec![Span::raw(format!("{verb} ")), Span::styled(first, bold())]));
        for line in lines {
            self.lines.push(Line::styled(line, bold()));
        }
        self.lines.push(Line::default());
    }

    fn who(&mut self, matter: &Matter, pins: Option<&[PinnedServer]>) {
        self.fact("server", &matter.server);
        if let Some(pinned) = pins.and_then(|pins| pins.iter().find(|one| one.server == matter.server)) {
            let name = match &matter.card {
                Card::Call(card) => Some(&card.name),
                _ => None,
            };
            let waiting = pinned.items.iter().filter(|item| item.state != PinState::Accepted).count();
            let by = pinned.decided_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
            let (words, style) = match pinned.state {
                _ if pinned.is_builtin => ("built in".to_owned(), dim()),
                PinState::Accepted if waiting > 0 => {
                    let words = format!("{waiting} of its definitions changed and wait (`hospes pins show`)");
                    (words, Style::new().fg(Color::Yellow))
                }
                PinState::Accepted => (format!("definitions accepted{by}"), dim()),
                state => (format!("definitions {}", state.as_str()), bad()),
            };
            self.styled("", &words, style);
            let item = name.and_then(|name| pinned.items.iter().find(|item| item.name == *name));
            if let Some(item) = item.filter(|item| item.before.is_some()) {
                let words = format!("the definition of this tool changed: it is {}", item.state.as_str());
                self.styled("", &words, Style::new().fg(Color::Yellow));
            }
            for lint in item.map(|item| item.lints.as_slice()).unwrap_or_default() {
                self.styled("", &lint.text, Style::new().fg(Color::Yellow));
            }
        }
        match &matter.application {
            Some(name) => self.fact("asked by", &format!("{name}, as it calls itself")),
            None => self.fact("asked by", "an application without a name"),
        }
        if let Some(principal) = &matter.principal {
            self.fact("signed in", principal);
        }
    }

    fn cause(&mut self, cause: Option<&str>) {
        if let Some(cause) = cause {
            self.fact("in call of", cause);
        }
    }

    fn fact(&mut self, name: &str, value: &str) {
        self.styled(name, value, Style::new());
    }

    fn styled(&mut self, name: &str, value: &str, style: Style) {
        let room = self.width.saturating_sub(NAMES);
        for (at, line) in text::lines(&visible_line(value), room).into_iter().enumerate() {
            self.lines
                .push(Line::from(vec![label(if at == 0 { name } else { "" }), Span::styled(line, style)]));
        }
    }

    fn alarm(&mut self, words: &str) {
        for line in text::lines(words, self.width.saturating_sub(2)) {
            self.lines.push(Line::styled(format!("! {line}"), bad()));
        }
    }

    fn part(&mut self, name: &'static str, note: &'static str) {
        self.lines.push(Line::default());
        let note = if note.is_empty() { String::new() } else { format!("  {note}") };
        let style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
        self.lines.push(Line::from(vec![
            Span::styled(name, style),
            Span::styled(note, Style::new().fg(Color::Yellow)),
        ]));
    }

    fn problem(&mut self, draft: &Draft) {
        if let Some(problem) = &draft.problem {
            self.alarm(problem);
        }
    }

    /// Text of others.
    fn said(&mut self, words: &str) {
        for line in text::lines(words, self.width.saturating_sub(2)) {
            self.lines.push(Line::from(vec![Span::styled("│ ", dim()), Span::raw(line)]));
        }
    }

    fn values(&mut self, name: &'static str, base: &RawJson, draft: &Draft) {
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

    fn changes(&mut self, base: &RawJson, draft: &Draft) {
        if let Some(edited) = &draft.edited {
            self.part("What you changed", "");
            self.difference(base, edited, "nothing");
        }
    }

    fn raw(&mut self, value: &RawJson) {
        self.said(&json::pretty(value));
    }

    fn object(&mut self, value: &RawJson) {
        match json::members(value) {
            Some(members) if members.is_empty() => self.styled("", "none", dim()),
            Some(members) => members.iter().for_each(|(name, value)| self.member(name, value)),
            None => self.raw(value),
        }
    }

    /// A result that would be handed over, and what of it was changed.
    fn answer(&mut self, was: &RawJson, now: &RawJson, draft: &Draft) {
        match json::members(now).filter(|_| !draft.is_raw) {
            None => self.raw(now),
            Some(members) => {
                for (name, value) in members {
                    if name == "content" {
                        self.blocks(&value);
                    } else {
                        // It goes along, so it is shown.
                        self.member(&name, &value);
                    }
                }
            }
        }
        self.changes(was, draft);
    }

    /// A member: a short value beside its name, a longer one below it.
    fn member(&mut self, name: &str, value: &RawJson) {
        if let Some(edits) = text_edits(value) {
            self.styled_name(name, "what goes and what comes", dim());
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
                self.styled_name(name, &format!("a text of {} lines", long.split('\n').count()), dim());
                self.said(&long);
            }
            None if laid.contains('\n') => {
                self.styled_name(name, "", dim());
                self.said(&laid);
            }
            None => self.styled_name(name, &laid, Style::new()),
        }
    }

    fn styled_name(&mut self, name: &str, value: &str, style: Style) {
        let name = text::line(name, self.width.saturating_sub(4));
        let width = ratatui::text::Span::raw(name.as_str()).width();
        if width >= NAMES {
            self.lines.push(Line::styled(name, dim()));
            self.styled("", value, style);
        } else {
            self.styled(&name, value, style);
        }
    }

    fn conversation(&mut self, request: &RawJson) {
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
        // Whatever else there is goes along, so it is shown.
        for (name, value) in &members {
            if !matches!(name.as_str(), "systemPrompt" | "messages") {
                self.member(name, value);
            }
        }
    }

    /// One block of content, or a list of them.
    fn blocks(&mut self, content: &RawJson) {
        let list: Vec<RawJson> = content.decode().unwrap_or_else(|_| vec![content.clone()]);
        for block in list {
            let value = block.to_value().unwrap_or_default();
            let text = |name: &str| value.get(name).and_then(Value::as_str);
            match (text("type"), text("text"), text("data")) {
                (Some("text"), Some(said), _) => self.said(said),
                (Some(what @ ("image" | "audio")), _, Some(data)) => {
                    let mime = text("mimeType").unwrap_or("of no known type");
                    self.styled(what, &format!("{mime}, {} bytes", data.len() / 4 * 3), dim());
                }
                _ => self.raw(&block),
            }
        }
    }

    /// What is other than before, member by member.
    fn difference(&mut self, before: &RawJson, after: &RawJson, none: &str) {
        let (Some(old), Some(new)) = (json::members(before), json::members(after)) else {
            if json::is_same(before, after) {
                return self.styled("", none, dim());
            }
            self.side('-', &json::pretty(before));
            self.side('+', &json::pretty(after));
            return;
        };
        let find = |list: &[(String, RawJson)], name: &str| {
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

    fn side(&mut self, sign: char, words: &str) {
        let color = if sign == '+' { Color::Green } else { Color::Red };
        for line in text::lines(words, self.width.saturating_sub(2)) {
            self.lines.push(Line::styled(format!("{sign} {line}"), Style::new().fg(color)));
        }
    }
}

fn label(name: &str) -> Span<'static> {
    Span::styled(format!("{name:<NAMES$}"), dim())
}

fn edited(draft: &Draft) -> &'static str {
    if draft.edited.is_some() { "changed by you" } else { "" }
}

/// What a field of a form wants.
pub(crate) fn kind(field: &Field) -> String {
    let schema = &field.schema;
    let said = |name: &str| schema.get(name).and_then(Value::as_str);
    let plain = schema.get("enum").or_else(|| schema.pointer("/items/enum")).and_then(Value::as_array);
    let titled = schema.get("oneOf").or_else(|| schema.pointer("/items/anyOf")).and_then(Value::as_array);
    let consts = titled.into_iter().flatten().filter_map(|one| one.get("const"));
    let choices: Vec<String> = plain
        .into_iter()
        .flatten()
        .chain(consts)
        .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
        .collect();
    let mut words = Vec::new();
    if choices.is_empty() {
        words.extend(said("type").map(str::to_owned));
    } else {
        words.push(format!("one of {}", choices.join(", ")));
        if said("type") == Some("array") {
            words[0] = format!("some of {}, with commas between", choices.join(", "));
        }
    }
    words.push(if field.is_required { "required".to_owned() } else { "may be left out".to_owned() });
    let about = said("description").or_else(|| said("title"));
    words.extend(about.map(str::to_owned));
    words.join("; ")
}
