//! Texts of a plan, in which secrets stay apart.

use std::fmt;

/// A text of a plan: an argument, a value, a URL. Secrets stay apart from the rest, so that a configuration can refer to
/// them. `Debug` and [`Self::masked`] do not show them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PlannedText {
    parts: Vec<TextPart>,
}

/// A part of a text.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextPart {
    /// Text that may be shown.
    Plain(String),
    /// A secret.
    Secret {
        /// Id of the question whose answer it is.
        question: String,
        /// The secret itself.
        value: String,
    },
}

impl PlannedText {
    /// Creates a text without secrets.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self { parts: vec![TextPart::Plain(text.into())] }
    }

    pub(super) fn secret(question: &str, value: &str) -> Self {
        Self { parts: vec![TextPart::Secret { question: question.to_owned(), value: value.to_owned() }] }
    }

    /// Returns the parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[TextPart] {
        &self.parts
    }

    /// Returns true if the text contains a secret.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        self.secret_questions().next().is_some()
    }

    /// Returns the ids of the questions whose answers are secrets in this text.
    pub fn secret_questions(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TextPart::Secret { question, .. } => Some(question.as_str()),
            TextPart::Plain(_) => None,
        })
    }

    /// Returns the text with its secrets, for starting a server.
    #[must_use]
    pub fn reveal(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                TextPart::Plain(text) => text.as_str(),
                TextPart::Secret { value, .. } => value.as_str(),
            })
            .collect()
    }

    /// Returns the text with `***` for each secret, for showing it.
    #[must_use]
    pub fn masked(&self) -> String {
        self.render(str::to_owned, |_| "***".to_owned())
    }

    /// Returns the text for a configuration: `plain` escapes what may be shown, and `reference` makes the reference to the
    /// secret of a question.
    #[must_use]
    pub fn render(&self, plain: impl Fn(&str) -> String, reference: impl Fn(&str) -> String) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                TextPart::Plain(text) => plain(text),
                TextPart::Secret { question, .. } => reference(question),
            })
            .collect()
    }

    pub(super) fn push_plain(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(TextPart::Plain(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.parts.push(TextPart::Plain(text.to_owned())),
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        for part in other.parts {
            match part {
                TextPart::Plain(text) => self.push_plain(&text),
                secret @ TextPart::Secret { .. } => self.parts.push(secret),
            }
        }
    }

    /// Returns the text without a prefix of its plain beginning, if it has that.
    pub(super) fn without_prefix(&self, prefix: &str) -> Option<Self> {
        let TextPart::Plain(first) = self.parts.first()? else { return None };
        let rest = first.strip_prefix(prefix)?.to_owned();
        let mut parts = vec![TextPart::Plain(rest)];
        parts.extend(self.parts[1..].iter().cloned());
        Some(Self { parts })
    }

    /// Splits the text at the first `=` of its plain beginning: `NAME=` and the rest.
    pub(super) fn split_assignment(&self) -> Option<(String, Self)> {
        let TextPart::Plain(first) = self.parts.first()? else { return None };
        let (name, rest) = first.split_once('=')?;
        let mut value = Self::default();
        value.push_plain(rest);
        self.parts[1..].iter().cloned().for_each(|part| value.parts.push(part));
        Some((name.to_owned(), value))
    }
}

impl From<&str> for PlannedText {
    fn from(text: &str) -> Self {
        Self::plain(text)
    }
}

impl From<String> for PlannedText {
    fn from(text: String) -> Self {
        Self::plain(text)
    }
}

impl fmt::Debug for PlannedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.masked())
    }
}

impl fmt::Debug for TextPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => write!(f, "Plain({text:?})"),
            Self::Secret { question, .. } => write!(f, "Secret({question:?})"),
        }
    }
}
