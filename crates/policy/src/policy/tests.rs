use jiff::Timestamp;

use super::*;
use crate::action::{PolicyCaller, PolicyRequest};
use crate::arguments::CallArguments;

const TRUSTING: &str = "trusted = ['git']\n";

fn policy(text: &str) -> Policy {
    Policy::read(text, &PolicyEnvironment::at_home("/home/me")).unwrap_or_else(|error| panic!("{error}"))
}

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

fn effects(read_only: bool, destructive: bool, open_world: bool) -> ToolEffectSet {
    ToolEffectSet { read_only, destructive, idempotent: read_only, open_world, says_destructive: false }
}

fn tool<'a>(
    server: &'a str,
    name: &'a str,
    effects: ToolEffectSet,
    arguments: &'a CallArguments,
) -> PolicyRequest<'a> {
    PolicyRequest::new(server, PolicyAction::tool(name, effects, arguments))
}

fn decided(policy: &Policy, asked: &PolicyRequest<'_>) -> (PolicyDecision, String) {
    let verdict = policy.decide(asked, now());
    assert_eq!(policy.explain(asked, now()).verdict, verdict, "the explanation explains what is decided");
    (verdict.decision, verdict.because.to_string())
}

/// Without rules, nothing that may change or reach something happens without asking. Annotations of a tool count only
/// if the user trusts the server.
///
/// covers: HOST-10 TOOL-29 TOOL-31
#[test]
fn without_rules_only_a_trusted_servers_harmless_tool_is_not_asked_about() {
    let policy = policy(TRUSTING);
    let none = CallArguments::none();
    for trusted in [true, false] {
        for bits in 0..8 {
            let said = effects(bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            let asked = tool(if trusted { "git" } else { "shady" }, "x", said, &none);
            let verdict = policy.decide(&asked, now());
            let harmless = trusted && said.read_only && !said.open_world;
            assert_eq!(verdict.decision == PolicyDecision::Allow, harmless, "{trusted} {said:?}");
            assert_ne!(verdict.decision, PolicyDecision::Deny);
            let dangerous = !trusted || said.destructive && said.open_world;
            assert_eq!(verdict.may_remember, !harmless && !dangerous, "{trusted} {said:?}");
        }
    }
}

#[test]
fn what_a_server_wants_of_a_person_is_asked_about_and_what_the_application_fetches_is_not() {
    let policy = Policy::without_rules();
    for (action, decision) in [
        (PolicyAction::Sampling, PolicyDecision::Ask),
        (PolicyAction::Roots, PolicyDecision::Ask),
        (PolicyAction::Elicitation, PolicyDecision::Allow),
        (PolicyAction::Prompt { name: "p" }, PolicyDecision::Allow),
        (PolicyAction::Resource { uri: "a://b" }, PolicyDecision::Allow),
    ] {
        assert_eq!(decided(&policy, &PolicyRequest::new("s", action)).0, decision);
    }
}

/// A caller whose groups are not known must never get what a group may do.
#[test]
fn a_rule_for_groups_holds_for_their_members_alone() {
    let policy = policy(
        "[[rule]]
         decide = 'deny'
         group = 'blocked'
         [[rule]]
         decide = 'allow'
         server = 'mail'
         group = ['staff', 'team-*']
         [[rule]]
         decide = 'ask'",
    );
    let none = CallArguments::none();
    let of = |groups: &[&str]| {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let asked = tool("mail", "send", ToolEffectSet::unknown(), &none);
        let caller = PolicyCaller::new(Some("app"), Some("ann"), &groups);
        decided(&policy, &asked.with_caller(caller)).0
    };
    for members in [&["staff"][..], &["guests", "staff"], &["team-a"]] {
        assert_eq!(of(members), PolicyDecision::Allow, "{members:?}");
    }
    // What is not exactly the group has no permission of it.
    for others in [
        &[][..],
        &[""],
        &["guests"],
        &["Staff"],
        &["staff "],
        &["st%61ff"],
        &["team-a/b"],
        &["team-\u{200b}a"],
    ] {
        assert_eq!(of(others), PolicyDecision::Ask, "{others:?}");
    }
    // In doubt a prohibition holds.
    for blocked in [&["staff", "blocked"][..], &["blocked"], &["Blocked", "staff"]] {
        assert_eq!(of(blocked), PolicyDecision::Deny, "{blocked:?}");
    }
    let said: Vec<_> = policy.rules().iter().map(super::PolicyRule::conditions).collect();
    assert_eq!(said[1][1], ("group".to_owned(), "`staff` or `team-*`".to_owned()));
    let asked = tool("mail", "send", ToolEffectSet::unknown(), &none);
    let explained = policy.explain(&asked, now());
    assert_eq!(explained.steps[1].miss.as_ref().unwrap().to_string(), "`group` is not `staff` or `team-*`");
    let found: Vec<_> = policy.rules_with_groups().iter().map(|part| part.line).collect();
    assert_eq!(found, [1, 4]);
}

#[test]
fn the_first_rule_that_fits_decides() {
    let policy = policy(
        r#"
        [[rule]]
        decide = "allow"
        server = "files"
        tool = "read_*"

        [[rule]]
        name = "no writing"
        decide = "deny"
        server = "files"
        reason = "this project is read-only"

        [[rule]]
        decide = "ask"
        "#,
    );
    let none = CallArguments::none();
    let of = |server, name| decided(&policy, &tool(server, name, ToolEffectSet::unknown(), &none));
    assert_eq!(of("files", "read_file"), (PolicyDecision::Allow, "rule 1 (line 2)".to_owned()));
    assert_eq!(
        of("files", "write_file"),
        (PolicyDecision::Deny, "rule 2 (line 7) `no writing`: this project is read-only".to_owned())
    );
    assert_eq!(of("other", "read_file"), (PolicyDecision::Ask, "rule 3 (line 13)".to_owned()));
    // A rule that names no kind is about all of them.
    assert_eq!(
        decided(&policy, &PolicyRequest::new("files", PolicyAction::Sampling)).0,
        PolicyDecision::Deny
    );
    assert_eq!(
        decided(&policy, &PolicyRequest::new("files", PolicyAction::Resource { uri: "file:///a" })).0,
        PolicyDecision::Deny
    );
}

#[test]
fn every_condition_of_a_rule_must_hold_and_the_first_that_does_not_is_told() {
    let policy = policy(
        r#"
        trusted = ["mail"]
        [[rule]]
        decide = "allow"
        server = "mail"
        tool = "send"
        application = "claude*"
        principal = "alice"
        effects = { open_world = true, destructive = false }
        arguments.to = "*@example.com"
        arguments."options.copies" = { at_most = 3 }
        destinations = "example.com"
        until = 2026-12-31
        "#,
    );
    let arguments = |to: &str, copies: u32| {
        CallArguments::read(&format!(r#"{{"to":"{to}","options":{{"copies":{copies}}}}}"#))
    };
    let good = arguments("me@example.com", 1).unwrap();
    let safe = effects(false, false, true);
    let asked = |name, application, principal, effects, arguments| {
        tool("mail", name, effects, arguments).with_application(application).with_principal(principal)
    };
    let (claude, alice) = (Some("claude-desktop"), Some("alice"));
    let whole = asked("send", claude, alice, safe, &good);
    assert_eq!(decided(&policy, &whole).0, PolicyDecision::Allow);

    let (outside, many) = (arguments("me@evil.example", 1).unwrap(), arguments("me@example.com", 9).unwrap());
    for (asked, key) in [
        (asked("sent", claude, alice, safe, &good), "tool"),
        (asked("send", Some("cursor"), alice, safe, &good), "application"),
        (asked("send", None, alice, safe, &good), "application"),
        (asked("send", claude, None, safe, &good), "principal"),
        (asked("send", claude, alice, ToolEffectSet::unknown(), &good), "effects.destructive"),
        (asked("send", claude, alice, safe, &outside), "arguments.to"),
        (asked("send", claude, alice, safe, &many), "arguments.options.copies"),
    ] {
        assert_eq!(decided(&policy, &asked).0, PolicyDecision::Ask, "{key}");
        let explanation = policy.explain(&asked, now());
        assert_eq!(explanation.steps[0].miss.as_ref().map(|miss| miss.key.as_str()), Some(key));
    }
    let late: Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(policy.decide(&whole, late).decision, PolicyDecision::Ask);
    let last: Timestamp = "2026-12-31T23:59:59Z".parse().unwrap();
    assert_eq!(policy.decide(&whole, last).decision, PolicyDecision::Allow, "the day is included");
}

/// What nobody has seen is not allowed: an argument that no condition names.
#[test]
fn a_call_with_other_arguments_than_those_listed_is_not_allowed() {
    let rule = |decide: &str, others: &str| {
        policy(&format!(
            "[[rule]]\ndecide = '{decide}'\ntool = 't'\narguments.\"to.name\" = 'a'\nother_arguments = {others}"
        ))
    };
    let is_met = |policy: &Policy, arguments: &str| {
        let arguments = CallArguments::read(arguments).unwrap();
        let explanation = policy.explain(&tool("s", "t", ToolEffectSet::unknown(), &arguments), now());
        let miss = explanation.steps[0].miss.as_ref().map(|miss| miss.key.clone());
        assert!(miss.as_deref().is_none_or(|key| key == "other_arguments"), "{miss:?}");
        miss.is_none()
    };
    let (shown, more) = (r#"{"to":{"name":"a"}}"#, r#"{"to":{"name":"a"},"bcc":"x"}"#);
    let (empty, spelled) = (r#"{"to":{"name":"a"},"bcc":null}"#, r#"{"to":{"name":"a"},"BCC":"x"}"#);
    let none = rule("allow", "[]");
    assert!(is_met(&none, shown) && !is_met(&none, more) && !is_met(&none, empty));
    let one = rule("allow", "['bcc']");
    assert!(is_met(&one, shown) && is_met(&one, more) && is_met(&one, empty) && !is_met(&one, spelled));
    let denied = (rule("deny", "[]"), rule("deny", "['bcc']"));
    assert!(is_met(&denied.0, empty) && !is_met(&denied.0, more), "a lenient reader sees no `null`");
    assert!(is_met(&denied.1, spelled), "and no difference of case");
    let about = |policy: &Policy| policy.rules()[0].conditions().last().unwrap().clone();
    assert_eq!(about(&none), ("other_arguments".to_owned(), "none".to_owned()));
    assert_eq!(about(&one), ("other_arguments".to_owned(), "only `bcc`".to_owned()));
    let prompt = PolicyRequest::new("s", PolicyAction::Prompt { name: "p" });
    let bare = policy("[[rule]]\ndecide = 'allow'\nother_arguments = []");
    assert_eq!(bare.explain(&prompt, now()).steps[0].miss.as_ref().unwrap().key, "other_arguments");
}

/// A name is a text like any other: what hides in it earns no permission.
#[test]
fn a_tool_with_hidden_characters_in_its_name_gets_no_permission_by_a_wildcard() {
    let policy = policy("[[rule]]\ndecide = 'allow'\ntool = 'read*'");
    let none = CallArguments::none();
    assert_eq!(
        decided(&policy, &tool("s", "read_file", ToolEffectSet::unknown(), &none)).0,
        PolicyDecision::Allow
    );
    assert_eq!(
        decided(&policy, &tool("s", "read\u{200b}file", ToolEffectSet::unknown(), &none)).0,
        PolicyDecision::Ask
    );
}

/// Effects that are not believed cannot make a rule fit, and those that are not there at all cannot either.
#[test]
fn effects_of_a_rule_are_of_believed_tools_only() {
    let policy = policy("trusted = ['git']\n[[rule]]\ndecide = 'allow'\neffects = { read_only = true }");
    let none = CallArguments::none();
    let open = effects(true, false, true);
    assert_eq!(decided(&policy, &tool("git", "log", open, &none)).0, PolicyDecision::Allow);
    assert_eq!(decided(&policy, &tool("shady", "log", open, &none)).0, PolicyDecision::Ask);
    assert_eq!(decided(&policy, &PolicyRequest::new("git", PolicyAction::Sampling)).0, PolicyDecision::Ask);
}

#[test]
fn a_denial_by_destination_needs_one_and_a_permission_all() {
    let policy = policy(
        r#"
        [[rule]]
        decide = "deny"
        destinations = ["*.evil.example", "~/.ssh"]
        [[rule]]
        decide = "allow"
        destinations = ["example.com"]
        "#,
    );
    let of = |arguments: &str| {
        let arguments = CallArguments::read(arguments).unwrap();
        decided(&policy, &tool("s", "t", ToolEffectSet::unknown(), &arguments)).0
    };
    assert_eq!(of(r#"{"u":"https://example.com","v":"https://x.evil.example"}"#), PolicyDecision::Deny);
    assert_eq!(of(r#"{"u":"https://example.com","p":"~/.ssh/id"}"#), PolicyDecision::Deny);
    assert_eq!(of(r#"{"u":"https://example.com"}"#), PolicyDecision::Allow);
    assert_eq!(of(r#"{"u":"https://example.com","v":"https://example.org"}"#), PolicyDecision::Ask);
}

#[test]
fn a_resource_is_where_its_uri_points() {
    let policy = policy(
        "[[rule]]\ndecide = 'deny'\ndestinations = ['/etc', 'db.internal.example']\n\
         [[rule]]\ndecide = 'deny'\nresource = 'file:///srv/private/**'\n\
         [[rule]]\ndecide = 'ask'\nresource = '**'\ndestinations = '~/work'",
    );
    for (uri, decision) in [
        ("file:/etc/passwd", PolicyDecision::Deny),
        ("file://localhost/etc/passwd", PolicyDecision::Deny),
        ("FILE:///etc/passwd", PolicyDecision::Deny),
        ("file:////etc/passwd", PolicyDecision::Deny),
        ("memo:/etc/passwd", PolicyDecision::Deny),
        ("postgres://me@db.internal.example/x", PolicyDecision::Deny),
        ("file:/srv/private/x", PolicyDecision::Deny),
        ("FILE://localhost/SRV/PRIVATE/x", PolicyDecision::Deny),
        ("file:///home/me/work/x", PolicyDecision::Ask),
        ("memo:x", PolicyDecision::Allow),
    ] {
        assert_eq!(
            decided(&policy, &PolicyRequest::new("s", PolicyAction::Resource { uri })).0,
            decision,
            "{uri}"
        );
    }
}

#[test]
fn an_explanation_reads_from_top_to_bottom() {
    let policy = policy(
        "[[rule]]\nname = 'reads'\ndecide = 'allow'\ntool = ['read_*', 'list_*']\n[[rule]]\ndecide = 'deny'\nserver = 'f*'",
    );
    let none = CallArguments::none();
    let asked = tool("files", "write", ToolEffectSet::unknown(), &none);
    assert_eq!(
        policy.explain(&asked, now()).to_string(),
        "rule 1 (line 1) `reads`: `tool` is not `read_*` or `list_*`\n\
         rule 2 (line 5): fits\n\
         deny: rule 2 (line 5)"
    );
    let other = tool("other", "write", ToolEffectSet::unknown(), &none);
    assert!(
        policy
            .explain(&other, now())
            .to_string()
            .ends_with("ask: no rule matches: destructive open-world tools require approval each time")
    );
}

#[test]
fn arguments_with_two_readings_are_denied() {
    let error = CallArguments::read(r#"{"a":1,"a":2}"#).unwrap_err();
    let verdict = Policy::deny_unreadable(&error);
    assert_eq!(verdict.decision, PolicyDecision::Deny);
    assert!(verdict.because.to_string().contains("duplicate key `a`"));
}

#[test]
fn a_version_is_of_the_text() {
    assert_ne!(policy("").version(), policy(TRUSTING).version());
    assert_eq!(policy("").version(), Policy::without_rules().version());
}

#[test]
fn what_cannot_be_meant_is_a_mistake_with_its_place() {
    for (rule, what) in [
        ("decide = 'allow'\ntol = 'x'", "line 4, column 1: rule 1: unknown key `tol`; did you mean `tool`?"),
        ("decide = 'maybe'", "`decide`: unknown value `maybe`; expected one of `allow`, `ask`, `deny`"),
        ("tool = 'x'", "line 2, column 1: rule 1: `decide` is missing"),
        ("decide = 'allow'\ntool = []", "an empty list matches nothing"),
        ("decide = 'allow'\ntool = '[a'", "line 4, column 8: rule 1: `tool`: "),
        (
            "decide = 'allow'\ntool = 'a'\nprompt = 'b'",
            "a rule is about one of a tool, a prompt or a resource",
        ),
        ("decide = 'allow'\nprompt = 'a'\ndestinations = 'b'", "it applies only to tools and resources"),
        (
            "decide = 'allow'\nabout = 'roots'\ndestinations = 'b'",
            "`destinations` applies only to tools and resources",
        ),
        ("decide = 'deny'\ntool = 'a'\nabout = 'sampling'", "a rule with `tool` can only be about"),
        (
            "decide = 'allow'\nstrong = true",
            "it applies only to `decide = \"ask\"`, and the rule has `decide = \
                                             \"allow\"`",
        ),
        ("decide = 'deny'\nreview = true", "has no result to review"),
        ("decide = 'ask'\nnot_self = true", "`not_self`: it needs `approver`"),
        ("decide = 'ask'\napprover = []", "`approver`: an empty list"),
        ("decide = 'ask'\napprover = ['a', ' ']", "`approver`: expected names of groups"),
        ("decide = 'ask'\napprover = 'fin-*'", "`approver`: `fin-*` is a pattern"),
        ("decide = 'ask'\naprover = 'f'", "unknown key `aprover`; did you mean `approver`?"),
        ("decide = 'allow'\napprover = 'f'", "`approver`: it applies only to `decide = \"ask\"`"),
        ("decide = 'ask'\napprover = 'f'\nstrong = false", "`strong`: an approval by `approver`"),
        ("decide = 'ask'\napprover = 'f'\nremember = true", "`remember`: an approval by `approver`"),
        (
            "decide = 'ask'\napprover = 'f'\nabout = ['tool', 'sampling']",
            "`about`: `approver` applies only to tools, prompts and resources",
        ),
        ("decide = 'allow'\nuntil = 12:00:00", "expected an unquoted date"),
        (
            "decide = 'allow'\nother_arguments = []\narguments.'*' = 'x'",
            "`other_arguments`: it compares names, and the rule has a condition on `*`",
        ),
        (
            "decide = 'allow'\nprompt = 'p'\nother_arguments = []",
            "`other_arguments`: it applies only to tools, and the rule has `prompt`",
        ),
        (
            "decide = 'allow'\narguments.a = { under = 'x' }",
            "`arguments.a.under`: `x` is not an absolute path",
        ),
        ("decide = 'allow'\ndestinations = 'https://a'", "`destinations`: `https://a`: write only the host"),
    ] {
        let text = format!("# a comment\n[[rule]]\n{rule}\n");
        let error = Policy::read(&text, &PolicyEnvironment::default()).expect_err(rule).to_string();
        assert!(error.contains(what), "{rule}: {error}");
    }
}

/// All mistakes of a file are reported at once, in the order of the file and in its own terms.
#[test]
fn all_mistakes_are_reported_at_once() {
    let text = "trustd = ['git']\n\n[[rule]]\ndecide = 'alow'\ntol = 'x'\neffects = { readonly = true, destructive = 'no' }\n\
                arguments.path = { undr = '/a', longer_than = 'x' }\nuntil = '2026-12-31'\ntrusted = ['a']\n\n\
                [[rule]]\ndecide = 'deny'\nabout = ['tool', 'samplng']\nstrong = true\narguments.a.b = 'x'\n\n\
                [[label]]\nserver = 4\n";
    let error = Policy::read(text, &PolicyEnvironment::default()).unwrap_err();
    let said: Vec<String> = error.mistakes().iter().map(ToString::to_string).collect();
    let expected = [
        "line 1, column 1: unknown key `trustd`; did you mean `trusted`? Known here: `trusted`, `preset`, `plans`, `own`, `built_in_labels`, `data_flow`, `rule`, `label`",
        "line 4, column 10: rule 1: `decide`: unknown value `alow`; did you mean `allow`? Expected one of `allow`, `ask`, `deny`",
        "line 5, column 1: rule 1: unknown key `tol`; did you mean `tool`?",
        "line 6, column 13: rule 1: unknown key `effects.readonly`; did you mean `read_only`? Known here: `read_only`, \
         `destructive`, `idempotent`, `open_world`",
        "line 6, column 44: rule 1: `effects.destructive`: expected true or false, found a string",
        "line 7, column 20: rule 1: unknown key `arguments.path.undr`; did you mean `under`? Known here: `is`, `like`, `under`, \
         `host`, `at_least`, `at_most`, `regex`, `longer_than`, `present`",
        "line 7, column 47: rule 1: `arguments.path.longer_than`: expected a number, found a string",
        "line 8, column 9: rule 1: `until`: expected an unquoted date (`until = 2026-12-31`) or date-time with offset \
         (`until = 2026-12-31T18:00:00Z`), found a string",
        "line 9, column 1: rule 1: unknown key `trusted`; it belongs at the top of the file, above the first `[[rule]]`",
        "line 13, column 9: rule 2: `about`: unknown value `samplng`; did you mean `sampling`? Expected one of `tool`, `prompt`, \
         `resource`, `sampling`, `elicitation`, `roots`",
        "line 14, column 10: rule 2: `strong`: it applies only to `decide = \"ask\"`, and the rule has `decide = \
         \"deny\"`",
        "line 15, column 13: rule 2: unknown key `arguments.a.b`; to reach inside an argument, quote its path: `arguments.\"a.b\"`; \
         known here: `is`",
        "line 17, column 1: label 1: it sets none of `private`, `untrusted` and `outbound` (each true or false), `effect`, `untrusted_fields` and `targets`",
        "line 18, column 10: label 1: `server`: expected a quoted string, or a list of them, found a number",
    ];
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(expected), "{said}\n{expected}");
    }
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    assert!(error.to_string().starts_with("14 mistakes\n  line 1, column 1: "), "{error}");
    // Words of the file alone: no type of the program.
    for word in ["expected struct", "variant", "WrittenEffects", "toml::"] {
        assert!(!error.to_string().contains(word), "{word}: {error}");
    }
}

#[test]
fn mistakes_are_bounded_and_show_nothing_hidden() {
    let text = (0..200).map(|at| format!("\"k{at}\\u001b\" = 1\n")).collect::<String>();
    let error = Policy::read(&text, &PolicyEnvironment::default()).unwrap_err();
    assert_eq!((error.mistakes().len(), error.left_out()), (50, 150));
    assert!(!error.to_string().contains('\u{1b}'));
    let error = Policy::read("[[rule]\ndecide = \n", &PolicyEnvironment::default()).unwrap_err();
    assert!(
        error.mistakes().iter().all(|mistake| mistake.message.starts_with("not valid TOML: ")),
        "{error}"
    );
}

proptest::proptest! {
    /// More doubt never gives more permission: what is allowed by patterns over one argument means just what it says.
    #[test]
    fn what_is_allowed_is_below_what_was_allowed(path in "(/|[.]{1,2}|%2e|%2f|work|home|me|~|\\\\|\u{200b}){0,12}") {
        let policy = policy("[[rule]]\ndecide = 'allow'\narguments.p = { under = '~/work' }");
        let arguments = CallArguments::read(&serde_json::json!({ "p": path }).to_string()).unwrap();
        if policy.decide(&tool("s", "t", ToolEffectSet::unknown(), &arguments), now()).decision == PolicyDecision::Allow {
            let mut at: Vec<&str> = Vec::new();
            for part in path.split('/').filter(|part| !part.is_empty()) {
                proptest::prop_assert!(part != ".." && part != "." && !part.contains('%'));
                at.push(part);
            }
            proptest::prop_assert_eq!(&at[..3], &["home", "me", "work"][..]);
        }
    }
}

#[test]
fn a_host_is_named_by_the_deciding_rule_and_not_by_a_wildcard() {
    let arguments = CallArguments::read(r#"{ "url": "http://169.254.169.254/latest" }"#).unwrap();
    let asked = tool("web", "get", ToolEffectSet::unknown(), &arguments);
    let host = "169.254.169.254";
    for (rule, named) in [
        ("decide = 'allow'\ndestinations = ['169.254.169.254']", true),
        ("decide = 'allow'\ndestinations = ['169.254.169.254:80', 'example.com']", true),
        ("decide = 'allow'\ndestinations = ['169.254.169.*']", false),
        ("decide = 'allow'\ndestinations = ['**']", false),
        ("decide = 'allow'", false),
        ("decide = 'ask'\ndestinations = ['169.254.169.254']", false),
        ("decide = 'allow'\nserver = 'other'\ndestinations = ['169.254.169.254']", false),
        ("decide = 'ask'\n[[rule]]\ndecide = 'allow'\ndestinations = ['169.254.169.254']", false),
    ] {
        let policy = policy(&format!("[[rule]]\n{rule}"));
        assert_eq!(policy.allows_host(&asked, host, now()), named, "{rule}");
    }
}

#[test]
fn plans_need_the_key_and_a_preset() {
    let allows = |text: &str| Policy::read(text, &PolicyEnvironment::default()).unwrap().allows_plans();
    assert!(allows("preset = 'balanced'\nplans = true\n"));
    assert!(!allows("preset = 'balanced'\n"));
    assert!(!allows("preset = 'balanced'\nplans = false\n"));
    assert!(!allows("plans = true\n"));
    assert!(Policy::of_preset(Preset::Open).allows_plans());
    assert!(!Policy::of_preset(Preset::Open).without_preset().allows_plans());
    assert!(!Policy::without_rules().allows_plans());
    let error = Policy::read("preset = 'open'\nplans = 'yes'\n", &PolicyEnvironment::default()).unwrap_err();
    assert!(error.to_string().contains("`plans`: expected true or false"), "{error}");
}
