//! Tools and their registration.

use std::sync::Arc;

use hospes_model::{CallToolResult, Icon, Meta, RawJson, TaskSupport, ToolAnnotations, ToolExecution};
use hospes_proto::http::HeaderParams;

use crate::rate::Rate;
use crate::server::arguments::ArgumentRules;
use crate::server::call_parts::DeclaredArguments;
use crate::server::entries::{ArgumentMode, ErasedHandler, TaskMode, ToolEntry};
use crate::server::error::RegisterError;
use crate::server::handler::{Handler, declared_arguments, erase_handler};
use crate::server::output_contract::OutputContract;
use crate::server::result::IntoToolResult;
use crate::server::rules::CallerRateLimiter;
use crate::server::schema;
#[cfg(feature = "validate")]
use crate::server::validate::SchemaValidator;

/// The longest name a tool may have (TOOL-38).
pub const MAX_TOOL_NAME: usize = 128;

/// Description of a tool for registration. A plain name is enough: `server.tool("add", handler)` is
/// `server.tool(Tool::new("add"), handler)`.
#[derive(Clone, Debug)]
#[must_use]
pub struct Tool {
    pub(crate) listed: hospes_model::Tool,
    annotations: ToolAnnotations,
    input_schema: Option<RawJson>,
    rate: Option<Rate>,
    ask_first: bool,
}

impl Tool {
    /// A tool called `name`: up to 128 of the characters `A-Z a-z 0-9 _ - .`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            listed: hospes_model::Tool::new(name, RawJson::empty_object()),
            annotations: ToolAnnotations::new(),
            input_schema: None,
            rate: None,
            ask_first: false,
        }
    }

    /// The name to show.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.listed.title = Some(title.into());
        self
    }

    /// Sets the description for the model. The default is the doc comment of the arguments' type.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.listed.description = Some(description.into());
        self
    }

    /// Declares whether the tool leaves its environment unchanged (a hint; default false).
    pub fn read_only(mut self, yes: bool) -> Self {
        self.annotations.read_only_hint = Some(yes);
        self
    }

    /// Declares whether the tool may destroy something rather than only add (a hint; default true).
    pub fn destructive(mut self, yes: bool) -> Self {
        self.annotations.destructive_hint = Some(yes);
        self
    }

    /// Declares whether repeated calls with the same arguments have no further effect (a hint; default false).
    pub fn idempotent(mut self, yes: bool) -> Self {
        self.annotations.idempotent_hint = Some(yes);
        self
    }

    /// Declares whether the tool reaches things outside a closed set, such as the web (a hint; default true).
    pub fn open_world(mut self, yes: bool) -> Self {
        self.annotations.open_world_hint = Some(yes);
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

    /// Sets the execution properties (2025-11-25).
    pub fn execution(mut self, execution: ToolExecution) -> Self {
        self.listed.execution = Some(execution);
        self
    }

    /// Sets the rate of calls per caller; there is no limit by default. Signed-in callers are counted separately, all
    /// others together. Calls beyond the limit get a result that tells the model when to try again.
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets whether calls may or must run as [tasks](crate::tasks).
    ///
    /// What takes long only sometimes is `Optional`: a call that is done at once is answered at once, and for callers
    /// that take no tasks it is simply a long call. What is `Required` is refused to them, except by clients of
    /// revisions that know no tasks, whose call is answered when it is done.
    pub fn task(self, support: TaskSupport) -> Self {
        self.execution(ToolExecution::new().with_task_support(support))
    }

    /// The task begins where the handler says so, with [`Context::begin_task`](crate::Context::begin_task). What it
    /// asks before that is asked as in any other call (where the caller, as in 2025-11-25, has not wished for a task).
    pub fn ask_first(mut self) -> Self {
        self.ask_first = true;
        self
    }

    /// Sets the JSON Schema of the arguments. It is listed exactly as written and enforced.
    ///
    /// Without it the schema is that of the handler's [`Args`](crate::server::Args). The dialects that are spoken are
    /// 2020-12, which is meant where `$schema` names none and is the one to write, 2019-09, draft 7, draft 6 and draft 4.
    /// Nothing that a `$ref` names is ever fetched.
    pub fn input_schema(mut self, schema: impl Into<RawJson>) -> Self {
        self.input_schema = Some(schema.into());
        self
    }

    /// The JSON Schema of its structured content. Without it the schema is that of the [`Json`](crate::server::Json)
    /// which the handler returns, if it does.
    pub fn output_schema(mut self, schema: impl Into<RawJson>) -> Self {
        self.listed.output_schema = Some(schema.into());
        self
    }
}

impl From<&str> for Tool {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Tool {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

impl ToolEntry {
    pub(crate) fn new<H, P>(tool: Tool, handler: H) -> Result<Self, RegisterError>
    where
        H: Handler<P>,
        H::Output: IntoToolResult,
    {
        let run = erase_handler(handler, <H::Output as IntoToolResult>::into_tool_result);
        Self::build(tool, declared_arguments::<H, P>(), <H::Output>::output_schema, run)
    }

    /// Builds the parts that do not depend on the handler's type, so that a program contains this code once.
    fn build(
        tool: Tool,
        declared: DeclaredArguments,
        output_schema: fn() -> Option<RawJson>,
        run: ErasedHandler<CallToolResult>,
    ) -> Result<Self, RegisterError> {
        let Tool { mut listed, annotations, input_schema, rate, ask_first } = tool;
        let name: Box<str> = listed.name.as_str().into();
        check_name(&name)?;
        listed.meta.check_keys()?;
        let bad_schema = |why: String| bad_schema(&name, why);
        if annotations != ToolAnnotations::new() {
            listed.annotations = Some(Box::new(annotations));
        }
        let takes = match declared {
            DeclaredArguments::Nothing => ArgumentMode::Nothing,
            DeclaredArguments::Typed { .. } => ArgumentMode::Typed,
            DeclaredArguments::Raw => ArgumentMode::Raw,
            DeclaredArguments::Twice => return Err(RegisterError::ArgumentsTwice { name: name.into() }),
        };
        let tasks = match listed.execution.as_ref().and_then(|execution| execution.task_support.as_ref()) {
            Some(TaskSupport::Optional) => Some(TaskMode { required: false, ask_first }),
            Some(TaskSupport::Required) => Some(TaskMode { required: true, ask_first }),
            _ => None,
        };
        let promise = match &listed.output_schema {
            Some(schema) => Some(Arc::new(OutputContract::new(&name, schema).map_err(bad_schema)?)),
            None => None,
        };
        if listed.output_schema.is_none() {
            listed.output_schema = output_schema();
        }
        let InputLimits { known, exacting } = set_input_schema(&mut listed, input_schema, declared)?;
        #[cfg(feature = "validate")]
        let schema = listed.input_schema.to_value().map_err(|error| bad_schema(error.to_string()))?;
        let mirror =
            HeaderParams::from_schema(&listed.input_schema).map_err(|error| bad_schema(error.to_string()))?;
        #[cfg(feature = "validate")]
        let validator =
            if exacting { Some(SchemaValidator::new(&schema).map_err(bad_schema)?) } else { None };
        #[cfg(not(feature = "validate"))]
        let _ = exacting;
        Ok(Self {
            listed,
            rules: ArgumentRules {
                tool: name,
                #[cfg(feature = "validate")]
                schema,
                known,
                #[cfg(feature = "validate")]
                validator,
                #[cfg(feature = "validate")]
                explainer: std::sync::OnceLock::new(),
            },
            takes,
            mirror,
            limit: rate.map(CallerRateLimiter::new),
            tasks,
            output_contract: promise,
            run,
        })
    }
}

/// Limits of the arguments, beyond what a handler decodes.
struct InputLimits {
    /// The only arguments there are; none where the schema is open.
    known: Option<Box<[Box<str>]>>,
    /// True if the schema asks for more than decoding checks.
    exacting: bool,
}

/// Enters the input schema: the one that was given by hand, or that of the handler's arguments.
fn set_input_schema(
    listed: &mut hospes_model::Tool,
    given: Option<RawJson>,
    declared: DeclaredArguments,
) -> Result<InputLimits, RegisterError> {
    // A schema is made or read into values only where somebody looks at those: servers have many tools, and starting
    // one must not take long.
    let limits = if let Some(given) = given {
        if !schema::is_of_object(&given) {
            return Err(bad_schema(&listed.name, "its root must have \"type\": \"object\"".into()));
        }
        listed.input_schema = given;
        InputLimits { known: None, exacting: true }
    } else {
        let (schema, type_name) = match declared {
            DeclaredArguments::Typed { schema, type_name } => (schema, type_name),
            DeclaredArguments::Nothing => (schema::no_arguments(), ""),
            DeclaredArguments::Raw | DeclaredArguments::Twice => (schema::any_arguments(), ""),
        };
        let Ok(shaped) = schema::build_input_schema(schema) else {
            return Err(RegisterError::ArgumentsNotAnObject { tool: listed.name.clone(), type_name });
        };
        listed.description = listed.description.take().or(shaped.description);
        listed.input_schema = shaped.schema.into();
        InputLimits { known: shaped.known, exacting: shaped.exacting }
    };
    // Before the schema is compiled, which takes the longer the larger it is (JSCH-11).
    if !crate::json_schema::is_bounded(&listed.input_schema) {
        let why = "it is too large or too deeply nested to be validated";
        return Err(bad_schema(&listed.name, why.into()));
    }
    Ok(limits)
}

fn bad_schema(tool: &str, why: String) -> RegisterError {
    RegisterError::BadSchema { tool: tool.to_owned(), why }
}

fn check_name(name: &str) -> Result<(), RegisterError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if name.is_empty() || name.len() > MAX_TOOL_NAME || !name.bytes().all(allowed) {
        return Err(RegisterError::BadToolName { name: name.into() });
    }
    Ok(())
}
