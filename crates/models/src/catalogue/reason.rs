//! Reason for the choice of a model, for people and for the audit log.

use std::fmt;

use serde::Serialize;

use super::ExclusionReason;

/// Reason for the choice of a model. It prints as a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChoiceReason {
    /// Name of the model.
    pub model: String,
    /// Hint that selected the model, and what it matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<(String, HintMatch)>,
    /// Earlier hints, which matched no model that can take the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
    /// Priorities that were weighed, highest first. Empty if there was nothing to weigh.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weighed: Vec<WeighedPriority>,
    /// Number of models among which it was chosen.
    pub among: usize,
    /// Models that cannot take the request, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<ExcludedModel>,
}

/// Part of a model's names that a hint matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HintMatch {
    /// The model's name.
    Name,
    /// An alias of the model.
    Alias(String),
}

/// Priority of a server in the choice of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PriorityKind {
    /// Low cost.
    Cost,
    /// High speed.
    Speed,
    /// High capability.
    Intelligence,
}

/// A priority of the server, and the score of the chosen model for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WeighedPriority {
    /// Priority that was weighed.
    pub wish: PriorityKind,
    /// Priority, from 0 to 1.
    pub priority: f64,
    /// Score, from 0 to 1.
    pub score: f64,
}

/// A model that cannot take the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExcludedModel {
    /// Name of the model.
    pub model: String,
    /// Reason the model cannot take the request.
    #[serde(flatten)]
    pub shortage: ExclusionReason,
}

impl fmt::Display for ChoiceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = &self.model;
        match &self.hint {
            Some((hint, HintMatch::Name)) => write!(f, "hint `{hint}` → `{model}`")?,
            Some((hint, HintMatch::Alias(alias))) if hint.eq_ignore_ascii_case(alias) => {
                write!(f, "hint `{hint}` → alias of `{model}`")?;
            }
            Some((hint, HintMatch::Alias(alias))) => {
                write!(f, "hint `{hint}` → `{alias}`, alias of `{model}`")?
            }
            None => write!(f, "`{model}`")?,
        }
        match (self.missed.as_slice(), &self.hint) {
            ([], Some(_)) => {}
            ([], None) => f.write_str(", no hint given")?,
            (missed, _) => write!(f, ", no model for {}", hints(missed))?,
        }
        for (index, weighed) in self.weighed.iter().enumerate() {
            let sign = if index == 0 { ", priority" } else { " and" };
            write!(f, "{sign} {weighed}")?;
        }
        match self.among {
            1 if self.hint.is_some() => f.write_str(", the only one that matches the hint"),
            1 => f.write_str(", the only one that can handle it"),
            many if self.weighed.is_empty() => write!(f, ", the first of {many} in the configuration"),
            many => write!(f, ", the best of {many}"),
        }?;
        for (index, passed) in self.passed_over.iter().enumerate() {
            write!(f, "{}{passed}", if index == 0 { "; passed over: " } else { ", " })?;
        }
        Ok(())
    }
}

fn hints(hints: &[String]) -> String {
    let shown: Vec<String> = hints.iter().map(|hint| format!("`{hint}`")).collect();
    shown.join(", ")
}

impl fmt::Display for WeighedPriority {
    /// Formats as `intelligence 0.8 (it has 0.9)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (it has {})", self.wish, self.priority, self.score)
    }
}

impl fmt::Display for PriorityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cost => "cost",
            Self::Speed => "speed",
            Self::Intelligence => "intelligence",
        })
    }
}

impl fmt::Display for ExcludedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.model, self.shortage)
    }
}

impl fmt::Display for ExclusionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Images => f.write_str("does not support images"),
            Self::Audio => f.write_str("does not support audio"),
            Self::Tools => f.write_str("does not support tools"),
            Self::Context { needed, room } => write!(f, "has room for {room} tokens, not for {needed}"),
            Self::Cannot { what } => write!(f, "does not support {what}"),
            Self::Budget { words } => f.write_str(words),
        }
    }
}
