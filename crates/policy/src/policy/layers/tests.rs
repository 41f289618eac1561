use proptest::prelude::*;

use super::*;
use crate::{
    CallArguments, CallEffect, FlowLabels, KnownLabels, LabelSource, PolicyCaller, PolicyEnvironment,
    PolicyLayer, SessionFlow,
};

fn user(text: &str) -> Policy {
    Policy::read(text, &PolicyEnvironment::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn organization(text: &str) -> Policy {
    let environment = PolicyEnvironment::default().of_layer(PolicyLayer::Organization);
    Policy::read(text, &environment).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

fn verdict(policy: &Policy, server: &str, name: &str, effects: ToolEffectSet) -> PolicyVerdict {
    let arguments = CallArguments::none();
    let asked = PolicyRequest::new(server, PolicyAction::tool(name, effects, &arguments));
    let verdict = policy.decide(&asked, now());
    assert_eq!(policy.explain(&asked, now()).verdict, verdict, "the explanation explains what is decided");
    verdict
}

fn decided(own: &str, higher: &str) -> (PolicyDecision, String) {
    let verdict = verdict(&user(own).below(organization(higher)), "mail", "send", ToolEffectSet::unknown());
    (verdict.decision, verdict.because.to_string())
}

fn rule(decide: &str) -> String {
    format!("[[rule]]\ndecide = '{decide}'\n")
}

/// A permission of a group is a permission of the file that has it.
#[test]
fn a_rule_for_a_group_loosens_nothing_of_the_organisation() {
    use PolicyDecision::{Allow, Ask, Deny};
    let groups = ["staff".to_owned()];
    let decided = |own: &str, higher: &str| {
        let policy = user(own).below(organization(higher));
        let arguments = CallArguments::none();
        let action = PolicyAction::tool("send", ToolEffectSet::unknown(), &arguments);
        let asked = PolicyRequest::new("mail", action);
        let asked = asked.with_caller(PolicyCaller::new(None, Some("ann"), &groups));
        policy.decide(&asked, now()).decision
    };
    let of = |decide: &str, group: &str| format!("{}group = '{group}'\n", rule(decide));
    for (own, higher, decision) in [
        (of("allow", "staff"), rule("ask"), Ask),
        (of("allow", "staff"), of("deny", "staff"), Deny),
        (of("allow", "staff"), of("deny", "it"), Allow),
        // An exception of the organisation is one of its own rules.
        (rule("allow"), of("allow", "staff") + &rule("deny"), Allow),
        (rule("allow"), of("allow", "it") + &rule("deny"), Deny),
        (of("allow", "staff"), rule("ask") + "delegable = true\n", Allow),
        (of("allow", "it") + &rule("ask"), rule("ask") + "delegable = true\n", Ask),
    ] {
        assert_eq!(decided(&own, &higher), decision, "{own}\n{higher}");
    }
}

#[test]
fn the_strictest_rule_decides_and_says_whose_it_is() {
    use PolicyDecision::{Allow, Ask, Deny};
    let named = "[[rule]]\ndecide = 'deny'\nserver = 'x'\n[[rule]]\nname = 'no mail'\ndecide = 'deny'\nreason = 'not here'\n";
    assert_eq!(
        decided(&rule("allow"), named),
        (Deny, "organisation's rule 2 (line 4) `no mail`: not here".to_owned())
    );
    let (own, theirs) = ("rule 1 (line 1)".to_owned(), "organisation's rule 1 (line 1)".to_owned());
    for (user, organization, decision, by) in [
        ("deny", "allow", Deny, &own),
        ("deny", "ask", Deny, &own),
        ("ask", "allow", Ask, &own),
        ("allow", "ask", Ask, &theirs),
        ("allow", "deny", Deny, &theirs),
        ("ask", "ask", Ask, &theirs),
        ("deny", "deny", Deny, &theirs),
        ("allow", "allow", Allow, &own),
    ] {
        assert_eq!(
            decided(&rule(user), &rule(organization)),
            (decision, by.clone()),
            "{user} below {organization}"
        );
    }
    // A layer without a matching rule: the organisation's constrains nothing, and the user's default is the user's.
    let elsewhere = "[[rule]]\ndecide = 'deny'\nserver = 'x'\n";
    assert_eq!(decided(&rule("allow"), elsewhere), (Allow, own));
    assert_eq!(decided(elsewhere, &rule("allow")).0, Ask);
    assert_eq!(decided("preset = 'open'", &rule("allow")), (Allow, theirs));
}

#[test]
fn the_conditions_of_all_layers_hold_for_an_approval() {
    let asks = |own: &str, higher: &str| {
        let (own, higher) = (format!("[[rule]]\n{own}"), format!("[[rule]]\n{higher}"));
        let policy = user(&own).below(organization(&higher));
        let verdict = verdict(&policy, "mail", "send", ToolEffectSet::unknown());
        (verdict.may_remember, verdict.strong, verdict.review)
    };
    let ask = "decide = 'ask'";
    for (own, higher, expected) in [
        (ask, ask, (true, false, false)),
        (ask, "decide = 'ask'\nremember = false", (false, false, false)),
        ("decide = 'ask'\nremember = false", ask, (false, false, false)),
        ("decide = 'allow'", ask, (true, false, false)),
        ("decide = 'allow'", "decide = 'ask'\nremember = false", (false, false, false)),
        (ask, "decide = 'ask'\nstrong = true", (true, true, false)),
        ("decide = 'ask'\nstrong = true", ask, (true, true, false)),
        ("decide = 'allow'", "decide = 'allow'\nreview = true", (false, false, true)),
        ("decide = 'ask'\nreview = true", "decide = 'allow'", (true, false, true)),
        ("decide = 'deny'", "decide = 'allow'\nreview = true", (false, false, false)),
    ] {
        assert_eq!(asks(own, higher), expected, "{own} below {higher}");
    }
}

/// Approvers of the organisation are neither replaced nor joined by others.
#[test]
fn whoever_decides_is_named_by_each_layer_that_names_approvers() {
    let approvers = |own: &str, higher: &str| {
        let policy = user(own).below(organization(higher));
        let verdict = verdict(&policy, "mail", "send", ToolEffectSet::unknown());
        assert_eq!(verdict.strong && !verdict.may_remember, verdict.approvers.is_some());
        verdict.approvers.map(|named| (named.to_string(), named.excludes_requester()))
    };
    let finance = rule("ask") + "approver = ['finance']\n";
    let not_self = rule("ask") + "approver = ['finance']\nnot_self = true\n";
    let legal = rule("ask") + "approver = 'legal'\n";
    let named = |text: &str, not_self| Some((text.to_owned(), not_self));
    for (own, higher, expected) in [
        (rule("allow"), finance.clone(), named("`finance`", false)),
        (rule("ask"), finance.clone(), named("`finance`", false)),
        (String::new(), finance.clone(), named("`finance`", false)),
        (legal.clone(), finance.clone(), named("`finance`, and of `legal`", false)),
        (finance.clone(), not_self.clone(), named("`finance`", true)),
        (not_self, finance.clone(), named("`finance`", true)),
        (finance.clone(), rule("ask"), named("`finance`", false)),
        (finance.clone(), rule("allow"), named("`finance`", false)),
        (finance.clone(), rule("deny"), None),
        (rule("deny"), finance.clone(), None),
        (rule("ask"), finance + "delegable = true\n", None),
    ] {
        assert_eq!(approvers(&own, &higher), expected, "{own} below {higher}");
    }
}

#[test]
fn a_delegable_rule_is_loosened_by_a_rule_and_by_no_default() {
    let higher = "[[rule]]\ndecide = 'deny'\ndelegable = true\n";
    let allowed = decided(&rule("allow"), higher);
    assert_eq!(allowed, (PolicyDecision::Allow, "rule 1 (line 1)".to_owned()));
    assert_eq!(decided("preset = 'open'\n", higher).0, PolicyDecision::Deny);
    assert_eq!(decided("[[rule]]\ndecide = 'allow'\nserver = 'x'\n", higher).0, PolicyDecision::Deny);
    // Only an organisation can delegate, and only what restricts.
    for (text, environment, what) in [
        (higher, PolicyEnvironment::default(), "it applies only to rules of an organisation's policy file"),
        (
            "[[rule]]\ndecide = 'allow'\ndelegable = true\n",
            PolicyEnvironment::default().of_layer(PolicyLayer::Organization),
            "restricts nothing",
        ),
    ] {
        let error = Policy::read(text, &environment).expect_err(text).to_string();
        assert!(error.contains("`delegable`: ") && error.contains(what), "{error}");
    }
}

#[test]
fn an_explanation_has_what_both_layers_say() {
    let policy = user(&rule("allow")).below(organization("[[rule]]\ndecide = 'deny'\nname = 'closed'\n"));
    let arguments = CallArguments::none();
    let asked = PolicyRequest::new("mail", PolicyAction::tool("send", ToolEffectSet::unknown(), &arguments));
    let explained = policy.explain(&asked, now());
    assert_eq!(
        explained.to_string(),
        "organisation's rule 1 (line 1) `closed`: fits\nrule 1 (line 1): fits\n\
         deny: organisation's rule 1 (line 1) `closed`"
    );
    let higher = explained.organization.unwrap();
    assert_eq!(higher.binding_decision(), Some(PolicyDecision::Deny));
    assert_eq!(higher.verdict.unwrap().decision, PolicyDecision::Deny);
    assert_eq!(higher.user.unwrap().decision, PolicyDecision::Allow);
    assert_eq!(explained.verdict.because.layer(), Some(PolicyLayer::Organization));
}

#[test]
fn without_a_layer_of_the_user_the_organisation_decides_alone() {
    let alone = Policy::alone(organization(
        "preset = 'cautious'\nplans = true\ntrusted = ['git']\nown = ['me@x.example']\n[[rule]]\ndecide = 'deny'\nserver = 'mail'\n",
    ));
    assert_eq!(
        verdict(&alone, "mail", "send", ToolEffectSet::unknown()).because.layer(),
        Some(PolicyLayer::Organization)
    );
    assert_eq!(verdict(&alone, "x", "y", ToolEffectSet::unknown()).decision, PolicyDecision::Allow);
    assert_eq!((alone.preset(), alone.data_flow()), (Some(Preset::Cautious), DataFlowPolicy::Off));
    assert!(alone.allows_plans() && alone.trusts("git") && alone.is_own(|own| own == "me@x.example"));
    let strict = Policy::alone(organization(""));
    assert_eq!(verdict(&strict, "x", "y", ToolEffectSet::unknown()).decision, PolicyDecision::Ask);
    assert_eq!(strict.data_flow(), DataFlowPolicy::Ask);
}

#[test]
fn settings_can_only_be_tightened() {
    let of = |own: &str, higher: &str| user(own).below(organization(higher));
    for (own, higher, preset, flow) in [
        ("preset = 'open'", "preset = 'balanced'", Some(Preset::Balanced), DataFlowPolicy::Off),
        ("preset = 'cautious'", "preset = 'open'", Some(Preset::Cautious), DataFlowPolicy::Off),
        ("", "preset = 'open'", Some(Preset::Open), DataFlowPolicy::Ask),
        ("preset = 'open'", "", Some(Preset::Open), DataFlowPolicy::Off),
        ("preset = 'open'", "data_flow = 'ask'", Some(Preset::Open), DataFlowPolicy::Ask),
        ("data_flow = 'strong'", "data_flow = 'off'", None, DataFlowPolicy::Strong),
        ("data_flow = 'off'", "data_flow = 'strong'", None, DataFlowPolicy::Strong),
    ] {
        let policy = of(own, higher);
        assert_eq!((policy.preset(), policy.data_flow()), (preset, flow), "{own} below {higher}");
    }
    assert_eq!(
        user("preset = 'open'").without_preset().below(organization("preset = 'balanced'")).preset(),
        Some(Preset::Balanced),
        "an option of the user removes none of the organisation"
    );
    // The setting is what weighs a session.
    let open = FlowLabels { private: false, untrusted: true, outbound: true, effect: CallEffect::None };
    let flow = || SessionFlow::new(vec!["files".to_owned()], vec!["web".to_owned()]);
    let strong = of("data_flow = 'off'\n[[rule]]\ndecide = 'allow'\n", "data_flow = 'strong'");
    let weighed =
        strong.apply_data_flow(verdict(&strong, "web", "get", ToolEffectSet::unknown()), open, flow());
    assert_eq!((weighed.decision, weighed.strong), (PolicyDecision::Ask, true));

    let plans = "preset = 'open'\nplans = true";
    assert!(of(plans, "").allows_plans() && !of(plans, "plans = false").allows_plans());
    assert!(!of("preset = 'open'", plans).allows_plans());

    assert!(of("", "trusted = ['git']").trusts("git") && of("trusted = ['git']", "").trusts("git"));
    assert!(!of("trusted = ['git']", "trusted = []").trusts("git"));
    assert!(!of("trusted = []", "trusted = ['git']").trusts("git") && !of("", "").trusts("git"));
    let is_me = |policy: &Policy| policy.is_own(|own| own == "me");
    assert!(is_me(&of("own = ['me']", "")) && is_me(&of("", "own = ['me']")));
    assert!(is_me(&of("own = ['me', 'a']", "own = ['me', 'b']")) && !is_me(&of("", "")));
    assert!(!is_me(&of("own = ['me']", "own = []")) && !is_me(&of("own = []", "own = ['me']")));

    assert!(of("built_in_labels = false", "built_in_labels = true").uses_built_in_labels());
    assert!(!of("preset = 'open'", "built_in_labels = false").uses_built_in_labels());
    assert!(of("", "preset = 'open'").uses_built_in_labels());
}

#[test]
fn each_layer_believes_annotations_by_its_own_list() {
    let harmless = ToolEffectSet {
        read_only: true,
        destructive: false,
        idempotent: true,
        open_world: false,
        says_destructive: false,
    };
    let reading = "[[rule]]\ndecide = 'allow'\neffects = { read_only = true }\n[[rule]]\ndecide = 'deny'\n";
    let trusting = format!("trusted = ['git']\n{reading}");
    let decision = |own: &str, higher: &str| {
        verdict(&user(own).below(organization(higher)), "git", "log", harmless).decision
    };
    assert_eq!(decision(&trusting, &trusting), PolicyDecision::Allow);
    assert_eq!(decision(&trusting, reading), PolicyDecision::Deny);
    assert_eq!(decision(reading, &trusting), PolicyDecision::Deny);
}

#[test]
fn a_label_of_the_organisation_is_only_raised() {
    let arguments = CallArguments::none();
    let asked = PolicyRequest::new("mail", PolicyAction::tool("get", ToolEffectSet::unknown(), &arguments));
    let label = |text: &str| format!("[[label]]\nserver = 'mail'\n{text}\n");
    let labels = |own: &str, higher: &str| {
        let policy = user(&label(own)).below(organization(&label(higher)));
        let (labels, sources) = policy.labels_with_sources(&asked, KnownLabels::default());
        ((labels.private, sources.private.to_string()), (labels.effect, sources.effect.to_string()))
    };
    let (theirs, own) = ("organisation's label 1 (line 1)".to_owned(), "label 1 (line 1)".to_owned());
    for (user, organization, private, by) in [
        ("private = false", "private = true", true, &theirs),
        ("private = true", "private = false", true, &own),
        ("private = false", "private = false", false, &theirs),
        ("outbound = false", "private = true", true, &theirs),
        ("private = true", "outbound = false", true, &own),
    ] {
        assert_eq!(labels(user, organization).0, (private, by.clone()), "{user} below {organization}");
    }
    for (user, organization, effect, by) in [
        ("effect = 'none'", "effect = 'irreversible'", CallEffect::Irreversible, &theirs),
        ("effect = 'irreversible'", "effect = 'none'", CallEffect::Irreversible, &own),
    ] {
        assert_eq!(labels(user, organization).1, (effect, by.clone()), "{user} below {organization}");
    }
    let policy = user(&label("targets = ['a']\nuntrusted_fields = ['b']"))
        .below(organization(&label("targets = ['c']\neffect = 'none'")));
    let described = policy.describe(&asked, KnownLabels::default());
    assert_eq!(described.targets.as_deref(), Some(&["c".to_owned()][..]));
    assert_eq!(described.untrusted_fields.as_deref(), Some(&["b".to_owned()][..]));
    assert!(described.is_described);
    let source = policy.labels_with_sources(&asked, KnownLabels::default()).1.effect;
    assert!(matches!(source, LabelSource::Organization(place) if place.line == 1));
}

#[test]
fn a_host_that_a_rule_names_is_named_by_the_organisation_too() {
    let arguments = CallArguments::read(r#"{ "url": "http://169.254.169.254/latest" }"#).unwrap();
    let asked = PolicyRequest::new("web", PolicyAction::tool("get", ToolEffectSet::unknown(), &arguments));
    let naming = "[[rule]]\ndecide = 'allow'\ndestinations = ['169.254.169.254']\n";
    let delegating = "[[rule]]\ndecide = 'ask'\ndelegable = true\n";
    for (own, higher, named) in [
        (naming, naming, true),
        (naming, "", true),
        (naming, "[[rule]]\ndecide = 'allow'\n", false),
        ("[[rule]]\ndecide = 'allow'\n", naming, false),
        ("", naming, false),
        (naming, delegating, true),
    ] {
        let policy = user(own).below(organization(higher));
        assert_eq!(policy.allows_host(&asked, "169.254.169.254", now()), named, "{own} below {higher}");
    }
    assert!(Policy::alone(organization(naming)).allows_host(&asked, "169.254.169.254", now()));
}

#[test]
fn the_version_covers_both_layers() {
    let of = |own: &str, higher: &str| *user(own).below(organization(higher)).version();
    let both = of("", "");
    assert_eq!(both, of("", ""));
    assert_ne!(both, of("plans = true", ""));
    assert_ne!(both, of("", "plans = true"));
    assert_ne!(both, *user("").version());
    assert_ne!(of("plans = true", "plans = false"), of("plans = false", "plans = true"));
}

/// Text of a random policy over few names, so that rules of two policies often match the same request.
fn policy_text(is_organization: bool) -> impl Strategy<Value = String> {
    let word = |key: &'static str, words: &'static [&'static str]| {
        prop::option::of(prop::sample::select(words)).prop_map(move |word| match word {
            Some(word) => format!("{key} = {word}\n"),
            None => String::new(),
        })
    };
    let rule = (
        prop::sample::select(&["allow", "ask", "deny"][..]),
        word("server", &["'a'", "'b'"]),
        word("tool", &["'x'", "'y*'"]),
        word("effects", &["{ read_only = true }", "{ destructive = true }"]),
        word("strong", &["true"]),
        word("remember", &["false"]),
        word("review", &["true"]),
        word("delegable", &["true"]),
        word("approver", &["'f'", "'l'", "'f'\nnot_self = true"]),
    );
    let rule = rule.prop_map(
        move |(decide, server, tool, effects, strong, remember, review, delegable, approver)| {
            let mut text = format!("[[rule]]\ndecide = '{decide}'\n{server}{tool}{effects}");
            if decide == "ask" {
                text += &format!("{strong}{remember}{approver}");
            }
            if decide != "deny" {
                text += &review;
            }
            if is_organization && (decide != "allow" || !review.is_empty()) {
                text += &delegable;
            }
            text
        },
    );
    let top = (word("trusted", &["['a']", "['a', 'b']"]), word("preset", &["'open'", "'cautious'"]));
    (top, prop::collection::vec(rule, 0..4))
        .prop_map(|((trusted, preset), rules)| format!("{trusted}{preset}{}", rules.concat()))
}

proptest! {
    /// The verdict of two layers is never looser than that of the user's policy, and, unless its rule is delegated, never
    /// looser than that of the organisation's rule.
    #[test]
    fn two_layers_are_never_looser_than_one(
        own in policy_text(false),
        higher in policy_text(true),
        server in prop::sample::select(&["a", "b", "c"][..]),
        name in prop::sample::select(&["x", "y1", "z"][..]),
        read_only: bool,
        open_world: bool,
    ) {
        let effects = ToolEffectSet {
            read_only,
            destructive: !read_only,
            idempotent: read_only,
            open_world,
            says_destructive: false,
        };
        let (own, higher) = (user(&own), organization(&higher));
        let arguments = CallArguments::none();
        let asked = PolicyRequest::new(server, PolicyAction::tool(name, effects, &arguments));
        let both = own.clone().below(higher.clone());
        let (of_both, of_own) = (verdict(&both, server, name, effects), own.decide(&asked, now()));
        let of_higher = higher.explain(&asked, now());
        let deciding = |steps: &[RuleEvaluation<'_>]| {
            steps.last().filter(|step| step.miss.is_none()).map(|step| step.rule.is_delegable())
        };
        let is_delegated = deciding(&of_higher.steps) == Some(true)
            && deciding(&own.explain(&asked, now()).steps).is_some();
        let bounds = [
            Some(&of_own),
            Some(&of_higher.verdict).filter(|_| deciding(&of_higher.steps).is_some() && !is_delegated),
        ];
        for bound in bounds.into_iter().flatten() {
            prop_assert!(of_both.decision >= bound.decision, "{of_both:?} is looser than {bound:?}");
            if of_both.decision != PolicyDecision::Deny {
                prop_assert!(of_both.strong >= bound.strong && of_both.review >= bound.review, "{of_both:?} {bound:?}");
            }
            if bound.decision == PolicyDecision::Ask && !bound.may_remember {
                prop_assert!(!of_both.may_remember, "{of_both:?} remembers unlike {bound:?}");
            }
            for (groups, is_requester) in [(&[][..], false), (&["f"], false), (&["f"], true), (&["l"], true), (&["f", "l"], true)] {
                let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
                let decides = |verdict: &PolicyVerdict| {
                    let named = verdict.approvers.as_ref().map(|named| named.deciding_groups(&groups, is_requester));
                    named.map_or(is_requester, |deciding| deciding.is_some())
                };
                if of_both.decision == PolicyDecision::Ask && bound.approvers.is_some() {
                    prop_assert!(decides(bound) || !decides(&of_both), "{of_both:?} is decided by others than {bound:?}");
                }
            }
        }
        prop_assert!(both.preset().is_some() == (own.preset().is_some() || higher.preset().is_some()));
    }
}
