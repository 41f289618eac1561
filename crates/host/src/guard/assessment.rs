//! Assessment of a call by the preset: what the call does, what its conversation has read, and which of its values come
//! from there.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use hospes::Peer;
use hospes_inspect::provenance::bare::bare_words;
use hospes_inspect::provenance::normal::normal_form;
use hospes_inspect::provenance::{ArgumentValue, MAX_VALUES, TextMarks, ValueKind, argument_values};
use hospes_model::RawJson;
use hospes_policy::{
    CallArguments, CallEffect, CallSituation, FlowLabels, GuardCause, Policy, PolicyAction, PolicyRequest,
    Preset, ToolDescription,
};
use jiff::Timestamp;
use regex::Regex;
use serde_json::{Map, Value};

use super::call_target::{CallTarget, TargetItem};
use super::data_flow::SessionReads;
use super::enforcer::PolicyEnforcer;
use super::texts::{ConversationTexts, DeliveredResult};
use crate::approvals::{GuardCard, GuardFinding, GuardValue};
use crate::checks::{ArgumentFinding, ArgumentFindingKind, InspectedCall};

/// Maximum number of values on a card.
const MAX_CARD_VALUES: usize = 16;

/// Maximum number of untrusted results on a card.
const MAX_CARD_READS: usize = 3;

/// Maximum number of targets that one approval makes known.
const MAX_TARGETS: usize = 32;

/// Arguments whose names say that they hold whom or what the call reaches.
static TARGET_NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        "(?i)^(?:to|cc|bcc|recipients?.*|.*emails?|.*users?|users?_?(?:name|id)?|channels?.*|.*url|.*uri|host.*|\
         domain|account.*|iban|repo.*|owner|participants?|attendees?|members?|invitees?|phone.*|payee|beneficiary|\
         webhook.*|endpoint|bucket|team|group)$",
    )
    .ok()
});

/// Assessment of a call.
#[derive(Debug)]
pub(super) struct CallAssessment {
    /// Labels of the call.
    pub(super) labels: FlowLabels,
    pub(super) description: ToolDescription,
    /// Reason to ask with what was found, if there is one.
    pub(super) card: Option<GuardCard>,
    /// Reason to refuse the call, if it may not even be asked about.
    pub(super) refusal: Option<String>,
    /// True if the call changes or reaches something after its conversation has read text of others.
    pub(super) follows_reading: bool,
}

/// A value with what is unusual about it.
struct FoundValue {
    value: ArgumentValue,
    finding: GuardFinding,
    source: Option<u64>,
}

impl PolicyEnforcer {
    /// Assesses a call under a preset.
    pub(super) fn assess(
        &self,
        (policy, preset): (&Policy, Preset),
        asked: &PolicyRequest<'_>,
        going: &CallTarget<'_>,
        arguments: &CallArguments,
        peer: &Arc<Peer>,
    ) -> CallAssessment {
        let labels = policy.labels(asked, going.known);
        let description = policy.describe(asked, going.known);
        let mut assessment =
            CallAssessment { labels, description, card: None, refusal: None, follows_reading: false };
        if labels.effect == CallEffect::None && !labels.outbound {
            // The usual case costs no more than this.
            return assessment;
        }
        let reads = self.flows.reads(peer);
        assessment.follows_reading = reads.has_untrusted && !assessment.description.claims_to_read;
        let mut situation = CallSituation {
            labels,
            is_described: assessment.description.is_described,
            claims_to_read: assessment.description.claims_to_read,
            only_sends: assessment.description.only_sends,
            fetches: matches!(asked.action, PolicyAction::Prompt { .. } | PolicyAction::Resource { .. }),
            has_untrusted: reads.has_untrusted,
            has_private: reads.has_private,
            has_forgotten: false,
            follows_untrusted: false,
            has_unknown_target: false,
            carries_private: false,
        };
        let looks_at_values = reads.has_untrusted || preset == Preset::Cautious;
        let values = if looks_at_values { values_of(asked, arguments) } else { Vec::new() };
        let mut found = Vec::new();
        let mut targets = Vec::new();
        let caller = ValueCaller { guard: self, policy, asked, peer };
        let findings = self.find_in_arguments(going, arguments, labels, peer);
        if looks_at_values {
            let texts = reads.texts.as_deref();
            situation.has_forgotten = reads.has_forgotten
                || values.len() > MAX_VALUES
                || texts.is_some_and(ConversationTexts::has_forgotten);
            for value in values {
                caller.look_at(value, &reads, &assessment.description, &mut found, &mut targets);
            }
            let has = |finding| found.iter().any(|value: &FoundValue| value.finding == finding);
            situation.follows_untrusted = has(GuardFinding::Untrusted);
            situation.has_unknown_target = has(GuardFinding::Unknown);
            situation.carries_private = has(GuardFinding::Private);
            // What is missing can hardly steer a tool that reads, unless it is given an address to reach.
            let reaches_out = found.iter().any(|value| {
                value.finding == GuardFinding::Unknown
                    && matches!(value.value.kind, ValueKind::Url | ValueKind::Email)
            });
            situation.has_forgotten &= !assessment.description.claims_to_read || reaches_out;
        }
        let mut cause = preset.cause_to_ask(&situation);
        let mut values = Vec::new();
        for finding in findings {
            // In a conversation that has read nothing, only the person can have named an address.
            let is_own_choice = !reads.has_untrusted
                && preset != Preset::Cautious
                && matches!(finding.kind, ArgumentFindingKind::PrivateAddress { .. });
            if is_own_choice {
                continue;
            }
            match caller.weigh_finding(&finding, &mut targets) {
                FindingWeight::Ask(serious, kind) => {
                    // A secret is the most serious cause; of the others, what was read comes first.
                    if serious == GuardCause::Secret || cause.is_none() {
                        cause = Some(serious);
                    }
                    let ArgumentFinding { pointer, excerpt, .. } = finding;
                    values.push(GuardValue { pointer, value: excerpt, finding: kind, source: None });
                }
                FindingWeight::Refuse => assessment.refusal = Some(finding.message()),
                FindingWeight::Known => (),
            }
        }
        if let Some(cause) = cause {
            let mut card = card((cause, labels), found, targets, &reads);
            card.values.splice(0..0, values);
            assessment.card = Some(card);
        }
        assessment
    }

    /// Searches the arguments for secrets of other servers, local addresses and characters that a shell interprets.
    fn find_in_arguments(
        &self,
        going: &CallTarget<'_>,
        arguments: &CallArguments,
        labels: FlowLabels,
        peer: &Peer,
    ) -> Vec<ArgumentFinding> {
        let TargetItem::Tool(_, tool) = going.what else { return Vec::new() };
        if !self.checks().destinations {
            return Vec::new();
        }
        self.call_checks().find_in_arguments(&InspectedCall {
            peer,
            server: going.server,
            tool,
            arguments,
            is_outbound: labels.outbound,
            // A name with such characters is not what it should be, whoever wrote it.
            untrusted_read: true,
        })
    }
}

/// Consequence of a finding.
enum FindingWeight {
    /// A person is asked for this cause.
    Ask(GuardCause, GuardFinding),
    /// The call is refused.
    Refuse,
    /// A person has allowed it before.
    Known,
}

impl PolicyEnforcer {
    /// Remembers the text of a delivered result. Returns its labels: what says no more than a value is not untrusted.
    pub(super) fn remember_text(
        &self,
        (peer, server, name): (&Arc<Peer>, &str, &str),
        labels: FlowLabels,
        description: &ToolDescription,
        text: impl FnOnce() -> Option<RawJson>,
    ) -> FlowLabels {
        let FlowLabels { private, untrusted, effect, .. } = labels;
        // What a described read returns is the word of the person or of somebody they trust.
        let trusted = !untrusted && description.is_described && effect == CallEffect::None;
        if !private && !untrusted && !trusted {
            return labels;
        }
        let Some(json) = text() else { return labels };
        let bare = if untrusted { bare_words(json.as_str()) } else { None };
        let result = DeliveredResult {
            server: server.to_owned(),
            name: name.to_owned(),
            marks: TextMarks { untrusted, private, trusted },
            untrusted_fields: description.untrusted_fields.clone(),
            json,
        };
        let is_bare = self.flows.add_text(peer, result, bare);
        FlowLabels { untrusted: untrusted && !is_bare, ..labels }
    }
}

/// Caller for whom a value is looked at.
struct ValueCaller<'a> {
    guard: &'a PolicyEnforcer,
    policy: &'a Policy,
    asked: &'a PolicyRequest<'a>,
    peer: &'a Arc<Peer>,
}

impl ValueCaller<'_> {
    /// Adds what is unusual about a value.
    fn look_at(
        &self,
        value: ArgumentValue,
        reads: &SessionReads,
        description: &ToolDescription,
        found: &mut Vec<FoundValue>,
        targets: &mut Vec<String>,
    ) {
        let (is_telling, is_private) = (value.is_telling(), value.is_private_kind());
        // The value of an argument that says whom the call reaches, as a whole.
        let is_named = names_target(&value, description)
            && (matches!(value.kind, ValueKind::Short | ValueKind::Text) || value.is_whole);
        let is_target = value.is_target() || is_named;
        if (!is_telling && !is_private && !is_target) || self.is_own(&value) {
            return;
        }
        let texts = reads.texts.as_deref();
        let find = |exact| texts.map(|texts| texts.find(&value, exact)).unwrap_or_default();
        if is_private && reads.has_private {
            let origin = find(true);
            if origin.marks.private {
                let (value, source) = (value.clone(), origin.private);
                found.push(FoundValue { value, finding: GuardFinding::Private, source });
            }
        }
        if (!is_telling && !is_target) || self.is_known(&normal_form(&value.text)) {
            return;
        }
        let origin = find(false);
        let hosts = if is_target { hosts(&value) } else { Vec::new() };
        // A link within a message is not whom the message reaches: an approval of the message does not make it known.
        if is_named && !origin.marks.trusted && !targets.contains(&value.text) && targets.len() < MAX_TARGETS
        {
            targets.push(value.text.clone());
            targets.extend(hosts.iter().cloned());
        }
        // A server that only reads learns nothing from a value that it has returned itself. A link leads elsewhere, unless
        // it is the URI of a resource, which is read at its own server.
        let leads_elsewhere = !matches!(self.asked.action, PolicyAction::Resource { .. })
            && (matches!(value.kind, ValueKind::Url | ValueKind::Host | ValueKind::Email) || links(&value));
        if description.claims_to_read
            && !leads_elsewhere
            && origin
                .untrusted
                .is_some_and(|source| texts.is_some_and(|texts| texts.is_of(source, self.asked.server)))
        {
            return;
        }
        if is_telling && origin.marks.untrusted {
            let source = origin.untrusted;
            found.push(FoundValue { value, finding: GuardFinding::Untrusted, source });
        } else if is_target && !origin.marks.trusted {
            let is_known_host = !hosts.is_empty() && hosts.iter().all(|host| self.is_known(host));
            if !is_known_host {
                found.push(FoundValue { value, finding: GuardFinding::Unknown, source: None });
            }
        }
    }

    /// Returns what follows from a finding. A local host that is not known is added to the targets.
    fn weigh_finding(&self, finding: &ArgumentFinding, targets: &mut Vec<String>) -> FindingWeight {
        match &finding.kind {
            ArgumentFindingKind::Secret { .. } => {
                FindingWeight::Ask(GuardCause::Secret, GuardFinding::Secret)
            }
            ArgumentFindingKind::Metadata { host }
                if self.policy.allows_host(self.asked, host, Timestamp::now()) =>
            {
                FindingWeight::Known
            }
            ArgumentFindingKind::Metadata { .. } => FindingWeight::Refuse,
            ArgumentFindingKind::PrivateAddress { host, .. } if self.is_known(&normal_form(host)) => {
                FindingWeight::Known
            }
            ArgumentFindingKind::PrivateAddress { host, .. } => {
                if !targets.contains(host) && targets.len() < MAX_TARGETS {
                    targets.push(host.clone());
                }
                FindingWeight::Ask(GuardCause::PrivateAddress, GuardFinding::Address)
            }
            ArgumentFindingKind::Shell { .. } => {
                FindingWeight::Ask(GuardCause::ShellCharacters, GuardFinding::Shell)
            }
        }
    }

    fn is_known(&self, value: &str) -> bool {
        let caller = (self.asked.principal, self.asked.application);
        self.guard.queue.is_known(value, caller, self.peer)
    }

    /// Returns true if the value is the person's own by the policy.
    fn is_own(&self, value: &ArgumentValue) -> bool {
        let text = value.text.trim().to_lowercase();
        // A link to elsewhere can end with an address of the person's domain.
        let is_address = || {
            let of_address =
                |ch: char| ch.is_alphanumeric() || matches!(ch, '.' | '_' | '%' | '+' | '-' | '@');
            text.chars().filter(|ch| *ch == '@').count() == 1 && text.chars().all(of_address)
        };
        self.policy.is_own(|own| {
            let own = own.to_lowercase();
            match own.strip_prefix('@') {
                Some(domain) => (text.ends_with(&own) && is_address()) || text == domain,
                None => text == own,
            }
        })
    }
}

/// Returns the values of a call. A resource has one: its URI.
fn values_of(asked: &PolicyRequest<'_>, arguments: &CallArguments) -> Vec<ArgumentValue> {
    match asked.action {
        PolicyAction::Resource { uri } => {
            argument_values(&Map::from_iter([("uri".to_owned(), Value::from(uri))]))
        }
        _ => argument_values(arguments.as_map()),
    }
}

/// Returns whom or what a call reaches, as it stands in the arguments: the arguments whose names say so, in full, or else
/// the values that name somebody or something by their form.
pub(super) fn target_values(
    asked: &PolicyRequest<'_>,
    arguments: &CallArguments,
    description: &ToolDescription,
) -> Vec<String> {
    let values = values_of(asked, arguments);
    let named = values.iter().filter(|value| names_target(value, description));
    let mut pointers: Vec<&str> = named.map(|value| value.pointer.as_str()).collect();
    pointers.dedup();
    let whole = Value::Object(arguments.as_map().clone());
    let in_full = pointers.into_iter().filter_map(|pointer| match whole.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        number @ Value::Number(_) => Some(number.to_string()),
        _ => None,
    });
    let named: Vec<String> = in_full.collect();
    if !named.is_empty() {
        return named;
    }
    values.into_iter().filter(ArgumentValue::is_target).map(|value| value.text).collect()
}

/// Returns true if the argument of a value says whom or what the call reaches.
fn names_target(value: &ArgumentValue, description: &ToolDescription) -> bool {
    match &description.targets {
        Some(targets) => targets.iter().any(|target| *target == value.argument || *target == value.field),
        None => TARGET_NAMES
            .as_ref()
            .is_none_or(|names| names.is_match(&value.argument) || names.is_match(&value.field)),
    }
}

/// Returns true if a text is or contains a link.
fn links(value: &ArgumentValue) -> bool {
    value.text.contains("://") || value.text.contains("www.")
}

/// Returns the host of a URL, as each reader may see it.
fn hosts(value: &ArgumentValue) -> Vec<String> {
    if value.kind != ValueKind::Url {
        return Vec::new();
    }
    let arguments = Map::from_iter([("url".to_owned(), Value::from(value.text.clone()))]);
    let text = Value::Object(arguments).to_string();
    let Ok(arguments) = CallArguments::read(&text) else { return Vec::new() };
    let mut hosts: Vec<String> = hospes_policy::CallDestinations::from_arguments(&arguments)
        .found()
        .iter()
        .filter_map(|destination| match destination {
            hospes_policy::Destination::Host { name, .. } => Some(normal_form(name)),
            _ => None,
        })
        .collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// Creates the card's part about the guard. Values that caused the question come first.
fn card(
    (cause, labels): (GuardCause, FlowLabels),
    mut found: Vec<FoundValue>,
    targets: Vec<String>,
    reads: &SessionReads,
) -> GuardCard {
    let rank = |finding: GuardFinding| match (cause, finding) {
        (GuardCause::PrivateValue, GuardFinding::Private) => 0,
        (_, GuardFinding::Untrusted) => 1,
        (_, GuardFinding::Unknown) => 2,
        _ => 3,
    };
    // A value that says whom the call reaches says more than one within its text.
    found.sort_by_key(|found| (rank(found.finding), !targets.contains(&found.value.text)));
    let mut seen = HashSet::new();
    found.retain(|found| seen.insert((found.value.pointer.clone(), found.value.text.clone())));
    let values = found.into_iter().take(MAX_CARD_VALUES).map(|found| {
        let FoundValue { value, finding, source } = found;
        let describe = |source| reads.texts.as_ref()?.describe(source, &value.text);
        let source = source.and_then(describe);
        GuardValue { pointer: value.pointer, value: value.text, finding, source }
    });
    GuardCard {
        cause,
        because: cause.to_string(),
        effect: labels.effect,
        outbound: labels.outbound,
        is_clean: !reads.has_untrusted,
        targets,
        reads: reads.texts.as_ref().map(|texts| texts.latest_untrusted(MAX_CARD_READS)).unwrap_or_default(),
        values: values.collect(),
    }
}
