//! Tests of `hospes doctor`: known warnings, calls, and the archive for reports.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they skip")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::checks::{assert_found, check, doctor};
use crate::support::{House, text};

#[test]
fn a_warning_is_ignored_until_it_is_wanted_again() {
    let house = House::new();
    let long = "tool".repeat(20);
    let config = house
        .config(&[("one", house.server("one", &[&long], "")), ("two", house.server("two", &[&long], ""))]);
    let run = |args: &[&str]| house.run(&[&["doctor", "--config", &config], args].concat());
    assert_eq!(run(&["one"]).code, Some(2));
    assert_eq!(run(&["one", "--ignore", "t02"]).code, Some(0));
    assert_eq!(run(&["one"]).code, Some(0));
    assert_eq!(run(&["two"]).code, Some(2), "it was ignored of one server only");
    let all = run(&["one", "--all"]).stdout;
    assert!(all.contains("ign  T02"), "{all}");
    assert_eq!(run(&["--no-ignore", "T02"]).code, Some(0));
    assert_eq!(run(&["one"]).code, Some(2));
    assert_eq!(run(&["--ignore", "X99"]).code, Some(1));
    // A fault stays one.
    let missing =
        text(&house.write("missing.json", r#"{ "mcpServers": { "one": { "command": "none-such" } } }"#));
    assert_eq!(run(&["--ignore", "C02"]).code, Some(0));
    assert_eq!(house.run(&["doctor", "--config", &missing, "one"]).code, Some(1));
}

#[test]
fn a_call_is_made_if_it_is_asked_for_or_harmless() {
    let house = House::new();
    let failing = r#"*'"name":"fail"'*) answer '{"content":[{"type":"text","text":"no such repository"}],"isError":true}';;"#;
    let config = house.config(&[("one", house.server("one", &["look", "fail"], failing))]);
    let run = |args: &[&str]| doctor(&house, &[&["--config", &config, "one"], args].concat());
    let (_, found) = run(&[]);
    assert!(!found.to_string().contains("T03") && !house.read("one.log").contains("tools/call"), "{found:#}");
    let (_, found) = run(&["--call", "look", "name=value"]);
    assert_eq!(check(&found, "one", "T03")["status"], "ok", "{found:#}");
    assert!(house.read("one.log").contains(r#""name":"value""#));
    let (ran, found) = run(&["--call", "fail"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(check(&found, "one", "T03")["evidence"], "no such repository");
    let (_, found) = run(&["--call", "lok"]);
    assert_found(&found, "one", "T03", "fault", "look", "hospes list one");
    let builtin = text(&house.write("own.toml", "[servers.time]\nbuiltin = 'time'\n"));
    let (_, found) = doctor(&house, &["--config", &builtin, "time"]);
    assert_eq!(check(&found, "time", "T03")["status"], "ok", "{found:#}");
}

#[test]
fn a_call_to_a_ready_server_goes_through_the_running_host() {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.server("well", &["look"], "");
    let script = house.path("well.sh");
    house.write(
        "config/hospes/config.toml",
        &format!("[servers.well]\ncommand = ['sh', '{}']\n", script.display()),
    );
    let host = house.up(&[]);
    host.said(|line| line.contains("event=ready"));
    let before = house.read("well.pid");
    let (_, found) = doctor(&house, &["well", "--call", "look"]);
    assert_eq!(check(&found, "well", "T03")["status"], "ok", "{found:#}");
    assert_eq!(house.read("well.pid"), before, "no other process was started");
    assert!(house.read("well.log").contains("tools/call"));
}

/// Returns the names and texts of an archive. `None` without Python.
fn content(file: &Path) -> Option<String> {
    let script = "import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1])\nfor n in z.namelist(): print('##',n); print(z.read(n).decode())";
    let list = Command::new("python3").args(["-c", script]).arg(file).output().ok()?;
    Some(String::from_utf8(list.stdout).unwrap())
}

#[test]
fn a_bundle_has_what_a_report_needs_and_no_secret() {
    let house = House::new();
    let secret = "swordfish-of-the-environment";
    let mut server = house.server("one", &["look"], "");
    let script = format!(
        "echo \"connecting with $TOKEN, $1 and sk-proj-abcdefghijklmnopqrstuvwxyz0123456789\" >&2\n{}",
        house.read("one.sh")
    );
    house.write("one.sh", &script);
    server["env"] = json!({ "TOKEN": secret, "LICENCE": "x" });
    let args = server["args"].as_array_mut().unwrap();
    args.push("${LICENCE:-licence/of+the/argument}".into());
    let web =
        json!({ "url": "http://127.0.0.1:9/mcp?key=query-secret", "headers": { "X-Key": "header-secret" } });
    let config = house.config(&[("one", server), ("web", web)]);
    let mut host = house.up(&["--config", &config]);
    host.said(|line| line.contains("event=ready server=one"));
    let file = house.path("report.zip");
    let option = format!("--bundle={}", file.display());
    let ran = house.run(&["doctor", "--config", &config, "--connect-timeout", "3", &option]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("checks.json") && ran.stderr.contains("logs/server-one.log"), "{ran:?}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let Some(whole) = content(&file) else { return eprintln!("skipped: there is no python3") };
    for name in [
        "versions.json",
        "checks.json",
        "configuration.json",
        "audit.json",
        "logs/host.log",
        "logs/server-one.log",
    ] {
        assert!(whole.contains(&format!("## {name}\n")), "{name}: {whole}");
    }
    assert!(
        whole.contains("connecting with") && whole.contains("\"TOKEN\"") && whole.contains("\"X-Key\""),
        "{whole}"
    );
    let home = text(&house.path("home"));
    let hidden = [secret, "licence/of", "sk-proj-abc", "query-secret", "header-secret", &*home];
    for hidden in hidden {
        assert!(!whole.contains(hidden), "{hidden}: {whole}");
    }
    // The logs of all servers are in it, whatever is checked.
    for target in ["web", "http://127.0.0.1:9/mcp?part=a-value+of-the-query", "cursor"] {
        let file = house.path("other.zip");
        let option = format!("--bundle={}", file.display());
        house.run(&["doctor", "--config", &config, "--connect-timeout", "3", &option, target]);
        let whole = content(&file).unwrap();
        assert!(
            whole.contains("logs/server-one.log") && whole.contains("connecting with"),
            "{target}: {whole}"
        );
        for hidden in hidden.into_iter().chain(["a-value+of", "a-value of"]) {
            assert!(!whole.contains(hidden), "{target}, {hidden}: {whole}");
        }
        std::fs::remove_file(&file).unwrap();
    }
    // Nobody can say what is secret in them.
    house.write("broken.toml", "[servers");
    let (file, broken) = (house.path("broken.zip"), text(&house.path("broken.toml")));
    let option = format!("--bundle={}", file.display());
    let ran = house.run(&["doctor", "--config", &broken, &option]);
    assert!(ran.stderr.contains("logs are left out"), "{ran:?}");
    assert!(!content(&file).unwrap().contains("connecting with"));
    let again = house.run(&["doctor", "--config", &config, "--connect-timeout", "3", &option]);
    assert!(again.stderr.contains("it was not changed"), "{again:?}");
    host.signal("-TERM");
    host.wait();
}

#[test]
fn built_in_files_without_folders_have_a_remedy() {
    let house = House::new();
    let config = text(&house.write("own.toml", "[servers.files]\nbuiltin = 'files'\n"));
    let (_, found) = doctor(&house, &["--config", &config, "files"]);
    assert_found(&found, "files", "T03", "fault", "answers with an error", "name folders in `args`");
    let config = text(&house.write("own.toml", "[servers.files]\nbuiltin = 'files'\nargs = ['.']\n"));
    let (_, found) = doctor(&house, &["--config", &config, "files"]);
    assert_eq!(check(&found, "files", "T03")["status"], "ok", "{found:#}");
}

/// A filter of the entry and one of a profile, of a server that doctor starts and of one that runs in the host.
#[test]
fn patterns_that_match_no_tool_are_found() {
    let house = House::new();
    let entry = "[servers.files]\nbuiltin = 'files'\nargs = ['.']\ntools = { exclude = ['wipe', 'tree'] }\n";
    let profile = "[profiles.reading]\ntools.files = { include = ['read_*', 'list'] }\n";
    let right = "[profiles.right]\ntools.files = { include = ['read', 'list'] }\n";
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", &format!("{entry}{profile}{right}"));
    let assert_warned = || {
        let (ran, found) = doctor(&house, &["files"]);
        assert_eq!(ran.code, Some(2), "{found:#}");
        let all = found["checks"].as_array().unwrap().iter();
        let warned: Vec<_> = all.filter(|check| check["code"] == "T04").collect();
        assert_eq!(warned.len(), 2, "{found:#}");
        assert_found(&found, "files", "T04", "warning", "the pattern `wipe` matches", "`[servers.files]`");
        assert!(warned[1]["what"].as_str().unwrap().contains("`read_*` matches no tool"), "{found:#}");
        assert!(warned[1]["mend"].as_str().unwrap().contains("`[profiles.reading]`"), "{found:#}");
    };
    assert_warned();
    let shown = house.run(&["profile", "show", "reading"]);
    assert!(shown.stderr.contains("the pattern `read_*` matches no tool of `files`"), "{shown:?}");
    assert_eq!(house.run(&["profile", "show", "right"]).stderr, "");
    let host = house.up(&[]);
    host.said(|line| line.contains("event=ready"));
    assert_warned();
}
