//! `hospes update`, with a registry on loopback that has real packages in two versions.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use hospes_registry_testkit::RegistryServer;
use serde_json::{Value, json};

use crate::support::terminal::Terminal;
use crate::support::{House, Ran, Running, eventually, installed};

/// A folder with the first version of the clock, and a registry that has the second.
struct UpdateHouse {
    house: House,
    registry: RegistryServer,
}

impl UpdateHouse {
    /// Adds the first version of `clock-npm`. `None` without npm.
    fn new() -> Option<Self> {
        installed("npm")?;
        let registry = RegistryServer::start();
        registry.publish_clocks(true);
        let house = Self { house: House::new(), registry };
        let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", "s3cret\n").display());
        let name = "io.github.loopback/clock-npm";
        let added = house.run(&["add", "--yes", name, "--version", "1.0.0", "--secret", &secret]);
        assert_eq!(added.code, Some(0), "{added:?}");
        Some(house)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.house.command_at(&self.registry, args);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    fn config(&self) -> String {
        self.house.read("config/hospes/config.toml")
    }

    fn versions(&self) -> Vec<String> {
        let folder: PathBuf = self.house.path("data/hospes/packages/clock-npm");
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names.iter().map(|name| name.split('-').next().unwrap().to_owned()).collect()
    }

    /// Publishes a version that names a host, and whose variables let Node write a file as it starts: the returned one.
    fn publish_marked(&self, version: &str, base: &str) -> PathBuf {
        let mark = self.house.path("was-started");
        let write = format!("require('fs').writeFileSync({}, '')\n", json!(mark.display().to_string()));
        let script = self.house.write("mark.cjs", &write);
        self.publish(version, |entry| {
            let variables = entry["packages"][0]["environmentVariables"].as_array_mut().unwrap();
            let options = format!("--require={}", script.display());
            variables.push(json!({ "name": "NODE_OPTIONS", "value": options }));
            variables.push(json!({ "name": "API_BASE", "value": base }));
        });
        mark
    }

    /// Publishes a further version of the entry, made from that of a version.
    fn publish(&self, version: &str, change: impl FnOnce(&mut Value)) {
        let token = json!({ "name": "CLOCK_TOKEN", "isRequired": true, "isSecret": true });
        let mut entry = json!({
            "name": "io.github.loopback/clock-npm", "description": "The current time.", "version": version,
            "packages": [{
                "registryType": "npm", "identifier": "loopback-clock", "version": "1.1.0",
                "registryBaseUrl": self.registry.npm_url(),
                "transport": { "type": "stdio" }, "environmentVariables": [token],
            }],
        });
        change(&mut entry);
        self.registry.publish(entry);
    }
}

/// A running host uses the new version, and after one step the old one, whose definitions are still accepted.
#[test]
fn a_running_host_uses_an_update_and_goes_back_with_its_pins() {
    let Some(house) = UpdateHouse::new() else { return };
    let host = Running::start(house.command(&["up", "--listen", "127.0.0.1:0", "--console", "off"]));
    let said = host.said(|line| line.contains("endpoint"));
    let url = said.split(&[' ', '='][..]).find(|word| word.starts_with("http://")).unwrap().to_owned();
    let tools = || {
        let listed = house.run(&["list", &url, "--json"]);
        listed.stdout.matches("clock-npm__").count()
    };
    eventually("the first version runs", || tools() == 2);

    let checked = house.run(&["update", "--check", "--json"]);
    assert_eq!(checked.code, Some(6), "{checked:?}");
    let rows: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!((&rows[0]["current"], &rows[0]["latest"]), (&json!("1.0.0"), &json!("1.1.0")), "{rows}");

    let updated = house.run(&["update", "clock-npm", "--yes"]);
    assert_eq!(updated.code, Some(0), "{updated:?}");
    assert!(
        updated.stderr.contains("1.0.0 → 1.1.0") && updated.stderr.contains("tool set_alarm"),
        "{updated:?}"
    );
    assert!(house.config().contains("version = \"1.1.0\""), "{}", house.config());
    eventually("the second version runs", || tools() == 3);
    assert_eq!(house.versions(), ["1.0.0", "1.1.0"]);
    let token = house.run(&["call", "clock-npm", "token_length"]);
    assert!(token.stdout.contains('6'), "the secret is the same: {token:?}");
    assert_eq!(house.run(&["update", "--check"]).code, Some(0));

    let back = house.run(&["update", "clock-npm", "--rollback"]);
    assert_eq!(back.code, Some(0), "{back:?}");
    assert!(house.config().contains("version = \"1.0.0\""), "{}", house.config());
    eventually("the first version runs again, accepted", || tools() == 2);
    // And forward again.
    assert_eq!(house.run(&["update", "clock-npm", "--rollback"]).code, Some(0));
    eventually("the second version runs again, accepted", || tools() == 3);
}

/// Without a yes nothing changes, and nothing of the new version is installed or started.
#[test]
fn an_update_without_a_yes_installs_and_starts_nothing() {
    let Some(house) = UpdateHouse::new() else { return };
    let mark = house.publish_marked("1.2.0", "https://one.example/");
    let before = house.config();
    let pins = || house.run(&["pins", "history", "clock-npm", "--json"]).stdout;
    let known = pins();
    house.registry.clear_requests();
    let shown = house.run(&["update", "clock-npm"]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(shown.stderr.contains("1.2.0") && shown.stderr.contains("nobody can be asked"), "{shown:?}");
    assert!(!mark.exists(), "the new version was started");
    let archives = house.registry.requests().into_iter().filter(|path| path.contains(".tgz"));
    assert_eq!(archives.collect::<Vec<_>>(), Vec::<String>::new());
    assert_eq!(house.config(), before);
    assert_eq!(house.versions(), ["1.0.0"]);
    assert_eq!(pins(), known);
    let none = house.run(&["update", "clock-npm", "--rollback"]);
    assert!(none.code == Some(1) && none.stderr.contains("no version"), "{none:?}");
}

/// Grants and effects that are new are asked about before the start, and all of them are on the page.
#[cfg(unix)]
#[test]
fn a_riskier_version_is_asked_about_before_it_is_started() {
    let Some(house) = UpdateHouse::new() else { return };
    let mark = house.publish_marked("1.2.0", "https://one.example/");
    let mut terminal = Terminal::start(&house.command(&["update", "clock-npm"]), 100, 60);
    let seen = terminal.until("a question", |screen| screen.contents().contains("Start it?"));
    assert!(seen.contains("the host one.example") && seen.contains("NODE_OPTIONS"), "{seen}");
    terminal.type_keys("q\r");
    assert_eq!(terminal.wait(), 1, "{}", terminal.text());
    assert!(!mark.exists(), "the new version was started");

    assert_eq!(house.run(&["update", "clock-npm", "--yes"]).code, Some(0));
    assert!(mark.exists());
    house.publish_marked("1.3.0", "https://two.example/");
    let updated = house.run(&["update", "clock-npm", "--yes"]);
    assert_eq!(updated.code, Some(0), "{updated:?}");
    for text in
        ["API_BASE: https://one.example/ → https://two.example/", "the host two.example", "NODE_OPTIONS"]
    {
        assert!(updated.stderr.contains(text), "{text}: {updated:?}");
    }
}

/// A server stays with its registry, whatever the variable says, and a named other one is a risk.
#[test]
fn a_server_stays_with_its_registry() {
    let Some(house) = UpdateHouse::new() else { return };
    let other = RegistryServer::start();
    other.publish_clocks(true);
    other.clear_requests();
    let mut command = house.command(&["update", "--check"]);
    let checked = Ran::of(command.env("HOSPES_REGISTRY", other.url()).output().unwrap());
    assert_eq!(checked.code, Some(6), "{checked:?}");
    assert_eq!(other.requests(), Vec::<String>::new());
    let token = json!({ "name": "CLOCK_TOKEN", "isRequired": true, "isSecret": true });
    other.publish(json!({
        "name": "io.github.loopback/clock-npm", "description": "The current time.", "version": "1.2.0",
        "packages": [{
            "registryType": "npm", "identifier": "loopback-clock", "version": "1.1.0",
            "registryBaseUrl": house.registry.npm_url(),
            "transport": { "type": "stdio" }, "environmentVariables": [token],
        }],
    }));
    let moved = house.run(&["update", "clock-npm", "--yes", "--registry", &other.url()]);
    assert!(moved.stderr.contains(&format!("it comes from the registry {}", other.url())), "{moved:?}");
}

/// Ctrl-C ends an update while the registry is asked, and while a person is.
#[cfg(unix)]
#[test]
fn an_update_can_be_interrupted_at_any_time() {
    let Some(house) = UpdateHouse::new() else { return };
    let before = house.config();
    // A registry that does not answer.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    for args in [&["update", "clock-npm"][..], &["update", "--check"], &["update", "--all"]] {
        let running =
            house.command(&[args, &["--registry", &silent]].concat()).stderr(Stdio::piped()).spawn().unwrap();
        let (_held, _) = listener.accept().unwrap();
        let interrupt = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
        assert!(interrupt.success());
        let ran = Ran::of(running.wait_with_output().unwrap());
        assert!(ran.code == Some(130) && ran.stderr.contains("interrupted"), "{args:?}: {ran:?}");
    }
    house.publish("1.2.0", |entry| {
        let zone = json!({ "name": "CLOCK_ZONE", "description": "Time zone", "isRequired": true });
        entry["packages"][0]["environmentVariables"].as_array_mut().unwrap().push(zone);
    });
    let mut terminal = Terminal::start(&house.command(&["update", "clock-npm"]), 100, 40);
    terminal.sees("CLOCK_ZONE: ");
    terminal.type_keys("\u{3}");
    assert_eq!(terminal.wait(), 130, "{}", terminal.text());
    assert!(terminal.text().contains("interrupted"), "{}", terminal.text());
    assert_eq!(house.config(), before);
}

/// Automatic updates end at once, and go on with no other server.
#[cfg(unix)]
#[test]
fn automatic_updates_can_be_interrupted() {
    let Some(house) = UpdateHouse::new() else { return };
    copy_entry(&house);
    let config = format!("[defaults]\nauto_update = \"patch\"\n\n{}", house.config());
    house.house.write("config/hospes/config.toml", &config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    let mut command = house.command(&["update", "--auto", "--json", "--registry", &silent]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (_held, _) = listener.accept().unwrap();
    let interrupt = Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let ran = Ran::of(running.wait_with_output().unwrap());
    let rows: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, rows.as_array().unwrap().len()), (Some(130), 1), "{rows}");
    assert_eq!(house.config(), config);
}

/// Changes of a person in the entry stay, with its comments. A new required value is asked for.
#[test]
fn own_changes_stay_and_new_values_are_asked_for() {
    let Some(house) = UpdateHouse::new() else { return };
    let edited = house.config().replace("version = ", "request_timeout = \"9s\" # mine\nversion = ");
    house.house.write("config/hospes/config.toml", &format!("# first\n{edited}"));
    house.publish("1.2.0", |entry| {
        let zone = json!({ "name": "CLOCK_ZONE", "description": "Time zone", "isRequired": true });
        entry["packages"][0]["environmentVariables"].as_array_mut().unwrap().push(zone);
    });
    let missing = house.run(&["update", "clock-npm", "--yes"]);
    assert!(missing.code == Some(1) && missing.stderr.contains("CLOCK_ZONE"), "{missing:?}");
    let updated = house.run(&["update", "clock-npm", "--yes", "--set", "CLOCK_ZONE=UTC"]);
    assert_eq!(updated.code, Some(0), "{updated:?}");
    assert!(updated.stderr.contains("new values") && updated.stderr.contains("CLOCK_ZONE"), "{updated:?}");
    let config = house.config();
    assert!(
        config.starts_with("# first\n") && config.contains("request_timeout = \"9s\" # mine"),
        "{config}"
    );
    assert!(
        config.contains("CLOCK_ZONE = \"UTC\"") && config.contains("CLOCK_TOKEN = \"${secret:"),
        "{config}"
    );
}

/// Two versions are kept. What is older goes.
#[test]
fn older_versions_are_removed() {
    let Some(house) = UpdateHouse::new() else { return };
    if installed("uv").is_none() {
        return;
    }
    assert_eq!(house.run(&["update", "clock-npm", "--yes"]).code, Some(0));
    house.publish("2.0.0", |entry| {
        entry["packages"][0]["registryType"] = "pypi".into();
        entry["packages"][0]["registryBaseUrl"] = house.registry.pypi_url().into();
    });
    let kind = house.run(&["update", "clock-npm", "--yes"]);
    assert!(kind.code == Some(1) && kind.stderr.contains("it can be run as pypi"), "{kind:?}");
    let updated = house.run(&["update", "clock-npm", "--yes", "--package", "pypi"]);
    assert_eq!(updated.code, Some(0), "{updated:?}");
    assert_eq!(house.versions(), ["1.1.0", "1.1.0"], "the first one is gone");
    let removed = house.run(&["remove", "clock-npm", "--yes", "--purge"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(!house.house.path("data/hospes/packages/clock-npm").exists());
}

/// A rollback replaces only the server that was updated, and loses nothing that a person wrote.
#[test]
fn a_rollback_replaces_no_other_server_and_no_own_command() {
    let Some(house) = UpdateHouse::new() else { return };
    assert_eq!(house.run(&["update", "clock-npm", "--yes"]).code, Some(0));
    let updated = house.config();
    let edited = updated.replace("command = [\"node\"", "command = [\"nice\", \"node\"");
    assert_ne!(edited, updated);
    for other in [
        "[servers.clock-npm]\ncommand = [\"true\"]\n",
        &edited,
        "[servers.clock-npm]\nurl = \"https://a.example/\"\n",
    ] {
        house.house.write("config/hospes/config.toml", other);
        let refused = house.run(&["update", "clock-npm", "--rollback"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert_eq!(house.config(), other);
    }
    house.house.write("config/hospes/config.toml", &updated);
    assert_eq!(house.run(&["update", "clock-npm", "--rollback"]).code, Some(0));
}

/// Copies the entry, so that another server is started from the folder of the first version.
fn copy_entry(house: &UpdateHouse) {
    let first = house.config();
    let copy =
        first[first.find("[servers.clock-npm]").unwrap()..].replace("[servers.clock-npm]", "[servers.copy]");
    house.house.write("config/hospes/config.toml", &format!("{first}\n{copy}"));
}

/// A folder stays if another server is started from it.
#[test]
fn a_folder_that_another_server_uses_is_not_purged() {
    let Some(house) = UpdateHouse::new() else { return };
    copy_entry(&house);
    assert_eq!(house.run(&["update", "clock-npm", "--yes"]).code, Some(0));
    let removed = house.run(&["remove", "clock-npm", "--yes", "--purge"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert_eq!(house.versions(), ["1.0.0"]);
    assert_eq!(house.run(&["call", "copy", "token_length"]).code, Some(0));
}

/// Without a purge, the folders of a removed server end after 30 days, but not one from which another server is started.
#[test]
fn the_sweep_leaves_the_folder_of_another_server() {
    let Some(house) = UpdateHouse::new() else { return };
    copy_entry(&house);
    assert_eq!(house.run(&["update", "clock-npm", "--yes"]).code, Some(0));
    let removed = house.run(&["remove", "clock-npm", "--yes"]);
    assert!(removed.code == Some(0) && removed.stderr.contains("for 30 days"), "{removed:?}");
    let folder = house.house.path("data/hospes/packages/clock-npm");
    let all = || -> Vec<PathBuf> {
        std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect()
    };
    let marks = all().into_iter().filter(|path| path.extension().is_some_and(|end| end == "removed"));
    let marks: Vec<PathBuf> = marks.collect();
    assert_eq!(marks.len(), 1, "{marks:?}");
    assert!(marks[0].file_name().unwrap().to_string_lossy().starts_with("1.1.0"), "{marks:?}");
    // Both are due. An entry that a person wrote uses the first one.
    for path in all().into_iter().filter(|path| path.is_dir()) {
        std::fs::write(format!("{}.removed", path.display()), "2020-01-01T00:00:00Z").unwrap();
    }
    // It sweeps first, whatever comes after.
    assert_eq!(house.run(&["add", "npm:no-such-package", "--yes"]).code, Some(4));
    assert_eq!(house.versions(), ["1.0.0"]);
    assert_eq!(house.run(&["call", "copy", "now"]).code, Some(0));
}

/// The undo of a removal writes the file as it was. What `remove` took away besides the entry comes back with it.
#[test]
fn a_removed_server_that_comes_back_has_its_record_and_its_folders() {
    let Some(house) = UpdateHouse::new() else { return };
    assert_eq!(house.run(&["update", "clock-npm", "--yes"]).code, Some(0));
    let record = || house.house.read("state/hospes/servers/clock-npm.json");
    let marks = || {
        let entries = std::fs::read_dir(house.house.path("data/hospes/packages/clock-npm")).unwrap();
        entries.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "removed")).count()
    };
    let (known, config) = (record(), house.config());
    assert!(known.contains("1.0.0") && known.contains("1.1.0"), "{known}");
    assert_eq!(house.run(&["remove", "clock-npm", "--yes"]).code, Some(0));
    assert_eq!((record().as_str(), marks()), ("", 2));
    let kept = house.house.path("state/hospes/servers/clock-npm.removed");
    assert!(kept.exists(), "the record is kept aside");

    // Another version of the server is not the one that was removed.
    let other = config.replace("version = \"1.1.0\"", "version = \"0.9.0\"");
    house.house.write("config/hospes/config.toml", &other);
    house.run(&["update", "clock-npm", "--check"]);
    assert_eq!(record(), "");

    house.house.write("config/hospes/config.toml", &config);
    assert_eq!(house.run(&["update", "clock-npm", "--check"]).code, Some(0));
    assert_eq!((record(), marks()), (known, 0));
    assert!(!kept.exists());
    let back = house.run(&["update", "clock-npm", "--rollback"]);
    assert_eq!(back.code, Some(0), "{back:?}");
    assert!(house.config().contains("version = \"1.0.0\""), "{}", house.config());
    assert_eq!(house.run(&["call", "clock-npm", "now"]).code, Some(0));

    // With `--purge` nothing is kept.
    assert_eq!(house.run(&["remove", "clock-npm", "--yes", "--purge"]).code, Some(0));
    assert!(!kept.exists());
}

/// Records that do not come back go with the files of the server.
#[test]
fn the_record_of_a_removed_server_is_kept_for_thirty_days() {
    let Some(house) = UpdateHouse::new() else { return };
    assert_eq!(house.run(&["remove", "clock-npm", "--yes"]).code, Some(0));
    let file = "state/hospes/servers/clock-npm.removed";
    let sweep = || assert_eq!(house.run(&["add", "npm:no-such-package", "--yes"]).code, Some(4));
    sweep();
    let kept: Value = serde_json::from_str(&house.house.read(file)).unwrap();
    let mut old = kept.clone();
    old["removed"] = "2020-01-01T00:00:00Z".into();
    house.house.write(file, &old.to_string());
    sweep();
    assert!(!house.house.path(file).exists());
}

/// The folder of an old version stays while another server is started from it.
#[test]
fn an_old_folder_that_another_server_uses_is_not_removed() {
    let Some(house) = UpdateHouse::new() else { return };
    if installed("uv").is_none() {
        return;
    }
    copy_entry(&house);
    assert_eq!(house.run(&["update", "clock-npm", "--yes"]).code, Some(0));
    house.publish("2.0.0", |entry| {
        entry["packages"][0]["registryType"] = "pypi".into();
        entry["packages"][0]["registryBaseUrl"] = house.registry.pypi_url().into();
    });
    let updated = house.run(&["update", "clock-npm", "--yes", "--package", "pypi"]);
    assert_eq!(updated.code, Some(0), "{updated:?}");
    assert_eq!(house.versions(), ["1.0.0", "1.1.0", "1.1.0"], "the copy uses the first one");
    assert_eq!(house.run(&["call", "copy", "now"]).code, Some(0));
}

/// A new version that does not start changes nothing.
#[test]
fn a_version_that_does_not_start_is_not_used() {
    let Some(house) = UpdateHouse::new() else { return };
    let before = house.config();
    house.publish("1.3.0", |entry| {
        entry["packages"][0]["environmentVariables"] =
            json!([{ "name": "NODE_OPTIONS", "value": "--no-such-option-of-node" }]);
    });
    let failed = house.run(&["update", "clock-npm", "--yes"]);
    assert!(failed.code == Some(4) && failed.stderr.contains("nothing was changed"), "{failed:?}");
    assert_eq!(house.config(), before);
    assert_eq!(house.versions(), ["1.0.0"]);
    assert_eq!(house.run(&["call", "clock-npm", "now"]).code, Some(0));
}

/// A package that was added by its name stays with its index, which is asked for its newest version.
#[test]
fn packages_are_updated_from_their_index() {
    let Some(house) = UpdateHouse::new() else { return };
    for (package, version, name) in [
        ("npm:loopback-clock", "npm:loopback-clock@1.0.0", "n"),
        ("pypi:loopback-clock", "pypi:loopback-clock==1.0.0", "p"),
    ] {
        if name == "p" && installed("uv").is_none() {
            continue;
        }
        let added = house.run(&["add", "--yes", "--name", name, version]);
        assert_eq!(added.code, Some(0), "{added:?}");
        assert!(house.config().contains(&format!("registry = \"{package}\"")), "{}", house.config());
        let checked = house.run(&["update", name, "--check", "--json"]);
        assert_eq!(checked.code, Some(6), "{checked:?}");
        let rows: Value = serde_json::from_str(&checked.stdout).unwrap();
        let row = json!({ "server": name, "registry": package, "current": "1.0.0", "latest": "1.1.0", "state": "available", "error": null });
        assert_eq!(rows[0], row);
        let before = house.config();
        let shown = house.run(&["update", name]);
        assert!(shown.code == Some(1) && shown.stderr.contains("nobody can be asked"), "{shown:?}");
        assert_eq!(house.config(), before);
        let updated = house.run(&["update", name, "--yes"]);
        assert!(updated.code == Some(0) && updated.stderr.contains("tool set_alarm"), "{updated:?}");
        assert_eq!(house.run(&["update", name, "--check"]).code, Some(0));
        assert_eq!(house.run(&["update", name, "--rollback"]).code, Some(0));
        assert!(house.config().contains("version = \"1.0.0\""), "{}", house.config());
    }
    let unknown = house.run(&["update", "n", "--yes", "--version", "9.9.9"]);
    assert!(
        unknown.code == Some(4) && unknown.stderr.contains("no package loopback-clock@9.9.9"),
        "{unknown:?}"
    );
}

/// Automatic updates are corrections that change nothing else, and are recorded; others wait.
#[test]
fn only_a_patch_that_changes_nothing_is_updated_without_a_person() {
    let Some(house) = UpdateHouse::new() else { return };
    let added = house.run(&["add", "--yes", "--name", "n", "npm:loopback-clock@1.0.0"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let auto = |expected: i32, server: &str| {
        let ran = house.run(&["update", "--auto", "--json"]);
        assert_eq!(ran.code, Some(expected), "{ran:?}");
        let rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
        rows.into_iter().find(|row| row["server"] == server).unwrap_or_default()
    };
    assert_eq!(auto(0, "n"), Value::Null, "nothing without the setting");
    let config = format!("[defaults]\nauto_update = \"patch\"\n\n{}", house.config());
    house.house.write("config/hospes/config.toml", &config);
    // More than a correction waits.
    let row = auto(6, "n");
    assert!(
        row["state"] == "waits" && row["why"].as_str().unwrap().contains("more than a correction"),
        "{row}"
    );
    assert_eq!(house.run(&["update", "n", "--yes"]).code, Some(0));
    assert_eq!(house.run(&["update", "clock-npm", "--yes"]).code, Some(0));
    assert_eq!(auto(0, "n")["state"], "current");

    // Another account has published it.
    house.registry.publish_patch("thief");
    let row = auto(6, "n");
    assert!(row["why"].as_str().unwrap().contains("published by somebody else"), "{row}");
    // Its entry was changed by hand.
    house.registry.publish_patch("clockmaker");
    let config = house.config();
    let edited = config.replace(
        "node_modules/loopback-clock/index.js\"]",
        "node_modules/loopback-clock/index.js\", \"--x\"]",
    );
    assert_ne!(config, edited);
    house.house.write("config/hospes/config.toml", &edited);
    let row = auto(6, "n");
    assert!(row["why"].as_str().unwrap().contains("changed by hand"), "{row}");
    house.house.write("config/hospes/config.toml", &config);
    // The entry of a registry sets another variable.
    let publish = |version: &str, name: &str| {
        house.publish(version, |entry| {
            entry["packages"][0]["version"] = "1.1.1".into();
            let variable = json!({ "name": name, "value": "--no-warnings" });
            entry["packages"][0]["environmentVariables"].as_array_mut().unwrap().push(variable);
        });
    };
    publish("1.1.1", "CLOCK_OPTIONS");
    assert_eq!(auto(6, "n")["state"], "updated");
    let row = auto(6, "clock-npm");
    assert!(row["why"].as_str().unwrap().contains("its values"), "{row}");
    // What a person is asked about before the start is a reason, too.
    publish("1.1.2", "NODE_OPTIONS");
    let row = auto(6, "clock-npm");
    assert!(row["why"].as_str().unwrap().contains("NODE_OPTIONS"), "{row}");

    assert!(house.config().contains("/n/1.1.1-"), "{}", house.config());
    assert_eq!(house.run(&["call", "n", "now"]).code, Some(0), "its definitions are still accepted");
    let audit = house.run(&["audit", "search", "--json"]).stdout;
    assert_eq!(audit.matches("1.1.0 to 1.1.1, hash sha512-").count(), 1, "{audit}");
    assert!(audit.contains("automatic update"), "{audit}");
    let back = house.run(&["update", "n", "--rollback"]);
    assert_eq!(back.code, Some(0), "{back:?}");
}

/// A variable that a person added to the entry stays at the first update, at the second, and at an automatic one.
#[test]
fn own_variables_stay_at_each_update() {
    let Some(house) = UpdateHouse::new() else { return };
    let table = "[servers.clock-npm]\n";
    let config = house.config();
    let config = match config.contains("\nenv = { ") {
        true => config.replacen("\nenv = { ", "\nenv = { OWN = \"mine\", ", 1),
        false => config.replacen(table, &format!("{table}env = {{ OWN = \"mine\" }}\n"), 1),
    };
    house
        .house
        .write("config/hospes/config.toml", &format!("[defaults]\nauto_update = \"patch\"\n\n{config}"));
    let has_own = || house.config().contains("OWN = \"mine\"");
    assert!(has_own(), "{}", house.config());
    let updated = house.run(&["update", "clock-npm", "--yes"]);
    assert!(updated.code == Some(0) && has_own(), "{updated:?} {}", house.config());
    house.registry.publish_patch("clockmaker");
    house.publish("1.1.1", |entry| entry["packages"][0]["version"] = "1.1.1".into());
    let automatic = house.run(&["update", "--auto", "--json"]);
    assert!(automatic.stdout.contains("\"updated\"") && has_own(), "{automatic:?} {}", house.config());
    assert_eq!(house.run(&["update", "clock-npm", "--rollback"]).code, Some(0));
    assert!(has_own(), "{}", house.config());
}

/// A correction that offers something else is started alone, and waits.
#[test]
fn a_patch_with_another_definition_waits() {
    let Some(house) = UpdateHouse::new() else { return };
    let config = format!("[defaults]\nauto_update = \"patch\"\n\n{}", house.config());
    house.house.write("config/hospes/config.toml", &config);
    // The same number but the last one, with the package that has one more tool.
    house.publish("1.0.1", |_| {});
    house.registry.set_status("io.github.loopback/clock-npm", "1.1.0", "deleted", None);
    let ran = house.run(&["update", "--auto", "--json"]);
    assert!(ran.code == Some(6) && ran.stdout.contains("what it offers changes"), "{ran:?}");
    assert_eq!(house.config(), config);
    assert_eq!(house.versions(), ["1.0.0"]);
    assert_eq!(house.run(&["call", "clock-npm", "now"]).code, Some(0));
}

/// A running host looks at its start, once a day.
#[test]
fn a_running_host_makes_the_updates_that_the_configuration_allows() {
    let Some(house) = UpdateHouse::new() else { return };
    assert_eq!(house.run(&["update", "clock-npm", "--yes"]).code, Some(0));
    let config = format!("[defaults]\nauto_update = \"patch\"\n\n{}", house.config());
    house.house.write("config/hospes/config.toml", &config);
    house.registry.publish_patch("clockmaker");
    house.publish("1.1.1", |entry| entry["packages"][0]["version"] = "1.1.1".into());
    let host = Running::start(house.command(&["up", "--listen", "127.0.0.1:0", "--console", "off"]));
    let said = host.said(|line| line.contains("event=update"));
    assert!(said.contains("state=updated") && said.contains("version=1.1.1"), "{said}");
    assert!(house.config().contains("clock-npm/1.1.1-"), "{}", house.config());
    drop(host);
    // Not again on the same day.
    house.publish("1.1.2", |entry| entry["packages"][0]["version"] = "1.1.1".into());
    let host = Running::start(house.command(&["up", "--listen", "127.0.0.1:0", "--console", "off"]));
    host.said(|line| line.contains("endpoint"));
    eventually("the server runs", || house.run(&["call", "clock-npm", "now"]).code == Some(0));
    assert!(!house.config().contains("1.1.2"), "{}", house.config());
}

/// Two updates of one server at once: one is made, and the other says that it has to wait.
#[test]
fn two_updates_at_once_do_not_disturb_each_other() {
    let Some(house) = UpdateHouse::new() else { return };
    let start = || house.command(&["update", "clock-npm", "--yes"]).stderr(Stdio::piped()).spawn().unwrap();
    let both = [start(), start()].map(|one| Ran::of(one.wait_with_output().unwrap()));
    let is_rejected = |ran: &&Ran| ran.code == Some(1) && ran.stderr.contains("is at work on `clock-npm`");
    assert_eq!(both.iter().filter(|ran| ran.code == Some(0)).count(), 1, "{both:?}");
    assert_eq!(both.iter().filter(is_rejected).count(), 1, "{both:?}");
    assert_eq!(house.versions(), ["1.0.0", "1.1.0"]);
    assert_eq!(house.run(&["call", "clock-npm", "set_alarm"]).code, Some(0));
}

/// A server that is not of a registry is named.
#[test]
fn only_servers_of_a_registry_are_updated() {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", "[servers.own]\ncommand = [\"true\"]\n");
    let own = house.run(&["update", "own"]);
    assert!(
        own.code == Some(1) && own.stderr.contains("not from a registry or an index of packages"),
        "{own:?}"
    );
    let none = house.run(&["update", "onw"]);
    assert!(none.stderr.contains("did you mean `own`"), "{none:?}");
}
