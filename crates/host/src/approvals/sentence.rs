//! One sentence about a pending approval: who wants to do what to which thing, and how much of it.
//!
//! The console, the terminal and notifications show the same sentence. Its words are Hospes' own, except for names and
//! targets.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::approval::{Approval, ApprovalCallKind, ApprovalCard, CallCard};
use super::call_content::{CallContent, declared_arguments};

/// Names of arguments that identify the target of a call without one, with the words before it.
const TARGET_NAMES: &[(&str, &str)] = &[
    ("path", ""),
    ("file_path", ""),
    ("file", ""),
    ("filename", ""),
    ("uri", ""),
    ("url", ""),
    ("to", "to"),
    ("recipient", "to"),
    ("query", "with"),
    ("sql", "with"),
    ("command", "with"),
    ("cmd", "with"),
    ("name", ""),
    ("id", ""),
];

/// Words of a call that the name of its tool does not tell more about.
const VAGUE_VERBS: &[&str] = &["", "Make a change", "Send data", "Send a request"];

/// A sentence in its parts. `who`, `targets` and `origin` contain text of others, unchanged: a viewer makes hidden
/// characters visible.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ApprovalSentence {
    /// Application, or the server that asks.
    pub who: String,
    /// Words between the subject and the action: "wants to".
    pub modal: &'static str,
    /// Action: "send a message".
    pub verb: Cow<'static, str>,
    /// Word between the action and the targets: "to". Empty if there is none.
    pub preposition: &'static str,
    /// Things that the action is about.
    pub targets: Vec<String>,
    /// Number of further targets.
    pub more_targets: usize,
    /// True if an argument stands in for a target, because nothing says which arguments name the targets of the tool.
    pub is_guessed: bool,
    /// Amount: "+3 −1 lines". Empty if there is none.
    pub amount: String,
    /// Tool and server: "write_file of files". Empty if the sentence names them itself.
    pub origin: String,
}

impl ApprovalSentence {
    /// Creates the sentence about an approval.
    #[must_use]
    pub fn of(approval: &Approval) -> Self {
        let who = approval.application.clone().unwrap_or_else(|| "an application".to_owned());
        let label = approval.server_label();
        let server = || vec![label.clone()];
        let asks = |verb: &'static str| Self {
            who: label.clone(),
            modal: "asks you to",
            verb: verb.into(),
            ..Self::default()
        };
        let wants = |modal, verb: &'static str, preposition, targets| Self {
            who: who.clone(),
            modal,
            verb: verb.into(),
            preposition,
            targets,
            ..Self::default()
        };
        match &approval.card {
            ApprovalCard::Call(card) => Self::of_call(who, &label, card),
            ApprovalCard::Plan(card) => {
                let targets: Vec<String> = card.groups.iter().map(|group| group.server.clone()).collect();
                // The heading is ours: how many calls, then for how long and in which order.
                let (what, how) = card.heading.split_once(", ").unwrap_or((&card.heading, ""));
                let plan = wants("wants to", "", "at", distinct(targets));
                Self { verb: format!("make {what}").into(), amount: how.to_owned(), ..plan }
            }
            ApprovalCard::Result(card) => {
                let verb = "get the result";
                wants("is to", verb, "of", vec![format!("{} of {}", card.name, label)])
            }
            ApprovalCard::SamplingRequest(card) => Self {
                who: label.clone(),
                ..wants("wants to", "ask the model", "", vec![card.model.clone()])
            },
            ApprovalCard::SamplingResult(_) => {
                Self { who: "a model".to_owned(), ..wants("has", "an answer", "for", server()) }
            }
            ApprovalCard::Form(_) => asks("fill in a form"),
            ApprovalCard::Url(card) => {
                let host = if card.host.is_empty() { Vec::new() } else { vec![card.host.clone()] };
                Self { preposition: "at", targets: host, ..asks("open a page") }
            }
        }
    }

    fn of_call(who: String, server: &str, card: &CallCard) -> Self {
        let content = CallContent::of(card);
        let summary = &card.summary;
        let (mut verb, mut preposition) =
            (lower_first(&summary.verb), known_preposition(&summary.preposition));
        let (mut targets, more_targets) = (summary.targets.clone(), summary.more_targets);
        let mut is_guessed = false;
        match &content {
            CallContent::Edit { .. } if summary.verb == "Write" => (verb, preposition) = ("edit".into(), ""),
            CallContent::Write { .. } if summary.verb == "Write" => preposition = "",
            _ => {}
        }
        if targets.is_empty()
            && card.what == ApprovalCallKind::Tool
            && let Some((before, value)) = telling_argument(&declared_arguments(card).0)
        {
            targets.push(value);
            is_guessed = true;
            preposition = if before.is_empty() && summary.verb == "Write" { "" } else { before };
        }
        let is_vague = VAGUE_VERBS.contains(&&*summary.verb) && targets.is_empty();
        let name = format!("{} of {server}", card.name);
        if is_vague {
            (verb, preposition, targets) = ("call".into(), "", vec![name.clone()]);
        }
        let origin = if is_vague { String::new() } else { name };
        let amount = content.amount();
        let verb = verb.into();
        Self { who, modal: "wants to", verb, preposition, targets, more_targets, is_guessed, amount, origin }
    }

    /// Returns the sentence as text: "Cursor wants to edit notes.md: +3 −1 lines (edit_file of files)". `show` makes
    /// one part of others safe to show.
    #[must_use]
    pub fn render(&self, show: impl Fn(&str) -> String) -> String {
        let mut text = format!("{} {} {}", show(&self.who), self.modal, self.verb);
        if !self.targets.is_empty() {
            let targets: Vec<String> = self.targets.iter().map(|target| show(target)).collect();
            let between = if self.preposition.is_empty() { "" } else { " " };
            text.push_str(&format!("{between}{} {}", self.preposition, show(&targets.join(", "))));
        }
        if self.more_targets > 0 {
            text.push_str(&format!(" and {} more", self.more_targets));
        }
        if !self.amount.is_empty() {
            text.push_str(&format!(": {}", self.amount));
        }
        if !self.origin.is_empty() {
            text.push_str(&format!(" ({})", show(&self.origin)));
        }
        text
    }

    /// Returns what a notification says, which others may read: "edit · notes.md", or the tool where an argument stands in
    /// for the target.
    #[must_use]
    pub fn render_notice(&self, show: impl Fn(&str) -> String) -> String {
        match self.is_guessed {
            true => format!("call · {}", show(&self.origin)),
            false => self.render_brief(show),
        }
    }

    /// Returns what a list says: "edit · notes.md". Of a path only the last part is left.
    #[must_use]
    pub fn render_brief(&self, show: impl Fn(&str) -> String) -> String {
        match self.targets.first() {
            Some(target) => format!("{} · {}", self.verb, show(last_part(target))),
            None => self.verb.to_string(),
        }
    }
}

/// Returns the last part of a path or URL, and any other text as it is.
fn last_part(target: &str) -> &str {
    let is_path = target.starts_with('/') || target.starts_with('~') || target.contains("://");
    let trimmed = target.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        Some(last) if is_path && !last.is_empty() && !target.ends_with("://") => last,
        _ => target,
    }
}

/// Returns the argument that identifies a call, and the word before it.
fn telling_argument(arguments: &Map<String, Value>) -> Option<(&'static str, String)> {
    TARGET_NAMES.iter().find_map(|(name, before)| {
        let value = arguments.iter().find(|(given, _)| given.eq_ignore_ascii_case(name))?.1;
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            // A command is often a list of words.
            Value::Array(words) if words.iter().all(Value::is_string) && !words.is_empty() => {
                words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
            }
            _ => return None,
        };
        (!text.is_empty()).then_some((*before, text))
    })
}

/// Returns a preposition of a card as one of ours. A stored card contains nothing else, unless it was tampered with.
fn known_preposition(text: &str) -> &'static str {
    ["to", "at", "on", "of", "from", "with", "for"].into_iter().find(|known| *known == text).unwrap_or("")
}

/// Verbs begin with one capital letter.
fn lower_first(verb: &str) -> String {
    let mut letters = verb.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

fn distinct(names: Vec<String>) -> Vec<String> {
    let mut known = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sentence(application: Option<&str>, card: &Value) -> ApprovalSentence {
        let approval = json!({
            "id": "a", "asked_at": "2026-11-27T09:00:00Z", "expires_at": "2026-11-27T09:02:00Z", "state": "open",
            "server": "files", "application": application,
            "offers": { "edit": false, "session": false, "always": false, "block": false }, "card": card,
        });
        ApprovalSentence::of(&serde_json::from_value(approval).unwrap())
    }

    fn call(name: &str, summary: &Value, arguments: &Value) -> ApprovalSentence {
        let declared: Map<String, Value> =
            arguments.as_object().unwrap().keys().map(|name| (name.clone(), json!({}))).collect();
        call_of(name, summary, &json!({ "properties": declared }), arguments)
    }

    fn call_of(name: &str, summary: &Value, schema: &Value, arguments: &Value) -> ApprovalSentence {
        let card = json!({ "kind": "call", "what": "tool", "name": name, "summary": summary,
            "input_schema": schema, "arguments": arguments, "because": "a rule" });
        sentence(Some("Cursor"), &card)
    }

    #[test]
    fn a_call_is_who_what_to_which_thing_and_how_much() {
        let edits = json!({ "items": { "properties": { "oldText": {}, "newText": {} } } });
        let edit = call_of(
            "edit_file",
            &json!({ "verb": "Write", "preposition": "to", "targets": ["/srv/notes.md"] }),
            &json!({ "properties": { "path": {}, "edits": edits } }),
            &json!({ "path": "/srv/notes.md", "edits": [{ "oldText": "a", "newText": "b\nc" }] }),
        );
        let text = "Cursor wants to edit /srv/notes.md: +2 −1 lines (edit_file of files)";
        assert_eq!(edit.render(str::to_owned), text);
        assert_eq!(edit.render_brief(str::to_owned), "edit · notes.md");
        let mail = call(
            "send",
            &json!({ "verb": "Send a message", "preposition": "to", "targets": ["a@x.example"], "more_targets": 2 }),
            &json!({ "to": "a@x.example", "body": "Hello" }),
        );
        assert_eq!(
            mail.render(str::to_owned),
            "Cursor wants to send a message to a@x.example and 2 more: 5 characters (send of files)"
        );
    }

    /// The tool of a file server writes the whole file, whatever else an application sends with it.
    #[test]
    fn a_decoy_changes_neither_the_verb_nor_the_amount() {
        let summary = json!({ "verb": "Write", "preposition": "to", "targets": ["/x"] });
        let declares = |names: &[&str]| {
            let names = names.iter().map(|name| ((*name).to_owned(), json!({})));
            json!({ "properties": names.collect::<Map<_, _>>() })
        };
        let arguments = json!({ "path": "/x", "content": "a\nb", "old": "", "new": "" });
        let said = |schema: &Value| call_of("write_file", &summary, schema, &arguments).render(str::to_owned);
        let text = "Cursor wants to write /x: 2 lines, 3 bytes (write_file of files)";
        assert_eq!(said(&declares(&["path", "content"])), text);
        let unclear = "Cursor wants to write to /x (write_file of files)";
        assert_eq!(said(&declares(&["path", "content", "old", "new"])), unclear);
        assert_eq!(said(&json!({})), unclear);
        let vague = json!({ "verb": "Make a change", "preposition": "at" });
        let arguments = json!({ "uri": "a://b", "path": "/harmless" });
        let guessed = call_of("put", &vague, &declares(&["uri"]), &arguments);
        assert_eq!(guessed.targets, ["a://b"]);
    }

    #[test]
    fn known_arguments_stand_in_for_targets() {
        let vague = json!({ "verb": "Make a change", "preposition": "at" });
        let run = call(
            "sh",
            &json!({ "verb": "Run code", "preposition": "on" }),
            &json!({ "command": ["npm", "test"] }),
        );
        assert_eq!(run.render(str::to_owned), "Cursor wants to run code with npm test (sh of files)");
        let other = call("frobnicate", &vague, &json!({ "depth": 3 }));
        assert_eq!(other.render(str::to_owned), "Cursor wants to call frobnicate of files");
        assert_eq!(other.render_brief(str::to_owned), "call · frobnicate of files");
        let named = call("frobnicate", &vague, &json!({ "path": "/a/b" }));
        assert_eq!(named.render_brief(str::to_owned), "make a change · b");
        assert_eq!(named.render_notice(str::to_owned), "call · frobnicate of files");
    }

    /// Text that an application and a server choose cannot hide, and a part is never longer than the viewer wants.
    #[test]
    fn parts_of_others_are_shown_as_the_viewer_says() {
        let call = call("x\u{202e}", &json!({ "verb": "Delete", "targets": ["/a\u{200b}b"] }), &json!({}));
        let text = call.render(hospes_policy::visible_line);
        assert!(text.contains("x\\u{202e} of files") && text.contains("/a\\u{200b}b"), "{text}");
    }

    #[test]
    fn every_kind_of_card_has_a_sentence() {
        let url =
            json!({ "kind": "url", "url": "https://a.example/t", "host": "a.example", "message": "prose" });
        assert_eq!(sentence(None, &url).render(str::to_owned), "files asks you to open a page at a.example");
        let result = json!({ "kind": "result", "what": "tool", "name": "read", "arguments": {}, "result": {}, "because": "r" });
        assert_eq!(
            sentence(None, &result).render(str::to_owned),
            "an application is to get the result of read of files"
        );
    }

    #[test]
    fn only_paths_are_shortened() {
        for (target, short) in [
            ("/srv/notes.md", "notes.md"),
            ("/srv/", "srv"),
            ("https://a.example/x/y?z", "y?z"),
            ("acme/repo", "acme/repo"),
            ("/", "/"),
            ("https://", "https://"),
        ] {
            assert_eq!(last_part(target), short);
        }
    }
}
