//! npm: from files, through npx, and through a registry on loopback.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::archive::start_up;
use super::{Bench, LIMIT, contains, equals};
use crate::checks::CheckList;
use crate::process::{self, BackgroundServer};

const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Global installation, as `hospes upgrade` prints it.
const UPGRADE: &str = "npm install --global hospes@latest";
const NPX_UPGRADE: &str = "npx --yes hospes@latest --version";

pub(super) fn examine(bench: &Bench, checks: &mut CheckList) -> Result<()> {
    let home = bench.home("npm home")?;
    let version = &bench.release.version;
    let wrapper = bench.package(&format!("hospes-{version}"), ".tgz")?;
    let platform = bench.package(&format!("hospes-{}", npm_platform()), ".tgz")?;

    // Without a registry: what npm cannot find is optional.
    let prefix = bench.home("npm prefix")?;
    let mut install = npm(bench, ["install", "--offline", "--no-audit", "--no-fund", "--prefix"]);
    install.arg(&prefix).arg(&wrapper).arg(&platform);
    bench.run(install, &home, "npm install")?;
    let program = prefix.join("node_modules/.bin/hospes");
    bench.check_program(checks, "npm from files", &home, || started(bench, &program), UPGRADE);
    checks.add("npm from files: exit status", exit_status(bench, &home, &program));
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let ended = signalled(bench, &home, &program, signal);
        checks.add(&format!("npm from files: signal {} ends the host", signal.as_raw()), ended);
    }
    checks.add("npm from files: the signal that killed it", killed(bench, &home, &program));
    let npx = || {
        let mut npx = npm(bench, ["exec", "--yes", "--offline"]);
        for package in [&wrapper, &platform] {
            npx.arg(format!("--package={}", package.display()));
        }
        npx.args(["--", "hospes"]);
        npx
    };
    bench.check_program(checks, "npx from files", &home, npx, NPX_UPGRADE);
    registry(bench, checks)
}

/// Platform of this machine, as npm names it.
const fn npm_platform() -> &'static str {
    if cfg!(target_arch = "aarch64") { "linux-arm64" } else { "linux-x64" }
}

/// npm itself, on the Node that the tests use.
fn npm<const N: usize>(bench: &Bench, arguments: [&str; N]) -> Command {
    let npm = crate::tools::find_command("npm").unwrap_or_else(|| "npm".into());
    let npm = fs::canonicalize(&npm).unwrap_or(npm);
    let mut command = Command::new(bench.node.program());
    command.arg(npm).args(arguments);
    command
}

/// The wrapper, on the Node that the tests use.
fn started(bench: &Bench, program: &Path) -> Command {
    let mut command = Command::new(bench.node.program());
    command.arg(program);
    command
}

fn exit_status(bench: &Bench, home: &Path, program: &Path) -> Result<String> {
    let mut command = started(bench, program);
    command.args(["--quiet", "call", "time", "no_such_tool"]);
    bench.isolate(&mut command, home);
    let wrapped = process::run(command, "installs npm status", LIMIT)?;
    let mut command = Command::new(bench.folder.join("hospes"));
    command.args(["--quiet", "call", "time", "no_such_tool"]);
    bench.isolate(&mut command, home);
    let direct = process::run(command, "installs status", LIMIT)?;
    ensure!(direct.code.is_some_and(|code| code > 0), "the program itself: {}", direct.ending());
    ensure!(wrapped.code == direct.code, "{}, and the program itself: {}", wrapped.ending(), direct.ending());
    equals(&wrapped.stderr, &direct.stderr)?;
    Ok(direct.ending())
}

/// A signal to the wrapper ends the host in good order, and the wrapper after it.
fn signalled(bench: &Bench, home: &Path, program: &Path, signal: Signal) -> Result<String> {
    let server = start_up(bench, home, || started(bench, program))?;
    let child = child_of(&server)?;
    let wrapper = Pid::from_raw(i32::try_from(server.id())?).context("no process id")?;
    let log = process::log("installs up", "log")?;
    kill_process(wrapper, signal)?;
    let status = server.wait(STOP_LIMIT)?;
    ensure!(status.code() == Some(0), "the wrapper: {status}");
    ensure!(!Path::new(&format!("/proc/{child}")).exists(), "the host outlived the wrapper");
    // The host says it last of all; a killed one does not.
    let begun = Instant::now();
    while !fs::read_to_string(&log)?.contains("stopped") {
        ensure!(begun.elapsed() < STOP_LIMIT, "the host did not say that it stopped");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(String::new())
}

/// A program that a signal killed has the same end as its wrapper.
fn killed(bench: &Bench, home: &Path, program: &Path) -> Result<String> {
    let server = start_up(bench, home, || started(bench, program))?;
    let child = Pid::from_raw(i32::try_from(child_of(&server)?)?).context("no process id")?;
    kill_process(child, Signal::KILL)?;
    let status = server.wait(STOP_LIMIT)?;
    ensure!(status.signal() == Some(Signal::KILL.as_raw()), "the wrapper: {status}");
    Ok(String::new())
}

fn child_of(server: &BackgroundServer) -> Result<u32> {
    let id = server.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
    children.split_whitespace().next().context("the wrapper has no child")?.parse().context("a process id")
}

/// Publishes to a registry on loopback and installs from there, as people will.
fn registry(bench: &Bench, checks: &mut CheckList) -> Result<()> {
    let home = bench.home("npm registry home")?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let url = format!("http://127.0.0.1:{port}/");
    let settings = home.join("verdaccio.yaml");
    fs::write(
        &settings,
        "storage: ./storage\nmax_body_size: 500mb\npackages:\n  '**':\n    access: $all\n    publish: $all\n\
         log: { type: stdout, format: pretty, level: warn }\n",
    )?;
    let mut verdaccio = Command::new(bench.node.program());
    verdaccio.arg(bench.registry.join("node_modules/verdaccio/bin/verdaccio")).arg("--config").arg(&settings);
    verdaccio.args(["--listen", &format!("127.0.0.1:{port}")]);
    bench.isolate(&mut verdaccio, &home);
    let server = BackgroundServer::start_at(verdaccio, "installs verdaccio", &url, LIMIT)?;
    // npm refuses to publish without a token, and this registry asks for none.
    fs::write(home.join(".npmrc"), format!("registry={url}\n//127.0.0.1:{port}/:_authToken=none\n"))?;

    for package in
        bench.release.files()?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "tgz"))
    {
        let mut publish = npm(bench, ["publish", "--access", "public"]);
        publish.arg(&package);
        bench.run(publish, &home, "npm publish")?;
    }
    let version = &bench.release.version;
    let prefix = home.join("global");
    let mut install = npm(bench, ["install", "--global", "--no-audit", "--no-fund", "--prefix"]);
    install.arg(&prefix).arg("hospes");
    bench.run(install, &home, "npm install from the registry")?;
    let program = prefix.join("bin/hospes");
    bench.check_program(checks, "npm from a registry", &home, || started(bench, &program), UPGRADE);
    let scope = prefix.join("lib/node_modules/hospes/node_modules/@hospes");
    let installed: Vec<_> = fs::read_dir(&scope)?.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    let only = ensure_only(&installed);
    checks.add("npm from a registry: the package of this platform alone", only);
    let mut remove = npm(bench, ["uninstall", "--global", "--prefix"]);
    remove.arg(&prefix).arg("hospes");
    bench.run(remove, &home, "npm uninstall")?;
    let left = program.exists() || prefix.join("lib/node_modules/hospes").exists();
    let removed = if left {
        Err(anyhow::anyhow!("something is left in {}", prefix.display()))
    } else {
        Ok(String::new())
    };
    checks.add("npm from a registry: removed", removed);

    let npx = || {
        let mut npx = npm(bench, ["exec", "--yes", "--"]);
        npx.arg(format!("hospes@{version}"));
        npx
    };
    bench.check_program(checks, "npx from a registry", &home, npx, NPX_UPGRADE);
    checks.add("npm --omit=optional: says what is missing", omitted(bench, &home));
    checks.stop("npm registry: stops", server);
    Ok(())
}

fn ensure_only(installed: &[std::ffi::OsString]) -> Result<String> {
    ensure!(installed == [npm_platform()], "{installed:?}");
    Ok(npm_platform().to_owned())
}

/// Without the package of the platform, the wrapper says so.
fn omitted(bench: &Bench, home: &Path) -> Result<String> {
    let prefix = home.join("omitted");
    fs::create_dir_all(&prefix)?;
    let mut install = npm(bench, ["install", "--omit=optional", "--no-audit", "--no-fund", "--prefix"]);
    install.arg(&prefix).arg("hospes");
    bench.run(install, home, "npm install --omit=optional")?;
    let mut start = started(bench, &prefix.join("node_modules/.bin/hospes"));
    start.arg("--version");
    bench.isolate(&mut start, home);
    let done = process::run(start, "installs omitted", LIMIT)?;
    ensure!(done.code == Some(1), "{}", done.ending());
    contains(&done.stderr, &format!("the package @hospes/{} with the program is missing", npm_platform()))?;
    contains(&done.stderr, "--omit=optional")?;
    Ok(done.stderr.trim().chars().take(60).collect())
}

/// Checks what npm would publish.
pub(super) fn dry_run(bench: &Bench, package: &Path) -> Result<String> {
    let home = bench.home("npm home")?;
    let mut pack = npm(bench, ["pack", "--dry-run", "--json"]);
    pack.arg(package);
    let said = bench.run(pack, &home, "npm pack")?.stdout;
    let said: serde_json::Value = serde_json::from_str(&said).context("the output of npm pack")?;
    let files = said[0]["files"].as_array().context("no files")?;
    let paths: Vec<&str> = files.iter().filter_map(|file| file["path"].as_str()).collect();
    for needed in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "package.json"] {
        ensure!(paths.contains(&needed), "no {needed} in {paths:?}");
    }
    let programs: Vec<_> = files
        .iter()
        .filter(|file| file["path"].as_str().is_some_and(|path| path.starts_with("bin/")))
        .collect();
    ensure!(programs.len() == 1 && paths.len() == 5, "{paths:?}");
    ensure!(programs[0]["mode"] == 0o755, "the mode of {} is {}", programs[0]["path"], programs[0]["mode"]);
    Ok(format!("{} files", paths.len()))
}
