//! Parser for one rule of the policy file.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use toml::de::DeValue;
use toml::value::Datetime;

use super::PolicyRule;
use crate::action::PolicyActionKind;
use crate::approvers::RequiredApprovers;
use crate::arguments::ArgumentPointer;
use crate::condition::ArgumentCondition;
use crate::destination_pattern::DestinationPattern;
use crate::document::{MistakeReport, TableSection, quoted};
use crate::effects::RequiredEffects;
use crate::file::PolicyEnvironment;
use crate::layer::PolicyLayer;
use crate::pattern::TextPatterns;
use crate::verdict::PolicyDecision;

/// Form of `effects`, for messages.
const EFFECTS: &str = "a table such as `{ read_only = true }`, with one or more of `read_only`, `destructive`, \
                       `idempotent`, `open_world`, each true or false";

/// Form of `until`, for messages.
const UNTIL: &str =
    "an unquoted date (`until = 2026-12-31`) or date-time with offset (`until = 2026-12-31T18:00:00Z`)";

/// Keys of the file's top level, and where they belong.
const TOP_LEVEL_KEYS: [(&str, &str); 5] = [
    ("preset", "at the top of the file, above the first `[[rule]]`"),
    ("plans", "at the top of the file, above the first `[[rule]]`"),
    ("own", "at the top of the file, above the first `[[rule]]`"),
    ("trusted", "at the top of the file, above the first `[[rule]]`"),
    ("data_flow", "at the top of the file, above the first `[[rule]]`"),
];

impl PolicyRule {
    /// Parses the rule of a table. Returns `None` if it has mistakes, which are added to the report.
    pub(crate) fn parse(
        (number, line): (usize, usize),
        section: &mut TableSection<'_>,
        reading: &PolicyEnvironment,
        report: &mut MistakeReport<'_>,
    ) -> Option<Self> {
        let before = report.count();
        let decision = section.word("decide", PolicyDecision::WORDS, report);
        // By the key alone, so that an invalid value is not reported as missing too.
        if !section.has("decide") {
            section.add_mistake_at_table(
                "`decide` is missing; it is `\"allow\"`, `\"ask\"` or `\"deny\"`",
                report,
            );
        }
        let places =
            |texts: &[String]| texts.iter().map(|text| DestinationPattern::new(text, reading)).collect();
        let rule = Self {
            layer: reading.layer,
            number,
            line,
            // Only so that the other keys are checked too: a rule with mistakes is discarded.
            decision: decision.unwrap_or(PolicyDecision::Deny),
            name: section.text("name", report),
            reason: section.text("reason", report),
            about: section.words("about", PolicyActionKind::WORDS, report),
            server: section.read("server", report, TextPatterns::new),
            tool: section.read("tool", report, TextPatterns::new),
            prompt: section.read("prompt", report, TextPatterns::new),
            resource: section.read("resource", report, TextPatterns::new),
            application: section.read("application", report, TextPatterns::new),
            principal: section.read("principal", report, TextPatterns::new),
            group: section.read("group", report, TextPatterns::new),
            effects: effects(section, report),
            arguments: arguments(section, reading, report),
            other_arguments: section.names("other_arguments", report),
            destinations: section.read("destinations", report, places),
            until: until(section, report),
            strong: section.boolean("strong", report).unwrap_or(false),
            remember: section.boolean("remember", report).unwrap_or(true),
            approvers: approvers(section, report),
            review: section.boolean("review", report).unwrap_or(false),
            delegable: section.boolean("delegable", report).unwrap_or(false),
        };
        section.reject_unknown_keys(&TOP_LEVEL_KEYS, report);
        add_contradictions(section, decision, rule.about.as_deref(), report);
        if section.has("delegable") && reading.layer != PolicyLayer::Organization {
            let what = "it applies only to rules of an organisation's policy file";
            section.add_mistake_at_key("delegable", what, report);
        }
        if rule.other_arguments.is_some() && rule.arguments.iter().any(|(_, at, _)| at.first() == Some("*")) {
            let what = "it compares names, and the rule has a condition on `*`, which is every argument";
            section.add_mistake_at_key("other_arguments", what, report);
        }
        (report.count() == before).then_some(rule)
    }
}

/// Reads who decides in place of the caller.
fn approvers(section: &mut TableSection<'_>, report: &mut MistakeReport<'_>) -> Option<RequiredApprovers> {
    let not_self = section.boolean("not_self", report);
    if section.has("not_self") && !section.has("approver") {
        let what = "it needs `approver`, which names the groups whose members decide";
        section.add_mistake_at_key("not_self", what, report);
    }
    section.read("approver", report, |groups| RequiredApprovers::new(groups, not_self.unwrap_or(false)))
}

fn effects(section: &mut TableSection<'_>, report: &mut MistakeReport<'_>) -> Option<RequiredEffects> {
    let mut table = section.table("effects", EFFECTS, report)?;
    let effects = RequiredEffects {
        read_only: table.boolean("read_only", report),
        destructive: table.boolean("destructive", report),
        idempotent: table.boolean("idempotent", report),
        open_world: table.boolean("open_world", report),
    };
    table.reject_unknown_keys(&[], report);
    Some(effects)
}

fn arguments(
    section: &mut TableSection<'_>,
    reading: &PolicyEnvironment,
    report: &mut MistakeReport<'_>,
) -> Vec<(String, ArgumentPointer, ArgumentCondition)> {
    let expected = "a table of conditions, such as `arguments.path = { under = \"~/work\" }`";
    let Some(table) = section.table("arguments", expected, report) else { return Vec::new() };
    let conditions = table.entries().filter_map(|(key, value)| {
        let condition = ArgumentCondition::parse(key, value, &table, reading, report)?;
        Some((key.to_owned(), ArgumentPointer::new(key), condition))
    });
    conditions.collect()
}

fn until(section: &mut TableSection<'_>, report: &mut MistakeReport<'_>) -> Option<(String, Timestamp)> {
    let value = section.get("until")?.get_ref();
    let end = match value {
        DeValue::Datetime(until) => end_of(until).map(|end| (until.to_string(), end)),
        other => Err(format!("expected {UNTIL}, found {}", crate::document::kind(other))),
    };
    end.map_err(|what| section.add_mistake_at_key("until", &what, report)).ok()
}

/// Adds mistakes for conditions that can never match or have no effect, because they were meant to have one.
fn add_contradictions(
    section: &TableSection<'_>,
    decision: Option<PolicyDecision>,
    about: Option<&[PolicyActionKind]>,
    report: &mut MistakeReport<'_>,
) {
    section.reject_combination(&["tool", "prompt", "resource"], "rule", report);
    let others = ["prompt", "resource"].into_iter().find(|key| section.has(key));
    for key in ["effects", "arguments", "other_arguments"] {
        if let (true, Some(other)) = (section.has(key), others) {
            section.add_mistake_at_key(
                key,
                &format!("it applies only to tools, and the rule has `{other}`"),
                report,
            );
        }
    }
    if section.has("destinations") && section.has("prompt") {
        section.add_mistake_at_key(
            "destinations",
            "it applies only to tools and resources, and the rule has `prompt`",
            report,
        );
    }
    let kind = match () {
        () if section.has("tool") => Some((PolicyActionKind::Tool, "tool")),
        () if section.has("prompt") => Some((PolicyActionKind::Prompt, "prompt")),
        () if section.has("resource") => Some((PolicyActionKind::Resource, "resource")),
        () if section.has("effects") => Some((PolicyActionKind::Tool, "effects")),
        () if section.has("arguments") => Some((PolicyActionKind::Tool, "arguments")),
        () if section.has("other_arguments") => Some((PolicyActionKind::Tool, "other_arguments")),
        () => None,
    };
    let about = about.unwrap_or_default();
    if let Some((kind, key)) = kind
        && about.iter().any(|one| *one != kind)
    {
        let what = format!("a rule with `{key}` can only be about {kind}");
        section.add_mistake_at_key("about", &what, report);
    }
    let has_destinations =
        |one: &PolicyActionKind| matches!(one, PolicyActionKind::Tool | PolicyActionKind::Resource);
    if section.has("destinations") && !about.iter().all(has_destinations) {
        section.add_mistake_at_key("about", "`destinations` applies only to tools and resources", report);
    }
    let is_call = |one: &PolicyActionKind| {
        matches!(one, PolicyActionKind::Tool | PolicyActionKind::Prompt | PolicyActionKind::Resource)
    };
    if section.has("approver") && !about.iter().all(is_call) {
        let what = "`approver` applies only to tools, prompts and resources";
        section.add_mistake_at_key("about", what, report);
    }
    for (key, value) in [("strong", false), ("remember", true)] {
        let written = section.value(key).and_then(|value| value.get_ref().as_bool());
        if section.has("approver") && written == Some(value) {
            let what = "an approval by `approver` is given at the console, for one call; remove this key";
            section.add_mistake_at_key(key, what, report);
        }
    }
    let Some(decision) = decision else { return };
    for key in ["strong", "remember", "approver", "not_self"] {
        if decision != PolicyDecision::Ask && section.has(key) {
            let what =
                format!("it applies only to `decide = \"ask\"`, and the rule has `decide = \"{decision}\"`");
            section.add_mistake_at_key(key, &what, report);
        }
    }
    if decision == PolicyDecision::Allow && section.has("delegable") && !section.has("review") {
        let what = "an `allow` rule without `review` restricts nothing that could be loosened";
        section.add_mistake_at_key("delegable", what, report);
    }
    if decision == PolicyDecision::Deny && section.has("review") {
        section.add_mistake_at_key("review", "a denied call has no result to review", report);
    }
}

/// Returns the first moment at which a rule is no longer valid: the end of a day, or the time itself.
fn end_of(until: &Datetime) -> Result<Timestamp, String> {
    let text = until.to_string();
    let wrong = |error: jiff::Error| format!("`{}`: {error}", quoted(&text));
    match (until.date.is_some(), until.time.is_some(), until.offset.is_some()) {
        (true, true, true) => text.replace(' ', "T").parse().map_err(wrong),
        (true, false, false) => {
            let day: Date = text.parse().map_err(wrong)?;
            let next = day.tomorrow().map_err(wrong)?;
            next.to_zoned(TimeZone::UTC).map(|moment| moment.timestamp()).map_err(wrong)
        }
        _ => Err(format!("expected {UNTIL}")),
    }
}
