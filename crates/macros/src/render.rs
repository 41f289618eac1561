//! Generation of the builder calls from the description.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ItemImpl;
use syn::ext::IdentExt;
use syn::spanned::Spanned as _;

use crate::describe::{
    ArgumentPassing, CompletionMethod, HandlerMethod, MethodInput, MethodKind, PeerArgument, PromptMethod,
    ResourceMethod, ServerBlock, ToolMethod,
};

/// Generates `IntoServer` for the type.
pub(crate) fn server(server: &ServerBlock) -> TokenStream {
    let ServerBlock { name, version, self_ty, generics, .. } = server;
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let settings = [
        setting("title", server.title.as_ref()),
        setting("description", server.description.as_ref()),
        setting("instructions", server.instructions.as_ref()),
        setting("website_url", server.website_url.as_ref()),
    ];
    let methods = server.methods.iter().map(|method| self::method(method, &server.methods));
    // Two blocks would make two servers of one type. The compiler's error would name the traits; this name tells what
    // to do, at the second block.
    let only = Ident::new("put_all_methods_into_one_hospes_server_block", self_ty.span());
    quote! {
        #[automatically_derived]
        impl #impl_generics #self_ty #where_clause {
            #[doc(hidden)]
            #[allow(dead_code, non_upper_case_globals)]
            const #only: () = ();
        }

        #[automatically_derived]
        impl #impl_generics ::hospes::IntoServer for #self_ty #where_clause {
            fn into_server(self) -> ::hospes::Server {
                let this = ::std::sync::Arc::new(self);
                let server = ::hospes::Server::new(#name, #version) #(#settings)*;
                #(#methods)*
                let _ = this;
                server
            }
        }

        #[automatically_derived]
        impl #impl_generics ::hospes::IntoService for #self_ty #where_clause {
            type Service = ::hospes::Server;

            fn into_service(self) -> ::hospes::Server {
                ::hospes::IntoServer::into_server(self)
            }
        }
    }
}

/// Generates `IntoServer` for a type whose description has mistakes.
pub(crate) fn stub(block: &ItemImpl) -> TokenStream {
    let (self_ty, (impl_generics, _, where_clause)) = (&block.self_ty, block.generics.split_for_impl());
    quote! {
        #[automatically_derived]
        impl #impl_generics ::hospes::IntoServer for #self_ty #where_clause {
            fn into_server(self) -> ::hospes::Server {
                ::core::unreachable!()
            }
        }

        #[automatically_derived]
        impl #impl_generics ::hospes::IntoService for #self_ty #where_clause {
            type Service = ::hospes::Server;

            fn into_service(self) -> ::hospes::Server {
                ::core::unreachable!()
            }
        }
    }
}

fn setting(name: &str, value: Option<impl quote::ToTokens>) -> Option<TokenStream> {
    let value = value?;
    let name = format_ident!("{name}");
    Some(quote!(.#name(#value)))
}

/// Generates the statement that registers a method.
fn method(method: &HandlerMethod, all: &[HandlerMethod]) -> TokenStream {
    let cfgs = &method.cfgs;
    let arguments = arguments(method);
    let this = method.has_self.then(|| quote!(let this = ::std::sync::Arc::clone(&this);));
    let handler = handler(method);
    let registration = match &method.kind {
        MethodKind::Tool(tool) => self::tool(tool, method, &handler),
        MethodKind::Resource(resource) => self::resource(resource, method, &handler),
        MethodKind::Prompt(prompt) => self::prompt(prompt, method, &handler),
        MethodKind::Complete(complete) => self::complete(complete, all, &handler),
    };
    quote! {
        #(#cfgs)*
        let server = {
            #arguments
            #this
            #registration
        };
    }
}

fn tool(tool: &ToolMethod, method: &HandlerMethod, handler: &TokenStream) -> TokenStream {
    // The call has the span of the return type, because rustc reports a type without the trait there.
    let (name, register) = (&tool.name, Ident::new("tool", method.returned));
    let title = setting("title", tool.title.as_ref());
    let description = setting("description", method.description.as_ref());
    let hints = tool.hints.iter().map(|(hint, value)| quote!(.#hint(#value)));
    let task = tool.task.iter().map(|support| quote!(.task(::hospes::model::TaskSupport::#support)));
    let ask_first = tool.ask_first.then(|| quote!(.ask_first()));
    quote! {
        server.#register(
            ::hospes::server::Tool::new(#name) #title #description #(#hints)* #(#task)* #ask_first,
            #handler,
        )
    }
}

fn resource(resource: &ResourceMethod, method: &HandlerMethod, handler: &TokenStream) -> TokenStream {
    let ResourceMethod { uri, name, .. } = resource;
    let title = setting("title", resource.title.as_ref());
    let description = setting("description", method.description.as_ref());
    let mime = setting("mime", resource.mime.as_ref());
    let register = if resource.variables.is_empty() { "resource" } else { "resource_template" };
    let register = Ident::new(register, method.returned);
    if resource.variables.is_empty() {
        quote! {
            server.#register(::hospes::server::Resource::new(#uri).name(#name) #title #description #mime, #handler)
        }
    } else {
        quote! {
            server.#register(
                ::hospes::server::Template::new(#uri).name(#name) #title #description #mime,
                #handler,
            )
        }
    }
}

fn prompt(prompt: &PromptMethod, method: &HandlerMethod, handler: &TokenStream) -> TokenStream {
    let (name, register) = (&prompt.name, Ident::new("prompt", method.returned));
    let title = setting("title", prompt.title.as_ref());
    let description = setting("description", method.description.as_ref());
    quote!(server.#register(::hospes::server::Prompt::new(#name) #title #description, #handler))
}

fn complete(complete: &CompletionMethod, all: &[HandlerMethod], handler: &TokenStream) -> TokenStream {
    let mut calls = TokenStream::new();
    for (of, argument) in &complete.targets {
        // A missing target was reported as a mistake earlier.
        let Some(target) = all.iter().find(|method| method.ident == *of) else { continue };
        let argument = argument.unraw().to_string();
        calls.extend(match &target.kind {
            MethodKind::Prompt(PromptMethod { name, .. }) => {
                quote!(.complete(::hospes::server::Completes::prompt(#name, #argument), handler.clone()))
            }
            MethodKind::Resource(ResourceMethod { uri, .. }) => {
                quote!(.complete(::hospes::server::Completes::template(#uri, #argument), handler.clone()))
            }
            _ => continue,
        });
    }
    quote! {
        let handler = #handler;
        server #calls
    }
}

/// Generates the struct that the arguments are decoded into, if there are any. Its name must differ from all argument
/// types, which would otherwise refer to it.
fn arguments(method: &HandlerMethod) -> Option<TokenStream> {
    // A completion takes the text typed so far and no object of arguments.
    if matches!(method.kind, MethodKind::Complete(_)) || method.arguments().next().is_none() {
        return None;
    }
    let mut defaults = TokenStream::new();
    let fields = method.arguments().enumerate().map(|(at, argument)| {
        let PeerArgument { ident, name, ty, foreign, .. } = argument;
        let title = argument.title.iter().map(|title| quote!(#[schemars(title = #title)]));
        let description = argument.description.iter().map(|text| quote!(#[schemars(description = #text)]));
        let default = argument.default.as_ref().map(|default| match default {
            None => quote!(#[serde(default)]),
            Some(value) => {
                // serde takes a default as the path of a function.
                let make = format_ident!("default_{at}");
                defaults.extend(quote!(fn #make() -> #ty { #value }));
                let make = make.to_string();
                quote!(#[serde(default = #make)])
            }
        });
        let schema = (!argument.schema.is_empty()).then(|| {
            let schema = &argument.schema;
            quote!(#[schemars(#(#schema),*)])
        });
        quote_spanned! {ident.span()=>
            #[serde(rename = #name)] #default #(#title)* #(#description)* #schema #(#foreign)* #ident: #ty
        }
    });
    let fields: Vec<_> = fields.collect();
    Some(quote! {
        #defaults
        #[derive(::hospes::serde::Deserialize, ::hospes::schemars::JsonSchema)]
        #[serde(crate = "::hospes::serde")]
        #[schemars(crate = "::hospes::schemars")]
        struct __Arguments {
            #(#fields,)*
        }
    })
}

/// Generates the closure that extracts the arguments of a call and runs the method.
fn handler(method: &HandlerMethod) -> TokenStream {
    let completes = matches!(method.kind, MethodKind::Complete(_));
    let (mut takes, mut gives) = (Vec::new(), Vec::new());
    let mut taken = false;
    for (at, input) in method.inputs.iter().enumerate() {
        match input {
            MethodInput::Context { by_ref } => {
                let name = format_ident!("context_{at}");
                takes.push(quote!(#name: ::hospes::Context));
                gives.push(if *by_ref { quote!(&#name) } else { quote!(#name) });
            }
            MethodInput::Extractor { ident, ty, by_ref, .. } => {
                let name = format_ident!("{ident}_{at}");
                takes.push(quote!(#name: #ty));
                gives.push(if *by_ref { quote!(&#name) } else { quote!(#name) });
            }
            MethodInput::Plain(argument) => {
                let from: Ident = format_ident!("arguments");
                let ident = &argument.ident;
                let value = if completes {
                    takes.push(quote!(::hospes::server::Typed(#from): ::hospes::server::Typed));
                    quote!(#from)
                } else {
                    if !taken {
                        takes
                            .push(quote!(::hospes::server::Args(#from): ::hospes::server::Args<__Arguments>));
                        taken = true;
                    }
                    quote!(#from.#ident)
                };
                gives.push(match argument.lent {
                    ArgumentPassing::Given => value,
                    ArgumentPassing::Whole => quote!(&#value),
                    ArgumentPassing::Inside => quote!(#value.as_deref()),
                });
            }
        }
    }
    let name = &method.ident;
    let this = method.has_self.then(|| quote!(&this,));
    let clone = method.has_self.then(|| quote!(let this = ::std::sync::Arc::clone(&this);));
    let wait = method.is_async.then(|| quote!(.await));
    // rustc points here if the return type is not allowed.
    if !method.is_async && !method.is_inline {
        return quote_spanned! {method.returned=>
            ::hospes::server::blocking(move |#(#takes),*| Self::#name(#this #(#gives),*))
        };
    }
    quote_spanned! {method.returned=>
        move |#(#takes),*| {
            #clone
            async move { Self::#name(#this #(#gives),*) #wait }
        }
    }
}
