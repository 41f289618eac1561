//! Capabilities of clients and servers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ExtraMembers;
use crate::types::lenient::or_default;
use crate::{RawJson, TASKS_EXTENSION};

/// Settings by name, each kept as it came.
pub type CapabilitySettings = BTreeMap<String, RawJson>;

/// Capabilities of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// Experimental capabilities that no revision defines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub experimental: CapabilitySettings,
    /// It has roots (deprecated in 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<RootsCapability>,
    /// It has a model (deprecated in 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingCapability>,
    /// It can ask a person (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// It runs requests as tasks (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<ClientTasksCapability>,
    /// The extensions it has, by identifier, each with an object of settings. The schemas list them from 2026-07-28 on;
    /// they are negotiated with `initialize`, too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub extensions: CapabilitySettings,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ClientCapabilities {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ClientCapabilities {
    set with_experimental(experimental: CapabilitySettings);
    some with_roots(roots: RootsCapability);
    some with_sampling(sampling: SamplingCapability);
    some with_elicitation(elicitation: ElicitationCapability);
    some with_tasks(tasks: ClientTasksCapability);
    set with_extensions(extensions: CapabilitySettings);
});

impl ClientCapabilities {
    /// Returns true if the client supports elicitation by form; an empty `elicitation` means forms (ELIC-02).
    #[must_use]
    pub fn elicits_forms(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|e| e.form.is_some() || e.url.is_none())
    }

    /// Returns true if the client supports elicitation by URL.
    #[must_use]
    pub fn elicits_urls(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|e| e.url.is_some())
    }

    /// Returns true if sampling requests may carry tools (SAMP-31).
    #[must_use]
    pub fn samples_with_tools(&self) -> bool {
        self.sampling.as_ref().is_some_and(|s| s.tools.is_some())
    }

    /// Returns true if the client has the extension, that is, if it gives an object of settings for it.
    #[must_use]
    pub fn has_extension(&self, identifier: &str) -> bool {
        self.extensions.get(identifier).is_some_and(RawJson::is_object)
    }

    /// True if the client has an extension other than tasks, which the library carries out itself.
    #[must_use]
    pub fn has_own_extensions(&self) -> bool {
        self.extensions
            .iter()
            .any(|(identifier, settings)| *identifier != TASKS_EXTENSION && settings.is_object())
    }
}

/// The client has roots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RootsCapability {
    /// It tells when they change (up to 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl RootsCapability {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(RootsCapability {
    some with_list_changed(list_changed: bool);
});

/// The client has a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingCapability {
    /// The model may use tools (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<RawJson>,
    /// The model may be given context (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<RawJson>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl SamplingCapability {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(SamplingCapability {
    some with_tools(tools: RawJson);
    some with_context(context: RawJson);
});

/// The client can ask a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// By a form (from 2025-11-25; before, the only way).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<RawJson>,
    /// By sending them to a URL (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<RawJson>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ElicitationCapability {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ElicitationCapability {
    some with_form(form: RawJson);
    some with_url(url: RawJson);
});

/// The client runs requests as tasks (2025-11-25 only).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientTasksCapability {
    /// It has tasks/list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<RawJson>,
    /// It has tasks/cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<RawJson>,
    /// Requests that can become tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<ClientTaskRequests>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ClientTasksCapability {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ClientTasksCapability {
    some with_list(list: RawJson);
    some with_cancel(cancel: RawJson);
    some with_requests(requests: ClientTaskRequests);
});

/// The requests that a client runs as tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientTaskRequests {
    /// Sampling requests that can become tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingTaskRequests>,
    /// Elicitation requests that can become tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationTaskRequests>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ClientTaskRequests {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ClientTaskRequests {
    some with_sampling(sampling: SamplingTaskRequests);
    some with_elicitation(elicitation: ElicitationTaskRequests);
});

/// The sampling requests that a client runs as tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingTaskRequests {
    /// sampling/createMessage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_message: Option<RawJson>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl SamplingTaskRequests {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(SamplingTaskRequests {
    some with_create_message(create_message: RawJson);
});

/// The elicitation requests that a client runs as tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationTaskRequests {
    /// elicitation/create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<RawJson>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ElicitationTaskRequests {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ElicitationTaskRequests {
    some with_create(create: RawJson);
});

/// Capabilities of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// Experimental capabilities that no revision defines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub experimental: CapabilitySettings,
    /// It has tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsCapability>,
    /// It has prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PromptsCapability>,
    /// It has resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// It completes arguments (from 2025-03-26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<RawJson>,
    /// It sends log messages (deprecated in 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<RawJson>,
    /// It runs requests as tasks (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<ServerTasksCapability>,
    /// The extensions it has, by identifier, each with an object of settings. The schemas list them from 2026-07-28 on;
    /// they are negotiated with `initialize`, too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub extensions: CapabilitySettings,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ServerCapabilities {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ServerCapabilities {
    set with_experimental(experimental: CapabilitySettings);
    some with_tools(tools: ToolsCapability);
    some with_prompts(prompts: PromptsCapability);
    some with_resources(resources: ResourcesCapability);
    some with_completions(completions: RawJson);
    some with_logging(logging: RawJson);
    some with_tasks(tasks: ServerTasksCapability);
    set with_extensions(extensions: CapabilitySettings);
});

/// The server has tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolsCapability {
    /// It tells when they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ToolsCapability {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ToolsCapability {
    some with_list_changed(list_changed: bool);
});

/// The server has prompts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptsCapability {
    /// It tells when they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl PromptsCapability {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(PromptsCapability {
    some with_list_changed(list_changed: bool);
});

/// The server has resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourcesCapability {
    /// It tells when one that was asked for changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<bool>,
    /// It tells when the list changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ResourcesCapability {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ResourcesCapability {
    some with_subscribe(subscribe: bool);
    some with_list_changed(list_changed: bool);
});

/// The server runs requests as tasks (2025-11-25 only).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerTasksCapability {
    /// It has tasks/list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<RawJson>,
    /// It has tasks/cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<RawJson>,
    /// Requests that can become tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<ServerTaskRequests>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ServerTasksCapability {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ServerTasksCapability {
    some with_list(list: RawJson);
    some with_cancel(cancel: RawJson);
    some with_requests(requests: ServerTaskRequests);
});

/// The requests that a server runs as tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerTaskRequests {
    /// Tool requests that can become tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolTaskRequests>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ServerTaskRequests {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ServerTaskRequests {
    some with_tools(tools: ToolTaskRequests);
});

/// The tool requests that a server runs as tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolTaskRequests {
    /// tools/call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<RawJson>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ToolTaskRequests {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ToolTaskRequests {
    some with_call(call: RawJson);
});
