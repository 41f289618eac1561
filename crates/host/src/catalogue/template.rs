//! Matching of URIs against URI templates (RFC 6570).

/// Returns true if `uri` may be an expansion of `template`. Only the shape is compared; values of variables are not
/// recovered. A simple expression matches text without `/`, `?` and `#`; the others match the text that their operator
/// allows.
pub(crate) fn matches(template: &str, uri: &str) -> bool {
    let Some(parts) = parse(template) else { return false };
    let text = uri.as_bytes();
    // `here[i]`: the parts so far can stand for the first `i` bytes. Linear in the text for each part.
    let mut here = vec![false; text.len() + 1];
    here[0] = true;
    for part in parts {
        let mut next = vec![false; text.len() + 1];
        match part {
            UriTemplatePart::Literal(literal) => {
                for start in (0..=text.len()).filter(|start| here[*start]) {
                    if text[start..].starts_with(literal.as_bytes()) {
                        next[start + literal.len()] = true;
                    }
                }
            }
            UriTemplatePart::Expression { optional_lead, allowed } => {
                let mut open = false;
                for end in 0..=text.len() {
                    // An expression may also expand to nothing.
                    next[end] |= here[end] || open;
                    let Some(byte) = text.get(end) else { break };
                    let begins = here[end] && (optional_lead.is_none() || optional_lead == Some(*byte));
                    let goes_on = open && allowed(*byte);
                    let first = begins && (optional_lead.is_some() || allowed(*byte));
                    open = goes_on || first;
                }
            }
        }
        here = next;
    }
    here[text.len()]
}

enum UriTemplatePart<'a> {
    Literal(&'a str),
    Expression {
        /// First character of a non-empty expansion.
        optional_lead: Option<u8>,
        allowed: fn(u8) -> bool,
    },
}

fn parse(template: &str) -> Option<Vec<UriTemplatePart<'_>>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((literal, tail)) = rest.split_once('{') {
        let (expression, after) = tail.split_once('}')?;
        if !literal.is_empty() {
            parts.push(UriTemplatePart::Literal(literal));
        }
        let many = expression.contains(',') || expression.contains('*');
        // The operators of RFC 6570, section 2.2; what each of them expands to is in section 3.2.
        let (optional_lead, allowed): (_, fn(u8) -> bool) = match expression.bytes().next()? {
            b'+' => (None, |_| true),
            b'#' => (Some(b'#'), |_| true),
            b'/' if many => (Some(b'/'), |byte| !matches!(byte, b'?' | b'#')),
            b'/' => (Some(b'/'), |byte| !matches!(byte, b'/' | b'?' | b'#')),
            b'?' => (Some(b'?'), |byte| byte != b'#'),
            b'&' => (Some(b'&'), |byte| byte != b'#'),
            b'.' => (Some(b'.'), |byte| !matches!(byte, b'/' | b'?' | b'#')),
            b';' => (Some(b';'), |byte| !matches!(byte, b'/' | b'?' | b'#')),
            _ => (None, |byte| !matches!(byte, b'/' | b'?' | b'#')),
        };
        parts.push(UriTemplatePart::Expression { optional_lead, allowed });
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(UriTemplatePart::Literal(rest));
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn expansions_match() {
        for (template, uri) in [
            ("file:///{+path}", "file:///a/b?c#d"),
            ("trips://{city}/today", "trips://rome/today"),
            ("db://{schema}/{table}", "db://public/users"),
            ("x://a{/rest*}", "x://a/b/c"),
            ("x://a{/one}", "x://a"),
            ("x://a{?q,page}", "x://a?q=1&page=2"),
            ("x://a{?q}", "x://a"),
            ("x://{name}.{ext}", "x://a.b.c"),
            ("x://plain", "x://plain"),
        ] {
            assert!(matches(template, uri), "{template} {uri}");
        }
    }

    #[test]
    fn other_uris_do_not() {
        for (template, uri) in [
            ("trips://{city}/today", "trips://rome/it/today"),
            ("trips://{city}/today", "trips://rome/tomorrow"),
            ("x://a{/one}", "x://a/b/c"),
            ("x://a{?q}", "x://ab"),
            ("x://{a", "x://a"),
            ("x://plain", "x://plain2"),
        ] {
            assert!(!matches(template, uri), "{template} {uri}");
        }
    }
}
