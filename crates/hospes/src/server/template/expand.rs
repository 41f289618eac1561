//! Expansion, by `iri-string`, one part at a time.

use std::borrow::Cow;
use std::fmt::Write as _;

use iri_string::spec::UriSpec;
use iri_string::template::UriTemplateStr;
use iri_string::template::context::{Context, Visitor};

use super::parse::{TemplateExpression, TemplateSegment};
use crate::server::variables::{TemplateVariables, VariableValue};

/// Appends what a part of a template becomes.
pub(super) fn expand_part(
    part: &TemplateSegment,
    variables: &TemplateVariables,
    uri: &mut String,
) -> Result<(), String> {
    let (source, values) = match part {
        TemplateSegment::Literal(literal) => {
            (Cow::Borrowed(&**literal), Cow::Owned(TemplateVariables::new()))
        }
        TemplateSegment::Expression(expression) if expression.kind.keeps_reserved() => {
            (Cow::Owned(expression_source(expression, false)), Cow::Owned(escaped(expression, variables)?))
        }
        TemplateSegment::Expression(expression) => {
            (Cow::Owned(expression_source(expression, true)), Cow::Borrowed(variables))
        }
    };
    let template = UriTemplateStr::new(&source).map_err(|error| error.to_string())?;
    let values = ExpansionContext(&values);
    let expanded = template.expand::<UriSpec, _>(&values).map_err(|error| error.to_string())?;
    // Writing to a string cannot fail.
    let _ = write!(uri, "{expanded}");
    Ok(())
}

/// The expression as it stands in a template.
fn expression_source(expression: &TemplateExpression, prefixes: bool) -> String {
    let mut text = String::from("{");
    text.push_str(expression.kind.operator());
    for (index, variable) in expression.variables.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&variable.name);
        if variable.explode {
            text.push('*');
        }
        if let Some(most) = variable.prefix.filter(|_| prefixes) {
            let _ = write!(text, ":{most}");
        }
    }
    text.push('}');
    text
}

/// The values of a reserved expansion, cut to their prefixes, with everything outside of ASCII escaped: such an
/// expansion leaves escapes alone, and iri-string 0.7.14 panics in it at a character of more than one byte.
fn escaped(
    expression: &TemplateExpression,
    variables: &TemplateVariables,
) -> Result<TemplateVariables, String> {
    let mut all = TemplateVariables::new();
    for variable in &expression.variables {
        let value = match (variables.get(&variable.name), variable.prefix) {
            (None, _) => continue,
            (Some(VariableValue::Text(text)), most) => {
                let most = most.map_or(usize::MAX, usize::from);
                VariableValue::Text(escape(text.chars().take(most)))
            }
            (Some(_), Some(_)) => {
                return Err(format!("{} is not a string and cannot have a prefix", variable.name));
            }
            (Some(VariableValue::List(items)), None) => {
                VariableValue::List(items.iter().map(|item| escape(item.chars())).collect())
            }
            (Some(VariableValue::Map(members)), None) => {
                let member = |(name, value): &(String, String)| (escape(name.chars()), escape(value.chars()));
                VariableValue::Map(members.iter().map(member).collect())
            }
        };
        all.set(&*variable.name, value);
    }
    Ok(all)
}

fn escape(text: impl Iterator<Item = char>) -> String {
    let mut escaped = String::new();
    for char in text {
        if char.is_ascii() {
            escaped.push(char);
        } else {
            for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

struct ExpansionContext<'a>(&'a TemplateVariables);

impl Context for ExpansionContext<'_> {
    fn visit<V: Visitor>(&self, visitor: V) -> V::Result {
        match self.0.get(visitor.var_name().as_str()) {
            None => visitor.visit_undefined(),
            Some(VariableValue::Text(text)) => visitor.visit_string(text),
            Some(VariableValue::List(items)) => visitor.visit_list_direct(items),
            Some(VariableValue::Map(members)) => {
                visitor.visit_assoc_direct(members.iter().map(|(name, value)| (name, value)))
            }
        }
    }
}
