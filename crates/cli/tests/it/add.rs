//! `hospes add` and `hospes remove`, with a registry on loopback that has real packages.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::process::Command;
use std::time::{Duration, Instant};

use hospes_registry_testkit::{CLOCK_VERSIONS, RegistryServer};
use serde_json::{Value, json};

use crate::support::terminal::Terminal;
use crate::support::{House, Ran, Running, eventually, installed};

/// Maximum time from a name to the first answered call.
const FIRST_CALL: Duration = Duration::from_secs(60);

/// A folder and a registry.
struct AddHouse {
    house: House,
    registry: RegistryServer,
}

impl AddHouse {
    fn new() -> Self {
        let registry = RegistryServer::start();
        registry.publish_clocks(true);
        Self { house: House::new(), registry }
    }

    fn command(&self, args: &[&str]) -> Command {
        self.house.command_at(&self.registry, args)
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).stdin(std::process::Stdio::null()).output().unwrap())
    }

    fn config(&self) -> String {
        self.house.read("config/hospes/config.toml")
    }
}

/// The stopwatch: from a name to the first answered call, with three keys beside the secret.
#[test]
fn a_name_becomes_an_answered_call_within_a_minute_and_three_keys() {
    if installed("npm").is_none() {
        return;
    }
    let house = AddHouse::new();
    let begun = Instant::now();
    let mut terminal = Terminal::start(&house.command(&["add", "clock npm"]), 100, 40);
    let mut keys = 0;
    let mut press = |terminal: &mut Terminal, seen: &str| {
        terminal.until(seen, |screen| {
            let text = screen.contents();
            text.contains(seen) && !text.ends_with('\n')
        });
        terminal.type_keys("\r");
        keys += 1;
    };
    let seen = terminal.until("a choice or a question", |screen| {
        let text = screen.contents();
        text.contains("Which one?") || text.contains("CLOCK_TOKEN")
    });
    if seen.contains("Which one?") {
        press(&mut terminal, "Which one?");
    }
    terminal.sees("CLOCK_TOKEN");
    terminal.type_keys("a-secret-of-the-test\r");
    press(&mut terminal, "Install and start it?");
    press(&mut terminal, "keep the server?");
    terminal.sees("added");
    assert_eq!(terminal.wait(), 0, "{}", terminal.text());
    let text = terminal.text();
    assert!(!text.contains("a-secret-of-the-test"), "{text}");
    let called = house.run(&["call", "clock-npm", "now", "--json"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    let took = begun.elapsed();
    eprintln!("from the name to the answer: {took:?}, {keys} keys beside the secret");
    assert!(took <= FIRST_CALL && keys <= 3, "{took:?}, {keys} keys");

    // The person's yes has accepted the definitions: no host holds them back.
    let pins = house.run(&["pins", "list", "--json"]);
    let pins: Value = serde_json::from_str(&pins.stdout).unwrap();
    assert_eq!((&pins[0]["server"], &pins[0]["state"]), (&json!("clock-npm"), &json!("accepted")), "{pins}");
    assert_ne!(pins[0]["decidedBy"], "first use", "{pins}");

    let config = house.config();
    assert!(config.contains("registry = \"io.github.loopback/clock-npm\""), "{config}");
    assert!(config.contains("digest = \"sha512-"), "{config}");
    assert!(config.contains("${secret:") && !config.contains("a-secret-of-the-test"), "{config}");
}

/// A package of npm is installed once, below the data folder; it then starts without its registry.
#[test]
fn an_installed_package_of_npm_starts_without_its_registry() {
    if installed("npm").is_none() {
        return;
    }
    let house = AddHouse::new();
    let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", "s3cret\n").display());
    let added = house.run(&[
        "add",
        "--yes",
        "io.github.loopback/clock-npm",
        "--version",
        "1.0.0",
        "--secret",
        &secret,
    ]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let config = house.config();
    let command = config.lines().find(|line| line.starts_with("command")).unwrap();
    assert!(
        command.starts_with("command = [\"node\", \"")
            && command.contains("/hospes/packages/clock-npm/1.0.0-")
    );
    assert!(!config.contains("npm_config_registry"), "{config}");
    let lock =
        folders(&house.house.path("data/hospes/packages/clock-npm")).remove(0).join("package-lock.json");
    let lock: Value = serde_json::from_str(&std::fs::read_to_string(lock).unwrap()).unwrap();
    assert!(
        lock["packages"]["node_modules/loopback-clock"]["integrity"].as_str().unwrap().starts_with("sha512-")
    );

    house.registry.clear_requests();
    let called = house.run(&["call", "clock-npm", "token_length"]);
    assert!(called.code == Some(0) && called.stdout.contains('6'), "{called:?}");
    assert_eq!(house.registry.requests(), Vec::<String>::new());

    // The files are used again while they are those that were installed, and no others.
    let folder = folders(&house.house.path("data/hospes/packages/clock-npm")).remove(0);
    let inserted = folder.join("node_modules/inserted.js");
    for is_changed in [false, true] {
        assert_eq!(house.run(&["remove", "clock-npm", "--yes"]).code, Some(0));
        if is_changed {
            std::fs::write(&inserted, "").unwrap();
        }
        let version =
            ["add", "--yes", "io.github.loopback/clock-npm", "--version", "1.0.0", "--secret", &secret];
        let again = house.run(&version);
        assert!(again.code == Some(0) && !inserted.exists(), "{again:?}");
        assert_eq!(format!("{again:?}").contains("is kept for 30 days as"), is_changed, "{again:?}");
    }
}

/// An archive that is not the one whose hash the registry named is not kept.
#[test]
fn an_exchanged_package_is_refused() {
    if installed("npm").is_none() {
        return;
    }
    let house = AddHouse::new();
    house.registry.exchange_npm_archives();
    let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", "s3cret\n").display());
    let refused = house.run(&["add", "--yes", "io.github.loopback/clock-npm", "--secret", &secret]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("EINTEGRITY"), "{refused:?}");
    assert_eq!(house.config(), "");
    assert!(folders(&house.house.path("data/hospes/packages/clock-npm")).is_empty());
}

/// A package without a version is its newest, and the entry names that version.
#[test]
fn a_package_without_a_version_is_the_newest() {
    let house = AddHouse::new();
    for package in ["npm:loopback-clock", "npm:loopback-clock@latest", "pypi:loopback-clock"] {
        let shown = house.run(&["add", package, "--dry-run", "--no-install"]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        assert!(shown.stdout.contains(CLOCK_VERSIONS[1]), "{shown:?}");
    }
    let unknown = house.run(&["add", "npm:loopback-nothing", "--dry-run"]);
    assert_eq!(unknown.code, Some(4), "{unknown:?}");
    assert!(unknown.stderr.contains("has no package loopback-nothing@latest"), "{unknown:?}");
}

/// Remains of an interrupted installation do not disturb the next one.
#[test]
fn an_incomplete_folder_is_installed_anew() {
    if installed("npm").is_none() {
        return;
    }
    let house = AddHouse::new();
    let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", "s3cret\n").display());
    let add = ["add", "--yes", "io.github.loopback/clock-npm", "--secret", &secret];
    assert_eq!(house.run(&add).code, Some(0));
    let folder = folders(&house.house.path("data/hospes/packages/clock-npm")).remove(0);
    // As an interrupted run leaves it: files, and no record that the installation is complete.
    std::fs::remove_file(folder.join("hospes-package.json")).unwrap();
    std::fs::remove_dir_all(folder.join("node_modules/loopback-clock")).unwrap();
    std::fs::write(folder.join("node_modules/left-over"), "x").unwrap();
    assert_eq!(house.run(&["remove", "clock-npm", "--yes"]).code, Some(0));
    let added = house.run(&add);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(folder.join("node_modules/loopback-clock/index.js").is_file());
    assert!(!folder.join("node_modules/left-over").exists());
}

/// An installation whose program is gone, or that is of another archive, is not used again.
#[test]
fn a_damaged_installation_is_installed_anew() {
    if installed("npm").is_none() {
        return;
    }
    let house = AddHouse::new();
    let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", "s3cret\n").display());
    let add = ["add", "--yes", "io.github.loopback/clock-npm", "--secret", &secret];
    assert_eq!(house.run(&add).code, Some(0));
    let folder = folders(&house.house.path("data/hospes/packages/clock-npm")).remove(0);
    let record = folder.join("hospes-package.json");
    let written = std::fs::read_to_string(&record).unwrap();
    let program = folder.join("node_modules/loopback-clock/index.js");

    std::fs::remove_file(&program).unwrap();
    assert_eq!(house.run(&["remove", "clock-npm", "--yes"]).code, Some(0));
    let again = house.run(&add);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(program.is_file());

    let other: Value = serde_json::from_str(&written).unwrap();
    let digest = other["plannedDigest"].as_str().unwrap();
    std::fs::write(&record, written.replace(digest, "sha512-AAAA")).unwrap();
    let left = folder.join("node_modules/left-over");
    std::fs::write(&left, "x").unwrap();
    assert_eq!(house.run(&["remove", "clock-npm", "--yes"]).code, Some(0));
    assert_eq!(house.run(&add).code, Some(0));
    assert!(!left.exists(), "the folder was installed anew");
}

/// Of two runs that add a server of one name at once, the second is refused. It uses the installation of the first later.
#[cfg(unix)]
#[test]
fn a_second_run_is_refused_during_the_installation_of_the_first() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(npm) = installed("npm") else { return };
    let house = AddHouse::new();
    let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", "s3cret\n").display());
    // It notes each run, and waits for a sign.
    let bin = house.house.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let (runs, go) = (house.house.path("runs"), house.house.path("go"));
    let script = format!(
        "#!/bin/sh\necho run >> {}\nwhile [ ! -e {} ]; do sleep 0.05; done\nexec {} \"$@\"\n",
        runs.display(),
        go.display(),
        npm.display()
    );
    std::fs::write(bin.join("npm"), script).unwrap();
    std::fs::set_permissions(bin.join("npm"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let start = |config: &str| {
        let config = house.house.path(config);
        let config = config.to_str().unwrap();
        let mut command = house.command(&[
            "add",
            "--yes",
            "io.github.loopback/clock-npm",
            "--secret",
            &secret,
            "--config",
            config,
        ]);
        command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let first = start("one.toml");
    eventually("npm runs", || std::fs::read_to_string(&runs).is_ok());
    let ended = |child: std::process::Child| Ran::of(child.wait_with_output().unwrap());
    let second = ended(start("two.toml"));
    assert!(second.code == Some(1) && second.stderr.contains("is at work on `clock-npm`"), "{second:?}");
    std::fs::write(&go, "").unwrap();
    let first = ended(first);
    assert_eq!(first.code, Some(0), "{first:?}");
    let again = ended(start("two.toml"));
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "run\n");
}

/// Ctrl-C during an installation ends npm, and leaves nothing.
#[cfg(unix)]
#[test]
fn an_interrupted_installation_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let house = AddHouse::new();
    // A program in the place of npm that says that it runs, and does not end.
    let bin = house.house.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let started = house.house.path("npm-runs");
    std::fs::write(bin.join("npm"), format!("#!/bin/sh\necho $$ > {}\nsleep 1000\n", started.display()))
        .unwrap();
    std::fs::set_permissions(bin.join("npm"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", "s3cret\n").display());
    let mut command = house.command(&["add", "--yes", "io.github.loopback/clock-npm", "--secret", &secret]);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let mut running = command.stdin(std::process::Stdio::null()).spawn().unwrap();
    eventually("npm runs", || std::fs::read_to_string(&started).is_ok_and(|text| text.ends_with('\n')));
    let npm = std::fs::read_to_string(&started).unwrap().trim().to_owned();
    let interrupt = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
    eventually("npm has ended", || !std::path::Path::new(&format!("/proc/{npm}")).exists());
    assert_eq!(house.config(), "");
    assert!(folders(&house.house.path("data/hospes/packages/clock-npm")).is_empty());
}

/// A package of PyPI gets a virtual environment, by a lock file with hashes.
#[test]
fn a_package_of_pypi_is_installed_by_its_hashes() {
    if installed("uv").is_none() {
        return;
    }
    let house = AddHouse::new();
    let added = house.run(&["add", "--yes", "io.github.loopback/clock-pypi", "--version", "1.0.0"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let config = house.config();
    assert!(
        config.contains("/venv/bin/loopback-clock\"]") && config.contains("digest = \"sha256:"),
        "{config}"
    );
    let folder = folders(&house.house.path("data/hospes/packages/clock-pypi")).remove(0);
    let lock = std::fs::read_to_string(folder.join("requirements.txt")).unwrap();
    let digest =
        config.lines().find_map(|line| line.strip_prefix("digest = ")).unwrap().trim_matches('"').to_owned();
    assert!(lock.contains(&format!("--hash={digest}")), "{lock}");
    // If the installed file is not known, no digest is recorded.
    let record = folder.join("hospes-package.json");
    let mut unknown: Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
    unknown["digest"] = Value::Null;
    std::fs::write(&record, unknown.to_string()).unwrap();
    assert_eq!(house.run(&["remove", "clock-pypi", "--yes"]).code, Some(0));
    assert_eq!(
        house.run(&["add", "--yes", "io.github.loopback/clock-pypi", "--version", "1.0.0"]).code,
        Some(0)
    );
    assert!(!house.config().contains("digest"), "{}", house.config());
    house.registry.clear_requests();
    let called = house.run(&["call", "clock-pypi", "now"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    assert_eq!(house.registry.requests(), Vec::<String>::new());
}

/// The launchers stay available, and the screen says which way is used.
#[test]
fn a_package_can_be_run_by_its_launcher() {
    let house = AddHouse::new();
    let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", "s3cret\n").display());
    let plan = ["add", "--dry-run", "io.github.loopback/clock-npm", "--secret", &secret, "--no-install"];
    let planned = house.run(&plan);
    assert!(planned.stdout.contains("[\"npx\", \"-y\", \"loopback-clock@1.1.0\"]"), "{planned:?}");
    assert!(planned.stderr.contains("npx downloads the package"), "{planned:?}");
}

/// A crate is compiled into the data folder.
#[test]
fn a_crate_is_compiled_and_started() {
    if installed("cargo").is_none() || installed("cc").is_none() {
        return;
    }
    let house = AddHouse::new();
    let mut command = house.command(&["add", "--yes", "io.github.loopback/clock-cargo"]);
    house.registry.publish_crate();
    command.env("CARGO_HOME", house.registry.cargo_home(&house.house.path("cargo")));
    // The toolchain itself: its proxy looks for it in the home folder.
    let toolchain = std::env::var_os("CARGO").map(std::path::PathBuf::from).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path =
        toolchain.parent().map(std::path::Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(path).unwrap());
    let added = Ran::of(command.stdin(std::process::Stdio::null()).output().unwrap());
    assert_eq!(added.code, Some(0), "{added:?}");
    let config = house.config();
    assert!(config.contains("/packages/clock-cargo/1.0.0-cargo/bin/loopback-clock\"]"), "{config}");
    let called = house.run(&["call", "clock-cargo", "now"]);
    assert_eq!(called.code, Some(0), "{called:?}");
}

/// A module of Go is compiled into the data folder, from its proxy, and updated to its newest version.
#[test]
fn a_module_of_go_is_compiled_started_and_updated() {
    if installed("go").is_none() {
        return;
    }
    let house = AddHouse::new();
    house.registry.serve_module(&["v1.0.0"]);
    let run = |args: &[&str]| {
        let mut command = house.command(args);
        command.envs(house.registry.go_environment(&house.house.path("packages")));
        Ran::of(command.stdin(std::process::Stdio::null()).output().unwrap())
    };
    let package = "go:example.com/loopback/clock/cmd/loopback-clock";
    let added = run(&["add", "--yes", package]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let config = house.config();
    assert!(config.contains("/packages/loopback-clock/v1.0.0-go/bin/loopback-clock\"]"), "{config}");
    assert!(config.contains(&format!("registry = \"{package}\"")), "{config}");
    assert!(config.contains("digest = \"h1:"), "the hash of the module is that of the program: {config}");
    assert_eq!(house.run(&["call", "loopback-clock", "now"]).code, Some(0));

    house.registry.serve_module(&["v1.0.0", "v1.1.0"]);
    let updated = run(&["update", "loopback-clock", "--yes"]);
    assert_eq!(updated.code, Some(0), "{updated:?}");
    assert!(
        updated.stderr.contains("v1.0.0 → v1.1.0") && updated.stderr.contains("set_alarm"),
        "{updated:?}"
    );
    assert!(house.config().contains("/v1.1.0-go/bin/loopback-clock"), "{}", house.config());
    // A version that does not exist leaves nothing.
    let missing = run(&["update", "loopback-clock", "--yes", "--version", "v9.9.9"]);
    assert_eq!(missing.code, Some(4), "{missing:?}");
    assert_eq!(folders(&house.house.path("data/hospes/packages/loopback-clock")).len(), 2);
}

/// A program that is missing is named before anything is done, with its source.
#[test]
fn a_missing_compiler_is_named_with_its_source() {
    let house = AddHouse::new();
    house.registry.publish_crate();
    let mut command = house.command(&["add", "--yes", "io.github.loopback/clock-cargo"]);
    command
        .env("PATH", house.house.path("empty"))
        .env("CARGO_HOME", house.registry.cargo_home(&house.house.path("c")));
    let refused = Ran::of(command.output().unwrap());
    assert!(refused.code == Some(1) && refused.stderr.contains("https://rustup.rs"), "{refused:?}");
}

/// The proposed sandbox stands in the entry, and the server works in it.
#[cfg(target_os = "linux")]
#[test]
fn a_server_is_added_with_its_proposed_sandbox() {
    if installed("npm").is_none() {
        return;
    }
    let house = AddHouse::new();
    let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", "s3cret\n").display());
    let add = ["add", "--yes", "io.github.loopback/clock-npm", "--secret", &secret, "--sandbox", "suggested"];
    let added = house.run(&add);
    assert_eq!(added.code, Some(0), "{added:?}");
    let config = house.config();
    let folder = house.house.path("data/hospes/packages/clock-npm/1.1.0-");
    assert!(config.contains(&format!("sandbox = {{ files = {{ read = [\"{}", folder.display())), "{config}");
    let called = house.run(&["call", "clock-npm", "now"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    let none =
        house.run(&["add", "--yes", "--sandbox", "suggested", "--name", "x", "--", "sh", "-c", "true"]);
    assert!(none.code == Some(1) && none.stderr.contains("no sandbox"), "{none:?}");
}

/// A confined server that ends because of one denied file: the person grants exactly this file with a key of its own, and the
/// server starts again.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_the_sandbox_denies_is_granted_alone() {
    let house = AddHouse::new();
    for folder in ["needy", "home"] {
        std::fs::create_dir(house.house.path(folder)).unwrap();
    }
    let manifest = json!({
        "manifest_version": "0.3", "name": "needy", "version": "1.0.0", "description": "Needs a file",
        "author": { "name": "Tests" },
        "server": {
            "type": "binary", "entry_point": "start.sh",
            "mcp_config": { "command": "sh", "args": ["${__dirname}/start.sh"] },
        },
    });
    house.house.write("needy/manifest.json", &manifest.to_string());
    let wanted = house.house.write("home/settings of mine", "x");
    house.house.write("home/other", "x");
    let script = format!(
        r#"cat '{}' > /dev/null || exit 3
answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) answer '{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"needy","version":"1"}}}}';;
    *'"method":"tools/list"'*) answer '{{"tools":[]}}';;
    *) [ -z "$id" ] || answer '{{}}';;
  esac
done
"#,
        wanted.display()
    );
    // The message of `cat` has no quotes, and the name has spaces.
    let script = script.replacen(
        "|| exit 3",
        &format!(
            "2> /dev/null || {{ echo \"EACCES: permission denied, open '{}'\" >&2; exit 3; }}",
            wanted.display()
        ),
        1,
    );
    house.house.write("needy/start.sh", &script);
    assert_eq!(house.run(&["bundle", "needy", "--output", "needy.mcpb"]).code, Some(0));
    let start = |answer: &str| {
        let mut terminal = Terminal::start(&house.command(&["add", "./needy.mcpb"]), 200, 50);
        terminal.sees("s with the sandbox");
        terminal.type_keys("s\r");
        terminal.sees("s without a sandbox");
        terminal.type_keys("\r");
        let seen = terminal.sees("g let it read this one file");
        assert!(seen.contains(&wanted.display().to_string()), "{seen}");
        terminal.type_keys(answer);
        terminal
    };
    // Enter grants nothing.
    let mut refused = start("\r");
    assert_eq!(refused.wait(), 4, "{}", refused.text());
    assert_eq!(house.config(), "");
    let mut granted = start("g\r");
    granted.sees("keep the server?");
    granted.type_keys("\r");
    assert_eq!(granted.wait(), 0, "{}", granted.text());
    let config = house.config();
    assert!(config.contains(&format!("\"{}\"], write = []", wanted.display())), "{config}");
    assert!(!config.contains("home/other") && !config.contains("home\""), "{config}");
    assert!(config.contains("settings of mine"), "{config}");
}

/// A secret that was typed for an addition that failed is used in the next try, and says so; with the server added it is gone.
#[test]
fn a_typed_secret_is_sealed_for_the_next_try() {
    if installed("npm").is_none() {
        return;
    }
    let house = AddHouse::new();
    house.registry.exchange_npm_archives();
    let add = ["add", "io.github.loopback/clock-npm", "--version", "1.0.0"];
    let mut first = Terminal::start(&house.command(&add), 150, 60);
    first.sees("CLOCK_TOKEN");
    first.type_keys("a-secret-of-the-test\r");
    first.sees("Install and start it?");
    first.type_keys("\r");
    assert_eq!(first.wait(), 4, "{}", first.text());
    assert!(first.text().contains("sealed for one hour"), "{}", first.text());
    assert!(house.house.path("state/hospes/pending-secrets").is_file());
    let sealed = std::fs::read(house.house.path("state/hospes/credentials")).unwrap();
    assert!(!String::from_utf8_lossy(&sealed).contains("a-secret-of-the-test"));
    assert_eq!(house.run(&["secret", "list"]).stdout.trim(), "", "it is no secret of a server yet");

    house.registry.restore_npm_archives();
    let mut second = Terminal::start(&house.command(&add), 150, 60);
    let seen = second.sees("Install and start it?");
    assert!(seen.contains("as typed in the last try") && !seen.contains("a-secret-of-the-test"), "{seen}");
    second.type_keys("\r");
    second.sees("keep the server?");
    second.type_keys("\r");
    assert_eq!(second.wait(), 0, "{}", second.text());
    let called = house.run(&["call", "clock-npm", "token_length"]);
    assert!(called.stdout.contains("20"), "{called:?}");
    // Nothing is removed from another file than the one that was seen.
    let other = house.run(&["remove", "clock-npm", "--yes", "--seen", &"0".repeat(64)]);
    assert!(other.code == Some(1) && other.stderr.contains("no longer the one that was shown"), "{other:?}");
    // Nothing is left for a third try.
    assert_eq!(house.run(&["remove", "clock-npm", "--yes", "--purge"]).code, Some(0));
    let mut third = Terminal::start(&house.command(&add), 150, 60);
    third.sees("CLOCK_TOKEN");
    third.type_keys("\u{3}");
    third.wait();
    // The files of a removed server that was not purged are marked.
    let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", "s3cret\n").display());
    assert_eq!(house.run(&[&add[..], &["--yes", "--secret", &secret]].concat()).code, Some(0));
    let removed = house.run(&["remove", "clock-npm", "--yes"]);
    assert!(removed.stderr.contains("for 30 days"), "{removed:?}");
    let folder = house.house.path("data/hospes/packages/clock-npm");
    let mark = |folder: &std::path::Path| {
        std::fs::read_dir(folder)
            .unwrap()
            .flatten()
            .find(|one| one.path().extension().is_some_and(|one| one == "removed"))
    };
    let marked = mark(&folder).unwrap().path();
    // Thirty days later, as the mark says, the next command removes them.
    std::fs::write(&marked, "2026-01-01T00:00:00Z").unwrap();
    assert_eq!(house.run(&["add", "--dry-run", "--name", "x", "--", "true"]).code, Some(0));
    assert!(!folder.exists());
}

/// The configuration names the registry, and the option wins.
#[test]
fn the_registry_of_the_configuration_is_used() {
    let house = AddHouse::new();
    let url = house.registry.url();
    std::fs::create_dir_all(house.house.path("config/hospes")).unwrap();
    house.house.write("config/hospes/config.toml", &format!("registry = \"{url}\"\n"));
    let run = |args: &[&str]| {
        let mut command = house.command(args);
        Ran::of(command.env_remove("HOSPES_REGISTRY").output().unwrap())
    };
    let found = run(&["search", "clock"]);
    assert!(found.code == Some(0) && found.stdout.contains("loopback/clock-pypi"), "{found:?}");
    let planned = run(&["add", "--dry-run", "io.github.loopback/clock-pypi", "--no-install"]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let other = run(&["search", "clock", "--registry", "http://127.0.0.1:1"]);
    assert_eq!(other.code, Some(4), "{other:?}");
}

/// Statements of a server card are shown as claims of the server.
#[test]
fn the_card_of_a_url_is_shown_as_a_claim() {
    let house = AddHouse::new();
    let card = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "com.example/clock", "title": "The card's clock", "version": "3.1.4", "description": "Tells the time",
        "remotes": [{ "type": "streamable-http", "url": format!("{}/mcp", house.registry.url()) }],
    });
    house.registry.add_file("mcp/server-card", card.to_string());
    let planned = house.run(&["add", "--dry-run", &format!("{}/mcp", house.registry.url())]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    assert!(planned.stderr.contains("The card's clock"), "{planned:?}");
    assert!(
        planned.stderr.contains("com.example/clock 3.1.4 (its card; 127.0.0.1 proves no more)"),
        "{planned:?}"
    );
    assert!(planned.stdout.contains("url = "), "{planned:?}");
}

/// The folders in a folder.
fn folders(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Servers of one name in two configuration files have their own secrets and their own versions.
#[test]
fn servers_of_one_name_in_two_files_are_kept_apart() {
    if installed("npm").is_none() {
        return;
    }
    let house = AddHouse::new();
    let run = |config: &str, args: &[&str]| {
        let mut command = house.command(args);
        command.env("HOSPES_CONFIG", house.house.path(config)).stdin(std::process::Stdio::null());
        Ran::of(command.output().unwrap())
    };
    for (config, version, token) in [("one.toml", "1.0.0", "six666"), ("two.toml", "1.1.0", "seven77")] {
        let secret = format!("CLOCK_TOKEN=@{}", house.house.write("token", token).display());
        let add = ["add", "--yes", "io.github.loopback/clock-npm", "--version", version, "--secret", &secret];
        let added = run(config, &add);
        assert_eq!(added.code, Some(0), "{added:?}");
    }
    let length = |config: &str| {
        let called = run(config, &["call", "clock-npm", "token_length"]);
        assert_eq!(called.code, Some(0), "{called:?}");
        called.stdout.trim().to_owned()
    };
    assert!(length("one.toml").contains('6') && length("two.toml").contains('7'));
    let current = |config: &str| {
        let checked = run(config, &["update", "--check", "--json"]);
        let rows: Value = serde_json::from_str(&checked.stdout).unwrap();
        rows[0]["current"].as_str().unwrap().to_owned()
    };
    assert_eq!((current("one.toml"), current("two.toml")), ("1.0.0".to_owned(), "1.1.0".to_owned()));
    // A copied entry uses the secret and the folder, too.
    let two = house.house.read("two.toml");
    let copy =
        two[two.find("[servers.clock-npm]").unwrap()..].replace("[servers.clock-npm]", "[servers.copy]");
    let one = house.house.read("one.toml");
    house.house.write("one.toml", &format!("{one}\n{copy}"));
    assert_eq!(run("two.toml", &["remove", "clock-npm", "--yes", "--purge"]).code, Some(0));
    assert!(length("one.toml").contains('6'));
    let copied = run("one.toml", &["call", "copy", "token_length"]);
    assert!(copied.code == Some(0) && copied.stdout.contains('7'), "{copied:?}");
    assert_eq!(current("one.toml"), "1.0.0");
}

/// A running host uses the new server at once, and stops it when it is removed.
#[test]
fn a_running_host_uses_what_is_added_and_stops_what_is_removed() {
    let house = AddHouse::new();
    let host = Running::start(house.command(&["up", "--listen", "127.0.0.1:0", "--console", "off"]));
    let said = host.said(|line| line.contains("endpoint"));
    let url = said.split(&[' ', '='][..]).find(|word| word.starts_with("http://")).unwrap().to_owned();
    let server = house.house.server("own", &["greet"], "");
    let script = server["args"][0].as_str().unwrap().to_owned();
    let added = house.run(&["add", "--yes", "--json", "--name", "own", "--", "sh", &script]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let value: Value = serde_json::from_str(&added.stdout).unwrap();
    assert_eq!((&value["server"], &value["running"]), (&json!("own"), &json!(true)), "{value}");
    let called = house.run(&["call", &url, "own__greet"]);
    assert_eq!(called.code, Some(0), "{called:?}");

    let removed = house.run(&["remove", "own", "--yes"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    eventually("the removed server has ended", || !house.house.is_running("own"));
    assert!(!house.config().contains("own"), "{}", house.config());
    let unknown = house.run(&["remove", "own", "--yes"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
}

/// A server that does not start leaves nothing behind.
#[test]
fn nothing_stays_of_a_server_that_does_not_start() {
    let house = AddHouse::new();
    let failed = house.run(&["add", "--yes", "--", "sh", "-c", "echo 'no licence' >&2; exit 3"]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    assert!(
        failed.stderr.contains("no licence") && failed.stderr.contains("nothing was added"),
        "{failed:?}"
    );
    assert_eq!(house.config(), "");
    assert!(!house.house.path("data").exists());
    let missing = house.run(&["add", "--yes", "--", "no-such-program-here"]);
    assert_eq!(missing.code, Some(4), "{missing:?}");
    assert_eq!(house.config(), "");
}

/// A bundle of the registry is checked, unpacked and started; a changed one is refused.
#[test]
fn a_bundle_is_added_if_its_hash_is_right() {
    if installed("node").is_none() {
        return;
    }
    let house = AddHouse::new();
    let secret = format!("token=@{}", house.house.write("token", "s3cret\n").display());
    let added = house.run(&["add", "--yes", "io.github.loopback/clock-bundle", "--secret", &secret]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let config = house.config();
    assert!(config.contains("digest = \"sha256:") && config.contains("bundles"), "{config}");
    let called = house.run(&["call", "clock-bundle", "now"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    assert_eq!(house.run(&["remove", "clock-bundle", "--yes"]).code, Some(0));
    // A folder that is there already is used only if it is that of the bundle.
    let folder = folders(&folders(&house.house.path("data/hospes/bundles")).remove(0)).remove(0);
    let (manifest, added) = (folder.join("manifest.json"), folder.join("node_modules/fs/index.js"));
    let again = |notice: &str| {
        let again = house.run(&["add", "--yes", "io.github.loopback/clock-bundle", "--secret", &secret]);
        assert!(again.code == Some(0) && manifest.is_file() && !added.exists(), "{again:?}");
        assert_eq!(format!("{again:?}").contains("is kept for 30 days as"), !notice.is_empty(), "{again:?}");
        assert_eq!(house.run(&["remove", "clock-bundle", "--yes"]).code, Some(0));
    };
    again("");
    std::fs::remove_file(&manifest).unwrap();
    again("a file is missing");
    // A module that the server loads instead of another.
    std::fs::create_dir_all(added.parent().unwrap()).unwrap();
    std::fs::write(&added, "").unwrap();
    again("a file was added");
    let aside = folder.with_file_name(format!("{}-changed", folder.file_name().unwrap().display()));
    assert!(aside.join("node_modules/fs/index.js").is_file(), "its data may be there");

    house.registry.add_file("loopback-clock.mcpb", "PK another file".to_owned());
    let refused = house.run(&["add", "--yes", "--name", "other", "io.github.loopback/clock-bundle"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("SHA-256"), "{refused:?}");
    assert!(!house.config().contains("other"));
}

/// Options have their effect, or are refused.
#[test]
fn an_option_that_would_have_no_effect_is_refused() {
    let house = AddHouse::new();
    let refused = |args: &[&str], text: &str| {
        let ran = house.run(&[&["add", "--dry-run"], args].concat());
        assert!(ran.code == Some(1) && ran.stderr.contains(text), "{args:?}: {ran:?}");
    };
    let zeros = "0".repeat(64);
    let url = format!("{}/mcp", house.registry.url());
    refused(&["npm:loopback-clock", "--sha256", &zeros], "--sha256 is not used");
    refused(&["io.github.loopback/clock-npm", "--sha256", &zeros], "--sha256 is not used");
    refused(&["npm:loopback-clock@1.0.0", "--version", "1.1.0"], "--version is not used");
    refused(&[&url, "--version", "1.1.0"], "--version is not used");
    refused(&[&url, "--set", "A=b"], "--set is not used");
    refused(&[&url, "--no-install"], "--no-install is not used");
    refused(&["--secret", "A=-", "--name", "own", "--", "true"], "--secret is not used");
    let pinned = house.run(&["add", "--dry-run", "--no-install", "npm:loopback-clock", "--version", "1.0.0"]);
    assert!(pinned.code == Some(0) && pinned.stdout.contains("loopback-clock@1.0.0"), "{pinned:?}");

    // The hash of a bundle is compared, whether it is a file or at a URL.
    std::fs::create_dir(house.house.path("own")).unwrap();
    let manifest = json!({
        "manifest_version": "0.3", "name": "own", "version": "1.0.0", "description": "A bundle",
        "author": { "name": "Tests" },
        "server": { "type": "binary", "entry_point": "run.sh", "mcp_config": { "command": "sh", "args": ["${__dirname}/run.sh"] } },
    });
    house.house.write("own/manifest.json", &manifest.to_string());
    house.house.write("own/run.sh", "exit 1\n");
    assert_eq!(house.run(&["bundle", "own", "--output", "own.mcpb"]).code, Some(0));
    refused(&["./own.mcpb", "--sha256", &zeros], "demands 0000");
    let hash = hospes_registry_testkit::sha256_hex(&std::fs::read(house.house.path("own.mcpb")).unwrap());
    let right = house.run(&["add", "--dry-run", "./own.mcpb", "--sha256", &hash]);
    assert_eq!(right.code, Some(0), "{right:?}");
    let at = format!("{}/loopback-clock.mcpb?dl=1", house.registry.url());
    let ran = house.run(&["add", "--dry-run", &at, "--sha256", &zeros]);
    assert!(ran.code == Some(4) && ran.stderr.contains("SHA-256"), "a bundle, and no endpoint: {ran:?}");
}

/// The unpacked folder of a bundle goes with a server that does not start.
#[test]
fn the_folder_of_a_bundle_that_does_not_start_is_removed() {
    let house = AddHouse::new();
    std::fs::create_dir(house.house.path("bad")).unwrap();
    let manifest = json!({
        "manifest_version": "0.3", "name": "bad", "version": "1.0.0", "description": "Ends at once",
        "author": { "name": "Tests" },
        "server": {
            "type": "binary", "entry_point": "end.sh",
            "mcp_config": { "command": "sh", "args": ["${__dirname}/end.sh"] },
        },
    });
    house.house.write("bad/manifest.json", &manifest.to_string());
    house.house.write("bad/end.sh", "pwd > \"$HOME/was-here\"; exit 3\n");
    std::fs::create_dir(house.house.path("home")).unwrap();
    let packed = house.run(&["bundle", "bad", "--output", "bad.mcpb"]);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let failed = house.run(&["add", "--yes", "./bad.mcpb"]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    let folder = house.house.read("home/was-here");
    assert!(folder.contains("hospes/bundles/bad/1.0.0-"), "it ran in its folder: {folder}");
    assert!(!std::path::Path::new(folder.trim()).exists(), "{folder}");
    assert_eq!(house.config(), "");
}

/// Without a terminal and without `--yes`, nothing is started, and the plan is shown.
#[test]
fn without_a_person_nothing_is_added() {
    let house = AddHouse::new();
    let planned = house.run(&["add", "io.github.loopback/clock-npm"]);
    assert_eq!(planned.code, Some(1), "{planned:?}");
    assert!(planned.stderr.contains("CLOCK_TOKEN"), "the missing secret is named: {planned:?}");
    let secret = house.house.write("token", "s3cret\n");
    let secret = format!("CLOCK_TOKEN=@{}", secret.display());
    let planned = house.run(&["add", "io.github.loopback/clock-npm", "--secret", &secret]);
    assert_eq!(planned.code, Some(1), "{planned:?}");
    assert!(planned.stdout.contains("\"node\"") && !planned.stdout.contains("s3cret"), "{planned:?}");
    assert!(planned.stderr.contains("nobody can be asked"), "{planned:?}");
    assert_eq!(house.config(), "");
    // A secret in an argument is refused, and not repeated.
    let refused = house.run(&["add", "io.github.loopback/clock-npm", "--set", "CLOCK_TOKEN=s3cret", "--yes"]);
    assert!(refused.code == Some(1) && !refused.stderr.contains("s3cret"), "{refused:?}");
    // A name that is not in the registry is not taken from elsewhere.
    let unknown = house.run(&["add", "no-server-has-this-name", "--yes"]);
    assert!(unknown.stderr.contains("npm:NAME@VERSION"), "{unknown:?}");
}
