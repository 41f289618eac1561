//! The attribute macros of the `hospes` crate.
//!
//! For the crate `hospes` alone, which exports the macro and documents every option of it.
//!
//! It works in two independent steps: `describe` parses and checks the `impl` block, and `render` generates the builder
//! calls that a person would write by hand.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `options` | options of the attributes |
//! | `describe` | what the `impl` block says: tools, prompts, resources, arguments |
//! | `render` | the generated code |

mod describe;
mod options;
mod render;

use proc_macro::TokenStream;
use quote::quote;
use syn::ItemImpl;

/// Generates a server from an `impl` block. The documentation is in the crate `hospes`.
#[proc_macro_attribute]
pub fn server(attribute: TokenStream, item: TokenStream) -> TokenStream {
    // The original item is needed again below, so that code that uses its types still finds them.
    let mut block = match syn::parse::<ItemImpl>(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            let is_impl = proc_macro2::TokenStream::from(item.clone())
                .into_iter()
                .any(|tree| matches!(tree, proc_macro2::TokenTree::Ident(ident) if ident == "impl"));
            let error = if is_impl {
                error
            } else {
                syn::Error::new(
                    error.span(),
                    "`#[hospes::server]` belongs on an `impl` block: `impl MyServer { … }`",
                )
            };
            let (error, item) = (error.to_compile_error(), proc_macro2::TokenStream::from(item));
            return quote!(#error #item).into();
        }
    };
    let rendered = match describe::server(attribute.into(), &mut block) {
        Ok(server) => render::server(&server),
        // The block stays and the type stays a server, so that only the relevant errors are reported.
        Err(error) => {
            let (error, stub) = (error.to_compile_error(), render::stub(&block));
            quote!(#error #stub)
        }
    };
    quote!(#block #rendered).into()
}
