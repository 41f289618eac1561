//! Completion of argument values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::types::lenient::or_default;

/// Params of `completion/complete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompleteParams {
    /// Prompt or resource template that the argument belongs to.
    #[serde(rename = "ref")]
    pub reference: CompletionReference,
    /// The argument and the text typed so far.
    pub argument: CompleteArgument,
    /// Arguments that already have a value (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CompleteContext>,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl CompleteParams {
    /// Creates a `CompleteParams` with the required members; all others are absent.
    #[must_use]
    pub fn new(reference: CompletionReference, argument: CompleteArgument) -> Self {
        Self { reference, argument, context: None, meta: Meta::new() }
    }
}

setters!(CompleteParams {
    some with_context(context: CompleteContext);
    set with_meta(meta: Meta);
});

/// Prompt or resource template that an argument belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum CompletionReference {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// Name of the prompt.
        name: String,
        /// Display name (from 2025-06-18).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// A resource template.
    #[serde(rename = "ref/resource")]
    Resource {
        /// URI of the resource, or its template.
        uri: String,
    },
}

/// An argument and the text typed so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompleteArgument {
    /// Name of the argument.
    pub name: String,
    /// Text typed so far.
    pub value: String,
}

impl CompleteArgument {
    /// Creates a `CompleteArgument` with the required members; all others are absent.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// Arguments that already have a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompleteContext {
    /// Values by argument name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub arguments: BTreeMap<String, String>,
}

impl CompleteContext {
    /// Creates an empty `CompleteContext`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(CompleteContext {
    set with_arguments(arguments: BTreeMap<String, String>);
});

/// Result of `completion/complete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompleteResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Suggested values.
    pub completion: Completion,
}

impl CompleteResult {
    /// Creates a `CompleteResult` with the required members; all others are absent.
    #[must_use]
    pub fn new(completion: Completion) -> Self {
        Self { completion, meta: Meta::new() }
    }
}

setters!(CompleteResult {
    set with_meta(meta: Meta);
});

/// Suggested values, best first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// At most [`Completion::MAX_VALUES`] values.
    pub values: Vec<String>,
    /// Total number of values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// True if there are more values than these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
}

impl Completion {
    /// Creates a `Completion` with the required members; all others are absent.
    #[must_use]
    pub fn new(values: Vec<String>) -> Self {
        Self { values, total: None, has_more: None }
    }
}

setters!(Completion {
    some with_total(total: u64);
    some with_has_more(has_more: bool);
});

impl Completion {
    /// Maximum number of values in one result.
    pub const MAX_VALUES: usize = 100;
}
