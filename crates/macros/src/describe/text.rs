//! Texts derived from the source: doc comments and converted names.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Error, Expr, ExprLit, Lit, Meta, Result, Type};

/// Returns the doc comments as one text. `None` if there are none.
pub(crate) fn doc(attrs: &[Attribute]) -> Option<TokenStream> {
    let mut lines = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("doc")) {
        let Meta::NameValue(meta) = &attr.meta else { continue };
        match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                lines.extend(text.value().lines().map(str::to_owned));
                // `lines()` yields nothing for an empty text, which is the empty line between paragraphs.
                if text.value().is_empty() {
                    lines.push(String::new());
                }
            }
            // The text of `#[doc = include_str!("…")]` is known only to the compiler, so it is used alone.
            other => return Some(other.to_token_stream()),
        }
    }
    // Doc comments have one blank after the slashes; further indentation is kept.
    let text = lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let text = text.trim();
    (!text.is_empty()).then(|| quote!(#text))
}

/// Returns the type's name in kebab case.
pub(crate) fn type_name(ty: &Type) -> Result<TokenStream> {
    let Type::Path(path) = ty else {
        return Err(Error::new_spanned(
            ty,
            "the server's name cannot be derived from this type; write `name = \"…\"`",
        ));
    };
    let name = path.path.segments.last().map(|segment| segment.ident.unraw().to_string()).unwrap_or_default();
    let mut kebab = String::new();
    for (at, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && at > 0 {
            kebab.push('-');
        }
        kebab.extend(letter.to_lowercase());
    }
    Ok(quote!(#kebab))
}

/// Returns the variables of a URI template, in order.
pub(crate) fn variables(template: &str) -> std::result::Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find(['{', '}']) {
        if rest[open..].starts_with('}') {
            return Err("the template has a `}` without a `{` before it".to_owned());
        }
        let inner = &rest[open + 1..];
        let Some(close) = inner.find('}') else {
            return Err("the template has a `{` that is never closed".to_owned());
        };
        // Operators and modifiers are not part of a variable's name (RFC 6570, sections 2.2 and 2.4).
        let expression = inner[..close].trim_start_matches(['+', '#', '.', '/', ';', '?', '&']);
        for variable in expression.split(',') {
            let name = variable.trim_end_matches('*').split(':').next().unwrap_or_default();
            let is_name =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.%".contains(c));
            if !is_name {
                return Err(format!("`{{{}}}` is not a valid variable of a URI template", &inner[..close]));
            }
            if !names.iter().any(|other| other == name) {
                names.push(name.to_owned());
            }
        }
        rest = &inner[close + 1..];
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn variables_are_found_in_all_kinds_of_expressions() {
        let names = |template| variables(template).unwrap();
        assert_eq!(names("a://b"), Vec::<String>::new());
        assert_eq!(names("a://{b}/{+c}{/d*}{?e,f:3}{&b}"), ["b", "c", "d", "e", "f"]);
        for bad in ["a://{b", "a://b}", "a://{}", "a://{b c}", "a://{b,}"] {
            assert!(variables(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_type_gives_its_name_in_small_letters() {
        let name = |ty: Type| type_name(&ty).unwrap().to_string();
        assert_eq!(name(parse_quote!(Trips)), "\"trips\"");
        assert_eq!(name(parse_quote!(crate::MyTrips<u8>)), "\"my-trips\"");
        assert!(type_name(&parse_quote!((u8, u8))).is_err());
    }

    #[test]
    fn doc_comments_lose_one_space_and_keep_their_lines() {
        let attrs: Vec<Attribute> = vec![
            parse_quote!(#[doc = " One."]),
            parse_quote!(#[doc = ""]),
            parse_quote!(#[inline]),
            parse_quote!(#[doc = "   Indented."]),
        ];
        assert_eq!(doc(&attrs).unwrap().to_string(), r#""One.\n\n  Indented.""#);
        assert!(doc(&attrs[1..3]).is_none());
    }
}
