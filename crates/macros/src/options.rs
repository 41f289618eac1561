//! Options in the parentheses of an attribute: `name = value`, `name(…)` and bare names, between commas.

use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, Ident, Lit, LitStr, Meta, Result, Token, parenthesized};

/// Options of one attribute. Each is taken once by name; remaining ones are unknown.
pub(crate) struct AttributeOptions {
    attribute: &'static str,
    left: Vec<AttributeOption>,
}

/// One option of an attribute.
pub(crate) struct AttributeOption {
    pub(crate) name: Ident,
    pub(crate) value: OptionValue,
}

/// Value of an option.
pub(crate) enum OptionValue {
    Nothing,
    Is(Box<Expr>),
    List(TokenStream),
}

impl Parse for AttributeOption {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.call(Ident::parse_any)?;
        let value = if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            OptionValue::Is(Box::new(input.parse()?))
        } else if input.peek(syn::token::Paren) {
            let content;
            parenthesized!(content in input);
            OptionValue::List(content.parse()?)
        } else {
            OptionValue::Nothing
        };
        Ok(Self { name, value })
    }
}

impl AttributeOptions {
    pub(crate) fn none(attribute: &'static str) -> Self {
        Self { attribute, left: Vec::new() }
    }

    pub(crate) fn parse(attribute: &'static str, input: ParseStream<'_>) -> Result<Self> {
        let items = Punctuated::<AttributeOption, Token![,]>::parse_terminated(input)?;
        let mut left: Vec<AttributeOption> = Vec::new();
        for item in items {
            if left.iter().any(|other| other.name == item.name) {
                return Err(Error::new(item.name.span(), format!("duplicate option `{}`", item.name)));
            }
            left.push(item);
        }
        Ok(Self { attribute, left })
    }

    /// Parses the options of `#[name]` or `#[name(…)]`.
    pub(crate) fn of(attribute: &'static str, attr: &Attribute) -> Result<Self> {
        match &attr.meta {
            Meta::Path(_) => Ok(Self::none(attribute)),
            Meta::List(_) => attr.parse_args_with(|input: ParseStream<'_>| Self::parse(attribute, input)),
            Meta::NameValue(meta) => Err(Error::new_spanned(
                &meta.value,
                format!("write `#[{attribute}(…)]`, with the options in parentheses"),
            )),
        }
    }

    /// Returns true if there are no options, or all have been taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns the span of an option.
    pub(crate) fn span(&self, name: &str) -> Option<Span> {
        self.left.iter().find(|item| item.name == name).map(|item| item.name.span())
    }

    /// Removes and returns an option.
    pub(crate) fn take(&mut self, name: &str) -> Option<AttributeOption> {
        let at = self.left.iter().position(|item| item.name == name)?;
        Some(self.left.remove(at))
    }

    /// Takes the option `name = value`, where the value may be any expression.
    pub(crate) fn expr(&mut self, name: &str) -> Result<Option<Expr>> {
        match self.take(name) {
            None => Ok(None),
            Some(AttributeOption { value: OptionValue::Is(value), .. }) => Ok(Some(*value)),
            Some(AttributeOption { name, .. }) => {
                Err(Error::new(name.span(), format!("`{name}` needs a value: `{name} = …`")))
            }
        }
    }

    /// Takes the option `name = "text"`, where the text must be a literal.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<LitStr>> {
        match self.expr(name)? {
            None => Ok(None),
            Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => Ok(Some(text)),
            Some(other) => Err(Error::new_spanned(other, format!("`{name}` must be a string literal"))),
        }
    }

    /// Takes the option `name`, `name = true` or `name = false`.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(AttributeOption { value: OptionValue::Nothing, .. }) => Ok(Some(true)),
            Some(AttributeOption { value: OptionValue::Is(value), .. }) => match *value {
                Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) => Ok(Some(flag.value)),
                other => Err(Error::new_spanned(other, format!("`{name}` must be `true` or `false`"))),
            },
            Some(AttributeOption { name, .. }) => {
                Err(Error::new(name.span(), format!("write `{name}` or `{name} = false`")))
            }
        }
    }

    /// Returns an error if any options are left. `known` are all known names.
    pub(crate) fn finish(self, known: &[&str]) -> Result<()> {
        let errors = self.left.iter().map(|item| {
            let name = item.name.to_string();
            let hint = match closest(&name, known) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => format!("; its options are {}", list(known)),
            };
            Error::new(item.name.span(), format!("`#[{}]` has no option `{name}`{hint}", self.attribute))
        });
        combine(errors)
    }
}

/// Combines all errors into one.
pub(crate) fn combine(errors: impl IntoIterator<Item = Error>) -> Result<()> {
    let all = errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    });
    all.map_or(Ok(()), Err)
}

/// Collects errors, so that all mistakes are reported together.
#[derive(Default)]
pub(crate) struct ErrorCollector(Option<Error>);

impl ErrorCollector {
    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            none => *none = Some(error),
        }
    }

    pub(crate) fn add_message(&mut self, span: Span, message: impl std::fmt::Display) {
        self.add(Error::new(span, message));
    }

    /// Returns the value, or records the error and returns `None`.
    pub(crate) fn ok_or_record<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(error);
                None
            }
        }
    }

    pub(crate) fn into_error(self) -> Option<Error> {
        self.0
    }
}

/// Formats a list of names: `a`, `b` and `c`.
pub(crate) fn list(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Returns the known name that was probably meant.
pub(crate) fn closest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let near = known.iter().map(|known| (strsim::levenshtein(name, known), *known)).min()?;
    (near.0 <= near.1.len().div_ceil(3)).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_meant_is_found() {
        let known = ["read_only", "destructive", "title"];
        assert_eq!(closest("readonly", &known), Some("read_only"));
        assert_eq!(closest("tilte", &known), Some("title"));
        assert_eq!(closest("colour", &known), None);
    }
}
