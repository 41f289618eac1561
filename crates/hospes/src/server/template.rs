//! URI templates (RFC 6570): expanded by `iri-string`, matched here.
//!
//! Matching turns expansion round: where the values of a template's variables can be told apart in a URI at all,
//! `matches(expand(variables)) == variables`.

mod expand;
mod parse;

use std::fmt;

use iri_string::template::UriTemplateStr;

use crate::server::variables::{TemplateVariables, VariableValue};
use parse::{ExpressionKind, TemplateExpression, TemplateSegment, VariableSpec as Spec};

/// The longest URI that is matched against templates; matching may take the square of it.
pub const MAX_URI_LENGTH: usize = 4096;
/// The most ways to cut a URI that are tried for one template.
const MAX_MATCH_STEPS: u32 = 10_000;

/// A parsed URI template.
#[derive(Clone)]
pub struct UriTemplate {
    text: Box<str>,
    parts: Box<[TemplateSegment]>,
    /// True if a variable occurs twice.
    repeats: bool,
}

/// The text is no URI template.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{template:?} is not a URI template: {why}")]
#[non_exhaustive]
pub struct UriTemplateError {
    /// The text.
    pub template: String,
    /// Description of the problem.
    pub why: String,
}

impl UriTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// When the text is not a valid template.
    pub fn parse(template: impl Into<Box<str>>) -> Result<Self, UriTemplateError> {
        let text = template.into();
        let bad = |why: String| UriTemplateError { template: text.to_string(), why };
        // The library takes what follows a percent sign for two bytes of ASCII, and panics where it is not.
        if !percents_are_encodings(&text) {
            return Err(bad("a `%` is not followed by two hexadecimal digits".into()));
        }
        UriTemplateStr::new(&text).map_err(|error| bad(error.to_string()))?;
        let parts = parse::parse_parts(&text).ok_or_else(|| bad("it cannot be matched".into()))?;
        let template = Self { text, parts, repeats: false };
        let mut names: Vec<&str> = template.names().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        let repeats = names.len() < all;
        Ok(Self { repeats, ..template })
    }

    /// The template's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of its variables, in their order; a name may come twice.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.expressions().flat_map(|expression| expression.variables.iter().map(|variable| &*variable.name))
    }

    fn expressions(&self) -> impl Iterator<Item = &TemplateExpression> {
        self.parts.iter().filter_map(|part| match part {
            TemplateSegment::Expression(expression) => Some(expression),
            TemplateSegment::Literal(_) => None,
        })
    }

    /// The URI that these variables make.
    ///
    /// # Errors
    /// When a variable is a list or a map where the template cuts it to a prefix.
    pub fn expand(&self, variables: &TemplateVariables) -> Result<String, UriTemplateError> {
        let bad = |why: String| UriTemplateError { template: self.text.to_string(), why };
        let mut uri = String::new();
        for part in &self.parts {
            expand::expand_part(part, variables, &mut uri).map_err(bad)?;
        }
        Ok(uri)
    }

    /// The variables that make this URI, if there are such; percent-decoded. An empty value that has no name in the
    /// URI counts as no value.
    ///
    /// A value may hold anything, `..` and control characters too: what is used as a path must be checked.
    #[must_use]
    pub fn matches(&self, uri: &str) -> Option<TemplateVariables> {
        if uri.len() > MAX_URI_LENGTH {
            return None;
        }
        let dead = vec![false; (self.parts.len() + 1) * (uri.len() + 1)];
        TemplateMatchSearch { template: self, uri, dead, fuel: MAX_MATCH_STEPS }.match_from(
            0,
            0,
            &TemplateVariables::new(),
        )
    }
}

impl fmt::Debug for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UriTemplate").field(&self.text).finish()
    }
}

impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A search, longest first, for a way to lay the parts over the URI.
struct TemplateMatchSearch<'a> {
    template: &'a UriTemplate,
    uri: &'a str,
    /// Pairs of part and position that lead to no match. If a variable occurs twice the result depends on earlier
    /// matches, so nothing is recorded.
    dead: Vec<bool>,
    fuel: u32,
}

impl TemplateMatchSearch<'_> {
    fn match_from(&mut self, part: usize, at: usize, found: &TemplateVariables) -> Option<TemplateVariables> {
        let (uri, template) = (self.uri, self.template);
        let Some(this) = template.parts.get(part) else {
            let reached = at == uri.len() && (!template.repeats || is_expansion(template, found, uri));
            return reached.then(|| found.clone());
        };
        let state = part * (uri.len() + 1) + at;
        if self.dead[state] {
            return None;
        }
        let rest = &uri[at..];
        let result = match this {
            TemplateSegment::Literal(literal) => {
                literal_length(literal, rest).and_then(|length| self.match_from(part + 1, at + length, found))
            }
            TemplateSegment::Expression(expression) => self.match_expression(expression, part, at, found),
        };
        if result.is_none() && !template.repeats {
            self.dead[state] = true;
        }
        result
    }

    fn match_expression(
        &mut self,
        expression: &TemplateExpression,
        part: usize,
        at: usize,
        found: &TemplateVariables,
    ) -> Option<TemplateVariables> {
        let rest = &self.uri[at..];
        let longest = expression.kind.max_reach(rest);
        let mut ends: Vec<usize> =
            rest[..longest].char_indices().map(|(end, _)| end).chain(std::iter::once(longest)).collect();
        ends.dedup();
        let next = self.template.parts.get(part + 1);
        for end in ends.into_iter().rev() {
            // What comes next mostly says where to cut.
            let may_end = match next {
                None => end == rest.len(),
                Some(TemplateSegment::Literal(literal)) => literal_length(literal, &rest[end..]).is_some(),
                Some(TemplateSegment::Expression(_)) => true,
            };
            if !may_end {
                continue;
            }
            // Without this bound a template that repeats a variable
            // takes exponential time, for a URI that a client chose.
            self.fuel = self.fuel.checked_sub(1)?;
            let mut found = found.clone();
            if !read(expression, &rest[..end], &mut found) {
                continue;
            }
            if let Some(all) = self.match_from(part + 1, at + end, &found) {
                return Some(all);
            }
        }
        None
    }
}

/// Returns true if the variables expand to this URI, apart from needless escapes.
fn is_expansion(template: &UriTemplate, variables: &TemplateVariables, uri: &str) -> bool {
    template.expand(variables).is_ok_and(|expanded| decoded(&expanded) == decoded(uri))
}

/// Returns the length of `rest` that the literal covers; percent escapes match in either case.
fn literal_length(literal: &str, rest: &str) -> Option<usize> {
    if rest.starts_with(literal) {
        return Some(literal.len());
    }
    // Not indexed, because this length may end within a character of the URI.
    let head = rest.get(..literal.len())?;
    (literal.contains('%') && head.eq_ignore_ascii_case(literal) && decoded(head)? == decoded(literal)?)
        .then_some(literal.len())
}

/// Reads the values out of what an expression was expanded to; false when it cannot have been.
fn read(expression: &TemplateExpression, text: &str, found: &mut TemplateVariables) -> bool {
    if text.is_empty() {
        // No value at all.
        return true;
    }
    let Some(text) = text.strip_prefix(expression.kind.first()) else { return false };
    if expression.kind.is_named() {
        return read_named(expression, text, found);
    }
    let separator = expression.kind.separator();
    let variables = &expression.variables;
    if let [only] = &variables[..] {
        let items: Vec<&str> = if only.explode {
            text.split(separator).collect()
        } else if expression.kind.keeps_reserved() {
            // A comma may as well be the value's own.
            vec![text]
        } else {
            text.split(',').collect()
        };
        return match &items[..] {
            [one] if !only.explode => set_text(only, one, found),
            items => set_items(only, items, found),
        };
    }
    let mut items = text.split(separator).peekable();
    for (index, variable) in variables.iter().enumerate() {
        let last = index + 1 == variables.len();
        let done = if last && variable.explode {
            let rest: Vec<&str> = items.by_ref().collect();
            rest.is_empty() || set_items(variable, &rest, found)
        } else if last && expression.kind.keeps_reserved() {
            let rest: Vec<&str> = items.by_ref().collect();
            rest.is_empty() || set_text(variable, &rest.join(separator), found)
        } else {
            items.next().is_none_or(|item| set_text(variable, item, found))
        };
        if !done {
            return false;
        }
    }
    items.next().is_none()
}

/// `a=1&b=2`, in any order; what the template does not name goes to its exploded variable, if it has one.
fn read_named(expression: &TemplateExpression, text: &str, found: &mut TemplateVariables) -> bool {
    let mut gathered: Vec<(&Spec, Vec<(&str, &str)>)> = Vec::new();
    for pair in text.split(expression.kind.separator()) {
        // `{;a}` writes an empty value without an equals sign (RFC 6570, section 3.2.7).
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let named = expression.variables.iter().find(|variable| *variable.name == *name);
        let exploded = || expression.variables.iter().find(|variable| variable.explode);
        let Some(variable) = named.or_else(exploded) else { return false };
        match gathered.iter_mut().find(|(known, _)| known.name == variable.name) {
            Some((_, pairs)) => pairs.push((name, value)),
            None => gathered.push((variable, vec![(name, value)])),
        }
    }
    gathered.into_iter().all(|(variable, pairs)| {
        if !variable.explode {
            let [(_, value)] = pairs[..] else { return false };
            let items: Vec<&str> = value.split(',').collect();
            return match &items[..] {
                [one] => set_text(variable, one, found),
                items => set_items(variable, items, found),
            };
        }
        if pairs.iter().all(|(name, _)| **name == *variable.name) {
            let items: Option<Vec<String>> = pairs.iter().map(|(_, value)| decoded(value)).collect();
            return items.is_some_and(|items| set_variable(variable, VariableValue::List(items), found));
        }
        let members: Option<Vec<(String, String)>> =
            pairs.iter().map(|(name, value)| Some((decoded(name)?, decoded(value)?))).collect();
        members.is_some_and(|members| set_variable(variable, VariableValue::Map(members), found))
    })
}

fn set_text(variable: &Spec, text: &str, found: &mut TemplateVariables) -> bool {
    let Some(text) = decoded(text) else { return false };
    if let Some(most) = variable.prefix {
        if text.chars().count() > usize::from(most) {
            return false;
        }
        // The whole value may stand elsewhere in the URI; then this is its beginning.
        return match found.text(&variable.name) {
            Some(whole) => whole.chars().take(usize::from(most)).eq(text.chars()),
            None => set_variable(variable, VariableValue::Text(text), found),
        };
    }
    set_variable(variable, VariableValue::Text(text), found)
}

fn set_items(variable: &Spec, items: &[&str], found: &mut TemplateVariables) -> bool {
    if variable.prefix.is_some() {
        return false;
    }
    if variable.explode && items.iter().all(|item| item.contains('=')) {
        let members: Option<Vec<(String, String)>> = items
            .iter()
            .filter_map(|item| item.split_once('='))
            .map(|(name, value)| Some((decoded(name)?, decoded(value)?)))
            .collect();
        return members.is_some_and(|members| set_variable(variable, VariableValue::Map(members), found));
    }
    let items: Option<Vec<String>> = items.iter().map(|item| decoded(item)).collect();
    items.is_some_and(|items| set_variable(variable, VariableValue::List(items), found))
}

/// Sets a variable that is not set to something else.
fn set_variable(variable: &Spec, value: VariableValue, found: &mut TemplateVariables) -> bool {
    match found.get(&variable.name) {
        Some(old) if *old == value => true,
        // What stands there is only the beginning, from an earlier `{name:3}`.
        Some(VariableValue::Text(old)) => match &value {
            VariableValue::Text(new) if new.starts_with(old.as_str()) => {
                found.set(&*variable.name, value);
                true
            }
            _ => false,
        },
        Some(_) => false,
        None => {
            found.set(&*variable.name, value);
            true
        }
    }
}

/// Returns true if each percent sign begins an escape.
fn percents_are_encodings(text: &str) -> bool {
    let digits = |at: usize| text.as_bytes().get(at + 1..at + 3);
    text.match_indices('%').all(|(at, _)| digits(at).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)))
}

/// The text without its percent escapes; none when they are not UTF-8, or half.
fn decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

impl ExpressionKind {
    /// Returns the maximum length of `rest` that an expansion of this kind can cover.
    ///
    /// Readers put values into templates without escaping them more often than not, so this lets through more than
    /// an expansion would hold: all but what ends a path segment, a query or a fragment.
    fn max_reach(self, rest: &str) -> usize {
        let ends: &[char] = match self {
            Self::Reserved | Self::Fragment => &[],
            Self::Query | Self::Continuation => &['#'],
            Self::Path | Self::Parameters => &['?', '#'],
            Self::Simple | Self::Label => &['/', '?', '#'],
        };
        let first = self.first().len();
        let Some(body) = rest.get(first..).filter(|_| rest.starts_with(self.first())) else { return 0 };
        body.find(ends).map_or(rest.len(), |end| first + end)
    }
}
