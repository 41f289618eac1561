//! Templates: texts with variables in braces.

/// A piece of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Text that stays.
    Text(&'a str),
    /// Name of a variable, without its braces.
    Variable(&'a str),
}

/// Splits a template. A brace without its counterpart is text, and so is `{}`.
pub(crate) fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = template;
    let mut text_end = 0;
    while let Some(open) = rest[text_end..].find('{').map(|at| at + text_end) {
        let Some(close) = rest[open..].find('}').map(|at| at + open) else { break };
        let name = &rest[open + 1..close];
        // The innermost brace opens the variable: `{{x}` is `{` and a variable.
        if name.is_empty() || name.contains('{') {
            text_end = open + 1;
            continue;
        }
        if open > 0 {
            found.push(Piece::Text(&rest[..open]));
        }
        found.push(Piece::Variable(name));
        rest = &rest[close + 1..];
        text_end = 0;
    }
    if !rest.is_empty() {
        found.push(Piece::Text(rest));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_and_other_braces_stay() {
        use Piece::{Text, Variable};
        assert_eq!(pieces("a{b}c{d}"), [Text("a"), Variable("b"), Text("c"), Variable("d")]);
        assert_eq!(pieces("{a}{b}"), [Variable("a"), Variable("b")]);
        assert_eq!(pieces("{}"), [Text("{}")]);
        assert_eq!(pieces("{{x}}"), [Text("{"), Variable("x"), Text("}")]);
        assert_eq!(pieces("a{b"), [Text("a{b")]);
        assert_eq!(pieces(""), []);
        assert_eq!(pieces("a}b"), [Text("a}b")]);
    }
}
