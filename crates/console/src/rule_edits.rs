//! Changes of rules that a policy file has already. Comments, order and form of all else stay.

use std::ops::Range;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_policy::Policy;
use serde::Serialize;
use toml_edit::{Document, DocumentMut, InlineTable, Item, Key, Table, TableLike, Value};

use crate::new_rule::{ArgumentRule, NewRule, RuleDecision, ScalarValue, is_wild, toml_list, toml_text};

/// Largest integer that a page keeps exactly.
const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Change of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RuleChange<'a> {
    Replace(&'a NewRule),
    /// One place nearer to the first rule.
    MoveUp,
    MoveDown,
    Remove,
}

/// A rule of a file, as the editor has it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct WrittenRule {
    /// Part of the rule that the editor can change.
    pub(crate) rule: NewRule,
    /// Lines of the keys that the editor does not know, such as `until = 2027-01-01`. They stay as they are.
    pub(crate) kept: Vec<String>,
}

/// Name, decision, reason and conditions of a rule.
type RuleWords = (Option<String>, String, Option<String>, Vec<(String, String)>);

/// Returns what the rules of a policy say, for comparison.
pub(crate) fn rule_words(policy: &Policy) -> Vec<RuleWords> {
    let words = policy.rules().iter().map(|rule| {
        let own = |text: Option<&str>| text.map(str::to_owned);
        (own(rule.name()), rule.decision().to_string(), own(rule.reason()), rule.conditions())
    });
    words.collect()
}

/// Returns a digest of a file, with which a change names the text that the person has seen.
pub(crate) fn text_digest(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
}

/// Returns the positions of the rules in a text: each with the comment directly above it, up to the end of its last line.
/// `None` if they are not written as `[[rule]]`, or not one after the other.
pub(crate) fn rule_ranges(text: &str) -> Option<Vec<Range<usize>>> {
    let file = Document::parse(text).ok()?;
    let Some(rules) = file.get("rule") else { return Some(Vec::new()) };
    let ranges = rules.as_array_of_tables()?.iter().map(|rule| {
        let end = table_end(rule)?;
        let end = text[end..].find('\n').map_or(text.len(), |line| end + line);
        Some(rule_start(text, rule)?..text[..end].trim_end_matches('\r').len())
    });
    let ranges: Vec<Range<usize>> = ranges.collect::<Option<_>>()?;
    ranges.windows(2).all(|pair| pair[0].end <= pair[1].start).then_some(ranges)
}

/// Returns the position of a rule, with the comment directly above it.
pub(crate) fn rule_start(text: &str, rule: &Table) -> Option<usize> {
    let header = rule.span()?.start;
    let mut at = text[..header].rfind('\n').map_or(0, |end| end + 1);
    // Only comments are between the header and what comes before it, however that looks.
    let above = rule.decor().prefix().and_then(|prefix| prefix.span()).map_or(header, |prefix| prefix.start);
    while let Some(rest) = text[..at].strip_suffix('\n') {
        let line = rest.rfind('\n').map_or(0, |end| end + 1);
        if line < above || !rest[line..].trim_start().starts_with('#') {
            break;
        }
        at = line;
    }
    Some(at)
}

/// Returns the end of the last value of a table and of the tables in it.
fn table_end(table: &Table) -> Option<usize> {
    let ends = table.iter().filter_map(|(_, item)| match item {
        Item::None => None,
        Item::Value(value) => value.span().map(|span| span.end),
        Item::Table(table) => table_end(table),
        Item::ArrayOfTables(tables) => tables.iter().filter_map(table_end).max(),
    });
    ends.chain(table.span().map(|span| span.end)).max()
}

/// Returns the lines of a rule in a text. Numbers begin with 1.
pub(crate) fn rule_lines(text: &str, number: usize) -> Option<&str> {
    let range = rule_ranges(text)?.into_iter().nth(number.checked_sub(1)?)?;
    text.get(range)
}

/// Returns the text of the file after a change of the rule with this number. Fails with the reason if the rules of the
/// file cannot be changed one by one.
pub(crate) fn change_rule(text: &str, number: usize, change: RuleChange<'_>) -> Result<String, String> {
    let ranges = rule_ranges(text).ok_or("the rules of this file are not written as `[[rule]]`")?;
    let at = number.checked_sub(1).filter(|at| *at < ranges.len());
    let at = at.ok_or_else(|| format!("the file has no rule {number}"))?;
    let rule = &ranges[at];
    let swapped = |first: &Range<usize>, second: &Range<usize>| {
        let (one, other) = (&text[first.clone()], &text[second.clone()]);
        let between = &text[first.end..second.start];
        format!("{}{other}{between}{one}{}", &text[..first.start], &text[second.end..])
    };
    match change {
        RuleChange::Replace(wanted) => {
            let lines = replaced_lines(&text[rule.clone()], wanted)?;
            Ok(format!("{}{lines}{}", &text[..rule.start], &text[rule.end..]))
        }
        RuleChange::MoveUp => {
            let before = at.checked_sub(1).map(|before| &ranges[before]);
            Ok(swapped(before.ok_or("it is the first rule already")?, rule))
        }
        RuleChange::MoveDown => Ok(swapped(rule, ranges.get(at + 1).ok_or("it is the last rule already")?)),
        RuleChange::Remove => {
            let (before, after) = (&text[..rule.start], &text[rule.end..]);
            // With the empty lines behind it, but not the indentation of what follows.
            let rest = after.trim_start();
            let gap = &after[..after.len() - rest.len()];
            let gap = if rest.is_empty() { gap.len() } else { gap.rfind('\n').map_or(0, |end| end + 1) };
            if rest.is_empty() {
                let end = if before.contains("\r\n") { "\r\n" } else { "\n" };
                let before = before.trim_end();
                return Ok(if before.is_empty() { String::new() } else { format!("{before}{end}") });
            }
            Ok(format!("{before}{}", &after[gap..]))
        }
    }
}

/// Applies a change to what the rules of a file say. `new` is what the rule says after it is replaced.
pub(crate) fn change_words(
    words: &mut Vec<RuleWords>,
    number: usize,
    change: RuleChange<'_>,
    new: Option<RuleWords>,
) {
    let Some(at) = number.checked_sub(1).filter(|at| *at < words.len()) else { return };
    match change {
        RuleChange::Replace(_) => words.splice(at..=at, new).for_each(drop),
        RuleChange::MoveUp if at > 0 => words.swap(at - 1, at),
        RuleChange::MoveDown if at + 1 < words.len() => words.swap(at, at + 1),
        RuleChange::MoveUp | RuleChange::MoveDown => {}
        RuleChange::Remove => drop(words.remove(at)),
    }
}

impl WrittenRule {
    /// Reads the lines of a rule.
    pub(crate) fn read(lines: &str) -> Option<Self> {
        let document = Document::parse(lines).ok()?;
        Some(Self::of(document.get("rule")?.as_array_of_tables()?.get(0)?))
    }

    fn of(table: &dyn TableLike) -> Self {
        let mut found = Self::default();
        let rule = &mut found.rule;
        for (key, item) in table.iter() {
            let text = item.as_str().map(str::to_owned);
            match (key, text) {
                ("decide", Some(word)) => {
                    rule.decide = match word.as_str() {
                        "allow" => RuleDecision::Allow,
                        "deny" => RuleDecision::Deny,
                        _ => RuleDecision::Ask,
                    };
                }
                ("name", Some(text)) => rule.name = text,
                ("reason", Some(text)) => rule.reason = text,
                ("application", Some(text)) => rule.application = text,
                ("server", Some(text)) => rule.server = text,
                ("tool", Some(text)) => rule.tool = text,
                ("other_arguments", _) if texts(item).is_some() => rule.other_arguments = texts(item),
                ("arguments", _) => {
                    for (name, condition) in item.as_table_like().into_iter().flat_map(TableLike::iter) {
                        match argument_rule(condition) {
                            Some(condition) => drop(rule.arguments.insert(name.to_owned(), condition)),
                            None => {
                                found.kept.push(line(&format!("arguments.{}", toml_text(name)), condition))
                            }
                        }
                    }
                }
                _ => found.kept.push(line(key, item)),
            }
        }
        found
    }
}

fn line(key: &str, item: &Item) -> String {
    let value = item.clone().into_value().map(|value| value.to_string()).unwrap_or_default();
    format!("{key} = {}", value.trim())
}

fn texts(item: &Item) -> Option<Vec<String>> {
    item.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Returns a condition as the editor has it, if it can.
fn argument_rule(condition: &Item) -> Option<ArgumentRule> {
    if let Some(pattern) = condition.as_str() {
        return Some(ArgumentRule::Like(pattern.to_owned()));
    }
    if condition.is_array() {
        let texts = texts(condition)?;
        // A list has patterns, and those that are more than a text would be read as one here.
        return (!texts.iter().any(|text| is_wild(text))).then_some(ArgumentRule::OneOf(texts));
    }
    let table = condition.as_table_like()?;
    let mut tests = table.iter();
    let (Some((key, value)), None) = (tests.next(), tests.next()) else { return None };
    match (key, value.as_value()?) {
        ("is", Value::String(text)) => Some(ArgumentRule::Is(ScalarValue::Text(text.value().clone()))),
        ("is", Value::Boolean(is)) => Some(ArgumentRule::Is(ScalarValue::Bool(*is.value()))),
        ("is", Value::Integer(number)) if number.value().unsigned_abs() <= MAX_INTEGER => {
            Some(ArgumentRule::Is(ScalarValue::Integer(*number.value())))
        }
        ("under", Value::String(folder)) => Some(ArgumentRule::Under(folder.value().clone())),
        ("like", Value::String(pattern)) => Some(ArgumentRule::Like(pattern.value().clone())),
        _ => None,
    }
}

/// Returns the lines of a rule with other values. What stays the same keeps its form, and what the editor does not know
/// stays.
fn replaced_lines(lines: &str, wanted: &NewRule) -> Result<String, String> {
    let unread = || "the lines of the rule cannot be read alone".to_owned();
    // The editor of the text knows no line breaks of Windows.
    let (is_windows, plain) = (lines.contains("\r\n"), lines.replace("\r\n", "\n"));
    let mut document: DocumentMut = plain.parse().map_err(|_| unread())?;
    let rules = document.get_mut("rule").and_then(Item::as_array_of_tables_mut);
    let table = rules.and_then(|rules| rules.get_mut(0)).ok_or_else(unread)?;
    let WrittenRule { rule: old, .. } = WrittenRule::of(table);
    if old.decide != wanted.decide {
        set(table, "decide", &toml_text(wanted.decide.as_str()))?;
    }
    for (key, old, new) in [
        ("name", &old.name, &wanted.name),
        ("application", &old.application, &wanted.application),
        ("server", &old.server, &wanted.server),
        ("tool", &old.tool, &wanted.tool),
        ("reason", &old.reason, &wanted.reason),
    ] {
        match new.is_empty() {
            _ if old == new => {}
            true => drop(table.remove(key)),
            false => set(table, key, &toml_text(new))?,
        }
    }
    if old.arguments != wanted.arguments {
        let arguments = table.entry("arguments").or_insert(Item::Value(InlineTable::new().into()));
        let arguments = arguments.as_table_like_mut().ok_or("`arguments` of the rule is not a table")?;
        for name in old.arguments.keys().filter(|name| !wanted.arguments.contains_key(*name)) {
            arguments.remove(name);
        }
        let changed = wanted.arguments.iter().filter(|(name, new)| old.arguments.get(*name) != Some(*new));
        for (name, condition) in changed {
            if !old.arguments.contains_key(name) && arguments.contains_key(name) {
                return Err(format!("the rule has another condition on `{name}` already"));
            }
            set(arguments, name, &condition.to_toml())?;
        }
        if arguments.is_empty() {
            table.remove("arguments");
        } else if let Some(inline) = table.get_mut("arguments").and_then(Item::as_inline_table_mut)
            && !inline.to_string().contains('#')
        {
            // Spaces between its members only. Its comments are in them, and would go.
            inline.fmt();
        }
    }
    match &wanted.other_arguments {
        _ if old.other_arguments == wanted.other_arguments => {}
        Some(names) => set(table, "other_arguments", &toml_list(names))?,
        None => drop(table.remove("other_arguments")),
    }
    let after = document.to_string();
    let after = after.strip_suffix('\n').unwrap_or(&after);
    Ok(if is_windows { after.replace('\n', "\r\n") } else { after.to_owned() })
}

/// Sets a key to a value, in the text of the value. The comment behind the value stays.
fn set(table: &mut dyn TableLike, key: &str, literal: &str) -> Result<(), String> {
    let failed = || format!("`{key}` cannot be written");
    let mut value: Value = literal.parse().map_err(|_| failed())?;
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        Some(other) => *other = Item::Value(value),
        None => {
            value.decor_mut().clear();
            let key: Key = toml_text(key).parse().map_err(|_| failed())?;
            // A bare key where it can be one, as a person writes it.
            let key = if is_bare(key.get()) { Key::new(key.get()) } else { key };
            table.entry_format(&key).or_insert(Item::Value(value));
        }
    }
    Ok(())
}

fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use hospes_policy::PolicyEnvironment;
    use serde_json::json;

    use super::*;

    const FILE: &str = "# head\npreset = 'open'\n\n# of a\n[[rule]] # a\nname = 'a'\ndecide = 'ask' # why\nserver = [\"x\", \"y\"]\n\
        until = 2099-01-01\n\n# between\n\n# of b\n[[ rule ]]\nname = 'b'\ndecide = 'deny'\n[rule.arguments]\npath = { under = '/w' } # w\n\
        'a b' = { at_most = 3 }\n\n[[rule]]\nname = 'c'\ndecide = \"allow\"\narguments = { to = { is = 'x' }, n = { is = 7 } }\n";

    fn names(text: &str) -> String {
        let policy = Policy::read(text, &PolicyEnvironment::default())
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        policy.rules().iter().filter_map(|rule| rule.name()).collect()
    }

    /// Line breaks of Windows are kept, too.
    fn each(check: impl Fn(&dyn Fn(&str) -> String)) {
        check(&|text| text.to_owned());
        check(&|text| text.replace('\n', "\r\n"));
    }

    #[test]
    fn rules_are_moved_with_their_comments_and_all_else_stays() {
        each(|form| {
            let file = form(FILE);
            let up = change_rule(&file, 2, RuleChange::MoveUp).unwrap();
            assert_eq!(names(&up), "bac");
            let b = form(
                "# of b\n[[ rule ]]\nname = 'b'\ndecide = 'deny'\n[rule.arguments]\npath = { under = '/w' } # w\n'a b' = { at_most = 3 }",
            );
            assert!(
                up.starts_with(&format!(
                    "{}{b}{}",
                    form("# head\npreset = 'open'\n\n"),
                    form("\n\n# between\n\n# of a\n[[rule]] # a\n")
                )),
                "{up}"
            );
            assert_eq!(change_rule(&up, 1, RuleChange::MoveDown).unwrap(), file, "and back");
            let down = change_rule(&file, 2, RuleChange::MoveDown).unwrap();
            assert_eq!(names(&down), "acb");
            assert_eq!(change_rule(&down, 3, RuleChange::MoveUp).unwrap(), file);
            assert!(change_rule(&file, 1, RuleChange::MoveUp).is_err());
            assert!(change_rule(&file, 3, RuleChange::MoveDown).is_err());
            assert!(change_rule(&file, 4, RuleChange::Remove).is_err());
            assert!(change_rule(&file, 0, RuleChange::Remove).is_err());
        });
        // The last line need not end.
        let open = FILE.trim_end();
        let moved = change_rule(open, 3, RuleChange::MoveUp).unwrap();
        assert_eq!((names(&moved).as_str(), moved.ends_with('\n')), ("acb", false));
    }

    #[test]
    fn a_rule_is_removed_with_its_comment_and_no_other() {
        each(|form| {
            let file = form(FILE);
            let without = change_rule(&file, 2, RuleChange::Remove).unwrap();
            assert_eq!(names(&without), "ac");
            assert!(without.contains(&form("# between\n\n[[rule]]\nname = 'c'")), "{without}");
            let without = change_rule(&file, 3, RuleChange::Remove).unwrap();
            assert!(without.ends_with(&form("'a b' = { at_most = 3 }\n")), "{without}");
            let mut rest = file;
            for _ in 0..3 {
                rest = change_rule(&rest, 1, RuleChange::Remove).unwrap();
            }
            assert_eq!(rest, form("# head\npreset = 'open'\n\n# between\n"));
        });
    }

    #[test]
    fn a_rule_is_changed_in_place_and_what_the_editor_does_not_know_stays() {
        each(|form| {
            let file = form(FILE);
            let WrittenRule { rule, kept } = WrittenRule::read(rule_lines(&file, 1).unwrap()).unwrap();
            assert_eq!(kept, ["server = [\"x\", \"y\"]", "until = 2099-01-01"]);
            assert_eq!(change_rule(&file, 1, RuleChange::Replace(&rule)).unwrap(), file, "nothing changes");
            let wanted = NewRule {
                decide: RuleDecision::Deny,
                reason: "no\u{202e}".to_owned(),
                tool: "t".to_owned(),
                ..rule
            };
            let after = change_rule(&file, 1, RuleChange::Replace(&wanted)).unwrap();
            let expected = "# of a\n[[rule]] # a\nname = 'a'\ndecide = \"deny\" # why\nserver = [\"x\", \"y\"]\nuntil = 2099-01-01\n\
                tool = \"t\"\nreason = \"no\\U0000202E\"\n\n# between";
            assert!(after.contains(&form(expected)), "{after}");

            let WrittenRule { mut rule, kept } = WrittenRule::read(rule_lines(&file, 2).unwrap()).unwrap();
            assert_eq!(kept, ["arguments.\"a b\" = { at_most = 3 }"]);
            assert_eq!(json!(rule.arguments), json!({ "path": { "under": "/w" } }));
            assert_eq!(change_rule(&file, 2, RuleChange::Replace(&rule)).unwrap(), file);
            rule.arguments =
                serde_json::from_value(json!({ "path": { "under": "/v" }, "c d": { "is": true } })).unwrap();
            let after = change_rule(&file, 2, RuleChange::Replace(&rule)).unwrap();
            let expected = "[rule.arguments]\npath = { under = \"/v\" } # w\n'a b' = { at_most = 3 }\n\"c d\" = { is = true }\n\n[[rule]]";
            assert!(after.contains(&form(expected)), "{after}");

            let WrittenRule { mut rule, kept } = WrittenRule::read(rule_lines(&file, 3).unwrap()).unwrap();
            assert!(kept.is_empty());
            rule.arguments.remove("to");
            rule.other_arguments = Some(Vec::new());
            let after = change_rule(&file, 3, RuleChange::Replace(&rule)).unwrap();
            assert!(
                after.ends_with(&form("arguments = { n = { is = 7 } }\nother_arguments = []\n")),
                "{after}"
            );
            rule.arguments.clear();
            rule.other_arguments = None;
            let after = change_rule(&after, 3, RuleChange::Replace(&rule)).unwrap();
            assert!(after.ends_with(&form("name = 'c'\ndecide = \"allow\"\n")), "{after}");
        });
    }

    #[test]
    fn a_condition_that_the_editor_does_not_know_is_not_replaced() {
        let text =
            "[[rule]]\ndecide = 'allow'\narguments = { n = { at_most = 3 }, to = ['a*', 'b'], by = ['c'] }\n";
        let WrittenRule { rule, kept } = WrittenRule::read(text).unwrap();
        assert_eq!(kept, ["arguments.\"n\" = { at_most = 3 }", "arguments.\"to\" = [\"a*\", \"b\"]"]);
        assert_eq!(json!(rule.arguments), json!({ "by": { "one_of": ["c"] } }));
        for name in ["n", "to"] {
            let mut wanted = rule.clone();
            wanted.arguments.insert(name.to_owned(), ArgumentRule::Like("*".to_owned()));
            let refused = change_rule(text, 1, RuleChange::Replace(&wanted)).unwrap_err();
            assert_eq!(refused, format!("the rule has another condition on `{name}` already"));
        }
    }

    #[test]
    fn comments_in_inline_conditions_stay() {
        let text =
            "[[rule]]\ndecide = 'ask'\narguments = { a = { is = 'x' }, # first\n  b = { is = 'y' } }\n";
        let WrittenRule { mut rule, .. } = WrittenRule::read(text).unwrap();
        rule.arguments.insert("b".to_owned(), ArgumentRule::Under("/w".to_owned()));
        let after = change_rule(text, 1, RuleChange::Replace(&rule)).unwrap();
        assert_eq!(after, text.replace("is = 'y'", "under = \"/w\""));
    }

    #[test]
    fn rules_in_other_forms_are_not_changed() {
        for text in ["rule = [{ decide = 'ask' }]\n", "rule = 7\n", "[[rule]\n"] {
            assert!(rule_ranges(text).is_none(), "{text}");
            assert!(change_rule(text, 1, RuleChange::Remove).is_err(), "{text}");
        }
        assert_eq!(rule_ranges("preset = 'open'\n"), Some(Vec::new()));
        // A text of several lines may have a line like a header, and so may a comment.
        let hard = "[[rule]]\nname = 'a'\ndecide = 'ask'\nreason = '''\n[[rule]]\n# x\n'''\n# [[rule]]\n[['rule']]\nname = 'b'\ndecide = 'ask'";
        let moved = change_rule(hard, 2, RuleChange::MoveUp).unwrap();
        assert_eq!(names(&moved), "ba");
        assert!(moved.starts_with("# [[rule]]\n[['rule']]\n"), "{moved}");
    }
}
