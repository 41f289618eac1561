//! Target of a call: a server and an item there.

use hospes::{Call, Outcome};
use hospes_model::{CallToolResult, RawJson, RpcError, Tool};
use hospes_policy::{Action, Arguments, Effects, Labels};
use hospes_store::EntryKind;

use crate::desk::CallKind;
use crate::upstream::Server;

/// Prefix of the name that a method or notification of an extension has for rules, so that it is never taken for a tool.
pub(crate) const METHOD_SUBJECT: &str = "method:";

/// Something that would go to a server.
#[derive(Debug)]
pub(crate) struct Going<'a> {
    /// The name of the server.
    pub(crate) server: &'a str,
    /// The hash of its command line or URL.
    pub(crate) target: &'a str,
    /// Labels of the server's data; set if the server is built into the program.
    pub(crate) known: Option<Labels>,
    pub(crate) what: What<'a>,
}

/// Kind and name of the item, as its server calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What<'a> {
    /// A tool, and how it is listed.
    Tool(&'a str, Option<&'a Tool>),
    Prompt(&'a str),
    Resource(&'a str),
    /// Values for an argument of a prompt.
    PromptCompletion(&'a str),
    /// Values for a part of a template.
    TemplateCompletion(&'a str),
    /// To be told when a resource changes.
    Subscription(&'a str),
    /// A method that only an extension has, as rules name it (`method:skills/list`), with its params.
    Method(&'a str, &'a RawJson),
    /// A notification that only an extension has, named in the same way, with its params.
    Notification(&'a str, &'a RawJson),
}

impl<'a> Going<'a> {
    /// To this server.
    pub(crate) fn to(server: &'a Server, what: What<'a>) -> Self {
        Self { server: &server.name, target: &server.target, known: server.known, what }
    }

    pub(super) fn action<'b>(&self, arguments: &'b Arguments) -> Action<'b>
    where
        'a: 'b,
    {
        match self.what {
            What::Tool(name, listed) => {
                let annotations = listed.and_then(|tool| tool.annotations.as_deref());
                Action::tool(name, Effects::said(annotations), arguments)
            }
            // Nobody knows what it does: as of a tool of which nothing is said.
            What::Method(name, _) | What::Notification(name, _) => {
                Action::tool(name, Effects::unknown(), arguments)
            }
            What::Prompt(name) | What::PromptCompletion(name) => Action::Prompt { name },
            What::Resource(uri) | What::TemplateCompletion(uri) | What::Subscription(uri) => {
                Action::Resource { uri }
            }
        }
    }

    /// The arguments as the rules and the person see them, as JSON.
    pub(super) fn arguments<'b>(&'b self, call: &'b Call) -> &'b str {
        match self.what {
            What::Method(_, params) | What::Notification(_, params) => params.as_str(),
            _ => match call.params.view().arguments.as_ref() {
                Some(raw) if !raw.is_null() => raw.as_str(),
                _ => "{}",
            },
        }
    }

    pub(super) fn kind(&self) -> EntryKind {
        match self.what {
            What::Tool(..) | What::Method(..) | What::Notification(..) => EntryKind::Call,
            What::Prompt(_) => EntryKind::Prompt,
            What::Resource(_) => EntryKind::Resource,
            What::PromptCompletion(_) | What::TemplateCompletion(_) => EntryKind::Completion,
            What::Subscription(_) => EntryKind::Subscription,
        }
    }

    pub(super) fn subject(&self) -> &'a str {
        match self.what {
            What::Tool(subject, _)
            | What::Method(subject, _)
            | What::Notification(subject, _)
            | What::Prompt(subject)
            | What::Resource(subject)
            | What::PromptCompletion(subject)
            | What::TemplateCompletion(subject)
            | What::Subscription(subject) => subject,
        }
    }

    pub(super) fn call_kind(&self) -> CallKind {
        match self.what {
            What::Tool(..) | What::Method(..) | What::Notification(..) => CallKind::Tool,
            What::Prompt(_) | What::PromptCompletion(_) => CallKind::Prompt,
            What::Resource(_) | What::TemplateCompletion(_) | What::Subscription(_) => CallKind::Resource,
        }
    }

    /// Whether a person can be asked about it: nobody decides about each letter that is typed, or about changes to come, and
    /// no application waits for what becomes of a notification.
    pub(super) fn can_be_asked_about(&self) -> bool {
        matches!(self.what, What::Tool(..) | What::Prompt(_) | What::Resource(_) | What::Method(..))
    }

    /// Returns the outcome of a refused call. For a tool it is a tool result, which a model can read and react to. A
    /// protocol error may never reach the model.
    pub(super) fn refusal(&self, why: &str) -> Outcome {
        let server = self.server;
        match self.what {
            What::Tool(name, _) => {
                let text = format!("`{name}` of the server `{server}` was not called: {why}");
                Outcome::Complete(CallToolResult::error(text).into())
            }
            What::Method(name, _) => RpcError::invalid_request(format!(
                "`{name}` of the server `{server}` was not asked for: {why}"
            ))
            .into(),
            What::Notification(name, _) => {
                RpcError::invalid_request(format!("`{name}` was not told to the server `{server}`: {why}"))
                    .into()
            }
            What::Prompt(name) => RpcError::invalid_request(format!(
                "the prompt `{name}` of the server `{server}` was not fetched: {why}"
            ))
            .into(),
            What::Resource(uri) => {
                RpcError::invalid_request(format!("`{uri}` of the server `{server}` was not read: {why}"))
                    .into()
            }
            What::PromptCompletion(name) | What::TemplateCompletion(name) => RpcError::invalid_request(
                format!("the server `{server}` was not asked what `{name}` could be completed with: {why}"),
            )
            .into(),
            What::Subscription(uri) => RpcError::invalid_request(format!(
                "changes of `{uri}` of the server `{server}` are not told: {why}"
            ))
            .into(),
        }
    }
}
