use serde_json::json;

use super::DestinationCandidates;
use super::candidates::{MAX_CANDIDATES, MAX_WORK};

use crate::{
    CallArguments, Policy, PolicyAction, PolicyDecision, PolicyEnvironment, PolicyRequest, ToolEffectSet,
};

fn decide(rule: &str, arguments: &serde_json::Value) -> PolicyDecision {
    let policy = Policy::read(&format!("[[rule]]\n{rule}"), &PolicyEnvironment::at_home("/home/me"));
    let policy = policy.unwrap_or_else(|error| panic!("{rule}: {error}"));
    let arguments = CallArguments::read(&arguments.to_string()).unwrap();
    let asked = PolicyRequest::new("s", PolicyAction::tool("t", ToolEffectSet::unknown(), &arguments));
    // What no rule fits is asked about; a permission in front shows what passes.
    policy.decide(&asked, jiff::Timestamp::now()).decision
}

/// The decision of a denial with a permission for everything below it.
fn past(places: &str, text: &str, name: &str) -> PolicyDecision {
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
        "http://evil.example%00.good.example/",
        "http://evil.example\0.good.example/",
        "http://{good,e{v}il}.example/",
    ] {
        assert_ne!(past("'evil.example'", text, "target"), PolicyDecision::Allow, "{text}");
        let permit = "decide = 'allow'\ndestinations = ['good.example']";
        let both = json!({ "x": text, "referer": "https://good.example/" });
        assert_ne!(decide(permit, &both), PolicyDecision::Allow, "{text}");
        let named = "decide = 'allow'\narguments.x = { host = 'good.example' }";
        assert_ne!(decide(named, &both), PolicyDecision::Allow, "{text}");
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
        "http://10.0.0.[4-6:1]/",
        "http://10.0.0.{5,6}/",
    ] {
        assert_ne!(past("'10.0.0.5'", text, "x"), PolicyDecision::Allow, "{text}");
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
        "http://[::ffff:0.0.0.0]/",
        "local%68ost:80",
        "ｌocalhost:80",
        "http://127.0.0.1:80:81/",
    ] {
        assert_ne!(past("'127.0.0.1'", text, "x"), PolicyDecision::Allow, "{text}");
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
        "/proc/123/c?d/id",
        "/pro[c]/123/fd/7",
        "~/.[[:alpha:]]sh/id",
        "/home/me/work/.?/.ssh/id",
        "d=..; cat ~/work/$d/.ssh/id",
        "vscode://file/home/me/.ssh/id",
        "https://good.example/home/me/.ssh/id",
        "https://good.example/../../home/me/.ssh/id",
    ] {
        assert_ne!(past("'~/.ssh'", text, "x"), PolicyDecision::Allow, "{text}");
        let permit = "decide = 'allow'\ndestinations = ['~/work']";
        assert_ne!(
            decide(permit, &json!({ "x": text, "y": "/home/me/work/a" })),
            PolicyDecision::Allow,
            "{text}"
        );
        let named = "decide = 'allow'\narguments.x = { under = '~/work' }";
        assert_ne!(decide(named, &json!({ "x": text })), PolicyDecision::Allow, "{text}");
    }
}

#[test]
fn a_url_inside_a_url_earns_no_permission_however_it_is_encoded() {
    for inner in [
        "http%3A%2F%2Fevil.example%2F",
        "%2F%2Fevil.example",
        "/%2Fevil.example",
        "%2F%5Cevil.example",
        "%5C%5Cevil.example",
        "https%3Aevil.example",
        "http:%2F%2Fevil.example",
        "http%253A%252F%252Fevil.example",
        "http%25253A%25252F%25252Fevil.example",
        "%2568ttp%3A//evil.example",
        "http%3A%0A%2F%2Fevil.example",
        "file%3A%2Fetc%2Fpasswd",
        "http%3A%2F%2F%65vil%2Eexample",
    ] {
        for text in [
            format!("https://good.example/?to={inner}"),
            format!("https://good.example/a?b=c&to={inner}#d"),
            format!("https://good.example/{inner}"),
        ] {
            for rule in ["destinations = 'good.example'", "arguments.x = { host = 'good.example' }"] {
                let permit = format!("decide = 'allow'\n{rule}");
                assert_ne!(decide(&permit, &json!({ "x": text })), PolicyDecision::Allow, "{text}");
            }
        }
    }
    for text in [
        "https://good.example/wiki/Caf%C3%A9",
        "https://good.example/a%20b?q=100%25&t=10%3A30",
        "https://good.example/?mail=me%40good.example&next=%2Fhome",
        "https://good.example/wiki/Talk:Rust",
    ] {
        let permit = "decide = 'allow'\ndestinations = 'good.example'";
        assert_eq!(decide(permit, &json!({ "x": text })), PolicyDecision::Allow, "{text}");
    }
}

#[test]
fn what_a_shell_makes_of_a_path_earns_no_permission() {
    let named = "decide = 'allow'\narguments.x = { under = '/home/me/work' }";
    for text in [
        "/home/me/work/a /home/me/.ssh/id",
        "/home/me/work/a;cat ~/.ssh/id",
        "/home/me/work/a,/etc/passwd",
        "/home/me/work/.\".\"/.ssh/id",
        "/home/me/work/.?/.ssh/id",
        "/home/me/work/.*/.ssh/id",
        "/home/me/work/{..,x}/.ssh/id",
        "/home/me/work/.''./.ssh/id",
        "/home/me/work/a --file=x",
    ] {
        assert_ne!(decide(named, &json!({ "x": text })), PolicyDecision::Allow, "{text}");
    }
    for text in [
        "/home/me/work/notes (final).txt",
        "/home/me/work/O'Hara, a \"letter\".txt",
        "/home/me/work/app/[id]/page.tsx",
        "/home/me/work/a&b=c.txt",
    ] {
        assert_eq!(decide(named, &json!({ "x": text })), PolicyDecision::Allow, "{text}");
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
        "https://good.example/%E6%97%A5%E6%9C%AC",
        "https://good.example/a%20b%20c",
        "../other/Cargo.toml",
        "src/*.ts",
        "2026-06-01T12:00:00+00:00",
        "^[a-z]+\\.(rs|toml)$",
        "[link](https://good.example/x)",
    ] {
        assert_eq!(past("'evil.example', '~/.ssh', '10.0.0.5'", text, "x"), PolicyDecision::Allow, "{text}");
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
        assert_eq!(
            decide(named, &json!({ "x": text, "y": "anything else" })),
            PolicyDecision::Allow,
            "{text}"
        );
        let permit = "decide = 'allow'\ndestinations = ['good.example']";
        assert_eq!(decide(permit, &json!({ "x": text })), PolicyDecision::Allow, "{text}");
    }
    let named = "decide = 'deny'\narguments.x = { host = '*.good.example' }\n[[rule]]\ndecide = 'allow'";
    assert_eq!(decide(named, &json!({ "x": "https://a.good.example/" })), PolicyDecision::Deny);
    assert_eq!(decide(named, &json!({ "x": "https://other.example/" })), PolicyDecision::Allow);
}

#[test]
fn what_is_unclear_is_asked_about_each_time_with_the_reason() {
    let rules = "[[rule]]\ndecide = 'deny'\ndestinations = ['~/.ssh']\n[[rule]]\ndecide = 'allow'";
    let policy = Policy::read(rules, &PolicyEnvironment::at_home("/home/me")).unwrap();
    let arguments = CallArguments::read(r#"{"command":"cat $(locate x)"}"#).unwrap();
    let asked = PolicyRequest::new("s", PolicyAction::tool("t", ToolEffectSet::unknown(), &arguments));
    let verdict = policy.decide(&asked, jiff::Timestamp::now());
    assert_eq!((verdict.decision, verdict.may_remember), (PolicyDecision::Ask, false));
    let why = verdict.because.to_string();
    assert!(why.contains("rule 1 (line 1), which denies it: `arguments.command`: `$(` may be"), "{why}");
    // A permission says what was in its way.
    let permit =
        Policy::read("[[rule]]\ndecide = 'allow'\ndestinations = 'a.example'", &PolicyEnvironment::default())
            .unwrap();
    let arguments = CallArguments::read(r#"{"to":"me@a.example","subject":"Hello you"}"#).unwrap();
    let asked = PolicyRequest::new("s", PolicyAction::tool("t", ToolEffectSet::unknown(), &arguments));
    let shown = permit.explain(&asked, jiff::Timestamp::now()).to_string();
    assert!(shown.contains("`arguments.subject` is `Hello you`: parsers disagree"), "{shown}");
}

#[test]
fn texts_of_repeated_marks_end_with_an_answer() {
    for part in ["/../a", "$x{", "{a,b}", "a.b,", "[", "%2525", "\\x41", "((", "`", "\u{3002}x", "a=", "*?"] {
        let text = part.repeat(4_000 / part.len());
        let _decision = past("'evil.example', '~/.ssh'", &text, "x");
    }
}

/// Work is counted and not timed: a machine may be busy.
#[test]
fn hostile_texts_cost_a_bounded_amount_of_work() {
    for part in [
        "@",
        "%41",
        "http://",
        "jar:file:",
        "a@b.c:1,",
        "@a.b:1%41",
        "\\",
        "[",
        "$x{",
        "{a,b}",
        "a=",
        "~/a,",
        "a.ü:80@",
        "://",
        "((",
    ] {
        let read = DestinationCandidates::of(&part.repeat(20_000 / part.len()));
        // The last word may be the one that goes over.
        assert!(read.work <= MAX_WORK + 64 * 1024, "{part}: {}", read.work);
        let bytes: usize = read.paths.keys().map(String::len).sum();
        assert!(read.paths.len() <= 3 * MAX_CANDIDATES && bytes <= 3 * MAX_WORK, "{part}: {bytes}");
        assert!(read.hosts.len() + read.odd.len() <= 16 * MAX_CANDIDATES, "{part}: {}", read.hosts.len());
        assert!(read.unclear.is_some() || read.work <= MAX_WORK, "{part}");
    }
    let prose = "All the words of an ordinary text of this length are looked at, and none is in doubt. ";
    let numbered: String = (0..120).map(|at| format!("{prose}{at:04} ")).collect();
    assert_eq!(DestinationCandidates::of(&numbered).unclear, None);
}

/// A disk that counts how often it is looked at.
#[derive(Debug, Default)]
struct Counted(std::sync::atomic::AtomicUsize);

impl crate::LinkResolver for Counted {
    fn follow(&self, path: &str) -> std::io::Result<String> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(path.to_owned())
    }

    fn list_folders_and_links(&self, _: &str, most: usize) -> std::io::Result<Vec<String>> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok((0..most).map(|at| format!("n{at}")).collect())
    }
}

#[test]
fn the_disk_is_looked_at_a_bounded_number_of_times() {
    let disk = std::sync::Arc::new(Counted::default());
    let reading = PolicyEnvironment::at_home("/home/me").following(disk.clone());
    let policy = Policy::read(
        "[[rule]]\ndecide = 'deny'\ndestinations = '~/.ssh'\n[[rule]]\ndecide = 'allow'",
        &reading,
    )
    .unwrap();
    for part in ["/a/b ", "/*/*/*/* ", "a/b,", "~/*/x "] {
        let text: String = (0..2_000).map(|at| format!("{}{at}", part.trim_end()) + " ").collect();
        let arguments = CallArguments::read(&json!({ "x": text }).to_string()).unwrap();
        let asked = PolicyRequest::new("s", PolicyAction::tool("t", ToolEffectSet::unknown(), &arguments));
        disk.0.store(0, std::sync::atomic::Ordering::Relaxed);
        assert_ne!(policy.decide(&asked, jiff::Timestamp::now()).decision, PolicyDecision::Allow, "{part}");
        let looks = disk.0.load(std::sync::atomic::Ordering::Relaxed);
        assert!(looks <= 2_048, "{part}: {looks}");
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
