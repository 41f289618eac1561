//! Parsing of the `impl` block to a description of the server, with all checks a macro can make.

mod argument;
mod method;
mod text;

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Generics, ImplItem, ItemImpl, Result, Type};

pub(crate) use argument::{ArgumentPassing, MethodInput, PeerArgument};
pub(crate) use method::{
    CompletionMethod, HandlerMethod, MethodKind, PromptMethod, ResourceMethod, ToolMethod,
};

use crate::options::{AttributeOptions, ErrorCollector, closest, list};

const OPTIONS: &[&str] = &["name", "version", "title", "description", "instructions", "website_url"];

/// Description of the whole server.
pub(crate) struct ServerBlock {
    pub(crate) name: TokenStream,
    pub(crate) version: TokenStream,
    pub(crate) title: Option<Expr>,
    pub(crate) description: Option<Expr>,
    pub(crate) instructions: Option<TokenStream>,
    pub(crate) website_url: Option<Expr>,
    pub(crate) self_ty: Type,
    pub(crate) generics: Generics,
    pub(crate) methods: Vec<HandlerMethod>,
}

/// Removes the attributes of this crate from `block` and describes the server. The block can be compiled afterwards,
/// even if there are mistakes.
pub(crate) fn server(attribute: TokenStream, block: &mut ItemImpl) -> Result<ServerBlock> {
    let mut mistakes = ErrorCollector::default();
    if let Some((path, _)) = &block.trait_ {
        mistakes.add(Error::new_spanned(
            path,
            "`#[hospes::server]` belongs on an inherent `impl` block, not on a trait `impl`",
        ));
    }
    let mut methods = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(function) = item {
            methods.extend(method::describe(function, &mut mistakes));
        }
    }
    check_names(&methods, &mut mistakes);
    check_completions(&methods, &mut mistakes);

    let parse = |input: ParseStream<'_>| AttributeOptions::parse("hospes::server", input);
    let parsed = mistakes.ok_or_record(parse.parse2(attribute));
    let mut options = parsed.unwrap_or_else(|| AttributeOptions::none("hospes::server"));
    let mut expr = |name| mistakes.ok_or_record(options.expr(name)).flatten();
    let (name, version, title) = (expr("name"), expr("version"), expr("title"));
    let (description, instructions) = (expr("description"), expr("instructions"));
    let website_url = expr("website_url");
    mistakes.ok_or_record(options.finish(OPTIONS));
    // Only now, so that one build reports all mistakes of the block.
    if let Some(error) = mistakes.into_error() {
        return Err(error);
    }
    Ok(ServerBlock {
        name: match name {
            Some(name) => quote!(#name),
            None => text::type_name(&block.self_ty)?,
        },
        version: version
            .map_or_else(|| quote!(::core::env!("CARGO_PKG_VERSION")), |version| quote!(#version)),
        title,
        description,
        instructions: instructions.map(|text| quote!(#text)).or_else(|| text::doc(&block.attrs)),
        website_url,
        self_ty: (*block.self_ty).clone(),
        generics: block.generics.clone(),
        methods,
    })
}

/// Checks that no two tools, prompts or resources have the same name.
fn check_names(methods: &[HandlerMethod], mistakes: &mut ErrorCollector) {
    for (at, method) in methods.iter().enumerate() {
        // Methods with `cfg` attributes may be alternatives of each other.
        let is_same = |other: &&HandlerMethod| {
            other.kind.name() == method.kind.name() && method.cfgs.is_empty() && other.cfgs.is_empty()
        };
        let Some((what, name)) = method.kind.name() else { continue };
        if let Some(first) = methods[..at].iter().find(is_same) {
            let mut error = Error::new(method.kind.span(), format!("duplicate {what} `{name}`"));
            error
                .combine(Error::new(first.kind.span(), format!("the first {what} `{name}` is defined here")));
            mistakes.add(error);
        }
    }
}

/// Checks that every completed `method.argument` exists and is completed once.
fn check_completions(methods: &[HandlerMethod], mistakes: &mut ErrorCollector) {
    let mut seen: Vec<String> = Vec::new();
    for method in methods {
        let MethodKind::Complete(complete) = &method.kind else { continue };
        for (of, argument) in &complete.targets {
            let found = methods.iter().find(|method| method.ident == *of);
            let names: Vec<String> = match found.map(|found| (&found.kind, found)) {
                Some((MethodKind::Prompt(_), found)) => {
                    found.arguments().map(|argument| argument.name.clone()).collect()
                }
                Some((MethodKind::Resource(resource), _)) => resource.variables.clone(),
                Some(_) => {
                    mistakes.add_message(
                        of.span(),
                        format!("`{of}` is neither a prompt nor a resource; only these have completions"),
                    );
                    continue;
                }
                None => {
                    let known: Vec<String> = methods
                        .iter()
                        .filter(|method| {
                            matches!(method.kind, MethodKind::Prompt(_) | MethodKind::Resource(_))
                        })
                        .map(|method| method.ident.unraw().to_string())
                        .collect();
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    let hint = match closest(&of.to_string(), &known) {
                        Some(near) => format!("; did you mean `{near}`?"),
                        None => String::new(),
                    };
                    mistakes.add_message(
                        of.span(),
                        format!("there is no prompt or resource `{of}` in this block{hint}"),
                    );
                    continue;
                }
            };
            let wanted = argument.unraw().to_string();
            if !names.contains(&wanted) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                mistakes.add_message(
                    argument.span(),
                    format!("`{of}` has no argument `{argument}`; it has {}", list(&names)),
                );
            }
            let target = format!("{of}.{argument}");
            if seen.contains(&target) {
                mistakes.add_message(argument.span(), format!("duplicate completion for `{target}`"));
            }
            seen.push(target);
        }
    }
}
