//! Signatures of tools: JSON Schemas in the notation of types.

use serde_json::Value;

use super::schema::ArgumentSchema;
use super::{quoted, shown};

/// Maximum depth to which objects are written out.
const MAX_DEPTH: usize = 2;

/// Maximum number of choices, alternatives or members that are written out.
const MAX_PARTS: usize = 12;

/// Formats the signature of a tool, with its output if it declares one: `name(a: integer, b?: "x" | "y") -> {sum:
/// number}`.
///
/// Required arguments come first, in the schema's order.
pub(crate) fn signature(name: &str, input: &Value, output: Option<&Value>) -> String {
    let schema = ArgumentSchema::new(input);
    let mut text = format!("{}({})", label(name), members(&schema, 0, usize::MAX).join(", "));
    if let Some(output) = output {
        text.push_str(" -> ");
        text.push_str(&type_name(&ArgumentSchema::new(output)));
    }
    text
}

/// Formats a schema as a type.
pub(super) fn type_name(schema: &ArgumentSchema<'_>) -> String {
    name_at(schema, 0)
}

fn members(schema: &ArgumentSchema<'_>, depth: usize, limit: usize) -> Vec<String> {
    let required = schema.required();
    let mut names = required.clone();
    for name in schema.properties() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut texts = Vec::new();
    for name in names {
        if texts.len() == limit {
            texts.push("…".to_owned());
            break;
        }
        let inner = schema.property(name).unwrap_or_else(|| schema.any());
        let optional = if required.contains(&name) { "" } else { "?" };
        let default = inner.default().map_or_else(String::new, |value| format!(" = {}", shown(value)));
        texts.push(format!("{}{optional}: {}{default}", label(name), name_at(&inner, depth)));
    }
    texts
}

fn name_at(schema: &ArgumentSchema<'_>, depth: usize) -> String {
    if schema.is_exhausted() {
        return "any".to_owned();
    }
    if let Some(choices) = schema.choices() {
        return union(choices.iter().map(|choice| match choice {
            Value::String(text) => quoted(text),
            other => shown(other),
        }));
    }
    if let Some(alternatives) = schema.alternatives() {
        if depth > MAX_DEPTH {
            return "any".to_owned();
        }
        return union(alternatives.iter().map(|node| name_at(&schema.branch(node), depth + 1)));
    }
    let types = schema.types();
    if types.is_empty() {
        return "any".to_owned();
    }
    union(types.iter().map(|name| match *name {
        "array" => array(schema, depth),
        "object" => object(schema, depth),
        other => label(other),
    }))
}

fn array(schema: &ArgumentSchema<'_>, depth: usize) -> String {
    let item = if depth > MAX_DEPTH { "any".to_owned() } else { name_at(&schema.item(0), depth + 1) };
    // Without parentheses `a | b[]` reads as a list of `b` alone.
    if item.contains(" | ") { format!("({item})[]") } else { format!("{item}[]") }
}

fn object(schema: &ArgumentSchema<'_>, depth: usize) -> String {
    if depth >= MAX_DEPTH {
        return "object".to_owned();
    }
    if schema.properties().is_empty() {
        return match schema.additional() {
            Some(inner) if !inner.types().is_empty() => format!("{{*: {}}}", name_at(&inner, depth + 1)),
            _ => "object".to_owned(),
        };
    }
    format!("{{{}}}", members(schema, depth + 1, MAX_PARTS).join(", "))
}

fn union(names: impl Iterator<Item = String>) -> String {
    let mut parts: Vec<String> = Vec::new();
    for name in names {
        if parts.contains(&name) {
            continue;
        }
        if parts.len() == MAX_PARTS {
            parts.push("…".to_owned());
            break;
        }
        parts.push(name);
    }
    if parts.is_empty() { "never".to_owned() } else { parts.join(" | ") }
}

/// Returns a name as it is, or in quotes if it would not read as one word.
fn label(name: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '/');
    if !name.is_empty() && name.chars().all(is_word) { name.to_owned() } else { quoted(name) }
}
