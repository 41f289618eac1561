//! Arguments of a method: those sent by the peer, and those taken from the call.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, GenericArgument, Ident, Pat, PatType, PathArguments, Result, Type, TypeReference,
    parse_quote,
};

use super::text;
use crate::options::{AttributeOption, AttributeOptions, OptionValue};

const OPTIONS: &[&str] = &[
    "name",
    "description",
    "title",
    "default",
    "range",
    "length",
    "regex",
    "pattern",
    "example",
    "email",
    "url",
    "header",
    "from_call",
];

/// Extractor types besides `Context`, which hand-written handlers can take too.
const EXTRACTORS: &[&str] = &["Args", "RawJson", "State", "Extension", "Uri", "Typed", "ServerHandle"];

/// One argument of a method.
pub(crate) enum MethodInput {
    /// `&Context` or `Context`.
    Context { by_ref: bool },
    /// `State<T>`, `Args<T>` and similar types, passed to the method unchanged.
    Extractor { ident: Ident, ty: Box<Type>, is_args: bool, by_ref: bool },
    /// Argument that the peer sends under a name.
    Plain(Box<PeerArgument>),
}

/// An argument that the peer sends.
pub(crate) struct PeerArgument {
    /// Name of the argument in the method.
    pub(crate) ident: Ident,
    /// Name of the argument for the peer.
    pub(crate) name: String,
    /// Type that is decoded.
    pub(crate) ty: Type,
    /// Form in which the method takes the argument.
    pub(crate) lent: ArgumentPassing,
    pub(crate) description: Option<TokenStream>,
    pub(crate) title: Option<Expr>,
    /// Default of an omitted argument; `None` inside means the type's own default.
    pub(crate) default: Option<Option<Expr>>,
    /// Content of `#[schemars(…)]`.
    pub(crate) schema: Vec<TokenStream>,
    /// `#[serde(…)]` and `#[schemars(…)]` as written.
    pub(crate) foreign: Vec<Attribute>,
}

/// Form in which a method takes a decoded value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgumentPassing {
    /// Takes the value itself.
    Given,
    /// Takes a reference.
    Whole,
    /// Takes an `Option` of a reference.
    Inside,
}

/// Removes the attributes of this crate from the argument and describes it.
pub(crate) fn describe(argument: &mut PatType) -> Result<MethodInput> {
    // Removed in any case, because the compiler rejects unknown attributes.
    let attrs = std::mem::take(&mut argument.attrs);
    match from_call(&attrs)? {
        None => {}
        Some(true) => return Ok(extractor(&argument.pat, &argument.ty)),
        Some(false) => return describe_peer_argument(argument, attrs),
    }
    if let Some(special) = special(&argument.pat, &argument.ty) {
        return match attrs.first() {
            Some(attr) => Err(Error::new_spanned(
                attr,
                "this argument is not sent by the client, so it takes no options",
            )),
            None => Ok(special),
        };
    }
    describe_peer_argument(argument, attrs)
}

/// Returns true if the argument is declared as taken from the call, false if as sent by the peer, and `None` if
/// neither.
fn from_call(attrs: &[Attribute]) -> Result<Option<bool>> {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("arg")) {
        let mut options = AttributeOptions::of("arg", attr)?;
        let Some(span) = options.span("from_call") else { continue };
        let taken = options.flag("from_call")?;
        if taken == Some(true) && (!options.is_empty() || attrs.len() > 1) {
            return Err(Error::new(
                span,
                "this argument is not sent by the client, so it takes no other options",
            ));
        }
        return Ok(taken);
    }
    Ok(None)
}

/// Describes an argument of a type that implements `FromCall`.
fn extractor(pattern: &Pat, ty: &Type) -> MethodInput {
    let (ty, by_ref) = match ty {
        Type::Reference(reference) => (&*reference.elem, true),
        ty => (ty, false),
    };
    let ident = Ident::new("extracted", pattern.span());
    MethodInput::Extractor { ident, ty: Box::new(ty.clone()), is_args: false, by_ref }
}

/// Describes an argument that the peer sends.
fn describe_peer_argument(argument: &mut PatType, attrs: Vec<Attribute>) -> Result<MethodInput> {
    let Pat::Ident(pattern) = &*argument.pat else {
        return Err(Error::new_spanned(
            &argument.pat,
            "an argument must be a plain identifier, because clients send it by this name",
        ));
    };
    let ident = pattern.ident.clone();
    let (ty, lent) = decoded_type(&argument.ty)?;
    let (mut options, mut foreign, mut kept) = (AttributeOptions::none("arg"), Vec::new(), Vec::new());
    let description = text::doc(&attrs);
    for attr in attrs {
        if attr.path().is_ident("arg") {
            options = AttributeOptions::of("arg", &attr)?;
        } else if attr.path().is_ident("serde") || attr.path().is_ident("schemars") {
            foreign.push(attr);
        } else if !attr.path().is_ident("doc") {
            kept.push(attr);
        }
    }
    argument.attrs = kept;
    let name = options.text("name")?.map(|name| name.value());
    // The leading underscore of an unused argument is not part of its name.
    let name = name.unwrap_or_else(|| ident.unraw().to_string().trim_start_matches('_').to_owned());
    let description = options.expr("description")?.map(|text| quote!(#text)).or(description);
    let title = options.expr("title")?;
    let default = match options.take("default") {
        None => None,
        Some(AttributeOption { value: OptionValue::Nothing, .. }) => Some(None),
        Some(AttributeOption { value: OptionValue::Is(value), .. }) => Some(Some(*value)),
        Some(AttributeOption { name, .. }) => {
            return Err(Error::new(name.span(), "write `default` or `default = value`"));
        }
    };
    let mut schema = Vec::new();
    for word in ["range", "length", "regex"] {
        match options.take(word) {
            None => {}
            Some(AttributeOption { name, value: OptionValue::List(inner) }) => {
                schema.push(quote!(#name(#inner)))
            }
            Some(AttributeOption { name, .. }) => {
                return Err(Error::new(
                    name.span(),
                    format!("`{word}` takes its bounds in parentheses: `{word}(…)`"),
                ));
            }
        }
    }
    if let Some(pattern) = options.expr("pattern")? {
        schema.push(quote!(regex(pattern = #pattern)));
    }
    if let Some(example) = options.expr("example")? {
        schema.push(quote!(example = #example));
    }
    if let Some(header) = options.text("header")? {
        schema.push(quote!(extend("x-mcp-header" = #header)));
    }
    for word in ["email", "url"] {
        if options.flag(word)? == Some(true) {
            let word = Ident::new(word, argument.pat.span());
            schema.push(quote!(#word));
        }
    }
    // Evaluated earlier, and must not be reported as unknown.
    let _ = options.take("from_call");
    options.finish(OPTIONS)?;
    Ok(MethodInput::Plain(Box::new(PeerArgument {
        ident,
        name,
        ty,
        lent,
        description,
        title,
        default,
        schema,
        foreign,
    })))
}

/// Describes an argument that is recognized by its type and not sent by the peer.
fn special(pattern: &Pat, ty: &Type) -> Option<MethodInput> {
    let (ty, by_ref) = match ty {
        Type::Reference(reference) => (&*reference.elem, true),
        ty => (ty, false),
    };
    let mut name = last_segment(ty)?;
    if name == "Context" {
        return Some(MethodInput::Context { by_ref });
    }
    // Only extensions may be absent in a call; all other extractors always have a value.
    if name == "Option" {
        name = only_parameter(ty).and_then(last_segment).filter(|inner| inner == "Extension")?;
    }
    EXTRACTORS.contains(&name.as_str()).then(|| MethodInput::Extractor {
        ident: Ident::new("extracted", pattern.span()),
        is_args: name == "Args" || name == "RawJson",
        ty: Box::new(ty.clone()),
        by_ref,
    })
}

fn only_parameter(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(parameters) = &path.path.segments.last()?.arguments else {
        return None;
    };
    match parameters.args.first()? {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

/// Returns the type that is decoded, and the form in which the method takes it.
fn decoded_type(ty: &Type) -> Result<(Type, ArgumentPassing)> {
    match ty {
        Type::Reference(reference) => Ok((pointee(reference)?, ArgumentPassing::Whole)),
        Type::ImplTrait(_) => Err(Error::new_spanned(
            ty,
            "this argument is deserialized from JSON, so its type must be written out",
        )),
        other => {
            if last_segment(other).as_deref() == Some("Option")
                && let Some(Type::Reference(reference)) = only_parameter(other)
            {
                let inner = pointee(reference)?;
                return Ok((parse_quote!(::std::option::Option<#inner>), ArgumentPassing::Inside));
            }
            refuse_self(other)?;
            Ok((other.clone(), ArgumentPassing::Given))
        }
    }
}

/// Returns the type to decode for a reference.
fn pointee(reference: &TypeReference) -> Result<Type> {
    if let Some(mutability) = &reference.mutability {
        return Err(Error::new_spanned(
            mutability,
            "an argument that the client sends cannot be a `&mut` reference; take it by value",
        ));
    }
    Ok(match &*reference.elem {
        Type::Path(path) if path.path.is_ident("str") => parse_quote!(::std::string::String),
        Type::Slice(slice) => {
            let item = &slice.elem;
            parse_quote!(::std::vec::Vec<#item>)
        }
        other => {
            refuse_self(other)?;
            other.clone()
        }
    })
}

fn refuse_self(ty: &Type) -> Result<()> {
    // Searches the tokens, because `Self` may appear anywhere in the type.
    fn mentions(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|tree| match tree {
            proc_macro2::TokenTree::Ident(ident) => ident == "Self",
            proc_macro2::TokenTree::Group(group) => mentions(group.stream()),
            _ => false,
        })
    }
    if mentions(quote!(#ty)) {
        return Err(Error::new_spanned(
            ty,
            "`Self` cannot be used in the type of an argument; write the type's name",
        ));
    }
    Ok(())
}

fn last_segment(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) if path.qself.is_none() => {
            path.path.segments.last().map(|s| s.ident.unraw().to_string())
        }
        Type::Paren(inner) => last_segment(&inner.elem),
        // A type passed on by a `macro_rules` macro is wrapped in an invisible group.
        Type::Group(inner) => last_segment(&inner.elem),
        _ => None,
    }
}
