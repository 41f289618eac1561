use std::fmt;

use serde_json::{Number, Value};
use toml::Spanned;
use toml::de::DeValue;

use crate::arguments::FoundValues;
use crate::destination_pattern::HostSet;
use crate::document::{self, MistakeReport, TableSection};
use crate::file::PolicyEnvironment;
use crate::folders::FolderSet;
use crate::paths::{self, TextReadings};
use crate::pattern::{AmbiguityBias, TextPatterns};

/// Condition of a rule on one argument.
///
/// A string or a list of strings are patterns; a number or a boolean must be equal; a table has one or more of these
/// keys:
///
/// | key | matches |
/// |---|---|
/// | `is` | exactly this value |
/// | `like` | a string that matches one of the patterns |
/// | `under` | an absolute path (or `file` URL) in one of the folders, or one of them, also after symbolic links ([`crate::LinkResolver`]) |
/// | `host` | a URL, mail address or host whose host is one of these, as in `destinations` |
/// | `at_least`, `at_most` | a number that is not below, not above this one |
/// | `regex` | a string that the whole expression matches |
/// | `longer_than` | a string with more characters than this |
/// | `present` | any value, or with `false` an absent argument |
///
/// All given keys must match. A string of more than 64 KiB matches no pattern, folder or `regex` of a rule that allows,
/// and all of them in a rule that asks or denies. In rules that ask or deny, a string that spells a number or a boolean
/// also counts as that value, the reverse holds too, and `null` also counts as absent.
#[derive(Clone, Debug)]
pub struct ArgumentCondition(ArgumentConditionKind);

#[derive(Clone, Debug)]
enum ArgumentConditionKind {
    Patterns(TextPatterns),
    Is(Value),
    Tests(Box<ValueTests>),
}

#[derive(Clone, Debug)]
struct ValueTests {
    is: Option<Value>,
    like: Option<TextPatterns>,
    under: Option<FolderSet>,
    host: Option<HostSet>,
    at_least: Option<Number>,
    at_most: Option<Number>,
    regex: Option<WholeTextRegex>,
    longer_than: Option<usize>,
    present: Option<bool>,
}

impl ArgumentCondition {
    /// Parses the condition under a key of `arguments`. Returns `None` if it has mistakes, which are added to the
    /// report.
    pub(crate) fn parse(
        key: &str,
        value: &Spanned<DeValue<'_>>,
        of: &TableSection<'_>,
        reading: &PolicyEnvironment,
        report: &mut MistakeReport<'_>,
    ) -> Option<Self> {
        let kind = match value.get_ref() {
            DeValue::Table(entries) => {
                ValueTests::parse(&mut of.inner(key, value.span().start, entries), reading, report)
                    .map(|tests| Ok(ArgumentConditionKind::Tests(Box::new(tests))))?
            }
            written @ (DeValue::String(_) | DeValue::Array(_)) => match document::texts(written) {
                Some(texts) if texts.is_empty() => {
                    Err("an empty list matches nothing; remove the argument to match every value".to_owned())
                }
                Some(texts) => TextPatterns::new(&texts).map(ArgumentConditionKind::Patterns),
                None => Err("expected a list of strings as patterns; use `is` to compare with other values"
                    .to_owned()),
            },
            other => document::json(other).map(ArgumentConditionKind::Is),
        };
        kind.map(Self).map_err(|what| of.add_mistake_at_key(key, &what, report)).ok()
    }

    /// Returns true if the condition requires that the argument is absent.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(&self.0, ArgumentConditionKind::Tests(tests) if tests.present == Some(false))
    }

    /// Returns true if the values found for the argument match. With several values, an allow rule needs all of them to
    /// match, a deny rule any.
    pub(crate) fn fits(&self, found: &FoundValues<'_>, doubt: AmbiguityBias) -> bool {
        let values = &found.values;
        if let ArgumentConditionKind::Tests(tests) = &self.0
            && tests.present == Some(false)
        {
            return match doubt {
                AmbiguityBias::Refuses => values.is_empty() && !found.alike,
                AmbiguityBias::Counts => {
                    values.is_empty() || found.missed || values.iter().any(|value| value.is_null())
                }
            };
        }
        match doubt {
            AmbiguityBias::Refuses => {
                let plain = !values.is_empty() && !found.missed && !found.alike;
                plain && values.iter().all(|value| self.fits_one(value, doubt))
            }
            AmbiguityBias::Counts => values.iter().any(|value| {
                self.fits_one(value, doubt)
                    || coerce_value(value).is_some_and(|value| self.fits_one(&value, doubt))
            }),
        }
    }

    fn fits_one(&self, value: &Value, doubt: AmbiguityBias) -> bool {
        match &self.0 {
            ArgumentConditionKind::Patterns(patterns) => {
                value.as_str().is_some_and(|text| patterns.fits(&TextReadings::new(text), doubt))
            }
            ArgumentConditionKind::Is(wanted) => values_equal(wanted, value),
            ArgumentConditionKind::Tests(tests) => tests.fit(value, doubt),
        }
    }
}

impl fmt::Display for ArgumentCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ArgumentConditionKind::Patterns(patterns) => write!(f, "like {patterns}"),
            ArgumentConditionKind::Is(value) => write!(f, "{value}"),
            ArgumentConditionKind::Tests(tests) => f.write_str(&tests.described().join(" and ")),
        }
    }
}

impl ValueTests {
    fn parse(
        section: &mut TableSection<'_>,
        reading: &PolicyEnvironment,
        report: &mut MistakeReport<'_>,
    ) -> Option<Self> {
        let before = report.count();
        let tests = Self {
            is: section.json("is", report),
            like: section.read("like", report, TextPatterns::new),
            under: section.read("under", report, |texts| FolderSet::new(texts, reading)),
            host: section.read("host", report, |texts| HostSet::new(texts, reading)),
            at_least: section.number("at_least", report),
            at_most: section.number("at_most", report),
            regex: section.text("regex", report).and_then(|text| {
                WholeTextRegex::new(&text)
                    .map_err(|what| section.add_mistake_at_key("regex", &what, report))
                    .ok()
            }),
            longer_than: section.count("longer_than", report),
            present: section.boolean("present", report),
        };
        section.reject_unknown_keys(&[], report);
        if section.is_empty() {
            section.add_mistake_at_table("an empty condition has no effect; remove the argument", report);
        }
        if tests.present == Some(false) && section.entries().count() > 1 {
            section.add_mistake_at_key(
                "present",
                "an absent argument cannot match any other condition",
                report,
            );
        }
        (report.count() == before).then_some(tests)
    }

    fn fit(&self, value: &Value, doubt: AmbiguityBias) -> bool {
        let text = value.as_str().map(TextReadings::new);
        let of_text = |holds: &dyn Fn(&TextReadings<'_>) -> bool| text.as_ref().is_some_and(holds);
        let there = self.present.is_none() || doubt == AmbiguityBias::Counts || !value.is_null();
        there
            && self.is.as_ref().is_none_or(|wanted| values_equal(wanted, value))
            && self.like.as_ref().is_none_or(|like| of_text(&|text| like.fits(text, doubt)))
            && self.under.as_ref().is_none_or(|under| of_text(&|text| under.matches(text, doubt)))
            && self.host.as_ref().is_none_or(|host| of_text(&|text| host.matches(text.raw(), doubt)))
            && self
                .at_least
                .as_ref()
                .is_none_or(|bound| compare(value, bound).is_some_and(|order| order.is_ge()))
            && self
                .at_most
                .as_ref()
                .is_none_or(|bound| compare(value, bound).is_some_and(|order| order.is_le()))
            && self.regex.as_ref().is_none_or(|regex| of_text(&|text| regex.fits(text, doubt)))
            && self.longer_than.is_none_or(|bound| of_text(&|text| text.raw().chars().count() > bound))
    }

    fn described(&self) -> Vec<String> {
        let mut parts = Vec::new();
        parts.extend(self.is.as_ref().map(Value::to_string));
        parts.extend(self.like.as_ref().map(|like| format!("like {like}")));
        parts.extend(self.under.as_ref().map(|under| format!("a path in {under}")));
        parts.extend(self.host.as_ref().map(|host| format!("at the host {host}")));
        parts.extend(self.at_least.as_ref().map(|bound| format!("at least {bound}")));
        parts.extend(self.at_most.as_ref().map(|bound| format!("at most {bound}")));
        parts.extend(self.regex.as_ref().map(|WholeTextRegex { text, .. }| format!("matching `{text}`")));
        parts.extend(self.longer_than.map(|bound| format!("longer than {bound} characters")));
        parts.extend(self.present.map(|there| if there { "there" } else { "absent" }.to_owned()));
        parts
    }
}

/// Regular expression over a whole text. Matching takes linear time, whatever the expression and the text are.
#[derive(Clone, Debug)]
struct WholeTextRegex {
    text: String,
    regex: regex::Regex,
}

impl WholeTextRegex {
    fn new(text: &str) -> Result<Self, String> {
        // Compiled unchanged first, so that an error shows the expression as written.
        let regex = regex::Regex::new(text).and_then(|_| regex::Regex::new(&format!("^(?:{text})$")));
        Ok(Self { text: text.to_owned(), regex: regex.map_err(|error| error.to_string())? })
    }

    fn fits(&self, text: &TextReadings<'_>, doubt: AmbiguityBias) -> bool {
        let raw = text.raw();
        match doubt {
            _ if text.is_too_long() => doubt == AmbiguityBias::Counts,
            AmbiguityBias::Refuses if raw.chars().any(paths::is_hidden) => false,
            // The text has no other interpretation.
            AmbiguityBias::Refuses if paths::is_plain(raw) && !raw.contains('\\') => self.regex.is_match(raw),
            AmbiguityBias::Refuses => text.readings().iter().all(|reading| self.regex.is_match(reading)),
            AmbiguityBias::Counts => text.readings().iter().any(|reading| self.regex.is_match(reading)),
        }
    }
}

/// Returns the value that a lenient reader takes this one for: a number or a boolean for a string, and a string for
/// these.
fn coerce_value(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if text.len() <= 64 => serde_json::from_str(text.trim())
            .ok()
            .filter(|value: &Value| value.is_number() || value.is_boolean()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string().into()),
        _ => None,
    }
}

/// Returns true if two values are equal. Numbers are compared by value, not by spelling.
fn values_equal(wanted: &Value, value: &Value) -> bool {
    match wanted {
        Value::Number(wanted) => compare(value, wanted).is_some_and(|order| order.is_eq()),
        wanted => wanted == value,
    }
}

fn compare(value: &Value, bound: &Number) -> Option<std::cmp::Ordering> {
    let Value::Number(value) = value else { return None };
    // As integers if both are: different large integers can be equal as floats.
    match (value.as_i128(), bound.as_i128()) {
        (Some(value), Some(bound)) => Some(value.cmp(&bound)),
        _ => value.as_f64()?.partial_cmp(&bound.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(written: &str) -> Result<ArgumentCondition, String> {
        let text = format!("arguments.it = {written}");
        let mut report = MistakeReport::new(&text);
        let table = report.parse().unwrap();
        let section =
            TableSection::new(None, 0, table.get_ref()).table("arguments", "", &mut report).unwrap();
        let (key, value) = section.entries().next().unwrap();
        let condition = ArgumentCondition::parse(
            key,
            value,
            &section,
            &PolicyEnvironment::at_home("/home/me"),
            &mut report,
        );
        report.finish().map_err(|error| error.to_string())?;
        Ok(condition.expect("there is a mistake or a condition"))
    }

    fn fits(written: &str, value: &Value, doubt: AmbiguityBias) -> bool {
        condition(written).unwrap().fits(&all(&[value]), doubt)
    }

    fn all<'a>(values: &[&'a Value]) -> FoundValues<'a> {
        FoundValues { values: values.to_vec(), ..FoundValues::default() }
    }

    #[test]
    fn values_are_compared_by_what_they_are() {
        for doubt in [AmbiguityBias::Refuses, AmbiguityBias::Counts] {
            assert!(fits("3", &json!(3.0), doubt));
            assert!(fits("{ at_most = 10 }", &json!(10), doubt));
            assert!(!fits("{ at_most = 10 }", &json!(10.5), doubt));
            assert!(fits("{ at_least = 9007199254740993 }", &json!(9_007_199_254_740_993_u64), doubt));
            assert!(!fits("{ at_least = 9007199254740993 }", &json!(9_007_199_254_740_992_u64), doubt));
            assert!(fits("true", &json!(true), doubt));
            assert!(fits("{ is = { a = [1] } }", &json!({ "a": [1] }), doubt));
            assert!(fits("{ regex = '[a-z]+', longer_than = 2 }", &json!("abc"), doubt));
            assert!(!fits("{ regex = '[a-z]+' }", &json!("abc1"), doubt), "from end to end");
            assert!(!fits("{ regex = 'a|b' }", &json!("ab"), doubt), "the whole of an alternative");
        }
    }

    #[test]
    fn a_permission_wants_every_value_and_a_prohibition_any() {
        let (good, bad) = (json!("good"), json!("bad"));
        let condition = condition("'good'").unwrap();
        assert!(condition.fits(&all(&[&good, &good]), AmbiguityBias::Refuses));
        assert!(!condition.fits(&all(&[&good, &bad]), AmbiguityBias::Refuses));
        assert!(condition.fits(&all(&[&good, &bad]), AmbiguityBias::Counts));
        assert!(!condition.fits(&all(&[]), AmbiguityBias::Refuses));
        assert!(!condition.fits(&all(&[]), AmbiguityBias::Counts));
        let part = FoundValues { values: vec![&good], missed: true, alike: false };
        assert!(
            !condition.fits(&part, AmbiguityBias::Refuses) && condition.fits(&part, AmbiguityBias::Counts)
        );
    }

    /// A lenient reading of a value by a server counts against the call, never for it.
    #[test]
    fn a_value_of_another_type_is_another_reading() {
        for (written, value) in [
            ("{ at_least = 10 }", json!("11")),
            ("true", json!(" true")),
            ("3", json!("3.0")),
            ("'1*'", json!(10)),
        ] {
            assert!(fits(written, &value, AmbiguityBias::Counts), "{written} {value}");
            assert!(!fits(written, &value, AmbiguityBias::Refuses), "{written} {value}");
        }
        assert!(!fits("{ at_least = 10 }", &json!("9"), AmbiguityBias::Counts));
    }

    #[test]
    fn an_expression_that_permits_fits_every_reading() {
        let within = "{ regex = '/home/me/work/.*' }";
        assert!(fits(within, &json!("/home/me/work/a b"), AmbiguityBias::Refuses));
        for path in ["/home/me/work/../.ssh", "/home/me/work/%2e%2e/.ssh", "/home/me/work/..\\.ssh"] {
            assert!(!fits(within, &json!(path), AmbiguityBias::Refuses), "{path}");
        }
        assert!(fits("{ regex = '[a-z %0-9]+' }", &json!("100% sure"), AmbiguityBias::Refuses));
    }

    #[test]
    fn absence_can_be_asked_for() {
        let absent = condition("{ present = false }").unwrap();
        let there = condition("{ present = true }").unwrap();
        let (null, one) = (json!(null), json!(1));
        for doubt in [AmbiguityBias::Refuses, AmbiguityBias::Counts] {
            let counts = doubt == AmbiguityBias::Counts;
            assert!(absent.fits(&all(&[]), doubt) && !absent.fits(&all(&[&one]), doubt));
            assert!(there.fits(&all(&[&one]), doubt) && !there.fits(&all(&[]), doubt));
            assert_eq!(absent.fits(&all(&[&null]), doubt), counts);
            assert_eq!(there.fits(&all(&[&null]), doubt), counts);
            let alike = FoundValues { alike: true, ..FoundValues::default() };
            assert_eq!(absent.fits(&alike, doubt), counts);
        }
    }

    /// The disguises of a path: each is let through by no permission, and held by every prohibition.
    #[test]
    fn a_path_in_disguise_gets_no_permission_and_no_escape() {
        let within = "{ under = '~/work' }";
        let outside = "{ under = ['/etc', '/home/me/.ssh'] }";
        assert!(fits(within, &json!("/home/me/work/a.txt"), AmbiguityBias::Refuses));
        assert!(fits(within, &json!("file:///home/me/work"), AmbiguityBias::Refuses));
        for (path, meant) in [
            ("/home/me/work/../.ssh/id", true),
            ("/home/me/work/%2e%2e/.ssh/id", true),
            ("/home/me/work/..\\.ssh/id", true),
            ("~/.ssh/id", true),
            ("file:///home/me/.ssh/id", true),
            ("/etc/passwd", true),
            ("../../etc/passwd", true),
            ("work/../../../etc/passwd", true),
            ("/e\u{200b}tc/passwd", true),
            (" /etc/passwd", true),
            ("/ETC/passwd", true),
            ("//etc/passwd", true),
            ("file://evil/etc/passwd", true),
            ("file%3A///etc/passwd", true),
            ("../.ssh/id", true),
            (".ssh/id", true),
            ("./.ssh/id", true),
            ("me/.ssh/id", true),
            ("../../home/me/.ssh/id", true),
            ("x/../.ssh", true),
            ("$HOME/.ssh/id", true),
            ("${HOME}/.ssh/id", true),
            ("%USERPROFILE%\\.ssh\\id", true),
            ("~me/.ssh/id", true),
            ("$HOME/work", false),
            ("../ssh/id", false),
            ("/home/me/workshop", false),
            ("work/a.txt", false),
            ("", false),
        ] {
            assert!(!fits(within, &json!(path), AmbiguityBias::Refuses), "{path:?}");
            assert_eq!(fits(outside, &json!(path), AmbiguityBias::Counts), meant, "{path:?}");
        }
    }

    /// The disguises of a path on Windows.
    #[test]
    fn a_path_of_windows_in_disguise_gets_no_permission_and_no_escape() {
        let within = r"{ under = 'C:\Users\me\work' }";
        let outside = r"{ under = 'C:\Users\me\.ssh' }";
        for path in [
            r"C:\Users\me\work\a b.txt",
            "c:/Users/me/work",
            "file:///C:/Users/me/work/a",
            r"C:\Users\me\work\COM",
        ] {
            assert!(fits(within, &json!(path), AmbiguityBias::Refuses), "{path:?}");
            assert!(!fits(outside, &json!(path), AmbiguityBias::Counts), "{path:?}");
        }
        for (path, meant) in [
            (r"C:\Users\me\work\..\.ssh\id", true),
            (r"c:\users\ME\.SSH\id", true),
            (r"\\?\C:\Users\me\.ssh\id", true),
            (r"\\.\C:\Users\me\.ssh\id", true),
            (r"\\?\UNC\localhost\C$\Users\me\.ssh\id", true),
            (r"\\127.0.0.1\c$\Users\me\.ssh\id", true),
            (r"\\?\Volume{4c1b02c1-d990-11dc-99ae-806e6f6e6963}\Users\me\.ssh\id", true),
            (r"\\?\GLOBALROOT\Device\HarddiskVolume3\Users\me\.ssh\id", true),
            (r"\Users\me\.ssh\id", true),
            (r"C:Users\me\.ssh\id", true),
            (r"C:.ssh\id", true),
            (r"C:\Users\me\.ssh.\id", true),
            (r"C:\Users\me\.ssh \id", true),
            (r"C:\Users\me\.ssh::$INDEX_ALLOCATION\id", true),
            (r"C:\Users\me\.ssh\id::$DATA", true),
            ("file:///c:/Users/me/.ssh/id", true),
            (r"\\host\share\work\a", false),
            (r"C:\Users\me\work\NUL", false),
            (r"C:\Users\me\work\com1.txt", false),
            (r"C:\Users\me\work \a", false),
            (r"C:\Users\me\workshop", false),
            (r"D:\Users\me\work", false),
        ] {
            assert!(!fits(within, &json!(path), AmbiguityBias::Refuses), "{path:?}");
            assert_eq!(fits(outside, &json!(path), AmbiguityBias::Counts), meant, "{path:?}");
        }
    }

    #[test]
    fn a_condition_that_cannot_be_meant_is_refused() {
        for (written, why) in [
            ("{}", "`arguments.it`: an empty condition has no effect"),
            ("[]", "empty list"),
            ("{ undr = '/a' }", "unknown key `arguments.it.undr`; did you mean `under`?"),
            ("{ at_least = '1' }", "`arguments.it.at_least`: expected a number, found a string"),
            ("{ longer_than = -1 }", "`arguments.it.longer_than`: expected a non-negative integer"),
            ("{ b = 'x' }", "quote its path: `arguments.\"it.b\"`"),
            ("{ under = 'work' }", "not an absolute path"),
            ("{ under = '/a/../b' }", "not an absolute path"),
            ("{ regex = '(' }", "unclosed group"),
            ("'[a'", "unclosed character class"),
            ("{ present = false, at_most = 1 }", "cannot match any other condition"),
            ("2026-01-01", "a date is not a JSON value"),
            ("{ is = nan }", "are not JSON numbers"),
            ("[1, 2]", "expected a list of strings as patterns"),
        ] {
            let error = condition(written).expect_err(written);
            assert!(error.contains(why), "{written}: {error}");
        }
    }

    #[test]
    fn a_condition_reads_as_a_sentence() {
        let condition = condition("{ under = '~/work', longer_than = 3 }").unwrap();
        assert_eq!(condition.to_string(), "a path in `/home/me/work` and longer than 3 characters");
    }
}
