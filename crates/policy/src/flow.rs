//! Data flow of a session: the data it has read, and the calls that can send data out.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::action::{PolicyAction, PolicyRequest};
use crate::document::{KeywordTable, MistakeReport, TableSection};
use crate::paths::TextReadings;
use crate::pattern::{AmbiguityBias, TextPatterns};
use crate::selector::RuleSelector;

/// Labels of a call: the kinds of data it brings into a session, and its ability to send data out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "whoever labels something must not overlook one")]
pub struct FlowLabels {
    /// True if the result may contain the user's private data.
    pub private: bool,
    /// True if the result may hold text from a third party.
    pub untrusted: bool,
    /// True if the arguments can reach a third party.
    pub outbound: bool,
    /// Change that the call makes.
    pub effect: CallEffect,
}

/// Change that a call makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "whoever acts on it must not overlook one")]
pub enum CallEffect {
    /// The call changes nothing.
    None,
    /// The same person can restore the previous state with the same server.
    #[default]
    Reversible,
    /// The call deletes, pays, books, changes credentials, gives access, publishes or runs code.
    Irreversible,
}

impl CallEffect {
    /// Words for the values in the policy file.
    pub(crate) const WORDS: &KeywordTable<Self> =
        &[("none", Self::None), ("reversible", Self::Reversible), ("irreversible", Self::Irreversible)];
}

/// Description of a tool, beyond its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolDescription {
    /// Fields of a structured result that others may have written. `None` if their names decide.
    pub untrusted_fields: Option<Arc<[String]>>,
    /// Arguments that say who is reached or what is changed. `None` if their names decide.
    pub targets: Option<Arc<[String]>>,
    /// True if the operator has labelled the effect of the tool, or its server is built in or trusted.
    pub is_described: bool,
    /// True if a server that is not trusted says that the tool only reads, by its annotations or its name.
    pub claims_to_read: bool,
    /// True if the tool cannot be undone only because its name says that it sends something.
    pub only_sends: bool,
}

/// Sources of the data that a session has read, as names of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionFlow {
    /// Servers that returned private data.
    pub private: Vec<String>,
    /// Servers that returned untrusted text.
    pub untrusted: Vec<String>,
}

impl SessionFlow {
    /// Creates the data flow from the names of servers.
    #[must_use]
    pub fn new(private: Vec<String>, untrusted: Vec<String>) -> Self {
        Self { private, untrusted }
    }

    /// Returns true if the session has read both private data and untrusted text. That text could make a later call
    /// send private data out.
    #[must_use]
    pub fn is_tainted(&self) -> bool {
        !self.private.is_empty() && !self.untrusted.is_empty()
    }
}

impl fmt::Display for SessionFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            match names.split_last() {
                Some((last, [])) => last.clone(),
                Some((last, others)) => format!("{} and {last}", others.join(", ")),
                None => "nobody".to_owned(),
            }
        };
        let (private, untrusted) = (names(&self.private), names(&self.untrusted));
        write!(f, "this session has read private data from {private} and untrusted text from {untrusted}")
    }
}

/// Decision for outbound calls after a session has read both private data and untrusted text: the key `data_flow`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataFlowPolicy {
    /// Ask every time, regardless of rules and lasting permissions.
    #[default]
    Ask,
    /// Ask, and accept an approval only from the console.
    Strong,
    /// Data flow is not checked.
    Off,
}

impl DataFlowPolicy {
    /// Returns the stricter of two settings.
    pub(crate) fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Strong, _) | (_, Self::Strong) => Self::Strong,
            (Self::Ask, _) | (_, Self::Ask) => Self::Ask,
            (Self::Off, Self::Off) => Self::Off,
        }
    }

    /// Words for the values in the policy file.
    pub(crate) const WORDS: &KeywordTable<Self> =
        &[("ask", Self::Ask), ("strong", Self::Strong), ("off", Self::Off)];
}

/// Label that the operator gives to the data that servers receive and return.
#[derive(Clone, Debug)]
pub(crate) struct LabelRule {
    number: usize,
    line: usize,
    server: Option<TextPatterns>,
    tool: Option<TextPatterns>,
    prompt: Option<TextPatterns>,
    resource: Option<TextPatterns>,
    private: Option<bool>,
    untrusted: Option<bool>,
    outbound: Option<bool>,
    effect: Option<CallEffect>,
    untrusted_fields: Option<Arc<[String]>>,
    targets: Option<Arc<[String]>>,
}

impl LabelRule {
    /// Parses the label of a table. Returns `None` if it has mistakes, which are added to the report.
    pub(crate) fn parse(
        (number, line): (usize, usize),
        section: &mut TableSection<'_>,
        report: &mut MistakeReport<'_>,
    ) -> Option<Self> {
        let before = report.count();
        let label = Self {
            number,
            line,
            server: section.read("server", report, TextPatterns::new),
            tool: section.read("tool", report, TextPatterns::new),
            prompt: section.read("prompt", report, TextPatterns::new),
            resource: section.read("resource", report, TextPatterns::new),
            private: section.boolean("private", report),
            untrusted: section.boolean("untrusted", report),
            outbound: section.boolean("outbound", report),
            effect: section.word("effect", CallEffect::WORDS, report),
            untrusted_fields: section.texts("untrusted_fields", report).map(Arc::from),
            targets: section.texts("targets", report).map(Arc::from),
        };
        section.reject_unknown_keys(&[], report);
        // By the keys that are present, so that a key with an invalid value is not reported as missing too.
        let keys = ["private", "untrusted", "outbound", "effect", "untrusted_fields", "targets"];
        if !keys.into_iter().any(|key| section.has(key)) {
            section.add_mistake_at_table(
                "it sets none of `private`, `untrusted` and `outbound` (each true or false), `effect`, \
                 `untrusted_fields` and `targets`",
                report,
            );
        }
        section.reject_combination(&["tool", "prompt", "resource"], "label", report);
        (report.count() == before).then_some(label)
    }

    /// Returns the conditions on names of servers and their items.
    pub(crate) fn selector(&self) -> RuleSelector<'_> {
        RuleSelector {
            section: format!("label {}", self.number),
            line: self.line,
            doubt: AmbiguityBias::Counts,
            server: self.server.as_ref(),
            tool: self.tool.as_ref(),
            prompt: self.prompt.as_ref(),
            effects: None,
            arguments: &[],
        }
    }

    fn place(&self) -> LabelPlace {
        LabelPlace { number: self.number, line: self.line }
    }

    fn fits(&self, asked: &PolicyRequest<'_>, doubt: AmbiguityBias) -> bool {
        let (tool, prompt, resource) = match asked.action {
            PolicyAction::Tool { name, .. } => (Some(name), None, None),
            PolicyAction::Prompt { name } => (None, Some(name), None),
            PolicyAction::Resource { uri } => (None, None, Some(uri)),
            _ => (None, None, None),
        };
        [
            (&self.server, Some(asked.server)),
            (&self.tool, tool),
            (&self.prompt, prompt),
            (&self.resource, resource),
        ]
        .into_iter()
        .all(|(patterns, text)| {
            let fit = |patterns: &TextPatterns| {
                text.is_some_and(|text| patterns.fits(&TextReadings::new(text), doubt))
            };
            patterns.as_ref().is_none_or(fit)
        })
    }
}

/// Labels that the policy file gives to a request: for each the first label that sets it, with its number and line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileLabels {
    pub(crate) private: Option<(bool, LabelPlace)>,
    pub(crate) untrusted: Option<(bool, LabelPlace)>,
    pub(crate) outbound: Option<(bool, LabelPlace)>,
    pub(crate) effect: Option<(CallEffect, LabelPlace)>,
}

/// Place of a label in the policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a place has no more parts")]
pub struct LabelPlace {
    /// Number of the label in the file, from 1.
    pub number: usize,
    /// Line of the label, from 1.
    pub line: usize,
}

/// Resolves the labels of a request by the policy file.
pub(crate) fn resolve_labels(labels: &[LabelRule], asked: &PolicyRequest<'_>) -> FileLabels {
    let said = |key: fn(&LabelRule) -> Option<bool>| {
        let mut said = labels.iter().filter_map(|label| Some((label, key(label)?)));
        said.find(|(label, says)| {
            // An ambiguous match raises a label and never lowers it.
            let doubt = if *says { AmbiguityBias::Counts } else { AmbiguityBias::Refuses };
            label.fits(asked, doubt)
        })
        .map(|(label, says)| (says, label.place()))
    };
    FileLabels {
        private: said(|label| label.private),
        untrusted: said(|label| label.untrusted),
        outbound: said(|label| label.outbound),
        effect: first_label(labels, asked, |label| Some((label.effect?, label.place()))),
    }
}

/// Returns what the first label with this key says. An ambiguous match is no match, because it could lower something.
fn first_label<T>(
    labels: &[LabelRule],
    asked: &PolicyRequest<'_>,
    key: impl Fn(&LabelRule) -> Option<T>,
) -> Option<T> {
    let fitting = labels.iter().filter(|label| label.fits(asked, AmbiguityBias::Refuses));
    fitting.filter_map(key).next()
}

/// Returns what the labels say about a tool beyond its data.
pub(crate) fn describe_tool(labels: &[LabelRule], asked: &PolicyRequest<'_>) -> ToolDescription {
    ToolDescription {
        untrusted_fields: first_label(labels, asked, |label| label.untrusted_fields.clone()),
        targets: first_label(labels, asked, |label| label.targets.clone()),
        is_described: first_label(labels, asked, |label| label.effect).is_some(),
        claims_to_read: false,
        only_sends: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CallArguments, DefaultReason, KnownLabels, Policy, PolicyDecision, PolicyEnvironment, ToolEffectSet,
    };

    const NONE: FlowLabels =
        FlowLabels { private: false, untrusted: false, outbound: false, effect: CallEffect::None };
    const OPEN: FlowLabels =
        FlowLabels { private: false, untrusted: true, outbound: true, effect: CallEffect::None };

    /// Labels of a tool about which only a server that is not trusted says that it reads.
    const CHANGES: FlowLabels = FlowLabels { effect: CallEffect::Reversible, ..OPEN };

    fn policy(text: &str) -> Policy {
        Policy::read(text, &PolicyEnvironment::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn of_tool(
        policy: &Policy,
        server: &str,
        tool: &str,
        open_world: bool,
        known: Option<FlowLabels>,
    ) -> FlowLabels {
        let arguments = CallArguments::none();
        let effects = ToolEffectSet {
            open_world,
            read_only: true,
            destructive: false,
            idempotent: true,
            says_destructive: false,
        };
        let known = KnownLabels { program: known, ..KnownLabels::default() };
        policy.labels(&PolicyRequest::new(server, PolicyAction::tool(tool, effects, &arguments)), known)
    }

    fn read() -> SessionFlow {
        SessionFlow::new(vec!["mail".to_owned(), "files".to_owned()], vec!["web".to_owned()])
    }

    /// covers: TOOL-31
    #[test]
    fn the_word_of_a_server_that_is_not_trusted_lowers_nothing() {
        let policy = policy("trusted = ['git']");
        for (server, open_world, labels) in
            [("git", false, NONE), ("git", true, OPEN), ("web", false, CHANGES), ("web", true, CHANGES)]
        {
            assert_eq!(of_tool(&policy, server, "x", open_world, None), labels, "{server} {open_world}");
        }
        for action in [PolicyAction::Prompt { name: "p" }, PolicyAction::Resource { uri: "a://b" }] {
            assert_eq!(policy.labels(&PolicyRequest::new("web", action), KnownLabels::default()), OPEN);
        }
        // The host's own knowledge needs no label.
        let known = FlowLabels { private: true, ..NONE };
        assert_eq!(of_tool(&policy, "files", "read", true, Some(known)), known);
    }

    #[test]
    fn the_first_label_that_says_it_decides_and_in_doubt_there_is_more_to_be_careful_about() {
        let policy = policy(
            "[[label]]\nserver = 'mail'\ntool = ['read_*', 'search']\noutbound = false\n
             [[label]]\nserver = 'mail'\nprivate = true\noutbound = true\n
             [[label]]\nresource = 'safe://*'\nuntrusted = false\n",
        );
        let of = |tool: &str| of_tool(&policy, "mail", tool, true, None);
        assert_eq!(
            of("read_one"),
            FlowLabels { private: true, untrusted: true, outbound: false, effect: CallEffect::Reversible }
        );
        assert_eq!(
            of("send"),
            FlowLabels { private: true, untrusted: true, outbound: true, effect: CallEffect::Irreversible }
        );
        // A name in another case may be another tool, so it is not taken for the labelled one.
        assert!(of("READ_one").outbound);
        assert!(of_tool(&policy, "MAIL", "x", true, None).private, "and may be the same server");
        assert_eq!(of_tool(&policy, "web", "read_one", true, None), CHANGES);
        let resource = |uri| {
            let asked = PolicyRequest::new("web", PolicyAction::Resource { uri });
            policy.labels(&asked, KnownLabels::default())
        };
        assert!(!resource("safe://a").untrusted && resource("safe://%2e%2e").untrusted);
        // The operator's labels override the host's knowledge.
        assert!(of_tool(&policy, "mail", "read_one", false, Some(NONE)).private);
    }

    #[test]
    fn only_the_three_together_are_asked_about_and_no_lasting_word_silences_that() {
        let rules = "[[rule]]\ndecide = 'allow'\nserver = 'a'\n[[rule]]\ndecide = 'deny'\nserver = 'd'\n
                     [[rule]]\ndecide = 'ask'\nserver = 'q'\n";
        let arguments = CallArguments::none();
        for (setting, strong) in
            [("", false), ("data_flow = 'ask'\n", false), ("data_flow = 'strong'\n", true)]
        {
            let policy = policy(&format!("{setting}{rules}"));
            let verdict = |server| {
                let asked =
                    PolicyRequest::new(server, PolicyAction::tool("x", ToolEffectSet::unknown(), &arguments));
                policy.decide(&asked, jiff::Timestamp::now())
            };
            let weighed = policy.apply_data_flow(verdict("a"), OPEN, read());
            assert_eq!((weighed.decision, weighed.may_remember), (PolicyDecision::Ask, false));
            assert_eq!((weighed.strong, weighed.flow.as_ref()), (strong, Some(&read())));
            assert_eq!(
                weighed.why(),
                "it would be allowed (rule 1 (line 1)) without the data read in this session; this session has read \
                 private data from `mail` and `files` and untrusted text from `web`, and this can send things out"
                    .replace("(line 1)", if setting.is_empty() { "(line 1)" } else { "(line 2)" })
            );
            let weighed = policy.apply_data_flow(verdict("q"), OPEN, read());
            assert_eq!((weighed.decision, weighed.may_remember), (PolicyDecision::Ask, false));
            assert_eq!(policy.apply_data_flow(verdict("d"), OPEN, read()), verdict("d"));
            for (labels, flow) in [
                (FlowLabels { outbound: false, ..OPEN }, read()),
                (OPEN, SessionFlow::new(Vec::new(), read().untrusted)),
                (OPEN, SessionFlow::new(read().private, Vec::new())),
                (OPEN, SessionFlow::default()),
            ] {
                assert_eq!(policy.apply_data_flow(verdict("a"), labels, flow), verdict("a"));
            }
        }
        let off = policy("data_flow = 'off'\n");
        let verdict =
            off.decide(&PolicyRequest::new("s", PolicyAction::Prompt { name: "p" }), jiff::Timestamp::now());
        assert_eq!(verdict.because, crate::DecisionReason::Ordinary(DefaultReason::Fetched));
        assert_eq!(off.apply_data_flow(verdict.clone(), OPEN, read()), verdict);
    }

    #[test]
    fn what_cannot_be_meant_is_a_mistake_with_its_place() {
        for (text, what) in [
            ("[[label]]\nserver = 'a'", "line 1, column 1: label 1: it sets none of"),
            (
                "\n[[label]]\ntool = 'a'\nprompt = 'b'\nprivate = true",
                "line 4, column 10: label 1: `prompt`: a label is about",
            ),
            ("[[label]]\ntool = '[a'\nprivate = true", "line 2, column 8: label 1: `tool`: "),
            ("[[label]]\ntool = 'a'\npublic = true", "line 3, column 1: label 1: unknown key `public`"),
            ("data_flow = 'no'", "line 1, column 13: `data_flow`: unknown value `no`"),
            ("data_flow = 'no'", "expected one of `ask`, `strong`, `off`"),
        ] {
            let error = Policy::read(text, &PolicyEnvironment::default()).expect_err(text).to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
