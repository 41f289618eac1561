//! `hospes add` of packages whose launchers are not installed here: `dnx` and `docker` are scripts that start a server with the
//! arguments that they are given.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use hospes_registry_testkit::RegistryServer;
use serde_json::{Value, json};

use crate::support::{House, Ran, text};

/// The secret of the server.
const TOKEN: &str = "tok-9a8b7c6d";

struct LauncherHouse {
    house: House,
    registry: RegistryServer,
}

impl LauncherHouse {
    /// Creates a house whose `PATH` begins with a launcher that writes its arguments to a file, one a line, and then runs `rest`.
    fn new(launcher: &str, rest: &str) -> Self {
        let (house, registry) = (House::new(), RegistryServer::start());
        let script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}'\nprintf '%s' \"$CLOCK_TOKEN\" > '{}'\n{rest}\n",
            house.path("arguments").display(),
            house.path("variable").display(),
        );
        std::fs::create_dir(house.path("bin")).unwrap();
        let file = house.write(&format!("bin/{launcher}"), &script);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { house, registry }
    }

    /// Creates a house whose launcher starts a server with the tool `now`.
    fn serving(launcher: &str) -> Self {
        let house = Self::new(launcher, "exec sh \"$(dirname \"$0\")/../clock.sh\"");
        house.house.server("clock", &["now"], "");
        house
    }

    fn publish(&self, package: &Value) {
        let mut package = package.clone();
        package["transport"] = json!({ "type": "stdio" });
        package["environmentVariables"] =
            json!([{ "name": "CLOCK_TOKEN", "isRequired": true, "isSecret": true }]);
        self.registry.publish(json!({
            "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
            "name": "io.github.loopback/clock", "description": "The time.", "version": "1.0.0",
            "packages": [package],
        }));
    }

    fn run(&self, args: &[&str]) -> Ran {
        let usual = std::env::var_os("PATH").unwrap();
        let path = std::iter::once(self.house.path("bin")).chain(std::env::split_paths(&usual));
        self.run_with(&std::env::join_paths(path).unwrap(), args)
    }

    fn run_with(&self, path: &OsStr, args: &[&str]) -> Ran {
        let mut command = self.house.command_at(&self.registry, args);
        Ran::of(command.env("PATH", path).stdin(Stdio::null()).output().unwrap())
    }

    fn add(&self) -> Ran {
        let secret = format!("CLOCK_TOKEN=@{}", text(&self.house.write("token", TOKEN)));
        self.run(&["add", "--yes", "io.github.loopback/clock", "--secret", &secret])
    }

    /// Checks that the server was started so, and that it can be called.
    fn assert_added(&self, arguments: &[&str]) {
        let added = self.add();
        assert_eq!(added.code, Some(0), "{added:?}");
        assert_eq!(self.house.read("arguments").lines().collect::<Vec<_>>(), arguments);
        assert_eq!(self.house.read("variable"), TOKEN);
        let config = self.house.read("config/hospes/config.toml");
        assert!(config.contains("${secret:") && !config.contains(TOKEN), "{config}");
        std::fs::remove_file(self.house.path("arguments")).unwrap();
        let called = self.run(&["call", "clock", "now"]);
        assert_eq!((called.code, called.stdout.trim()), (Some(0), "clock was called"), "{called:?}");
        assert_eq!(self.house.read("arguments").lines().collect::<Vec<_>>(), arguments, "as configured");
    }
}

fn nuget() -> Value {
    json!({
        "registryType": "nuget", "identifier": "Loopback.Clock", "version": "1.0.0", "runtimeHint": "dnx",
        "packageArguments": [{ "type": "positional", "value": "mcp" }, { "type": "named", "name": "--zone", "value": "UTC" }],
    })
}

#[test]
fn a_package_of_nuget_is_run_by_dnx_with_its_version() {
    let house = LauncherHouse::serving("dnx");
    house.publish(&nuget());
    house.assert_added(&["Loopback.Clock@1.0.0", "--yes", "--", "mcp", "--zone", "UTC"]);
}

#[test]
fn an_image_is_run_by_docker_with_its_digest_and_without_values_in_its_arguments() {
    let house = LauncherHouse::serving("docker");
    let image = format!("ghcr.io/loopback/clock@{}", RegistryServer::image_digest());
    house.publish(&json!({ "registryType": "oci", "identifier": image, "runtimeHint": "docker" }));
    house.assert_added(&["run", "-i", "--rm", "-e", "CLOCK_TOKEN", &image]);
    let config = house.house.read("config/hospes/config.toml");
    assert!(config.contains(&RegistryServer::image_digest()), "{config}");
}

#[test]
fn a_stopped_service_and_a_missing_launcher_are_named_with_their_remedy() {
    let stopped = "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.";
    let house = LauncherHouse::new("docker", &format!("echo '{stopped}' >&2; exit 125"));
    let image = format!("ghcr.io/loopback/clock@{}", RegistryServer::image_digest());
    house.publish(&json!({ "registryType": "oci", "identifier": image }));
    let failed = house.add();
    assert_eq!(failed.code, Some(4), "{failed:?}");
    assert!(failed.stderr.contains("hint: Docker does not run: "), "{failed:?}");

    // `PATH` has nothing but the folder of the test, so the machine's own `dnx` is not found.
    let house = LauncherHouse::serving("other");
    house.publish(&nuget());
    let secret = format!("CLOCK_TOKEN=@{}", text(&house.house.write("token", TOKEN)));
    let own = house.house.path("bin");
    let failed =
        house.run_with(own.as_os_str(), &["add", "--yes", "io.github.loopback/clock", "--secret", &secret]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    assert!(failed.stderr.contains("dnx was not found in PATH; install the .NET 10 SDK"), "{failed:?}");
    assert_eq!(house.house.read("config/hospes/config.toml"), "");
}
