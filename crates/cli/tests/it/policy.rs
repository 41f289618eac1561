//! The rules as a person writes them: mistakes, names that no server has, and decisions without a call.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use serde_json::{Value, json};
use support::{House, Running, text};

/// A house with rules, two built-in servers, and a server of others.
fn house(rules: &str) -> House {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.server("mail", &["send_email", "read_message"], "");
    let script = text(&house.path("mail.sh"));
    house.write(
        "config/hospes/config.toml",
        &format!(
            "[servers.files]\nbuiltin = 'files'\nargs = ['.']\n[servers.git]\nbuiltin = 'git'\nargs = ['.']\n\
             [servers.mail]\ncommand = ['sh', '{script}']\n"
        ),
    );
    house.write("config/hospes/policy.toml", rules);
    house
}

fn up(house: &House) -> Running {
    Running::start(house.command(&[
        "up",
        "--listen",
        "127.0.0.1:0",
        "--console",
        "off",
        "--pins",
        "first-use",
    ]))
}

#[test]
fn all_mistakes_are_shown_at_once_with_their_places() {
    let house =
        house("[[rule]]\ndecide = 'alow'\ntol = 'x'\n\n[[rule]]\ndecide = 'deny'\neffects = 'read_only'\n");
    let file = text(&house.path("config/hospes/policy.toml"));
    let checked = house.run(&["policy", "check"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    for line in [
        "3 errors in the policy".to_owned(),
        format!(
            "{file}:2:10: rule 1: `decide`: unknown value `alow`; did you mean `allow`? Expected one of `allow`, `ask`, `deny`"
        ),
        format!("{file}:3:1: rule 1: unknown key `tol`; did you mean `tool`?"),
        format!(
            "{file}:7:11: rule 2: `effects`: expected a table such as `{{ read_only = true }}`, with one or more of \
             `read_only`, `destructive`, `idempotent`, `open_world`, each true or false, found a string"
        ),
    ] {
        assert!(checked.stderr.contains(&line), "{line}\n{checked:?}");
    }
    assert!(!checked.stderr.contains("WrittenEffects"), "{checked:?}");
}

#[test]
fn a_test_knows_servers_tools_and_annotations() {
    let house = house("trusted = ['git']\n[[rule]]\ndecide = 'deny'\ndestinations = '/etc'\n");
    // Annotations of the real tool.
    let log = house.run(&["--json", "policy", "test", "git", "log"]);
    let log: Value = serde_json::from_str(&log.stdout).unwrap_or_else(|_| panic!("{log:?}"));
    assert_eq!(log["decision"], "allow");
    assert_eq!(
        log["annotations"],
        json!({
            "readOnly": true, "destructive": false, "idempotent": true, "openWorld": false, "source": "builtin",
            "believed": true,
        })
    );
    let deny = house.run(&["--json", "policy", "test", "files", "read", r#"{"path":"/etc/passwd"}"#]);
    let deny: Value = serde_json::from_str(&deny.stdout).unwrap();
    assert_eq!((&deny["decision"], &deny["rule"]["line"]), (&json!("deny"), &json!(2)));
    assert_eq!(deny["annotations"]["believed"], false);
    // Names that are nearly there are mistakes.
    for (args, what, meant) in [
        (&["files", "raed"][..], "unknown tool in files: `raed`", "did you mean `read`?"),
        (&["fiels", "read"], "unknown server in the configuration: `fiels`", "did you mean `files`?"),
        (
            &["files", "read", "{}", "--private", "gti"],
            "unknown server in the configuration: `gti`",
            "`git`?",
        ),
    ] {
        let refused = house.run(&[&["policy", "test"][..], args].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
        assert!(refused.stderr.contains(what) && refused.stderr.contains(meant), "{refused:?}");
    }
    // Another name may be meant for what is to come.
    let warned = house.run(&["policy", "test", "calendar", "book"]);
    assert_eq!(warned.code, Some(0), "{warned:?}");
    assert!(warned.stderr.contains("unknown server in the configuration: `calendar`"), "{warned:?}");
    // What no host has seen is not known, and it is said so.
    let unseen = house.run(&["policy", "test", "mail", "send_emial"]);
    assert_eq!(unseen.code, Some(0), "{unseen:?}");
    assert!(unseen.stderr.contains("annotations of `mail` are not known yet"), "{unseen:?}");
    assert!(unseen.stdout.contains("assumed, because the definition is unknown"), "{unseen:?}");
    let mut host = up(&house);
    host.said(|line| line.contains("event=ready server=mail"));
    host.signal("-TERM");
    host.wait();
    let seen = house.run(&["policy", "test", "mail", "send_emial"]);
    assert_eq!(seen.code, Some(1), "{seen:?}");
    assert!(seen.stderr.contains("did you mean `send_email`?"), "{seen:?}");
    let seen = house.run(&["policy", "test", "mail", "send_email"]);
    assert!(seen.stdout.contains("open_world (as last seen by a host); ignored"), "{seen:?}");
    // Nothing was started for any of this.
    assert!(!house.is_running("mail"));
}

#[test]
fn rules_that_fit_no_tool_are_pointed_out() {
    let rules = "trusted = ['fiels']\n[[rule]]\ndecide = 'allow'\nserver = 'files'\ntool = ['read_*', 'list']\n\
                 [[rule]]\ndecide = 'deny'\nserver = 'mail'\ntool = 'send_mail'\n\
                 [[rule]]\ndecide = 'allow'\nserver = 'git'\neffects = { read_only = true }\n";
    let house = house(rules);
    let of_files = "rule 1: `tool`: no tool of `files` matches `read_*`; did you mean `read`?";
    let of_mail = "rule 2: `tool`: no tool of `mail` matches `send_mail`; did you mean `send_email`?";
    let of_git =
        "rule 3: `effects.read_only = true` matches no tool: annotations count only for servers in `trusted`";
    let trusted = "`trusted`: no configured server is named `fiels`; did you mean `files`?";
    let checked = house.run(&["policy", "check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let said = checked.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!([of_files, of_git, trusted].iter().all(|line| said.contains(line)), "{said}");
    assert!(!said.contains(of_mail) && said.contains("the tools of mail are not known yet"), "{said}");
    // The host knows all of them once they are ready.
    let mut host = up(&house);
    let heard: Vec<String> = (0..4).map(|_| host.said(|line| line.contains("policy: "))).collect();
    for line in [of_files, of_mail, of_git, trusted] {
        assert!(heard.iter().any(|heard| heard.contains(line)), "{line}: {heard:?}");
    }
    // And says it again of rules that are written anew.
    house.write("config/hospes/policy.toml", "[[rule]]\ndecide = 'deny'\nserver = 'mial'\n");
    host.said(|line| line.contains("named `mial`; did you mean `mail`?"));
    host.signal("-TERM");
    host.wait();
    let checked = house.run(&["--json", "policy", "check"]);
    let told: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!((&told["unseen"], &told["unmatched"][0]["line"]), (&json!([]), &json!(1)));
}

/// A rule that names approvers needs a console to which people sign in.
#[test]
fn a_rule_whose_approvers_cannot_sign_in_is_pointed_out() {
    let house =
        house("[[rule]]\ndecide = 'ask'\nserver = 'git'\napprover = ['finance', 'board']\nnot_self = true\n");
    let unmatched = || {
        let checked = house.run(&["--json", "policy", "check"]);
        let told: Value = serde_json::from_str(&checked.stdout).unwrap();
        told["unmatched"].as_array().unwrap().clone()
    };
    let said = unmatched();
    assert_eq!((said.len(), &said[0]["line"]), (1, &json!(1)), "{said:?}");
    let message = said[0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("rule 1: nobody can decide") && message.contains("[console.team]"),
        "{message}"
    );
    let tested = house.run(&["policy", "test", "git", "log"]);
    let line = "approver: a member of `finance` or `board`, and never the caller";
    assert!(tested.stdout.contains(line), "{tested:?}");
    let tested = house.run(&["--json", "policy", "test", "git", "log"]);
    let told: Value = serde_json::from_str(&tested.stdout).unwrap();
    assert_eq!(told["approvers"], json!({ "groups": [["finance", "board"]], "not_self": true }));
    let file = house.path("config/hospes/config.toml");
    let config = std::fs::read_to_string(&file).unwrap_or_default();
    let team = "\n[console.team]\nissuer = 'https://login.example'\nclient_id = 'c'\npublic_url = 'https://console.example'\n\
                [console.team.roles]\nmember = ['staff']\napprover = ['finance']\n";
    house.write("config/hospes/config.toml", &format!("{config}{team}"));
    assert_eq!(unmatched(), Vec::<Value>::new());
}
