//! Entries of the catalogue: a listed item, or a completion, and the handler behind it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use hospes_model::{CallToolResult, Completion, GetPromptResult, RawJson, RpcError};
use hospes_proto::http::HeaderParams;
use serde::de::IgnoredAny;

use crate::error::Error;
use crate::server::arguments::ArgumentRules;
use crate::server::call_parts::{CallInput, CallParts, DeclaredArguments};
use crate::server::completed_argument::Completes;
use crate::server::contents::Contents;
use crate::server::error::RegisterError;
use crate::server::mistakes::shortened;
use crate::server::output_contract::OutputContract;
use crate::server::rules::CallerRateLimiter;
use crate::server::suggest::did_you_mean;
use crate::server::template::UriTemplate;
use crate::server::variables::TemplateVariables;

/// A handler under way.
pub(crate) type HandlerFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A handler whose types have been forgotten.
pub(crate) type ErasedHandler<T> =
    Arc<dyn Fn(&CallParts<'_>) -> Result<HandlerFuture<T>, Error> + Send + Sync>;

/// A registered tool.
pub(crate) struct ToolEntry {
    pub(crate) listed: hospes_model::Tool,
    pub(super) rules: ArgumentRules,
    pub(super) takes: ArgumentMode,
    /// The arguments that HTTP headers repeat.
    pub(crate) mirror: HeaderParams,
    /// Rate limit of its calls.
    pub(crate) limit: Option<CallerRateLimiter>,
    /// Task mode, if it runs as a task.
    pub(crate) tasks: Option<TaskMode>,
    /// An output schema that was given by hand.
    pub(super) output_contract: Option<Arc<OutputContract>>,
    pub(super) run: ErasedHandler<CallToolResult>,
}

/// Mode in which a tool runs as a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskMode {
    pub(crate) required: bool,
    pub(crate) ask_first: bool,
}

/// Form in which the handler takes the arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentMode {
    Nothing,
    Typed,
    Raw,
}

impl ToolEntry {
    /// Checks the arguments alone.
    pub(crate) fn check(&self, arguments: &RawJson) -> Result<(), Error> {
        self.rules.check(arguments)
    }

    /// Checks the arguments and starts the handler.
    pub(crate) fn start(
        &self,
        parts: &CallParts<'_>,
        arguments: &RawJson,
    ) -> Result<HandlerFuture<CallToolResult>, Error> {
        self.rules.check(arguments)?;
        match self.takes {
            ArgumentMode::Nothing => self.rules.check_empty(arguments)?,
            // Nothing decodes these, so nobody else would see an argument that is not known.
            ArgumentMode::Raw if self.rules.known.is_some() => {
                let _: IgnoredAny = self.rules.decode(arguments)?;
            }
            ArgumentMode::Raw | ArgumentMode::Typed => {}
        }
        (self.run)(&CallParts { input: CallInput::Tool { raw: arguments, rules: &self.rules }, ..*parts })
    }

    /// Returns the contract of the results, if it is not given by their type.
    pub(crate) fn output_contract(&self) -> Option<Arc<OutputContract>> {
        self.output_contract.clone()
    }
}

impl fmt::Debug for ToolEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolEntry").field("name", &self.listed.name).finish_non_exhaustive()
    }
}

/// A registered prompt.
pub(crate) struct PromptEntry {
    pub(crate) listed: hospes_model::Prompt,
    /// True if it accepts arguments that it does not list.
    pub(super) open: bool,
    pub(super) run: ErasedHandler<GetPromptResult>,
}

impl PromptEntry {
    /// Checks the arguments and starts the handler.
    pub(crate) fn start(
        &self,
        parts: &CallParts<'_>,
        variables: &TemplateVariables,
    ) -> Result<HandlerFuture<GetPromptResult>, Error> {
        // All mistakes are told at once, so that one correction is enough.
        let mut wrong = Vec::new();
        for argument in self.listed.arguments.iter().filter(|argument| argument.required == Some(true)) {
            if variables.get(&argument.name).is_none() {
                wrong.push(format!("{} is missing", argument.name));
            }
        }
        let known = || self.listed.arguments.iter().map(|argument| argument.name.as_str());
        for (name, _) in
            variables.iter().filter(|(name, _)| !self.open && known().all(|known| known != *name))
        {
            let name = shortened(name, 80);
            wrong.push(format!("unknown argument {name}{}", did_you_mean(&name, known())));
        }
        if !wrong.is_empty() {
            let message =
                format!("invalid arguments for the prompt {}: {}", self.listed.name, wrong.join("; "));
            return Err(RpcError::invalid_params(message).into());
        }
        (self.run)(&CallParts { input: CallInput::Prompt { variables }, ..*parts })
    }
}

impl fmt::Debug for PromptEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromptEntry").field("name", &self.listed.name).finish_non_exhaustive()
    }
}

/// A registered resource.
pub(crate) struct ResourceEntry {
    pub(crate) listed: hospes_model::Resource,
    pub(super) run: ErasedHandler<Contents>,
}

impl ResourceEntry {
    pub(crate) fn start(&self, parts: &CallParts<'_>, uri: &str) -> Result<HandlerFuture<Contents>, Error> {
        let variables = TemplateVariables::new();
        (self.run)(&CallParts { input: CallInput::Resource { uri, variables: &variables }, ..*parts })
    }

    pub(crate) fn mime_type(&self) -> Option<&str> {
        self.listed.mime_type.as_deref()
    }
}

/// A registered resource template.
pub(crate) struct TemplateEntry {
    pub(crate) listed: hospes_model::ResourceTemplate,
    pub(crate) template: UriTemplate,
    pub(super) run: ErasedHandler<Contents>,
}

impl TemplateEntry {
    /// Starts the handler, if this template makes the URI.
    pub(crate) fn start(
        &self,
        parts: &CallParts<'_>,
        uri: &str,
    ) -> Option<Result<HandlerFuture<Contents>, Error>> {
        let variables = self.template.matches(uri)?;
        Some((self.run)(&CallParts { input: CallInput::Resource { uri, variables: &variables }, ..*parts }))
    }

    pub(crate) fn mime_type(&self) -> Option<&str> {
        self.listed.mime_type.as_deref()
    }
}

impl fmt::Debug for ResourceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceEntry").field("uri", &self.listed.uri).finish_non_exhaustive()
    }
}

impl fmt::Debug for TemplateEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemplateEntry").field("template", &self.template).finish_non_exhaustive()
    }
}

/// A registered completion.
#[doc(hidden)]
pub struct Completer {
    pub(super) run: ErasedHandler<Completion>,
    pub(super) declared: DeclaredArguments,
}

impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completer")
    }
}

impl Completer {
    pub(crate) fn check(&self, what: &Completes) -> Result<(), RegisterError> {
        match self.declared {
            DeclaredArguments::Twice => Err(RegisterError::ArgumentsTwice { name: what.of().to_owned() }),
            _ => Ok(()),
        }
    }

    pub(crate) fn start(
        &self,
        parts: &CallParts<'_>,
        typed: &str,
        settled: &TemplateVariables,
    ) -> Result<HandlerFuture<Completion>, Error> {
        (self.run)(&CallParts { input: CallInput::Completion { typed, variables: settled }, ..*parts })
    }
}
