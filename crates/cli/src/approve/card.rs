//! The card of one pending approval, laid out for a person. Foreign text stands behind a bar or in a column of its own,
//! so it cannot be mistaken for the host's words.

mod call;
mod page;
mod plan;

use hospes_host::approvals::{
    Approval, ApprovalCallKind, ApprovalCard, FormCard, ResultCard, SamplingRequestCard, SamplingResultCard,
    UrlCard,
};
use hospes_host::pins::PinnedServer;
use hospes_policy::visible_line;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;

use self::page::{CardPage, edited};
pub(crate) use self::plan::reach;
use super::draft::{self, ApprovalDraft, FormField};
use super::{json, text};

/// Risk of allowing a pending approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalRisk {
    Sharp,
    Wide,
    Calm,
}

impl ApprovalRisk {
    pub(crate) fn of(approval: &Approval) -> Self {
        match &approval.card {
            // Data that may leave outweighs every annotation, so this is checked first.
            ApprovalCard::Call(card)
                if card.data_flow.is_some() || card.guard.is_some() || card.summary.irreversible =>
            {
                Self::Sharp
            }
            ApprovalCard::Call(card) => match (card.what, card.effects) {
                (ApprovalCallKind::Tool, Some(said)) => {
                    // Only annotations of a trusted server lower the risk. Annotations that raise it count from any
                    // server.
                    match (said.read_only, said.destructive, said.trusted) {
                        (true, _, true) if !said.open_world => Self::Calm,
                        (false, true, _) => Self::Sharp,
                        _ => Self::Wide,
                    }
                }
                _ => Self::Wide,
            },
            ApprovalCard::Plan(card)
                if card.calls.iter().any(|call| {
                    call.data_flow.is_some() || call.guard.is_some() || call.summary.irreversible
                }) =>
            {
                Self::Sharp
            }
            ApprovalCard::Form(card) if !card.secrets.is_empty() => Self::Sharp,
            ApprovalCard::SamplingResult(card) if !card.findings.is_empty() => Self::Sharp,
            ApprovalCard::Url(card) if !card.warnings.is_empty() => Self::Sharp,
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

/// Returns the subject of a pending approval and its server, each on one line.
pub(crate) fn title(approval: &Approval) -> (String, String) {
    let what = match &approval.card {
        ApprovalCard::Call(card) => text::line(&card.name, 120),
        ApprovalCard::Result(card) => format!("result of {}", text::line(&card.name, 120)),
        ApprovalCard::SamplingRequest(_) => "request to a model".to_owned(),
        ApprovalCard::SamplingResult(_) => "answer of the model".to_owned(),
        ApprovalCard::Form(_) => "fill in a form".to_owned(),
        ApprovalCard::Url(_) => "open a URL".to_owned(),
        ApprovalCard::Plan(card) => card.heading.clone(),
        _ => "unknown request".to_owned(),
    };
    (what, text::line(&approval.server_label(), 120))
}

/// Returns the whole card in lines no wider than `width` columns.
pub(crate) fn card(
    approval: &Approval,
    draft: &ApprovalDraft,
    pins: Option<&[PinnedServer]>,
    width: usize,
) -> Vec<Line<'static>> {
    layout_card(approval, draft, pins, width).0
}

/// Returns the card, and the number of its lines that must be shown before it can be allowed. They reach to the end of
/// the part that says what would happen.
pub(super) fn layout_card(
    approval: &Approval,
    draft: &ApprovalDraft,
    pins: Option<&[PinnedServer]>,
    width: usize,
) -> (Vec<Line<'static>>, usize) {
    let mut page = CardPage { width, lines: Vec::new(), needed: None, marks: Vec::new() };
    match &approval.card {
        ApprovalCard::Call(card) => page.call(card, approval, draft, pins),
        ApprovalCard::Result(card) => page.result(card, approval, draft, pins),
        ApprovalCard::SamplingRequest(card) => page.sampling_request(card, approval, draft, pins),
        ApprovalCard::SamplingResult(card) => page.sampling_result(card, approval, draft, pins),
        ApprovalCard::Form(card) => page.form(card, approval, draft, pins),
        ApprovalCard::Url(card) => page.url(card, approval, pins),
        ApprovalCard::Plan(card) => page.plan(card, approval, draft, pins),
        // The enum is non-exhaustive: a kind that this version does not know is shown in full before it can be allowed.
        other => page.said(&format!("{other:?}")),
    }
    // A card without such a mark has to be read to its end.
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

impl CardPage {
    fn result(
        &mut self,
        card: &ResultCard,
        approval: &Approval,
        draft: &ApprovalDraft,
        pins: Option<&[PinnedServer]>,
    ) {
        self.heading("return the result of", &card.name);
        self.who(approval, pins);
        self.fact("because", &card.because);
        let now = draft.edited.as_ref().unwrap_or(&card.result);
        self.part("Result for the application", edited(draft));
        self.problem(draft);
        self.answer(&card.result, now, draft);
        self.part("Original request", "");
        self.object(&card.arguments);
    }

    fn sampling_request(
        &mut self,
        card: &SamplingRequestCard,
        approval: &Approval,
        draft: &ApprovalDraft,
        pins: Option<&[PinnedServer]>,
    ) {
        self.heading("ask the model", &card.model);
        self.cause(card.cause.as_deref());
        self.who(approval, pins);
        self.fact("model", &card.model);
        self.styled("", &card.reason, dim());
        if card.models.len() > 1 {
            self.styled("", &format!("others: {} (edit \"model\" to switch)", card.models.join(", ")), dim());
        }
        let cost = card
            .cost
            .as_deref()
            .map(|cost| format!(", at most {cost} in the currency of your prices"))
            .unwrap_or_default();
        let size =
            format!("about {} input tokens, at most {} output tokens{cost}", card.tokens, card.max_tokens);
        self.fact("size", &size);
        self.fact("budget left", &card.remaining);
        let now = draft.edited.as_ref().unwrap_or(&card.request);
        self.part("Request to the model", edited(draft));
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
        approval: &Approval,
        draft: &ApprovalDraft,
        pins: Option<&[PinnedServer]>,
    ) {
        self.heading("return the answer of the model to", &approval.server_label());
        card.findings.iter().for_each(|found| self.alarm(found));
        self.cause(card.cause.as_deref());
        self.who(approval, pins);
        if let Some((sent, back)) = card.usage {
            let cost = card
                .cost
                .as_deref()
                .map(|cost| format!(", {cost} in the currency of your prices"))
                .unwrap_or_default();
            self.fact("size", &format!("{sent} input tokens, {back} output tokens{cost}"));
        }
        let now = draft.edited.as_ref().unwrap_or(&card.result);
        self.part("Answer for the server", edited(draft));
        self.problem(draft);
        self.answer(&card.result, now, draft);
        self.part("Original request", "");
        self.conversation(&card.request);
    }

    fn form(
        &mut self,
        card: &FormCard,
        approval: &Approval,
        draft: &ApprovalDraft,
        pins: Option<&[PinnedServer]>,
    ) {
        self.heading("fill in a form of", &approval.server_label());
        if !card.secrets.is_empty() {
            // Servers must not ask for secrets in a form (ELIC-08).
            let names = card.secrets.join(", ");
            self.alarm(&format!(
                "This form seems to request a secret ({names}), which servers must not do in a form."
            ));
        }
        self.cause(card.cause.as_deref());
        self.who(approval, pins);
        self.part("Message", "");
        self.said(&card.message);
        self.part("Form", edited(draft));
        self.problem(draft);
        if draft.is_raw {
            self.raw(&card.schema);
        }
        let now = draft.edited.clone().unwrap_or_else(|| draft::original(approval));
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

    fn url(&mut self, card: &UrlCard, approval: &Approval, pins: Option<&[PinnedServer]>) {
        self.heading("open a URL for", &approval.server_label());
        card.warnings.iter().for_each(|warning| self.alarm(warning));
        self.cause(card.cause.as_deref());
        self.who(approval, pins);
        let host = if card.host.is_empty() { "none" } else { &card.host };
        self.styled("host", host, bold().fg(Color::Yellow));
        self.part("Message", "");
        self.said(&card.message);
        self.part("Full URL", "");
        // The real host is the one after the scheme; a path may repeat the name of another host.
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
        self.styled("", "Hospes has not fetched this URL. Open it only if you know this host.", dim());
    }
}

/// Describes the values that a form field accepts.
pub(crate) fn kind(field: &FormField) -> String {
    let schema = &field.schema;
    let said = |name: &str| schema.get(name).and_then(Value::as_str);
    // A single choice lists its values in `enum` or `oneOf`, a multiple choice lists them below `items`.
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
            words[0] = format!("any of {}, separated by commas", choices.join(", "));
        }
    }
    words.push(if field.is_required { "required".to_owned() } else { "optional".to_owned() });
    let about = said("description").or_else(|| said("title"));
    words.extend(about.map(str::to_owned));
    words.join("; ")
}
