//! A rule of the rule editor, as lines of a policy file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// A rule as the editor has it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRule {
    /// Decision: `allow`, `ask` or `deny`.
    pub(crate) decide: RuleDecision,
    #[serde(default)]
    pub(crate) name: String,
    /// Names or patterns; empty ones are no condition.
    #[serde(default)]
    pub(crate) application: String,
    #[serde(default)]
    pub(crate) server: String,
    #[serde(default)]
    pub(crate) tool: String,
    /// Conditions on arguments, by their names.
    #[serde(default)]
    pub(crate) arguments: BTreeMap<String, ArgumentRule>,
    /// Reason that the model is told.
    #[serde(default)]
    pub(crate) reason: String,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RuleDecision {
    Allow,
    #[default]
    Ask,
    Deny,
}

/// Condition on an argument. The key names its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ArgumentRule {
    /// Exactly this text, number or truth value.
    Is(ScalarValue),
    /// A path in this folder.
    Under(String),
    /// A text that matches this pattern.
    Like(String),
    /// One of these texts, none of which has characters of a pattern.
    #[serde(rename = "one_of")]
    OneOf(Vec<String>),
    /// True if the argument must be given, false if it must be absent.
    Present(bool),
}

/// A value of an argument that can be written in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ScalarValue {
    Text(String),
    Bool(bool),
    Integer(i64),
}

impl ArgumentRule {
    fn to_toml(&self) -> String {
        match self {
            Self::Is(ScalarValue::Text(text)) => format!("{{ is = {} }}", toml_text(text)),
            Self::Is(ScalarValue::Bool(is)) => format!("{{ is = {is} }}"),
            Self::Is(ScalarValue::Integer(number)) => format!("{{ is = {number} }}"),
            Self::Under(folder) => format!("{{ under = {} }}", toml_text(folder)),
            Self::Like(pattern) => format!("{{ like = {} }}", toml_text(pattern)),
            Self::OneOf(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| toml_text(text)).collect();
                format!("[{}]", texts.join(", "))
            }
            Self::Present(is) => format!("{{ present = {is} }}"),
        }
    }
}

/// Place of a new rule. The first rule that fits a call decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RulePlace {
    /// Before all others.
    First,
    /// Behind all others.
    #[default]
    Last,
}

impl NewRule {
    /// Returns the lines of the rule.
    pub(crate) fn to_toml(&self) -> String {
        let decide = match self.decide {
            RuleDecision::Allow => "allow",
            RuleDecision::Ask => "ask",
            RuleDecision::Deny => "deny",
        };
        let mut text = "[[rule]]\n".to_owned();
        let mut line = |key: &str, value: &str| {
            if !value.is_empty() {
                // Writing into a string cannot fail.
                let _ = writeln!(text, "{key} = {}", toml_text(value));
            }
        };
        line("name", &self.name);
        line("decide", decide);
        line("application", &self.application);
        line("server", &self.server);
        line("tool", &self.tool);
        line("reason", &self.reason);
        if !self.arguments.is_empty() {
            let conditions = self
                .arguments
                .iter()
                .map(|(name, condition)| format!("{} = {}", toml_text(name), condition.to_toml()));
            let _ = writeln!(text, "arguments = {{ {} }}", conditions.collect::<Vec<_>>().join(", "));
        }
        text
    }

    /// Returns the text of the file with the rule. Everything else stays byte for byte. A new file begins with the preset
    /// that applies without it.
    pub(crate) fn insert(&self, before: &str, place: RulePlace, preset: Option<&str>) -> String {
        let rule = self.to_toml();
        if before.trim().is_empty() {
            let preset =
                preset.map(|preset| format!("preset = {}\n\n", toml_text(preset))).unwrap_or_default();
            return format!("{preset}{rule}");
        }
        let newline = if before.contains("\r\n") { "\r\n" } else { "\n" };
        let rule = rule.replace('\n', newline);
        let first = (place == RulePlace::First).then(|| first_rule(before)).flatten();
        match first {
            Some(at) => format!("{}{rule}{newline}{}", &before[..at], &before[at..]),
            None => {
                let end = if before.ends_with('\n') { "" } else { newline };
                format!("{before}{end}{newline}{rule}")
            }
        }
    }
}

/// Returns the text of the file with this preset. Everything else stays byte for byte.
pub(crate) fn set_preset(before: &str, preset: &str) -> String {
    let mut at = 0;
    for line in before.split_inclusive('\n') {
        let trimmed = line.trim_start();
        // Keys before the first table are those of the file itself.
        if trimmed.starts_with('[') {
            break;
        }
        if let Some(rest) = trimmed.strip_prefix("preset")
            && let Some(value) = rest.trim_start().strip_prefix('=')
        {
            let value = value.trim_start();
            let start = at + line.len() - value.len();
            let length = match value.chars().next() {
                Some(quote @ ('"' | '\'')) => value[1..].find(quote).map(|end| end + 2),
                _ => None,
            };
            // What is no simple text is left to the person: the result is read again and differs.
            let Some(length) = length else { return before.to_owned() };
            return format!("{}{}{}", &before[..start], toml_text(preset), &before[start + length..]);
        }
        at += line.len();
    }
    let newline = if before.contains("\r\n") { "\r\n" } else { "\n" };
    let gap = if before.trim().is_empty() { "" } else { newline };
    format!("preset = {}{newline}{gap}{before}", toml_text(preset))
}

/// Returns the position of the first rule, with the comment directly above it. A position within a text of several lines
/// is noticed, because the file is read again with the rule before it is written.
fn first_rule(text: &str) -> Option<usize> {
    let (mut at, mut comment) = (0, None);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.starts_with("[[rule]]") {
            return Some(comment.unwrap_or(at));
        }
        comment = if trimmed.starts_with('#') { comment.or(Some(at)) } else { None };
        at += line.len();
    }
    None
}

/// Writes a text as a basic string of TOML. What is not visible is escaped, so that a person sees it in the file.
fn toml_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            ' ' => out.push(' '),
            _ if character.is_control()
                || hospes_policy::visible_line(character.encode_utf8(&mut [0; 4])).len() > 4 =>
            {
                let _ = write!(out, "\\U{:08X}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use hospes_policy::{Policy, PolicyEnvironment};

    use super::*;

    fn rule(json: serde_json::Value) -> NewRule {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_rule_is_written_so_that_the_policy_reads_the_same() {
        let hard = "a\"b\\c\u{202e}\u{7f}\n ü";
        let written = rule(serde_json::json!({
            "decide": "allow", "name": hard, "application": "Cursor", "server": "files", "tool": "write_*",
            "arguments": { "path": { "is": hard }, "a b": { "like": "x*" }, "to": { "one_of": [hard, "b"] }, "count": { "is": 7 },
                "urgent": { "is": false }, "cc": { "present": false } }, "reason": ""
        }))
        .to_toml();
        assert!(!written.contains('\u{202e}') && !written.contains("reason"), "{written}");
        let policy = Policy::read(&written, &PolicyEnvironment::default()).unwrap();
        assert_eq!(policy.rules()[0].name(), Some(hard));
    }

    #[test]
    fn a_preset_is_changed_in_place_or_put_at_the_top() {
        for (before, after) in [
            ("", "preset = \"open\"\n"),
            (
                "# mine\npreset = 'balanced' # really\n[[rule]]\n",
                "# mine\npreset = \"open\" # really\n[[rule]]\n",
            ),
            ("[[rule]]\ndecide = 'ask'\n", "preset = \"open\"\n\n[[rule]]\ndecide = 'ask'\n"),
            ("trusted = []\r\n", "preset = \"open\"\r\n\r\ntrusted = []\r\n"),
            ("[x]\npreset = 'balanced'\n", "preset = \"open\"\n\n[x]\npreset = 'balanced'\n"),
            ("preset = 7\n", "preset = 7\n"),
        ] {
            assert_eq!(set_preset(before, "open"), after);
        }
    }

    #[test]
    fn everything_else_in_the_file_stays() {
        let new = rule(serde_json::json!({ "decide": "deny", "tool": "x" }));
        let before = "# mine\npreset = \"open\" # really\n\n# about files\n# two lines\n[[rule]]\ndecide = \"ask\"\nserver = \"a\"";
        let last = new.insert(before, RulePlace::Last, None);
        assert!(
            last.starts_with(before) && last.ends_with("\n\n[[rule]]\ndecide = \"deny\"\ntool = \"x\"\n"),
            "{last}"
        );
        let first = new.insert(before, RulePlace::First, None);
        assert_eq!(first.replace("[[rule]]\ndecide = \"deny\"\ntool = \"x\"\n\n", ""), before);
        assert!(first.find("\"deny\"") < first.find("# about files"), "{first}");
        let policy = Policy::read(&first, &PolicyEnvironment::default()).unwrap();
        assert_eq!(policy.rules()[0].decision().to_string(), "deny");
        assert!(new.insert("a = 1\r\n", RulePlace::Last, None).ends_with("\r\ntool = \"x\"\r\n"));
        // Without a file the guard has a preset, which a file without one would end.
        assert!(new.insert("", RulePlace::Last, Some("balanced")).starts_with("preset = \"balanced\"\n"));
    }
}
