//! Elicitation: a server asks the user for input.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::types::lenient::or_default;
use crate::{ElicitSchema, Meta, RawJson, TaskMetadata};

/// Params of `elicitation/create`, distinguished by `mode`; if it is absent, the mode is a form (ELIC-15).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// A form to fill in.
    Form(ElicitFormParams),
    /// A URL to open (from 2025-11-25).
    Url(ElicitUrlParams),
}

impl ElicitParams {
    /// Creates the params of a form.
    pub fn form(message: impl Into<String>, requested_schema: ElicitSchema) -> Self {
        Self::Form(ElicitFormParams::new(message, requested_schema))
    }

    /// Creates the params of a URL.
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Url(ElicitUrlParams::new(message, url))
    }

    /// Returns the message shown to the user.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Form(form) => &form.message,
            Self::Url(url) => &url.message,
        }
    }

    /// Returns the metadata.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        match self {
            Self::Form(form) => &form.meta,
            Self::Url(url) => &url.meta,
        }
    }

    /// Returns the metadata for modification.
    pub fn meta_mut(&mut self) -> &mut Meta {
        match self {
            Self::Form(form) => &mut form.meta,
            Self::Url(url) => &mut url.meta,
        }
    }

    /// Returns the task settings for modification (2025-11-25 only).
    pub fn task_mut(&mut self) -> &mut Option<TaskMetadata> {
        match self {
            Self::Form(form) => &mut form.task,
            Self::Url(url) => &mut url.task,
        }
    }
}

/// A form to fill in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElicitFormParams {
    /// Message shown to the user.
    pub message: String,
    /// Schema of the fields.
    pub requested_schema: ElicitSchema,
    /// Asks the receiver to run the request as a task (2025-11-25 only).
    pub task: Option<TaskMetadata>,
    /// Metadata (up to 2025-11-25).
    pub meta: Meta,
}

impl ElicitFormParams {
    /// Creates a form with its message.
    pub fn new(message: impl Into<String>, requested_schema: ElicitSchema) -> Self {
        Self { message: message.into(), requested_schema, task: None, meta: Meta::new() }
    }
}

setters!(ElicitFormParams {
    some with_task(task: TaskMetadata);
    set with_meta(meta: Meta);
});

/// A URL that the user is asked to open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElicitUrlParams {
    /// Reason shown to the user.
    pub message: String,
    /// URL to open.
    pub url: String,
    /// Id that `notifications/elicitation/complete` refers to (2025-11-25 only, required there).
    pub elicitation_id: Option<String>,
    /// Asks the receiver to run the request as a task (2025-11-25 only).
    pub task: Option<TaskMetadata>,
    /// Metadata (up to 2025-11-25).
    pub meta: Meta,
}

impl ElicitUrlParams {
    /// Creates a URL with the reason to open it.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self { message: message.into(), url: url.into(), elicitation_id: None, task: None, meta: Meta::new() }
    }
}

setters!(ElicitUrlParams {
    some with_elicitation_id(elicitation_id: String);
    some with_task(task: TaskMetadata);
    set with_meta(meta: Meta);
});

/// Members of both modes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ElicitParamsParts {
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    meta: Meta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<ElicitParamsMode>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requested_schema: Option<ElicitSchema>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elicitation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<TaskMetadata>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ElicitParamsMode {
    Form,
    Url,
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ElicitParamsParts { meta, mode, message, requested_schema, url, elicitation_id, task } =
            ElicitParamsParts::deserialize(deserializer)?;
        Ok(match mode {
            None | Some(ElicitParamsMode::Form) => {
                let requested_schema =
                    requested_schema.ok_or_else(|| de::Error::missing_field("requestedSchema"))?;
                Self::Form(ElicitFormParams { message, requested_schema, task, meta })
            }
            Some(ElicitParamsMode::Url) => {
                let url = url.ok_or_else(|| de::Error::missing_field("url"))?;
                Self::Url(ElicitUrlParams { message, url, elicitation_id, task, meta })
            }
        })
    }
}

impl Serialize for ElicitParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Copies do not matter here, because a person answers.
        match self.clone() {
            // The mode of a form is left out: 2025-06-18 does not know the member, and later revisions default to
            // forms.
            Self::Form(form) => ElicitParamsParts {
                meta: form.meta,
                mode: None,
                message: form.message,
                requested_schema: Some(form.requested_schema),
                url: None,
                elicitation_id: None,
                task: form.task,
            },
            Self::Url(url) => ElicitParamsParts {
                meta: url.meta,
                mode: Some(ElicitParamsMode::Url),
                message: url.message,
                requested_schema: None,
                url: Some(url.url),
                elicitation_id: url.elicitation_id,
                task: url.task,
            },
        }
        .serialize(serializer)
    }
}

open_enum! {
    /// Action of the user.
    ElicitAction {
        /// The user accepted.
        Accept = "accept",
        /// The user declined.
        Decline = "decline",
        /// The user dismissed the request without a decision.
        Cancel = "cancel",
    }
}

/// Result of an elicitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitResult {
    /// Metadata (up to 2025-11-25).
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Action of the user.
    pub action: ElicitAction,
    /// Values of the form's fields, an object. Present only with [`ElicitAction::Accept`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<RawJson>,
}

impl ElicitResult {
    /// Creates a result without content.
    #[must_use]
    pub fn new(action: ElicitAction) -> Self {
        Self { meta: Meta::new(), action, content: None }
    }

    /// Creates a result with the values of a form.
    #[must_use]
    pub fn accept(content: RawJson) -> Self {
        Self::new(ElicitAction::Accept).with_content(content)
    }

    /// Creates a declined result.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// Creates a cancelled result.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

setters!(ElicitResult {
    some with_content(content: RawJson);
    set with_meta(meta: Meta);
});

/// Params of `notifications/elicitation/complete` (2025-11-25 only).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationCompleteParams {
    /// Id of the elicitation.
    pub elicitation_id: String,
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
}

impl ElicitationCompleteParams {
    /// Creates the params for the elicitation with this id.
    pub fn new(elicitation_id: impl Into<String>) -> Self {
        Self { elicitation_id: elicitation_id.into(), meta: Meta::new() }
    }
}
