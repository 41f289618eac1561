use std::fmt;

use crate::arguments::CallArguments;
use crate::destination::CallDestinations;
use crate::document::KeywordTable;
use crate::effects::ToolEffectSet;

/// Something that is about to happen, and for whom.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyRequest<'a> {
    /// The server it concerns, by the name the person gave it.
    pub server: &'a str,
    /// Action to decide on.
    pub action: PolicyAction<'a>,
    /// The name that the application gave itself. Anybody can call itself anything.
    pub application: Option<&'a str>,
    /// Signed-in user, if sign-in is on.
    pub principal: Option<&'a str>,
}

impl<'a> PolicyRequest<'a> {
    /// Creates a request without an application or a user.
    #[must_use]
    pub fn new(server: &'a str, action: PolicyAction<'a>) -> Self {
        Self { server, action, application: None, principal: None }
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
}

/// Action that a policy decides on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PolicyAction<'a> {
    /// A tool is called.
    Tool {
        /// Its name at the server, without the server's prefix.
        name: &'a str,
        /// Effects that the tool declares.
        effects: ToolEffectSet,
        /// Arguments of the call.
        arguments: &'a CallArguments,
        /// Destinations that the arguments point to.
        destinations: CallDestinations,
    },
    /// A prompt is fetched.
    Prompt {
        /// Its name at the server.
        name: &'a str,
    },
    /// A resource is read or subscribed to.
    Resource {
        /// Its URI at the server.
        uri: &'a str,
    },
    /// The server asks for a model's answer.
    Sampling,
    /// The server asks the person something.
    Elicitation,
    /// The server asks for the roots.
    Roots,
}

impl<'a> PolicyAction<'a> {
    /// A call of a tool.
    #[must_use]
    pub fn tool(name: &'a str, effects: ToolEffectSet, arguments: &'a CallArguments) -> Self {
        Self::Tool { name, effects, arguments, destinations: CallDestinations::from_arguments(arguments) }
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

/// The kinds of [`PolicyAction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyActionKind {
    /// Calls of tools.
    Tool,
    /// Prompts fetched.
    Prompt,
    /// Resources read or subscribed to.
    Resource,
    /// Answers of a model that servers ask for.
    Sampling,
    /// Questions of servers to the person.
    Elicitation,
    /// Roots that servers ask for.
    Roots,
}

impl PolicyActionKind {
    /// The values as they are written.
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
