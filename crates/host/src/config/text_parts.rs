//! Texts of Hospes' own configuration format, taken apart into literal text and references.

use super::expand::escape_references;
use super::reference_values::is_secret_reference;

/// A part of a text in Hospes' own form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextPart {
    /// Text without references.
    Literal(String),
    /// `${NAME}` or `${NAME:-default}`.
    Variable {
        /// Name of the environment variable.
        name: String,
        /// Value if the variable is unset or empty.
        default: Option<String>,
    },
    /// `${secret:NAME}`.
    Secret(String),
    /// `${input:ID}`.
    Input(String),
    /// Another reference, as it is written.
    Other(String),
}

/// Takes a text of Hospes' own form apart.
#[must_use]
pub fn text_parts(text: &str) -> Vec<TextPart> {
    let mut parts: Vec<TextPart> = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(index) = rest.find('$') {
        let (before, reference) = rest.split_at(index);
        literal.push_str(before);
        if let Some(after) = reference.strip_prefix("$${") {
            literal.push_str("${");
            rest = after;
            continue;
        }
        let Some((body, after)) = reference.strip_prefix("${").and_then(|inner| inner.split_once('}')) else {
            literal.push('$');
            rest = &reference[1..];
            continue;
        };
        if !literal.is_empty() {
            parts.push(TextPart::Literal(std::mem::take(&mut literal)));
        }
        parts.push(reference_part(body));
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(TextPart::Literal(literal));
    }
    parts
}

fn reference_part(body: &str) -> TextPart {
    let (name, default) = match body.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (body, None),
    };
    if let Some(secret) = body.strip_prefix("secret:").filter(|secret| is_secret_reference(secret)) {
        return TextPart::Secret(secret.to_owned());
    }
    if let Some(id) = name.strip_prefix("input:") {
        return TextPart::Input(id.to_owned());
    }
    let name = name.strip_prefix("env:").unwrap_or(name);
    if super::expand::is_name(name) && name != "userHome" && !name.starts_with("workspaceFolder") {
        return TextPart::Variable { name: name.to_owned(), default };
    }
    TextPart::Other(format!("${{{body}}}"))
}

/// Writes parts as one text of Hospes' own form.
#[must_use]
pub fn join_parts(parts: &[TextPart]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            TextPart::Literal(literal) => text.push_str(&escape_references(literal)),
            TextPart::Variable { name, default: None } => text.push_str(&format!("${{{name}}}")),
            TextPart::Variable { name, default: Some(default) } => {
                text.push_str(&format!("${{{name}:-{default}}}"));
            }
            TextPart::Secret(name) => text.push_str(&format!("${{secret:{name}}}")),
            TextPart::Input(id) => text.push_str(&format!("${{input:{id}}}")),
            TextPart::Other(written) => text.push_str(written),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_apart_and_put_together() {
        let text = "a $${X} ${N} ${N:-d} ${secret:s} ${input:i} ${file:/k} $ é";
        let parts = text_parts(text);
        let variable = |default: Option<&str>| TextPart::Variable {
            name: "N".to_owned(),
            default: default.map(str::to_owned),
        };
        let space = || TextPart::Literal(" ".to_owned());
        assert_eq!(
            parts,
            [
                TextPart::Literal("a ${X} ".to_owned()),
                variable(None),
                space(),
                variable(Some("d")),
                space(),
                TextPart::Secret("s".to_owned()),
                space(),
                TextPart::Input("i".to_owned()),
                space(),
                TextPart::Other("${file:/k}".to_owned()),
                TextPart::Literal(" $ é".to_owned()),
            ]
        );
        assert_eq!(join_parts(&parts), text);
        for text in ["", "$", "${", "$${", "${}", "${x", "$$", "${userHome}/x"] {
            assert_eq!(
                join_parts(&text_parts(text)),
                if text == "${" || text == "${x" { text.replace("${", "$${") } else { text.to_owned() },
                "{text}"
            );
        }
    }
}
