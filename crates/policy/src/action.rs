use std::fmt;

use crate::arguments::CallArguments;
use crate::document::KeywordTable;
use crate::effects::ToolEffectSet;
use crate::strings::ArgumentStrings;

/// A request that the policy decides on: the action, the server, and the caller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyRequest<'a> {
    /// Name of the server in the configuration.
    pub server: &'a str,
    /// Action to decide on.
    pub action: PolicyAction<'a>,
    /// Name that the application reports for itself, which is not verified.
    pub application: Option<&'a str>,
    /// Signed-in user, if sign-in is on.
    pub principal: Option<&'a str>,
    /// Groups of the user at the sign-in provider. Empty without sign-in, or if the provider reports none.
    pub groups: &'a [String],
}

/// Caller of a request: the application, and the person who is signed in there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyCaller<'a> {
    /// Name that the application reports for itself, which is not verified.
    pub application: Option<&'a str>,
    /// Signed-in user, if sign-in is on.
    pub principal: Option<&'a str>,
    /// Groups of the user at the sign-in provider.
    pub groups: &'a [String],
}

impl<'a> PolicyCaller<'a> {
    /// Creates a caller.
    #[must_use]
    pub fn new(application: Option<&'a str>, principal: Option<&'a str>, groups: &'a [String]) -> Self {
        Self { application, principal, groups }
    }
}

impl<'a> PolicyRequest<'a> {
    /// Creates a request without an application or a user.
    #[must_use]
    pub fn new(server: &'a str, action: PolicyAction<'a>) -> Self {
        Self { server, action, application: None, principal: None, groups: &[] }
    }

    /// Sets the application that makes the request.
    #[must_use]
    pub fn with_application(mut self, application: Option<&'a str>) -> Self {
        self.application = application;
        self
    }

    /// Sets the user who makes the request.
    #[must_use]
    pub fn with_principal(mut self, principal: Option<&'a str>) -> Self {
        self.principal = principal;
        self
    }

    /// Sets the application and the user that make the request.
    #[must_use]
    pub fn with_caller(mut self, caller: PolicyCaller<'a>) -> Self {
        (self.application, self.principal, self.groups) =
            (caller.application, caller.principal, caller.groups);
        self
    }

    /// Returns the application and the user that make the request.
    #[must_use]
    pub fn caller(&self) -> PolicyCaller<'a> {
        PolicyCaller::new(self.application, self.principal, self.groups)
    }
}

/// Action that a policy decides on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PolicyAction<'a> {
    /// A tool call.
    Tool {
        /// Name of the tool at the server, without the server's prefix.
        name: &'a str,
        /// Effects that the tool declares.
        effects: ToolEffectSet,
        /// Arguments of the call.
        arguments: &'a CallArguments,
        /// Strings of the arguments, for rules about destinations.
        strings: ArgumentStrings,
    },
    /// Fetching a prompt.
    Prompt {
        /// Name of the prompt at the server.
        name: &'a str,
    },
    /// Reading or subscribing to a resource.
    Resource {
        /// URI of the resource at the server.
        uri: &'a str,
    },
    /// A sampling request of the server.
    Sampling,
    /// An elicitation request of the server.
    Elicitation,
    /// A request of the server for the roots.
    Roots,
}

impl<'a> PolicyAction<'a> {
    /// Creates the action of a tool call.
    #[must_use]
    pub fn tool(name: &'a str, effects: ToolEffectSet, arguments: &'a CallArguments) -> Self {
        Self::Tool { name, effects, arguments, strings: ArgumentStrings::default() }
    }

    /// Kind of the action.
    #[must_use]
    pub const fn kind(&self) -> PolicyActionKind {
        match self {
            Self::Tool { .. } => PolicyActionKind::Tool,
            Self::Prompt { .. } => PolicyActionKind::Prompt,
            Self::Resource { .. } => PolicyActionKind::Resource,
            Self::Sampling => PolicyActionKind::Sampling,
            Self::Elicitation => PolicyActionKind::Elicitation,
            Self::Roots => PolicyActionKind::Roots,
        }
    }
}

/// Kind of a [`PolicyAction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyActionKind {
    /// Tool calls.
    Tool,
    /// Fetching prompts.
    Prompt,
    /// Reading resources or subscribing to them.
    Resource,
    /// Sampling requests of servers.
    Sampling,
    /// Elicitation requests of servers.
    Elicitation,
    /// Requests of servers for the roots.
    Roots,
}

impl PolicyActionKind {
    /// Words for the values in the policy file.
    pub(crate) const WORDS: &KeywordTable<Self> = &[
        ("tool", Self::Tool),
        ("prompt", Self::Prompt),
        ("resource", Self::Resource),
        ("sampling", Self::Sampling),
        ("elicitation", Self::Elicitation),
        ("roots", Self::Roots),
    ];
}

impl fmt::Display for PolicyActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "a tool call",
            Self::Prompt => "a prompt",
            Self::Resource => "a resource",
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
            Self::Roots => "roots",
        })
    }
}
