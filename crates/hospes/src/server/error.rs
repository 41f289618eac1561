//! Errors of registration.

use crate::server::template::UriTemplateError;

/// Error of registering an item with a server.
///
/// The builder panics with it, at the caller's line; a [`ServerHandle`](crate::server::ServerHandle) returns it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// There is one already.
    #[error("duplicate {kind} {name:?}")]
    Duplicate {
        /// Kind of item: a tool, a prompt, a resource, a resource template, a completion.
        kind: &'static str,
        /// Its name or URI.
        name: String,
    },
    /// A tool's name is empty, too long, or has other characters than it may (TOOL-38).
    #[error("invalid tool name {name:?}: it must have 1 to 128 of the characters A-Z a-z 0-9 _ - .")]
    BadToolName {
        /// The name.
        name: String,
    },
    /// A prompt without a name.
    #[error("a prompt must have a name")]
    NoPromptName,
    /// A schema that cannot be used.
    #[error("the schema of the tool {tool:?} cannot be used: {why}")]
    BadSchema {
        /// The tool.
        tool: String,
        /// Description of the problem.
        why: String,
    },
    /// `Args<T>` of something that is no struct.
    #[error(
        "the arguments of {tool:?} have the type {type_name}, which is not a JSON object: use a struct with a field \
         for each argument"
    )]
    ArgumentsNotAnObject {
        /// The tool or prompt.
        tool: String,
        /// The Rust type.
        type_name: &'static str,
    },
    /// A handler with two parameters that each take the arguments.
    #[error("the handler of {name:?} takes its arguments twice")]
    ArgumentsTwice {
        /// The tool, prompt or resource.
        name: String,
    },
    /// Invalid URI (RES-17).
    #[error("{uri:?} is not a URI: it must begin with a scheme, such as `notes://`")]
    BadUri {
        /// The text.
        uri: String,
    },
    /// Invalid URI template.
    #[error(transparent)]
    BadTemplate(#[from] UriTemplateError),
    /// A handler that wants a variable which its URI template does not have.
    #[error("the template {template:?} has no variable {variable:?}, which its handler requires")]
    NoSuchVariable {
        /// The template.
        template: String,
        /// The variable.
        variable: String,
    },
    /// A completion for an argument that the prompt or template does not have.
    #[error("{of:?} has no argument {argument:?} to complete")]
    NoSuchArgument {
        /// The prompt or the template.
        of: String,
        /// The argument.
        argument: String,
    },
    /// Key of `_meta`, or identifier of an extension, that is invalid or reserved.
    #[error(transparent)]
    BadMetaKey(#[from] hospes_model::BadMetaKey),
    /// Invalid media type.
    #[error("{mime_type:?} is not a valid media type for {of:?}: write `type/subtype`")]
    BadMediaType {
        /// The resource or the template.
        of: String,
        /// The text.
        mime_type: String,
    },
    /// The server is gone.
    #[error("the server has been dropped")]
    Gone,
}
