//! Parsing of one method: a tool, a resource, a prompt or completions.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, Ident, ImplItemFn, Lit, LitStr, ReceiverKind, Result, ReturnType,
    Token,
};

use super::argument::{self, MethodInput, PeerArgument};
use super::text;
use crate::options::{AttributeOption, AttributeOptions, ErrorCollector, OptionValue};

const TOOL_OPTIONS: &[&str] = &[
    "name",
    "title",
    "description",
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
    "task",
    "ask_first",
    "inline",
];
const RESOURCE_OPTIONS: &[&str] = &["name", "title", "description", "mime", "inline"];
const PROMPT_OPTIONS: &[&str] = &["name", "title", "description", "inline"];
/// Maximum length of a tool's name (TOOL-38).
const MAX_NAME: usize = 128;

/// A method that the peer can reach.
pub(crate) struct HandlerMethod {
    pub(crate) ident: Ident,
    pub(crate) cfgs: Vec<Attribute>,
    pub(crate) has_self: bool,
    pub(crate) is_async: bool,
    /// True if a method that is not async runs in the connection's task.
    pub(crate) is_inline: bool,
    pub(crate) inputs: Vec<MethodInput>,
    pub(crate) description: Option<TokenStream>,
    /// Span of the return type, for the error if it cannot be returned.
    pub(crate) returned: Span,
    pub(crate) kind: MethodKind,
}

pub(crate) enum MethodKind {
    Tool(ToolMethod),
    Resource(ResourceMethod),
    Prompt(PromptMethod),
    Complete(CompletionMethod),
}

pub(crate) struct ToolMethod {
    pub(crate) name: LitStr,
    pub(crate) title: Option<Expr>,
    /// Names of the builder's hint methods, with the values given.
    pub(crate) hints: Vec<(Ident, bool)>,
    /// Task support of the method: a variant of `TaskSupport`.
    pub(crate) task: Option<Ident>,
    /// True if the method asks for input before its task begins.
    pub(crate) ask_first: bool,
}

pub(crate) struct ResourceMethod {
    pub(crate) uri: LitStr,
    pub(crate) variables: Vec<String>,
    pub(crate) name: LitStr,
    pub(crate) title: Option<Expr>,
    pub(crate) mime: Option<Expr>,
}

pub(crate) struct PromptMethod {
    pub(crate) name: LitStr,
    pub(crate) title: Option<Expr>,
}

pub(crate) struct CompletionMethod {
    /// Completed arguments, as pairs of method and argument.
    pub(crate) targets: Vec<(Ident, Ident)>,
    span: Span,
}

impl HandlerMethod {
    /// Iterates over the arguments that the peer sends.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &PeerArgument> {
        self.inputs.iter().filter_map(|input| match input {
            MethodInput::Plain(argument) => Some(&**argument),
            _ => None,
        })
    }
}

impl MethodKind {
    /// Returns the kind of the method and its name, which must be unique.
    pub(crate) fn name(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Tool(tool) => Some(("tool", tool.name.value())),
            Self::Resource(resource) => Some(("resource", resource.uri.value())),
            Self::Prompt(prompt) => Some(("prompt", prompt.name.value())),
            Self::Complete(_) => None,
        }
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Tool(tool) => tool.name.span(),
            Self::Resource(resource) => resource.uri.span(),
            Self::Prompt(prompt) => prompt.name.span(),
            Self::Complete(complete) => complete.span,
        }
    }
}

/// Removes the attributes of this crate from the method and its arguments, and describes it. Returns `None` if the
/// method is not for the peer, or has a mistake.
pub(crate) fn describe(function: &mut ImplItemFn, mistakes: &mut ErrorCollector) -> Option<HandlerMethod> {
    let (ours, others): (Vec<_>, Vec<_>) = function.attrs.drain(..).partition(|attr| role(attr).is_some());
    function.attrs = others;
    let attr = match ours.as_slice() {
        [] => {
            reject_stray_attributes(function, mistakes);
            return None;
        }
        [one] => one,
        [first, others @ ..] => {
            for other in others {
                let message = format!(
                    "a method can have only one role; this one is already a `#[{}]`",
                    role(first).unwrap_or_default()
                );
                mistakes.add(Error::new_spanned(other, message));
            }
            first
        }
    };
    mistakes.ok_or_record(check_signature(function));
    // Before `kind` may end this, because the arguments lose their attributes in any case.
    let mut inputs = Vec::new();
    for argument in &mut function.sig.inputs {
        if let FnArg::Typed(argument) = argument {
            inputs.extend(mistakes.ok_or_record(argument::describe(argument)));
        }
    }
    let MethodAttribute { kind, description, inline } =
        mistakes.ok_or_record(kind(attr, &function.sig.ident))?;
    check_inputs(&kind, &inputs, mistakes);
    if let (Some(span), Some(_)) = (inline, &function.sig.asyncness) {
        mistakes.add_message(
            span,
            "`inline` only applies to methods that are not `async`; `async` methods always run inline",
        );
    }
    Some(HandlerMethod {
        ident: function.sig.ident.clone(),
        // The registration has the same `cfg` attributes, because it names a method that may be disabled.
        cfgs: function.attrs.iter().filter(|attr| attr.path().is_ident("cfg")).cloned().collect(),
        has_self: function.sig.receiver().is_some(),
        is_async: function.sig.asyncness.is_some(),
        is_inline: inline.is_some(),
        inputs,
        description: description.or_else(|| text::doc(&function.attrs)),
        // Names resolve as in the rest of the generated code, and errors point to the return type.
        returned: Span::call_site().located_at(match &function.sig.output {
            ReturnType::Type(_, ty) => ty.span(),
            ReturnType::Default => function.sig.ident.span(),
        }),
        kind,
    })
}

fn role(attr: &Attribute) -> Option<&'static str> {
    ["tool", "resource", "prompt", "complete"].into_iter().find(|name| attr.path().is_ident(name))
}

/// Rejects `#[arg]` on a method that is not for the peer, for which rustc would give a misleading error.
fn reject_stray_attributes(function: &mut ImplItemFn, mistakes: &mut ErrorCollector) {
    for argument in &mut function.sig.inputs {
        let FnArg::Typed(argument) = argument else { continue };
        argument.attrs.retain(|attr| {
            let ours = attr.path().is_ident("arg");
            if ours {
                let message = "`#[arg]` is only allowed on the arguments of a tool or a prompt";
                mistakes.add(Error::new_spanned(attr, message));
            }
            !ours
        });
    }
}

fn check_signature(function: &ImplItemFn) -> Result<()> {
    let signature = &function.sig;
    if let Some(receiver) = signature.receiver() {
        let is_shared = matches!(receiver.kind, ReceiverKind::Reference(_, _, None));
        if !is_shared {
            return Err(Error::new_spanned(
                receiver,
                "calls run concurrently, so the method must take `&self`; keep mutable state in a lock or an atomic",
            ));
        }
    }
    // Lifetimes are allowed, because the call determines them.
    if signature.generics.type_params().next().is_some() || signature.generics.const_params().next().is_some()
    {
        return Err(Error::new_spanned(
            &signature.generics,
            "this method cannot have type parameters, because the client cannot choose them",
        ));
    }
    if let Some(variadic) = &signature.variadic {
        return Err(Error::new_spanned(variadic, "this method must take a fixed number of arguments"));
    }
    Ok(())
}

/// Content of the attribute of one method.
struct MethodAttribute {
    kind: MethodKind,
    description: Option<TokenStream>,
    /// Span of the option that runs the method in the connection's task.
    inline: Option<Span>,
}

impl MethodAttribute {
    fn new(kind: MethodKind, description: Option<Expr>, inline: Option<Span>) -> Self {
        Self { kind, description: description.map(|text| quote!(#text)), inline }
    }
}

/// Returns the span of `inline` if it is present and not false.
fn inline(options: &mut AttributeOptions) -> Result<Option<Span>> {
    let span = options.span("inline");
    Ok(span.zip(options.flag("inline")?).and_then(|(span, yes)| yes.then_some(span)))
}

/// Returns the kind of method that the attribute makes, and its other options.
fn kind(attr: &Attribute, ident: &Ident) -> Result<MethodAttribute> {
    let own = || LitStr::new(&ident.unraw().to_string(), ident.span());
    match role(attr) {
        Some("tool") => {
            let mut options = AttributeOptions::of("tool", attr)?;
            let name = options.text("name")?.unwrap_or_else(own);
            check_tool_name(&name)?;
            let mut hints = Vec::new();
            for hint in ["read_only", "destructive", "idempotent", "open_world"] {
                if let Some(value) = options.flag(hint)? {
                    hints.push((Ident::new(hint, attr.span()), value));
                }
            }
            let read_only = hints.iter().any(|(hint, value)| hint == "read_only" && *value);
            let destructive = hints.iter().any(|(hint, value)| hint == "destructive" && *value);
            if read_only && destructive {
                return Err(Error::new_spanned(attr, "a tool that is `read_only` cannot be `destructive`"));
            }
            let (title, description) = (options.expr("title")?, options.expr("description")?);
            let task = task_support(&mut options)?;
            let ask_first = options.flag("ask_first")?.unwrap_or_default();
            if ask_first && task.is_none() {
                return Err(Error::new_spanned(
                    attr,
                    "`ask_first` is only allowed on a tool that runs as a `task`",
                ));
            }
            let inline = inline(&mut options)?;
            options.finish(TOOL_OPTIONS)?;
            let tool = ToolMethod { name, title, hints, task, ask_first };
            Ok(MethodAttribute::new(MethodKind::Tool(tool), description, inline))
        }
        Some("resource") => {
            let missing = "a resource needs its URI: `#[resource(\"scheme://path/{variable}\")]`";
            let syn::Meta::List(_) = &attr.meta else { return Err(Error::new_spanned(attr, missing)) };
            let (uri, mut options) = attr.parse_args_with(|input: ParseStream<'_>| {
                if !input.peek(LitStr) {
                    return Err(Error::new_spanned(attr, missing));
                }
                let uri: LitStr = input.parse()?;
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
                Ok((uri, AttributeOptions::parse("resource", input)?))
            })?;
            let variables = text::variables(&uri.value()).map_err(|why| Error::new(uri.span(), why))?;
            // A template may begin with a variable that holds the scheme.
            if !uri.value().contains(':') && !uri.value().starts_with('{') {
                return Err(Error::new(
                    uri.span(),
                    "a resource's URI must start with a scheme, as in `trips://today`",
                ));
            }
            let name = options.text("name")?.unwrap_or_else(own);
            let (title, description) = (options.expr("title")?, options.expr("description")?);
            let mime = options.expr("mime")?;
            let inline = inline(&mut options)?;
            options.finish(RESOURCE_OPTIONS)?;
            let resource = ResourceMethod { uri, variables, name, title, mime };
            Ok(MethodAttribute::new(MethodKind::Resource(resource), description, inline))
        }
        Some("prompt") => {
            let mut options = AttributeOptions::of("prompt", attr)?;
            let name = options.text("name")?.unwrap_or_else(own);
            let (title, description) = (options.expr("title")?, options.expr("description")?);
            let inline = inline(&mut options)?;
            options.finish(PROMPT_OPTIONS)?;
            Ok(MethodAttribute::new(MethodKind::Prompt(PromptMethod { name, title }), description, inline))
        }
        _ => {
            let wanted = "name the argument to complete: `#[complete(method.argument, …)]`";
            let syn::Meta::List(list) = &attr.meta else { return Err(Error::new_spanned(attr, wanted)) };
            let targets = list.parse_args_with(Punctuated::<ArgumentPath, Token![,]>::parse_terminated)?;
            if targets.is_empty() {
                return Err(Error::new_spanned(attr, wanted));
            }
            let targets = targets.into_iter().map(|target| (target.method, target.argument)).collect();
            Ok(MethodAttribute::new(
                MethodKind::Complete(CompletionMethod { targets, span: attr.span() }),
                None,
                None,
            ))
        }
    }
}

/// Parses `task`, or `task = "optional"`, `"required"` or `"forbidden"`.
fn task_support(options: &mut AttributeOptions) -> Result<Option<Ident>> {
    let Some(AttributeOption { name, value }) = options.take("task") else { return Ok(None) };
    let wanted = "write `task`, or set it to \"optional\", \"required\" or \"forbidden\"";
    let OptionValue::Is(value) = value else {
        return match value {
            OptionValue::Nothing => Ok(Some(Ident::new("Optional", name.span()))),
            _ => Err(Error::new(name.span(), wanted)),
        };
    };
    let text = match &*value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value(),
        _ => String::new(),
    };
    let variant = match text.as_str() {
        "optional" => "Optional",
        "required" => "Required",
        "forbidden" => "Forbidden",
        _ => return Err(Error::new_spanned(value, wanted)),
    };
    Ok(Some(Ident::new(variant, name.span())))
}

/// Path of an argument: `method.argument`.
struct ArgumentPath {
    method: Ident,
    argument: Ident,
}

impl Parse for ArgumentPath {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let wanted = "write the argument to complete as `method.argument`";
        let method = input.parse().map_err(|error: Error| Error::new(error.span(), wanted))?;
        input.parse::<Token![.]>().map_err(|error| Error::new(error.span(), wanted))?;
        let argument = input.parse().map_err(|error: Error| Error::new(error.span(), wanted))?;
        Ok(Self { method, argument })
    }
}

fn check_tool_name(name: &LitStr) -> Result<()> {
    let text = name.value();
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if text.is_empty() || text.len() > MAX_NAME || !text.chars().all(is_fine) {
        let message = format!(
            "a tool's name must have 1 to {MAX_NAME} characters: ASCII letters, digits, `_`, `-` and `.`"
        );
        return Err(Error::new(name.span(), message));
    }
    Ok(())
}

/// Checks that the arguments are allowed for the kind of the method.
fn check_inputs(kind: &MethodKind, inputs: &[MethodInput], mistakes: &mut ErrorCollector) {
    let plain = || {
        inputs.iter().filter_map(|input| match input {
            MethodInput::Plain(argument) => Some(argument),
            _ => None,
        })
    };
    for (at, argument) in plain().enumerate() {
        if plain().take(at).any(|other| other.name == argument.name) {
            mistakes.add_message(argument.ident.span(), format!("duplicate argument `{}`", argument.name));
        }
    }
    let whole = inputs.iter().find_map(|input| match input {
        MethodInput::Extractor { ty, is_args: true, .. } => Some(ty),
        _ => None,
    });
    if let (Some(ty), Some(argument)) = (whole, plain().next()) {
        let message = format!("this parameter takes all arguments, so none is left for `{}`", argument.ident);
        mistakes.add(Error::new_spanned(ty, message));
    }
    match kind {
        MethodKind::Resource(resource) => {
            for argument in plain().filter(|argument| !resource.variables.contains(&argument.name)) {
                let has = if resource.variables.is_empty() {
                    "which has no variables".to_owned()
                } else {
                    let names: Vec<_> = resource.variables.iter().map(String::as_str).collect();
                    format!("which has {}", crate::options::list(&names))
                };
                let message = format!("`{}` is not a variable of the URI, {has}", argument.name);
                mistakes.add_message(argument.ident.span(), message);
            }
        }
        MethodKind::Complete(_) => {
            for argument in plain().skip(1) {
                let message = "a completion method takes one argument: the text typed so far, as `&str`";
                mistakes.add_message(argument.ident.span(), message);
            }
        }
        _ => {}
    }
}
