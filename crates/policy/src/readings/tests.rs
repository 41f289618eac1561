use serde_json::json;

use crate::{Action, Arguments, Asked, Decision, Effects, Policy, Reading};

fn decide(rule: &str, arguments: &serde_json::Value) -> Decision {
    let policy = Policy::read(&format!("[[rule]]\n{rule}"), &Reading::at_home("/home/me"));
    let policy = policy.unwrap_or_else(|error| panic!("{rule}: {error}"));
    let arguments = Arguments::read(&arguments.to_string()).unwrap();
    let asked = Asked::new("s", Action::tool("t", Effects::unknown(), &arguments));
    // What no rule fits is asked about; a permission in front shows what passes.
    policy.decide(&asked, jiff::Timestamp::now()).decision
}

/// The decision of a denial with a permission for everything below it.
fn past(places: &str, text: &str, name: &str) -> Decision {
    let rule = format!("decide = 'deny'\ndestinations = [{places}]\n[[rule]]\ndecide = 'allow'");
    decide(&rule, &json!({ name: text }))
}

#[test]
fn no_spelling_of_a_host_passes_a_denial() {
    for text in [
        "http://good.example\\@evil.example:17999/x",
        "http://evil.example\\@good.example/",
        "evil.example",
        "evil.example:5432",
        "evil。example",
        "ｅｖｉｌ．ｅｘａｍｐｌｅ",
        "http://ev\til.example/",
        "http:evil.example",
        "http:/evil.example/x",
        "http:///evil.example",
        "//evil.example",
        "\\\\evil.example\\share",
        "http://evil%2eexample/",
        "http://evil.example./",
        "view-source:https://evil.example/",
        "git+ssh://git@evil.example/x",
        "git@evil.example:x/y",
        "jar:https://evil.example/x.jar!/y",
        "https://good.example/?u=https://evil.example",
        "good.example,evil.example",
        "good.example evil.example",
        "{\"a\":[\"evil.\\u0065xample\"]}",
        "curl e\"vil\".example",
        "http://{good,evil}.example/",
        "file://evil.example/etc/hosts",
        "evil.exam\u{200b}ple",
        "http://me:a@b@evil.example/",
        "http://evil.example:80@good.example/",
        "http://[::1]@evil.example/",
        "$(echo evil).example",
        "http://$h/",
    ] {
        assert_ne!(past("'evil.example'", text, "target"), Decision::Allow, "{text}");
        let permit = "decide = 'allow'\ndestinations = ['good.example']";
        let both = json!({ "x": text, "referer": "https://good.example/" });
        assert_ne!(decide(permit, &both), Decision::Allow, "{text}");
        let named = "decide = 'allow'\narguments.x = { host = 'good.example' }";
        assert_ne!(decide(named, &both), Decision::Allow, "{text}");
    }
}

#[test]
fn no_form_of_an_address_passes_a_denial() {
    for text in [
        "http://[::ffff:10.0.0.5]/",
        "http://[::ffff:a00:5]:80/",
        "http://[64:ff9b::a00:5]/",
        "http://10.5",
        "http://0xa000005/",
        "http://167772165/",
        "http://012.0.0.5/",
        "10.0.5",
        "0x0a.0.0.0x5",
        "http://10.0.0.5:80\\x",
    ] {
        assert_ne!(past("'10.0.0.5'", text, "x"), Decision::Allow, "{text}");
    }
    for text in [
        "http://0/",
        "0.0.0.0",
        "localhost",
        "http://a.localhost/",
        "[::]",
        "127.1",
        "::ffff:7f00:1",
        "[fe80::1%25lo]127.1",
    ] {
        assert_ne!(past("'127.0.0.1'", text, "x"), Decision::Allow, "{text}");
    }
}

#[test]
fn no_spelling_of_a_path_passes_a_denial() {
    for text in [
        "/proc/self/root/home/me/.ssh/id",
        "/proc/1234/cwd",
        "/proc/self/root/proc/self/root/home/me/.ssh",
        "/dev/fd/3",
        "git+file:///home/me/.ssh/x",
        "jar:file:/home/me/.ssh/x.jar!/y",
        "${HOME:-x}/.ssh",
        "$HOME/.ssh/id",
        "%USERPROFILE%\\.ssh\\id",
        "~/.ss\"h\"/id",
        "~/.s?h/id",
        "~/{.ssh,x}/id",
        "~/.[s]sh/id",
        "/home/*/.ssh/id",
        "$(pwd)/.ssh/id",
        "`pwd`/.ssh",
        "／home／me／.ssh",
        "/home/me/．ssh/id",
        "/home/me/x/../.ssh",
        "//home/me/.ssh",
        "cat <~/.ssh/id",
        "$'\\x2fhome/me/.ssh'",
        "file:%2Fhome/me/.ssh",
        "\\u002fhome\\u002fme\\u002f.ssh",
        ".ssh",
        "C:/x;/home/me/.ssh",
        "/home/me/.ssh./id",
        "/home/me/.ssh\u{0}",
        "x=/home/me/.ssh",
        "--key=~/.ssh/id",
        "-I/home/me/.ssh",
        "/a:/home/me/.ssh",
    ] {
        assert_ne!(past("'~/.ssh'", text, "x"), Decision::Allow, "{text}");
        let permit = "decide = 'allow'\ndestinations = ['~/work']";
        assert_ne!(decide(permit, &json!({ "x": text, "y": "/home/me/work/a" })), Decision::Allow, "{text}");
        let named = "decide = 'allow'\narguments.x = { under = '~/work' }";
        assert_ne!(decide(named, &json!({ "x": text })), Decision::Allow, "{text}");
    }
}

#[test]
fn ordinary_texts_are_not_denied() {
    for text in [
        "a sentence, with some words.",
        "https://good.example/home/me/index.html",
        "src/main.rs",
        "and/or",
        "see https://good.example/a (and b).",
        "2026-06-01T12:00:00Z",
        "costs $5.00",
        "/home/me/work/notes.txt",
    ] {
        assert_eq!(past("'evil.example', '~/.ssh', '10.0.0.5'", text, "x"), Decision::Allow, "{text}");
    }
}

#[test]
fn what_is_plain_is_permitted() {
    for text in [
        "https://good.example/a/b.html?x=1&y=2#z",
        "good.example",
        "good.example:8443",
        "me@good.example",
        "wss://good.example:9000/x",
        "postgres://me@good.example/db",
        "HTTPS://Good.Example/",
    ] {
        let named = "decide = 'allow'\narguments.x = { host = 'good.example' }";
        assert_eq!(decide(named, &json!({ "x": text, "y": "anything else" })), Decision::Allow, "{text}");
        let permit = "decide = 'allow'\ndestinations = ['good.example']";
        assert_eq!(decide(permit, &json!({ "x": text })), Decision::Allow, "{text}");
    }
    let named = "decide = 'deny'\narguments.x = { host = '*.good.example' }\n[[rule]]\ndecide = 'allow'";
    assert_eq!(decide(named, &json!({ "x": "https://a.good.example/" })), Decision::Deny);
    assert_eq!(decide(named, &json!({ "x": "https://other.example/" })), Decision::Allow);
}

#[test]
fn what_is_unclear_is_asked_about_each_time_with_the_reason() {
    let rules = "[[rule]]\ndecide = 'deny'\ndestinations = ['~/.ssh']\n[[rule]]\ndecide = 'allow'";
    let policy = Policy::read(rules, &Reading::at_home("/home/me")).unwrap();
    let arguments = Arguments::read(r#"{"command":"cat $(locate x)"}"#).unwrap();
    let asked = Asked::new("s", Action::tool("t", Effects::unknown(), &arguments));
    let verdict = policy.decide(&asked, jiff::Timestamp::now());
    assert_eq!((verdict.decision, verdict.may_remember), (Decision::Ask, false));
    let why = verdict.because.to_string();
    assert!(why.contains("rule 1 (line 1) denies: `arguments.command`: `$(` may be"), "{why}");
    // A permission says what was in its way.
    let permit =
        Policy::read("[[rule]]\ndecide = 'allow'\ndestinations = 'a.example'", &Reading::default()).unwrap();
    let arguments = Arguments::read(r#"{"to":"me@a.example","subject":"Hello you"}"#).unwrap();
    let asked = Asked::new("s", Action::tool("t", Effects::unknown(), &arguments));
    let shown = permit.explain(&asked, jiff::Timestamp::now()).to_string();
    assert!(shown.contains("`arguments.subject` is `Hello you`: readers differ"), "{shown}");
}

#[test]
fn texts_of_repeated_marks_end_with_an_answer() {
    for part in ["/../a", "$x{", "{a,b}", "a.b,", "[", "%2525", "\\x41", "((", "`", "\u{3002}x", "a=", "*?"] {
        let text = part.repeat(4_000 / part.len());
        let _decision = past("'evil.example', '~/.ssh'", &text, "x");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "(/|[.]{1,2}|%2e|~|\\\\|\u{200b}|\\$[({]?|[a-z]|[0-9]|:|@|\\[|\\]|\\{|\\}|`|,|é|。|\\PC){0,24}") {
        for rule in ["destinations = ['~/.ssh', 'evil.example']", "arguments.x = { host = 'a' }", "arguments.x = { under = '/a' }"] {
            for action in ["deny", "allow"] {
                decide(&format!("decide = '{action}'\n{rule}"), &json!({ "x": text }));
            }
        }
    }
}
