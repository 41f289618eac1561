//! Target of a call: a server and an item there.

use hospes::{Call, Outcome};
use hospes_model::{CallToolResult, RawJson, RpcError, Tool};
use hospes_policy::{CallArguments, KnownLabels, PolicyAction, ToolEffectSet};
use hospes_store::AuditEntryKind;

use crate::approvals::ApprovalCallKind;
use crate::config::server_label;
use crate::server::UpstreamServer;

/// Prefix of an extension's method or notification in the policy, so that it is never mistaken for a tool.
pub(crate) const METHOD_SUBJECT: &str = "method:";

/// Target of a call to a server.
#[derive(Debug)]
pub(crate) struct CallTarget<'a> {
    /// The name of the server.
    pub(crate) server: &'a str,
    /// Profile for which the server runs, with the secrets of that profile; none for everybody.
    pub(crate) own_profile: Option<&'a str>,
    /// The hash of its command line or URL.
    pub(crate) target: &'a str,
    /// The profile whose endpoint the application uses.
    pub(crate) profile: Option<&'a str>,
    /// Knowledge of the host about the labels of the item.
    pub(crate) known: KnownLabels,
    pub(crate) what: TargetItem<'a>,
}

/// Kind and name of the item, as its server calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TargetItem<'a> {
    /// A tool, and how it is listed.
    Tool(&'a str, Option<&'a Tool>),
    Prompt(&'a str),
    Resource(&'a str),
    /// Values for an argument of a prompt.
    PromptCompletion(&'a str),
    /// Values for a part of a template.
    TemplateCompletion(&'a str),
    /// A subscription to changes of a resource.
    Subscription(&'a str),
    /// A method that only an extension has, as rules name it (`method:skills/list`), with its params.
    Method(&'a str, &'a RawJson),
    /// A notification of an extension, named in the same way, with its params.
    Notification(&'a str, &'a RawJson),
}

impl<'a> CallTarget<'a> {
    /// Creates a target at this server.
    pub(crate) fn to(server: &'a UpstreamServer, what: TargetItem<'a>) -> Self {
        let tool = match what {
            TargetItem::Tool(name, _) => Some(name),
            _ => None,
        };
        let known = server.known_labels(tool);
        let own = server.profile.as_deref();
        Self { server: &server.name, own_profile: own, target: &server.target, profile: None, known, what }
    }

    /// Creates a target at a server about which nothing is known.
    pub(crate) fn unknown(server: &'a str, target: &'a str, what: TargetItem<'a>) -> Self {
        let known = KnownLabels::default();
        Self { server, own_profile: None, target, profile: None, known, what }
    }

    /// Adds the profile whose endpoint the application uses.
    pub(crate) fn in_profile(self, profile: Option<&'a str>) -> Self {
        Self { profile, ..self }
    }

    /// Returns the name under which a person knows the server, which tells its account: `git (profile work)`.
    pub(super) fn server_label(&self) -> String {
        server_label(self.server, self.own_profile)
    }

    pub(super) fn action<'b>(&self, arguments: &'b CallArguments) -> PolicyAction<'b>
    where
        'a: 'b,
    {
        match self.what {
            TargetItem::Tool(name, listed) => {
                let annotations = listed.and_then(|tool| tool.annotations.as_deref());
                PolicyAction::tool(name, ToolEffectSet::from_annotations(annotations), arguments)
            }
            // Nobody knows what it does: as of a tool of which nothing is said.
            TargetItem::Method(name, _) | TargetItem::Notification(name, _) => {
                PolicyAction::tool(name, ToolEffectSet::unknown(), arguments)
            }
            TargetItem::Prompt(name) | TargetItem::PromptCompletion(name) => PolicyAction::Prompt { name },
            TargetItem::Resource(uri)
            | TargetItem::TemplateCompletion(uri)
            | TargetItem::Subscription(uri) => PolicyAction::Resource { uri },
        }
    }

    /// Returns the arguments as seen by the policy and the person, as JSON.
    pub(super) fn arguments<'b>(&'b self, call: &'b Call) -> &'b str {
        match self.what {
            TargetItem::Method(_, params) | TargetItem::Notification(_, params) => params.as_str(),
            _ => match call.params.view().arguments.as_ref() {
                Some(raw) if !raw.is_null() => raw.as_str(),
                _ => "{}",
            },
        }
    }

    pub(super) fn kind(&self) -> AuditEntryKind {
        match self.what {
            TargetItem::Tool(..) | TargetItem::Method(..) | TargetItem::Notification(..) => {
                AuditEntryKind::Call
            }
            TargetItem::Prompt(_) => AuditEntryKind::Prompt,
            TargetItem::Resource(_) => AuditEntryKind::Resource,
            TargetItem::PromptCompletion(_) | TargetItem::TemplateCompletion(_) => AuditEntryKind::Completion,
            TargetItem::Subscription(_) => AuditEntryKind::Subscription,
        }
    }

    pub(super) fn subject(&self) -> &'a str {
        match self.what {
            TargetItem::Tool(subject, _)
            | TargetItem::Method(subject, _)
            | TargetItem::Notification(subject, _)
            | TargetItem::Prompt(subject)
            | TargetItem::Resource(subject)
            | TargetItem::PromptCompletion(subject)
            | TargetItem::TemplateCompletion(subject)
            | TargetItem::Subscription(subject) => subject,
        }
    }

    /// Returns the definition of the tool, if the target is a listed one.
    pub(super) fn tool(&self) -> Option<&'a Tool> {
        match self.what {
            TargetItem::Tool(_, tool) => tool,
            _ => None,
        }
    }

    pub(super) fn call_kind(&self) -> ApprovalCallKind {
        match self.what {
            TargetItem::Tool(..) | TargetItem::Method(..) | TargetItem::Notification(..) => {
                ApprovalCallKind::Tool
            }
            TargetItem::Prompt(_) | TargetItem::PromptCompletion(_) => ApprovalCallKind::Prompt,
            TargetItem::Resource(_) | TargetItem::TemplateCompletion(_) | TargetItem::Subscription(_) => {
                ApprovalCallKind::Resource
            }
        }
    }

    /// Returns true for a page of an MCP App. The application shows it and the model does not read it, and it is as large
    /// as a program, so its text is not remembered.
    pub(super) fn is_app_page(&self) -> bool {
        matches!(self.what, TargetItem::Resource(uri) if uri.starts_with("ui://"))
    }

    /// Returns true if a person can be asked about the target. Completions and subscriptions are too frequent for that, and no
    /// application waits for the result of a notification.
    pub(super) fn can_be_asked_about(&self) -> bool {
        matches!(
            self.what,
            TargetItem::Tool(..) | TargetItem::Prompt(_) | TargetItem::Resource(_) | TargetItem::Method(..)
        )
    }

    /// Returns the outcome of a refused call. For a tool it is a tool result, which a model can read and react to. A
    /// protocol error may never reach the model.
    pub(super) fn refusal(&self, why: &str) -> Outcome {
        let server = self.server;
        match self.what {
            TargetItem::Tool(name, _) => {
                let text = format!("`{name}` of the server `{server}` was not called: {why}");
                Outcome::Complete(CallToolResult::error(text).into())
            }
            TargetItem::Method(name, _) => RpcError::invalid_request(format!(
                "`{name}` of the server `{server}` was not requested: {why}"
            ))
            .into(),
            TargetItem::Notification(name, _) => {
                RpcError::invalid_request(format!("`{name}` was not sent to the server `{server}`: {why}"))
                    .into()
            }
            TargetItem::Prompt(name) => RpcError::invalid_request(format!(
                "the prompt `{name}` of the server `{server}` was not fetched: {why}"
            ))
            .into(),
            TargetItem::Resource(uri) => {
                RpcError::invalid_request(format!("`{uri}` of the server `{server}` was not read: {why}"))
                    .into()
            }
            TargetItem::PromptCompletion(name) | TargetItem::TemplateCompletion(name) => {
                RpcError::invalid_request(format!(
                    "completions for `{name}` were not requested from the server `{server}`: {why}"
                ))
                .into()
            }
            TargetItem::Subscription(uri) => RpcError::invalid_request(format!(
                "`{uri}` of the server `{server}` was not subscribed to: {why}"
            ))
            .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server may give a tool any name; what it returns is read by the model.
    #[test]
    fn only_a_resource_is_a_page_of_an_app() {
        let is_page = |what| CallTarget::unknown("s", "t", what).is_app_page();
        assert!(is_page(TargetItem::Resource("ui://clock/page.html")));
        for what in [
            TargetItem::Tool("ui://clock", None),
            TargetItem::Prompt("ui://clock"),
            TargetItem::Resource("file:///ui://x"),
        ] {
            assert!(!is_page(what), "{what:?}");
        }
    }
}
