//! Edits that a person makes to a pending approval before the decision.

use hospes::model::RawJson;
use hospes_host::approvals::{Approval, ApprovalCard};
use serde_json::Value;

use super::json;
use super::line_editor::LineEditor;
use crate::arguments::{ArgumentSource, arguments};
use crate::prompt;

/// Maximum size of the text of one form field, in bytes.
const MAX_FIELD: usize = 16 << 10;

/// Edited replacement for the requested action, and how the card shows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApprovalDraft {
    /// Replacement for the original value, if it was edited.
    pub(crate) edited: Option<RawJson>,
    /// Last edit that is not valid JSON.
    pub(crate) broken: Option<String>,
    /// Error message for [`Self::broken`].
    pub(crate) problem: Option<String>,
    /// True if the value is shown as JSON.
    pub(crate) is_raw: bool,
}

/// Returns the editable part of a pending approval, unedited.
pub(crate) fn original(approval: &Approval) -> RawJson {
    match &approval.card {
        ApprovalCard::Call(card) => card.arguments.clone(),
        ApprovalCard::Result(card) => card.result.clone(),
        ApprovalCard::SamplingRequest(card) => card.request.clone(),
        ApprovalCard::SamplingResult(card) => card.result.clone(),
        ApprovalCard::Form(card) => defaults(&card.schema),
        _ => RawJson::null(),
    }
}

fn defaults(schema: &RawJson) -> RawJson {
    let fields = fields(schema).into_iter();
    let given = fields.filter_map(|field| Some((field.name, field.schema.get("default")?.clone())));
    Value::Object(given.collect()).into()
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FormField {
    pub(crate) name: String,
    pub(crate) schema: Value,
    pub(crate) is_required: bool,
}

/// Returns the fields of a form in schema order.
pub(crate) fn fields(schema: &RawJson) -> Vec<FormField> {
    let whole = schema.to_value().unwrap_or_default();
    let required = whole.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let members = json::members(schema).unwrap_or_default().into_iter();
    // The last of several members with this name, as `to_value` above takes it, so that both read the same schema.
    let properties = members.filter(|(name, _)| name == "properties").last();
    let properties = properties.and_then(|(_, properties)| json::members(&properties)).unwrap_or_default();
    let field = |(name, schema): (String, RawJson)| {
        let is_required = required.iter().any(|one| one.as_str() == Some(&name));
        FormField { name, schema: schema.to_value().unwrap_or_default(), is_required }
    };
    properties.into_iter().map(field).collect()
}

impl ApprovalDraft {
    /// Applies the text that an editor returned.
    pub(crate) fn take(&mut self, text: String, original: &RawJson) {
        match RawJson::parse(text.clone()) {
            Ok(edited) => {
                (self.broken, self.problem) = (None, None);
                // Text that was saved unchanged is no edit, for the card and for the host.
                self.edited = Some(edited).filter(|edited| !json::is_same(edited, original));
            }
            Err(error) => {
                self.problem = Some(format!("the edited text is not valid JSON: {error}"));
                // Kept, so that the editor opens with it again and no typed text is lost.
                self.broken = Some(text);
            }
        }
    }

    /// Returns the text with which an editor starts.
    pub(crate) fn text(&self, original: &RawJson) -> String {
        self.broken.clone().unwrap_or_else(|| json::pretty(self.edited.as_ref().unwrap_or(original)) + "\n")
    }
}

/// A form that is being filled in, field by field.
#[derive(Clone, Debug)]
pub(crate) struct FormEditor {
    pub(crate) fields: Vec<FormField>,
    schema: Value,
    /// Text entered into each field.
    answers: Vec<String>,
    pub(crate) at: usize,
    pub(crate) entry: LineEditor,
}

impl FormEditor {
    /// Starts at the first field, with the present values filled in. Returns `None` for a form without fields.
    pub(crate) fn new(schema: &RawJson, now: &RawJson) -> Option<Self> {
        let fields = fields(schema);
        let now = now.to_value().unwrap_or_default();
        let answers: Vec<String> = fields.iter().map(|field| written(now.get(&field.name))).collect();
        let entry = LineEditor::new(answers.first()?, MAX_FIELD);
        Some(Self { fields, schema: schema.to_value().unwrap_or_default(), answers, at: 0, entry })
    }

    /// Moves to the previous or the next field. Returns true if there is no next field.
    pub(crate) fn step(&mut self, forward: bool) -> bool {
        self.answers[self.at] = self.entry.text().to_owned();
        let next = if forward { self.at + 1 } else { self.at.saturating_sub(1) };
        if next == self.fields.len() {
            return true;
        }
        self.at = next;
        self.entry = LineEditor::new(&self.answers[next], MAX_FIELD);
        false
    }

    /// Returns the content of the form.
    ///
    /// # Errors
    /// A description of each field with an invalid value.
    pub(crate) fn content(&self) -> Result<RawJson, String> {
        let fields = self.fields.iter().zip(&self.answers);
        let words = fields.flat_map(|(field, text)| prompt::words(&field.name, &field.schema, text.trim()));
        let words: Vec<String> = words.collect();
        let source = ArgumentSource { json: None, words: &words };
        // A form of a server never reads a file, whatever its text begins with.
        let refuse = |_: &str| Err(std::io::ErrorKind::Unsupported.into());
        let content = arguments("form", &self.schema, source, &refuse);
        content
            .map(|content| Value::Object(content).into())
            .map_err(|error| error.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }
}

/// Formats a value as the text of an input line.
fn written(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            items.iter().map(|item| written(Some(item))).collect::<Vec<_>>().join(", ")
        }
        Some(other) => other.to_string(),
    }
}
