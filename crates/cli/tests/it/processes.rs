//! Tests of the command lines of the program and of all processes it starts, which every user of a machine can read
//! while they run.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::json;
use support::site::{Site, signed_in};
use support::{House, Ran, Running, eventually, text};

/// In the clear in everything that is secret here.
const MARK: &str = "s3cret";

/// The command lines of all processes that descend from this one, by their ids.
fn command_lines() -> BTreeMap<u32, String> {
    let processes: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let parent = |process: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // Its name, which may be anything, is in brackets before that.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let parents: BTreeMap<u32, u32> =
        processes.into_iter().filter_map(|process| Some((process, parent(process)?))).collect();
    let descends = |process: u32| {
        let line = std::iter::successors(Some(process), |process| parents.get(process).copied());
        line.take(64).any(|process| process == std::process::id())
    };
    let ours = parents.keys().filter(|process| **process != std::process::id() && descends(**process));
    ours.filter_map(|process| {
        let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
        Some((*process, String::from_utf8_lossy(&line).replace('\0', " ")))
    })
    .collect()
}

/// Command lines read so far.
#[derive(Clone, Default)]
struct Reader(Arc<Mutex<BTreeSet<String>>>);

impl Reader {
    fn look(&self) {
        self.0.lock().extend(command_lines().into_values());
    }

    /// Returns true if some process had all of these words in its command line.
    fn saw(&self, words: &[&str]) -> bool {
        self.0.lock().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// Reads the command lines during each request to the site, before it is answered.
    fn at(&self, site: &Site) {
        let reader = self.clone();
        site.script().during = Some(Arc::new(move || reader.look()));
    }
}

/// Returns the values of this field in the forms that the site received.
fn sent(site: &Site, name: &str) -> Vec<String> {
    let seen = site.script().seen.clone();
    let forms = seen.iter().flat_map(|form| url::form_urlencoded::parse(form.as_bytes()).into_owned());
    forms.filter(|(known, _)| known == name).map(|(_, value)| value).collect()
}

/// covers: AUTG-12
#[test]
fn no_secret_is_on_any_command_line() {
    let (house, reader) = (House::new(), Reader::default());
    let site = Site::open();
    {
        let mut script = site.script();
        (script.renews, script.lasts) = (true, Some(1));
    }
    reader.at(&site);
    let url = site.mcp();
    house.server("child", &["greet"], "");
    let script = house.path("child.sh");
    let config = house.write(
        "hospes.toml",
        &format!(
            "[auth]\nusers = {{ ann = \"${{PASSWORD}}\" }}\ntokens = {{ ci = \"${{TOKEN}}\" }}\n\
             [servers.site]\nurl = \"{url}\"\nclient_id = \"mine\"\nclient_secret = \"${{MINE}}\"\n\
             [servers.child]\ncommand = [\"sh\", \"{}\"]\nenv = {{ KEY = \"${{KEY}}\" }}\n\
             [servers.confined]\ncommand = [\"sh\", \"{}\"]\nenv = {{ KEY = \"${{KEY}}\" }}\n\
             sandbox = {{ kind = \"auto\", network = \"none\" }}\n",
            script.display(),
            script.display()
        ),
    );
    let config = text(&config);
    let environment = [
        ("MINE", "s3cret-mine"),
        ("KEY", "s3cret-key"),
        ("PASSWORD", "s3cret-password"),
        ("TOKEN", "s3cret-of-ci"),
        ("HOSPES_PASSPHRASE", "s3cret-passphrase"),
    ];
    let run = |args: &[&str]| {
        let mut command = house.command(args);
        Ran::of(command.envs(environment).stdin(Stdio::null()).output().unwrap())
    };

    // Signed in with what the configuration has, and with what the environment has.
    let login = signed_in(&house, &["auth", "login", "site", "--config", &config], &environment);
    assert_eq!(login.code, Some(0), "{login:?}");
    let given = ["auth", "login", &url, "--client-id", "mine", "--client-secret-env", "MINE"];
    let login = signed_in(&house, &given, &environment);
    assert_eq!(login.code, Some(0), "{login:?}");
    assert!(reader.saw(&["auth", "login", "site"]) && reader.saw(&["--client-secret-env", "MINE"]));
    // A call that shows a token, and renews it.
    eventually("a renewal", || {
        let called = run(&["call", "site", "greet", "--config", &config]);
        assert_eq!(called.stdout, "let in\n", "{called:?}");
        !sent(&site, "refresh_token").is_empty()
    });
    assert!(reader.saw(&["call", "site", "greet"]));

    // A host, its servers, and what stands between them.
    let mut up = house.command(&["up", "--config", &config, "--listen", "127.0.0.1:0", "--json"]);
    up.envs(environment);
    let host = Running::start(up);
    eventually("the servers run", || {
        reader.look();
        let environs = command_lines().into_keys().filter(|process| {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let environ = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            let (line, environ) = (String::from_utf8_lossy(&line), String::from_utf8_lossy(&environ));
            let is_shell = line.split('\0').next().is_some_and(|program| program.ends_with("/sh"));
            is_shell && environ.contains("KEY=s3cret-key")
        });
        // Each has its secret, in the place where others cannot read it.
        environs.count() >= 2
    });
    assert!(reader.saw(&["up", "--listen"]) && reader.saw(&["__run-child"]) && reader.saw(&["child.sh"]));
    drop(host);

    let mut secrets = vec![MARK.to_owned()];
    secrets.extend(["mine:s3cret-mine"].map(|pair| STANDARD.encode(pair)));
    let verifiers = sent(&site, "code_verifier");
    assert!(verifiers.iter().any(|verifier| verifier.len() == 43), "{verifiers:?}");
    secrets.extend(verifiers);
    // What was asked in its stead was secret indeed.
    assert!(sent(&site, "code").iter().any(|code| code.contains(MARK)));
    let read = reader.0.lock().clone();
    for line in &read {
        for secret in &secrets {
            assert!(!line.contains(secret.as_str()), "{secret} is on the command line: {line}");
        }
    }
    assert!(json!(read).to_string().contains("hospes"), "{read:?}");
}
