//! A rule of the rule editor, as lines of a policy file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hospes_policy::Policy;
use serde::{Deserialize, Serialize};
use toml_edit::Document;

use crate::rule_edits::{rule_start, rule_words};

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
    /// Names of the arguments that a call may have besides those in `arguments`. `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) other_arguments: Option<Vec<String>>,
    /// Reason that the model is told.
    #[serde(default)]
    pub(crate) reason: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RuleDecision {
    Allow,
    #[default]
    Ask,
    Deny,
}

impl RuleDecision {
    /// Returns the word that a policy file has for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
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
    pub(crate) fn to_toml(&self) -> String {
        match self {
            Self::Is(ScalarValue::Text(text)) => format!("{{ is = {} }}", toml_text(text)),
            Self::Is(ScalarValue::Bool(is)) => format!("{{ is = {is} }}"),
            Self::Is(ScalarValue::Integer(number)) => format!("{{ is = {number} }}"),
            Self::Under(folder) => format!("{{ under = {} }}", toml_text(folder)),
            Self::Like(pattern) => format!("{{ like = {} }}", toml_text(pattern)),
            Self::OneOf(texts) => toml_list(texts),
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
    /// Returns why the policy would read the rule as another, if it would.
    pub(crate) fn problem(&self) -> Option<String> {
        let is_pattern = |condition: &ArgumentRule| match condition {
            ArgumentRule::OneOf(texts) => texts.iter().any(|text| is_wild(text)),
            ArgumentRule::Is(_) | ArgumentRule::Under(_) | ArgumentRule::Like(_) => false,
        };
        let (name, _) = self.arguments.iter().find(|(_, condition)| is_pattern(condition))?;
        Some(format!(
            "the list of texts for `{name}` has a pattern (`*`, `?`, `[`, `{{` or `\\`); use `matches`, or write the \
             list in the file"
        ))
    }

    /// Returns the lines of the rule.
    pub(crate) fn to_toml(&self) -> String {
        let mut text = "[[rule]]\n".to_owned();
        let mut line = |key: &str, value: &str| {
            if !value.is_empty() {
                // Writing into a string cannot fail.
                let _ = writeln!(text, "{key} = {}", toml_text(value));
            }
        };
        line("name", &self.name);
        line("decide", self.decide.as_str());
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
        if let Some(others) = &self.other_arguments {
            let _ = writeln!(text, "other_arguments = {}", toml_list(others));
        }
        text
    }

    /// Returns true if `after` has the rules of `before` and, in this place, this rule. `alone` has only this rule.
    pub(crate) fn is_inserted(
        place: RulePlace,
        before: Option<&Policy>,
        alone: &Policy,
        after: &Policy,
    ) -> bool {
        let (mut expected, new) = (before.map(rule_words).unwrap_or_default(), rule_words(alone));
        expected.splice(
            match place {
                RulePlace::First => 0..0,
                RulePlace::Last => expected.len()..expected.len(),
            },
            new,
        );
        rule_words(after) == expected
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
    // What cannot be read is left to the person: the result is read again.
    let Ok(file) = Document::parse(before) else { return before.to_owned() };
    if let Some(item) = file.get("preset") {
        // So is what is no text.
        let Some(at) = item.as_str().and_then(|_| item.span()) else { return before.to_owned() };
        return format!("{}{}{}", &before[..at.start], toml_text(preset), &before[at.end..]);
    }
    let newline = if before.contains("\r\n") { "\r\n" } else { "\n" };
    let gap = if before.trim().is_empty() { "" } else { newline };
    format!("preset = {}{newline}{gap}{before}", toml_text(preset))
}

/// Returns the position of the first rule, with the comment directly above it. `None` if there is none, or if the file
/// cannot be read.
fn first_rule(text: &str) -> Option<usize> {
    let file = Document::parse(text).ok()?;
    rule_start(text, file.get("rule")?.as_array_of_tables()?.get(0)?)
}

/// Returns true if a text, read as a pattern, has more than itself as its meaning.
pub(crate) fn is_wild(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

/// Writes texts as an array of TOML.
pub(crate) fn toml_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| toml_text(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// Writes a text as a basic string of TOML. What is not visible is escaped, so that a person sees it in the file.
pub(crate) fn toml_text(text: &str) -> String {
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
    use hospes_policy::PolicyEnvironment;

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
                "urgent": { "is": false } }, "other_arguments": [hard], "reason": ""
        }))
        .to_toml();
        assert!(!written.contains('\u{202e}') && !written.contains("reason"), "{written}");
        let policy = Policy::read(&written, &PolicyEnvironment::default()).unwrap();
        assert_eq!(policy.rules()[0].name(), Some(hard));
    }

    #[test]
    fn a_list_of_texts_has_no_patterns() {
        let problem = |texts: &[&str]| {
            rule(serde_json::json!({ "decide": "allow", "arguments": { "to": { "one_of": texts } } }))
                .problem()
        };
        assert_eq!(problem(&["a", "b@x.example"]), None);
        for wild in ["a*", "?", "[a]", "{a,b}", "\\a"] {
            assert!(problem(&["a", wild]).is_some_and(|problem| problem.contains("`to`")), "{wild}");
        }
        let like = rule(serde_json::json!({ "decide": "allow", "arguments": { "to": { "like": "a*" } } }));
        assert_eq!(like.problem(), None);
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
            ("'preset'='balanced'\n", "'preset'=\"open\"\n"),
            ("a = '''\npreset = 'x'\n'''\n", "preset = \"open\"\n\na = '''\npreset = 'x'\n'''\n"),
        ] {
            assert_eq!(set_preset(before, "open"), after);
        }
    }

    /// A header may be written in other ways, and a text of several lines may have a line like one.
    #[test]
    fn a_first_rule_comes_before_all_others_however_they_are_written() {
        let read = |text: &str| Policy::read(text, &PolicyEnvironment::default()).unwrap();
        let new = rule(serde_json::json!({ "decide": "deny", "tool": "x" }));
        let alone = read(&new.to_toml());
        for before in [
            "[[ rule ]]\ndecide = 'ask'\n",
            "  [[\trule]] # mine\ndecide = 'ask'\n\n[[rule]]\ndecide = 'allow'\n",
            "[['rule']]\ndecide = 'ask'\n",
            "[[\"rule\"]]\ndecide = 'ask'\nreason = \"\"\"\n[[rule]]\n\"\"\"\n",
            "# of a\n\n# of b\n# too\n[[rule]]\nreason = '''\n[[rule]]\n'''\ndecide = 'ask'",
            "trusted = ['''\n[[rule]]\n# x''']\n[[rule]]\ndecide = 'ask'\n",
            "trusted = ['a']\r\n# mine\r\n[[rule]]\r\ndecide = 'ask'\r\n",
            "trusted = ['a']\n",
        ] {
            for place in [RulePlace::First, RulePlace::Last] {
                let after = new.insert(before, place, None);
                let is_inserted = NewRule::is_inserted(place, Some(&read(before)), &alone, &read(&after));
                assert!(is_inserted, "{place:?}: {after}");
                // Everything else stays.
                let added = after.len() - before.len();
                let at = (0..=before.len()).find(|at| {
                    before.is_char_boundary(*at)
                        && before[..*at] == after[..*at]
                        && before[*at..] == after[*at + added..]
                });
                assert!(at.is_some(), "{after}");
            }
        }
        let commented = new.insert("a = 1\n# not of it\n\n# of b\n# too\n[[rule]]\n", RulePlace::First, None);
        assert!(commented.ends_with("\n\n# of b\n# too\n[[rule]]\n"), "{commented}");
        assert!(commented.starts_with("a = 1\n# not of it\n\n[[rule]]\n"), "{commented}");
    }

    #[test]
    fn a_rule_in_another_place_is_noticed() {
        let read = |text: &str| Policy::read(text, &PolicyEnvironment::default()).unwrap();
        let alone = read("[[rule]]\ndecide = 'deny'\n");
        let before = read("[[rule]]\ndecide = 'ask'\n");
        let after = read("[[rule]]\ndecide = 'ask'\n[[rule]]\ndecide = 'deny'\n");
        assert!(NewRule::is_inserted(RulePlace::Last, Some(&before), &alone, &after));
        assert!(!NewRule::is_inserted(RulePlace::First, Some(&before), &alone, &after));
        assert!(!NewRule::is_inserted(RulePlace::Last, Some(&before), &alone, &before));
        assert!(NewRule::is_inserted(RulePlace::First, None, &alone, &alone));
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
