//! The policy of an organisation with the whole program: the user's file cannot loosen it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use serde_json::{Value, json};
use support::{House, Ran, Running, eventually, text};

/// A house with a server, a policy file of the user, and one of the organisation that the configuration names.
fn house(user: &str, organization: &str) -> House {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.server("one", &["greet", "part", "third"], "");
    let script = text(&house.path("one.sh"));
    house.write(
        "config/hospes/config.toml",
        &format!("organization_policy = 'team.toml'\n[servers.one]\ncommand = ['sh', '{script}']\n"),
    );
    house.write("config/hospes/policy.toml", user);
    house.write("config/hospes/team.toml", organization);
    house
}

fn host(house: &House, options: &[&str]) -> Running {
    let mut host =
        Running::start(house.command(&[&["stdio", "--start-wait", "10", "--pins", "off"], options].concat()));
    host.initialize(&json!({}));
    host
}

fn call(host: &mut Running, id: u32, tool: &str) -> String {
    let answer = host.ask(id, "tools/call", &json!({ "name": format!("one__{tool}"), "arguments": {} }));
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn the_strictest_of_both_files_decides_and_says_whose_rule_it_is() {
    let user =
        "[[rule]]\ndecide = 'deny'\ntool = 'greet'\nreason = 'not today'\n[[rule]]\ndecide = 'allow'\n";
    let organization = "[[rule]]\nname = 'no parting'\ndecide = 'deny'\ntool = 'part'\nreason = 'not at work'\n\
                        [[rule]]\ndecide = 'allow'\n";
    let house = house(user, organization);
    // No option of the user removes it.
    let mut host = host(&house, &["--preset", "off"]);
    assert!(call(&mut host, 1, "part").ends_with("not at work"), "the organisation's rule");
    assert!(call(&mut host, 2, "greet").ends_with("not today"), "the user's rule");
    assert_eq!(call(&mut host, 3, "third"), "one was called");

    let test = |tool: &str| {
        let ran = house.run(&["--json", "policy", "test", "one", tool]);
        serde_json::from_str::<Value>(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
    };
    let part = test("part");
    assert_eq!((&part["decision"], &part["rule"]["of"]), (&json!("deny"), &json!("organization")), "{part}");
    assert_eq!(part["because"], "organisation's rule 1 (line 1) `no parting`: not at work");
    assert_eq!(part["layers"]["user"]["decision"], "allow");
    let greet = test("greet");
    assert_eq!((&greet["rule"]["of"], &greet["rule"]["number"]), (&json!("user"), &json!(1)), "{greet}");
    assert_eq!(greet["layers"]["organization"]["decision"], "allow");
    let shown = house.run(&["policy", "test", "one", "part"]).stdout;
    for line in [
        "  organisation's rule 1 (line 1) `no parting`: matches, `tool` is `part`\n",
        "  rule 2 (line 5): matches, no conditions\n",
        "  organisation: deny (organisation's rule 1 (line 1) `no parting`: not at work)\n",
        "  you: allow (rule 2 (line 5))\n",
        "deny  organisation's rule 1 (line 1) `no parting`: not at work",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    let checked = house.run(&["policy", "check"]);
    assert!(checked.stdout.contains("team.toml: 2 rules, no errors (organisation)\n"), "{checked:?}");
    assert!(checked.stdout.contains("policy.toml: 2 rules, no errors\n"), "{checked:?}");

    // The file is followed. One with a mistake, and one that is gone, change nothing.
    house.write("config/hospes/team.toml", "[[rule]]\ndecide = 'alow'\n");
    let said = host.said(|line| line.contains("the previous rules remain in effect"));
    assert!(said.contains("team.toml:2:10"), "{said}");
    assert!(call(&mut host, 4, "part").ends_with("not at work"));
    std::fs::remove_file(house.path("config/hospes/team.toml")).unwrap();
    host.said(|line| line.contains("team.toml was deleted; the previous rules remain in effect"));
    assert!(call(&mut host, 5, "part").ends_with("not at work"));
    house.write("config/hospes/team.toml", "[[rule]]\ndecide = 'deny'\ntool = 'third'\nreason = 'no more'\n");
    host.said(|line| line.contains("organisation's policy reloaded: 1 rule from"));
    assert!(call(&mut host, 6, "third").ends_with("no more"));
    assert_eq!(call(&mut host, 7, "part"), "one was called");
    assert!(call(&mut host, 8, "greet").ends_with("not today"));
    host.close_stdin();
    assert_eq!(host.wait(), Some(0));
    let exported = house.run(&["audit", "export"]).stdout;
    assert!(exported.contains("organisation's rule 1 (line 1) `no parting`"), "{exported}");
}

#[test]
fn a_file_that_cannot_be_used_is_not_the_same_as_none() {
    let refused = |house: &House| {
        for command in [&["stdio"][..], &["policy", "check"], &["policy", "test", "one", "greet"]] {
            let ran = house.run(command);
            assert_eq!(ran.code, Some(1), "{ran:?}");
            assert!(ran.stderr.contains("team.toml"), "{ran:?}");
            assert!(ran.stderr.contains("it is the policy of your organisation"), "{ran:?}");
        }
    };
    let house = house("[[rule]]\ndecide = 'allow'\n", "[[rule]]\ndecide = 'alow'\n");
    refused(&house);
    std::fs::remove_file(house.path("config/hospes/team.toml")).unwrap();
    refused(&house);
    std::fs::create_dir(house.path("config/hospes/team.toml")).unwrap();
    refused(&house);
}

/// A running host whose questions wait for `hospes approve`.
struct Up {
    house: House,
    host: Running,
    endpoint: String,
}

impl Up {
    fn new(user: &str, organization: &str) -> Self {
        let house = house(user, organization).with_token();
        let args = ["up", "--json", "--pins", "off", "--start-wait", "20", "--unattended", "queue"];
        let places = ["--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"];
        let host = Running::start(house.command(&[&args[..], &places].concat()));
        let greeting = host.greeting();
        let endpoint = greeting["endpoint"].as_str().unwrap().to_owned();
        Self { house, host, endpoint }
    }

    /// Calls the tool, as an application that cannot ask anybody.
    fn call(&self) -> Running {
        let mut call = Running::start(self.house.command(&["call", &self.endpoint, "one__greet"]));
        call.close_stdin();
        call
    }

    /// Waits until the call is asked about. Returns the id of the question and its reason.
    fn question(&self) -> (String, String) {
        let mut list = String::new();
        eventually("a question", || {
            list = self.house.run(&["approve", "--json", "--list"]).stdout;
            !list.is_empty()
        });
        let approval: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
        let word = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{approval}")).to_owned();
        (word(&approval["id"]), word(&approval["card"]["because"]))
    }

    fn decide(&self, args: &[&str]) -> Ran {
        let ran = self.house.run(&[&["approve"], args].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    }

    fn organization(&self, text: &str) {
        self.house.write("config/hospes/team.toml", text);
        self.host.said(|line| line.contains("organisation's policy reloaded"));
    }
}

#[test]
fn a_lasting_permission_does_not_answer_for_the_organisation() {
    let up = Up::new("[[rule]]\ndecide = 'ask'\n", "[[rule]]\ndecide = 'allow'\n");
    let mut first = up.call();
    let (id, because) = up.question();
    assert_eq!(because, "rule 1 (line 1)");
    up.decide(&["--allow", &id, "--always", "{}"]);
    assert_eq!(first.wait(), Some(0));
    assert_eq!(up.call().wait(), Some(0), "nobody is asked again");

    // What the organisation asks about each time is asked about.
    up.organization("[[rule]]\nname = 'each'\ndecide = 'ask'\nremember = false\n");
    let mut asked = up.call();
    let (id, because) = up.question();
    assert_eq!(because, "organisation's rule 1 (line 1) `each`");
    let refused = up.house.run(&["approve", "--allow", &id, "--always", "{}"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    up.decide(&["--deny", &id]);
    assert_ne!(asked.wait(), Some(0));
    // What it denies is denied.
    up.organization("[[rule]]\ndecide = 'deny'\n");
    assert_ne!(up.call().wait(), Some(0));
    // Where its rule may be remembered, the permission counts.
    up.organization("[[rule]]\ndecide = 'ask'\n");
    assert_eq!(up.call().wait(), Some(0));
}
