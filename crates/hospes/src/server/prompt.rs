//! Prompts, their registration, and what their handlers return.

use std::error::Error as StdError;

use hospes_model::{ContentBlock, GetPromptResult, Icon, Meta, PromptArgument, PromptMessage, RpcError};
use serde_json::Value;

use crate::error::Error;
use crate::server::call_parts::DeclaredArguments;
use crate::server::content_checks;
use crate::server::entries::{ErasedHandler, PromptEntry};
use crate::server::error::RegisterError;
use crate::server::handler::{Handler, declared_arguments, erase_handler};
use crate::server::schema;

/// Description of a prompt for registration. A plain name is enough.
#[derive(Clone, Debug)]
#[must_use]
pub struct Prompt {
    pub(crate) listed: hospes_model::Prompt,
}

impl Prompt {
    /// A prompt called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { listed: hospes_model::Prompt::new(name) }
    }

    /// The name to show.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.listed.title = Some(title.into());
        self
    }

    /// Sets the description. The default is the doc comment of the arguments' type.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.listed.description = Some(description.into());
        self
    }

    /// Something that fills it in, or more about an argument that the handler's type has.
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.listed.arguments.retain(|other| other.name != argument.name);
        self.listed.arguments.push(argument);
        self
    }

    /// Pictures of it.
    pub fn icons(mut self, icons: impl IntoIterator<Item = Icon>) -> Self {
        self.listed.icons = icons.into_iter().collect();
        self
    }

    /// Metadata, sent along in lists.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.listed.meta = meta;
        self
    }
}

impl From<&str> for Prompt {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Prompt {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

/// Return type of prompt handlers: text (as the user's message), messages, or a whole result.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "not a prompt's messages",
    note = "return text, a `PromptMessage`, `Vec<PromptMessage>`, `GetPromptResult`, or a `Result` of one of them"
)]
pub trait IntoPrompt {
    /// The filled-in prompt, or the error that takes its place.
    ///
    /// # Errors
    /// The handler's own.
    fn into_prompt(self) -> Result<GetPromptResult, Error>;
}

impl IntoPrompt for GetPromptResult {
    fn into_prompt(self) -> Result<GetPromptResult, Error> {
        Ok(self)
    }
}

impl IntoPrompt for PromptMessage {
    fn into_prompt(self) -> Result<GetPromptResult, Error> {
        Ok(GetPromptResult::new(vec![self]))
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> Result<GetPromptResult, Error> {
        Ok(GetPromptResult::new(self))
    }
}

impl<const N: usize> IntoPrompt for [PromptMessage; N] {
    fn into_prompt(self) -> Result<GetPromptResult, Error> {
        Ok(GetPromptResult::new(self.into()))
    }
}

impl IntoPrompt for String {
    fn into_prompt(self) -> Result<GetPromptResult, Error> {
        PromptMessage::user(self).into_prompt()
    }
}

impl IntoPrompt for &'static str {
    fn into_prompt(self) -> Result<GetPromptResult, Error> {
        PromptMessage::user(self).into_prompt()
    }
}

impl IntoPrompt for ContentBlock {
    fn into_prompt(self) -> Result<GetPromptResult, Error> {
        PromptMessage::user(self).into_prompt()
    }
}

impl<T, E> IntoPrompt for Result<T, E>
where
    T: IntoPrompt,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    fn into_prompt(self) -> Result<GetPromptResult, Error> {
        self.map_err(Error::new)?.into_prompt()
    }
}

impl PromptEntry {
    pub(crate) fn new<H, P>(prompt: Prompt, handler: H) -> Result<Self, RegisterError>
    where
        H: Handler<P>,
        H::Output: IntoPrompt,
    {
        let run = erase_handler(handler, <H::Output as IntoPrompt>::into_prompt);
        Self::build(prompt, declared_arguments::<H, P>(), run)
    }

    /// Builds the parts that do not depend on the handler's type.
    fn build(
        prompt: Prompt,
        declared: DeclaredArguments,
        run: ErasedHandler<GetPromptResult>,
    ) -> Result<Self, RegisterError> {
        let Prompt { mut listed } = prompt;
        if listed.name.is_empty() {
            return Err(RegisterError::NoPromptName);
        }
        listed.meta.check_keys()?;
        let mut open = false;
        match declared {
            DeclaredArguments::Nothing => {}
            DeclaredArguments::Raw => open = true,
            DeclaredArguments::Twice => return Err(RegisterError::ArgumentsTwice { name: listed.name }),
            DeclaredArguments::Typed { schema, type_name } => {
                let Ok(shaped) = schema::build_input_schema(schema) else {
                    return Err(RegisterError::ArgumentsNotAnObject { tool: listed.name, type_name });
                };
                if listed.description.is_none() {
                    listed.description = shaped.description;
                }
                open = shaped.known.is_none();
                let said = std::mem::take(&mut listed.arguments);
                listed.arguments = prompt_arguments(&shaped.schema);
                for more in said {
                    match listed.arguments.iter_mut().find(|argument| argument.name == more.name) {
                        Some(argument) => {
                            argument.title = more.title.or_else(|| argument.title.take());
                            argument.description = more.description.or_else(|| argument.description.take());
                            argument.required = more.required.or(argument.required);
                        }
                        None => listed.arguments.push(more),
                    }
                }
            }
        }
        Ok(Self { listed, open, run })
    }
}

/// The prompt as it may be sent: what its messages leave out is filled in.
///
/// # Errors
/// `-32603` for a content that no client could use (PRM-08 to PRM-10).
pub(crate) fn complete_prompt(name: &str, mut result: GetPromptResult) -> Result<GetPromptResult, RpcError> {
    for message in &mut result.messages {
        content_checks::complete_block(&mut message.content).map_err(|why| {
            tracing::error!(prompt = name, why, "invalid prompt message");
            RpcError::internal(format!("invalid message in the prompt {name}: {why}"))
        })?;
    }
    Ok(result)
}

/// The properties of a schema as a prompt's arguments, those that are required first.
fn prompt_arguments(schema: &Value) -> Vec<PromptArgument> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|all| all.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let argument = |name: &str| {
        let text = |key: &str| properties.get(name)?.get(key)?.as_str().map(str::to_owned);
        let mut argument = PromptArgument::new(name);
        argument.title = text("title");
        argument.description = text("description");
        if required.contains(&name) {
            argument.required = Some(true);
        }
        argument
    };
    // `required` is in the order of the struct's fields; a map of properties has forgotten it.
    let optional = properties.keys().map(String::as_str).filter(|name| !required.contains(name));
    required
        .iter()
        .copied()
        .filter(|name| properties.contains_key(*name))
        .chain(optional)
        .map(argument)
        .collect()
}
