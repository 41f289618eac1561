//! Filter of a server's tools.

/// Filter of a server's tools, by the server's own names. `*` matches any text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ToolFilter {
    /// If present, only these items are offered.
    pub include: Option<Vec<String>>,
    /// Items that are never offered.
    pub exclude: Vec<String>,
}

impl ToolFilter {
    /// Returns true if the tool is listed. Exclusion takes precedence over inclusion.
    pub fn allows(&self, tool: &str) -> bool {
        let listed = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, tool));
        !listed(&self.exclude) && self.include.as_deref().is_none_or(listed)
    }

    /// Returns the patterns that match none of these tools, which are probably mistakes.
    pub fn unmatched<'f>(&'f self, tools: &[impl AsRef<str>]) -> Vec<&'f str> {
        let is_unmatched = |pattern: &&str| !tools.iter().any(|tool| matches(pattern, tool.as_ref()));
        let patterns = self.include.iter().flatten().chain(&self.exclude).map(String::as_str);
        patterns.filter(is_unmatched).collect()
    }
}

/// Matches a pattern in which `*` matches any text, in time linear in the text for each `*`.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = tail.split('*').collect();
    // Each middle part takes its leftmost place, the last one the end of the text.
    let last = parts.pop().unwrap_or("");
    for part in parts {
        let Some(index) = rest.find(part) else { return false };
        rest = &rest[index + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: Option<&[&str]>, exclude: &[&str]) -> ToolFilter {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        ToolFilter { include: include.map(owned), exclude: owned(exclude) }
    }

    #[test]
    fn without_a_filter_every_tool_is_shown() {
        assert!(ToolFilter::default().allows("anything"));
        assert!(!filter(Some(&[]), &[]).allows("anything"));
    }

    #[test]
    fn excluding_wins_over_including() {
        let filter = filter(Some(&["read_*", "list"]), &["*_secret"]);
        assert!(filter.allows("read_file"));
        assert!(filter.allows("list"));
        assert!(!filter.allows("read_secret"));
        assert!(!filter.allows("write_file"));
    }

    #[test]
    fn patterns_that_match_no_tool_are_found() {
        let filter = filter(Some(&["read_*", "list"]), &["write*", "remove"]);
        assert_eq!(filter.unmatched(&["read", "list", "write"]), ["read_*", "remove"]);
        assert_eq!(ToolFilter::default().unmatched(&["read"]), [""; 0]);
    }

    #[test]
    fn stars_match_any_text() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "x", true),
            ("a*", "a", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "acb", false),
            ("**", "x", true),
            ("", "", true),
            ("", "x", false),
            ("*ab", "aab", true),
            ("a*bc*c", "abc", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
