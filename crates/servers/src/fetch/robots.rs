//! Rules in `robots.txt` (RFC 9309).
//!
//! Own code, because `texting_robots` bounds neither the number nor the length of rules, and needs versions of `bstr`,
//! `nom` and `regex-automata` that nothing else needs any more.

use url::Url;

/// Name of this program and similar ones in `robots.txt`.
pub(super) const NAME: &str = "hospes";
/// Maximum size that is read of the file, in bytes.
pub(super) const MAX_FILE: usize = 512 * 1024;
/// Maximum number of rules that are kept.
const MAX_RULES: usize = 5000;
/// Maximum length of a rule, in bytes.
const MAX_RULE: usize = 2048;

/// The rules of a site for this program.
#[derive(Debug, Default)]
pub(super) struct RobotsRules(Vec<RobotsRule>);

#[derive(Debug)]
struct RobotsRule {
    allows: bool,
    /// Parts of the path, in order, with any text between them.
    parts: Vec<String>,
    /// True if the path must end after the last part.
    ends: bool,
    length: usize,
}

impl RobotsRules {
    /// Parses the rules for [`NAME`], or the rules for all robots if there are none for it.
    pub(super) fn parse(text: &str) -> Self {
        let (mut ours, mut everybodys) = (Vec::new(), Vec::new());
        let (mut has_ours, mut for_us, mut for_all, mut naming) = (false, false, false, false);
        // A byte-order mark would otherwise be part of the first key.
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    // Consecutive names share the rules after them.
                    if !naming {
                        (for_us, for_all) = (false, false);
                    }
                    naming = true;
                    // The product token has only letters, `-` and `_` (RFC 9309, section 2.2.1); a version may follow
                    // it.
                    let token =
                        value.split(|c: char| !(c.is_ascii_alphabetic() || c == '-' || c == '_')).next();
                    if value == "*" {
                        for_all = true;
                    } else if token.is_some_and(|token| token.eq_ignore_ascii_case(NAME)) {
                        (for_us, has_ours) = (true, true);
                    }
                }
                "allow" | "disallow" => {
                    // Set before the rule is parsed, because a dropped rule ends the list of names too.
                    naming = false;
                    let Some(rule) = RobotsRule::parse(key == "allow", value) else { continue };
                    if for_us && ours.len() < MAX_RULES {
                        ours.push(rule);
                    } else if for_all && everybodys.len() < MAX_RULES {
                        everybodys.push(rule);
                    }
                }
                // Other records, such as sitemaps, do not end a group (RFC 9309, section 2.2.4).
                _ => {}
            }
        }
        Self(if has_ours { ours } else { everybodys })
    }

    /// Returns true if a URL may be requested. The longest matching rule decides; if two of one length disagree, the
    /// request is allowed.
    pub(super) fn allow(&self, url: &Url) -> bool {
        let path = plain(&match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        });
        // The file itself is always allowed (RFC 9309, section 2.2.2).
        if path == "/robots.txt" {
            return true;
        }
        let fitting = self.0.iter().filter(|rule| rule.fits(&path));
        fitting.max_by_key(|rule| (rule.length, rule.allows)).is_none_or(|rule| rule.allows)
    }
}

impl RobotsRule {
    fn parse(allows: bool, value: &str) -> Option<Self> {
        // An empty path matches nothing: `Disallow:` alone allows everything.
        if value.is_empty() || value.len() > MAX_RULE {
            return None;
        }
        let (value, ends) = value.strip_suffix('$').map_or((value, false), |value| (value, true));
        let parts = value.split('*').map(plain).collect();
        Some(Self { allows, parts, ends, length: value.len() })
    }

    fn fits(&self, path: &str) -> bool {
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some(mut left) = path.strip_prefix(first.as_str()) else { return false };
        let Some((last, between)) = rest.split_last() else { return !self.ends || left.is_empty() };
        for part in between {
            // The first occurrence is sufficient: text that matches after a later one also matches after an earlier
            // one.
            let Some(at) = left.find(part.as_str()) else { return false };
            left = &left[at + part.len()..];
        }
        if self.ends { left.ends_with(last.as_str()) } else { left.contains(last.as_str()) }
    }
}

/// Normalizes a path for comparison. Characters that need no `%` are decoded; all others are encoded in capitals.
fn plain(text: &str) -> String {
    let (mut plain, bytes) = (String::with_capacity(text.len()), text.as_bytes());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let byte = escaped.unwrap_or(bytes[at]);
        let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        // An escaped reserved character stays escaped, because `%2F` is not the separator `/`.
        if is_unreserved || (escaped.is_none() && byte.is_ascii()) {
            plain.push(char::from(byte));
        } else {
            plain.push_str(&format!("%{byte:02X}"));
        }
        at += if escaped.is_some() { 3 } else { 1 };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(text: &str, path: &str) -> bool {
        RobotsRules::parse(text).allow(&Url::parse(&format!("https://a.example{path}")).unwrap())
    }

    #[test]
    fn the_longest_rule_decides() {
        let text = "User-agent: *\nDisallow: /private # not here\nAllow: /private/open\nDisallow: /*.gif$\nAllow: /x\nDisallow: /x\n";
        for (path, allowed) in [
            ("/", true),
            ("/private", false),
            ("/private/a", false),
            ("/privateer", false),
            ("/%70rivate", false),
            ("/private/open/a", true),
            ("/a.gif", false),
            ("/a.gif?x", true),
            ("/x", true),
            ("/robots.txt", true),
        ] {
            assert_eq!(allows(text, path), allowed, "{path}");
        }
        assert!(!allows("user-agent: *\ndisallow: /", "/anything"));
        assert!(allows("user-agent: *\ndisallow:", "/anything"));
        assert!(allows("disallow: /", "/anything"), "it is for nobody");
        assert!(!allows("\u{feff}User-Agent : *\r\nDisallow : /ü\r\n", "/%c3%bcber"));
        assert!(!allows("user-agent: *\ndisallow: /a*b*c", "/axxbyyczz"));
        assert!(allows("user-agent: *\ndisallow: /a*b*c$", "/abcd"));
    }

    #[test]
    fn rules_for_us_go_before_those_for_everybody() {
        let text = "User-agent: *\nDisallow: /\n\nUser-agent: other\nUser-Agent: Hospes/2.0\nDisallow: /no\n\nuser-agent: hospes\nallow: /no/yes\n";
        assert!(allows(text, "/a") && !allows(text, "/no") && allows(text, "/no/yes"));
        assert!(!allows("User-agent: hospes-other\nAllow: /\nUser-agent: *\nDisallow: /", "/a"));
    }

    #[test]
    fn many_stars_take_no_more_time() {
        let text = format!("User-agent: *\n{}", format!("Disallow: /{}b$\n", "*a".repeat(1000)).repeat(1000));
        assert!(allows(&text, &format!("/{}", "a".repeat(5000))));
    }
}
