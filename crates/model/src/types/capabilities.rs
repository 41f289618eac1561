//! Capabilities of clients and servers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ExtraMembers;
use crate::types::lenient::or_default;
use crate::{RawJson, TASKS_EXTENSION};

/// Settings by name, each unchanged JSON.
pub type CapabilitySettings = BTreeMap<String, RawJson>;

/// Capabilities of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// Experimental capabilities that no revision defines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub experimental: CapabilitySettings,
    /// The client has roots (deprecated in 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<RootsCapability>,
    /// The client supports sampling (deprecated in 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingCapability>,
    /// The client supports elicitation (from 2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// The client runs requests as tasks (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<ClientTasksCapability>,
    /// Supported extensions by identifier, each with an object of settings. The schemas define this member from
    /// 2026-07-28 on, but it is negotiated with `initialize` too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub extensions: CapabilitySettings,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ClientCapabilities {
    /// Creates an empty `ClientCapabilities`.
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

    /// Returns true if the client has an extension other than tasks, which the library implements itself.
    #[must_use]
    pub fn has_own_extensions(&self) -> bool {
        self.extensions
            .iter()
            .any(|(identifier, settings)| *identifier != TASKS_EXTENSION && settings.is_object())
    }
}

/// Roots capability of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RootsCapability {
    /// True if the client reports changes of its roots (up to 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl RootsCapability {
    /// Creates an empty `RootsCapability`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(RootsCapability {
    some with_list_changed(list_changed: bool);
});

/// Sampling capability of a client.
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
    /// Creates an empty `SamplingCapability`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(SamplingCapability {
    some with_tools(tools: RawJson);
    some with_context(context: RawJson);
});

/// Elicitation capability of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// Elicitation by form (from 2025-11-25; the only kind before that).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<RawJson>,
    /// Elicitation by URL (from 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<RawJson>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ElicitationCapability {
    /// Creates an empty `ElicitationCapability`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ElicitationCapability {
    some with_form(form: RawJson);
    some with_url(url: RawJson);
});

/// Tasks capability of a client (2025-11-25 only).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientTasksCapability {
    /// Support for tasks/list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<RawJson>,
    /// Support for tasks/cancel.
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
    /// Creates an empty `ClientTasksCapability`.
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

/// Requests that a client can run as tasks.
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
    /// Creates an empty `ClientTaskRequests`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ClientTaskRequests {
    some with_sampling(sampling: SamplingTaskRequests);
    some with_elicitation(elicitation: ElicitationTaskRequests);
});

/// Sampling requests that a client can run as tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingTaskRequests {
    /// Support for sampling/createMessage as a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_message: Option<RawJson>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl SamplingTaskRequests {
    /// Creates an empty `SamplingTaskRequests`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(SamplingTaskRequests {
    some with_create_message(create_message: RawJson);
});

/// Elicitation requests that a client can run as tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationTaskRequests {
    /// Support for elicitation/create as a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<RawJson>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ElicitationTaskRequests {
    /// Creates an empty `ElicitationTaskRequests`.
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
    /// The server offers tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsCapability>,
    /// The server offers prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PromptsCapability>,
    /// The server offers resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// The server completes arguments (from 2025-03-26).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<RawJson>,
    /// The server sends log messages (deprecated in 2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<RawJson>,
    /// The server runs requests as tasks (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<ServerTasksCapability>,
    /// Supported extensions by identifier, each with an object of settings. The schemas define this member from
    /// 2026-07-28 on, but it is negotiated with `initialize` too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub extensions: CapabilitySettings,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ServerCapabilities {
    /// Creates an empty `ServerCapabilities`.
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

/// Tools capability of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolsCapability {
    /// True if the server reports changes of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ToolsCapability {
    /// Creates an empty `ToolsCapability`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ToolsCapability {
    some with_list_changed(list_changed: bool);
});

/// Prompts capability of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptsCapability {
    /// True if the server reports changes of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl PromptsCapability {
    /// Creates an empty `PromptsCapability`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(PromptsCapability {
    some with_list_changed(list_changed: bool);
});

/// Resources capability of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourcesCapability {
    /// True if clients can subscribe to changes of single resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<bool>,
    /// True if the server reports changes of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ResourcesCapability {
    /// Creates an empty `ResourcesCapability`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ResourcesCapability {
    some with_subscribe(subscribe: bool);
    some with_list_changed(list_changed: bool);
});

/// Tasks capability of a server (2025-11-25 only).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerTasksCapability {
    /// Support for tasks/list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<RawJson>,
    /// Support for tasks/cancel.
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
    /// Creates an empty `ServerTasksCapability`.
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

/// Requests that a server can run as tasks.
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
    /// Creates an empty `ServerTaskRequests`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ServerTaskRequests {
    some with_tools(tools: ToolTaskRequests);
});

/// Tool requests that a server can run as tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolTaskRequests {
    /// Support for tools/call as a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<RawJson>,
    /// Members that the specification does not define.
    #[serde(flatten)]
    pub extra: ExtraMembers,
}

impl ToolTaskRequests {
    /// Creates an empty `ToolTaskRequests`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(ToolTaskRequests {
    some with_call(call: RawJson);
});
