//! Behaviours that are tried, and the losses to expect between two revisions.

use hospes::model::Revision;

/// Behaviour that can cross a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BridgeBehaviour {
    Lists,
    Calls,
    Structured,
    Contents,
    ToolErrors,
    Errors,
    Progress,
    Logging,
    Cancellation,
    Completion,
    Prompts,
    Resources,
    Form,
    Declined,
    Url,
    Rounds,
    Sampling,
    SamplingTools,
    Roots,
    Several,
    AtOnce,
    ListChanges,
    Subscriptions,
}

/// Something that is lost, as `docs/bridging.md` says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BridgeLoss {
    /// Words of which the error has one, where the loss is a failure.
    pub(crate) named_by: &'static [&'static str],
}

impl BridgeBehaviour {
    pub(crate) const ALL: [Self; 23] = [
        Self::Lists,
        Self::Calls,
        Self::Structured,
        Self::Contents,
        Self::ToolErrors,
        Self::Errors,
        Self::Progress,
        Self::Logging,
        Self::Cancellation,
        Self::Completion,
        Self::Prompts,
        Self::Resources,
        Self::Form,
        Self::Declined,
        Self::Url,
        Self::Rounds,
        Self::Sampling,
        Self::SamplingTools,
        Self::Roots,
        Self::Several,
        Self::AtOnce,
        Self::ListChanges,
        Self::Subscriptions,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lists => "lists",
            Self::Calls => "calls",
            Self::Structured => "structured output",
            Self::Contents => "kinds of content",
            Self::ToolErrors => "errors of tools",
            Self::Errors => "errors of the protocol",
            Self::Progress => "progress",
            Self::Logging => "log messages",
            Self::Cancellation => "cancellation",
            Self::Completion => "completion",
            Self::Prompts => "prompts",
            Self::Resources => "resources and templates",
            Self::Form => "elicitation by form",
            Self::Declined => "elicitation declined",
            Self::Url => "elicitation by URL",
            Self::Rounds => "elicitation twice in a call",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling with tools",
            Self::Roots => "roots",
            Self::Several => "several questions at once",
            Self::AtOnce => "questions of two calls at once",
            Self::ListChanges => "list changes",
            Self::Subscriptions => "subscriptions",
        }
    }

    /// Returns what is lost of the behaviour between an application and a server. A loss depends on the revisions of
    /// both.
    pub(crate) fn loss(self, application: Revision, server: Revision) -> Option<BridgeLoss> {
        let (since, named_by): (_, &[&str]) = match self {
            Self::Structured => (Revision::V2025_06_18, &[]),
            Self::Contents => (Revision::V2025_06_18, &[]),
            Self::Progress => (Revision::V2025_03_26, &[]),
            Self::Form | Self::Declined | Self::Rounds => (Revision::V2025_06_18, &["elicit"]),
            Self::Url => (Revision::V2025_11_25, &["elicit", "url"]),
            Self::SamplingTools => (Revision::V2025_11_25, &["sampling"]),
            _ => return None,
        };
        (application.min(server) < since).then_some(BridgeLoss { named_by })
    }
}
