//! The archive: unpacked, and run where it lies.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Bench, LIMIT, command, contains, upgrades_by};
use crate::checks::CheckList;
use crate::process::BackgroundServer;

pub(super) fn examine(bench: &Bench, checks: &mut CheckList) -> Result<()> {
    let home = bench.home("archive home")?;
    let mut sums = command("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"]);
    sums.current_dir(&bench.release.folder);
    let sums = crate::process::run(sums, "installs sha256sum", LIMIT)?;
    checks.add("archive: SHA256SUMS", sums.success().map(|_| String::new()));

    let archive = bench.package("hospes-", "-unknown-linux-gnu.tar.gz")?;
    let place = bench.home("archive place")?;
    let mut tar = command("tar", ["xzf"]);
    tar.arg(&archive).arg("-C").arg(&place);
    bench.run(tar, &home, "tar")?;
    let folder = fs::read_dir(&place)?.next().context("an empty archive")??.path();
    let program = folder.join("hospes");
    let advice = "unpack the newest archive over this folder while no host runs";
    bench.check_program(checks, "archive", &home, || Command::new(&program), advice);
    checks.add("archive: up, status, Ctrl-C", up(bench, &home, || Command::new(&program)));
    checks.add("archive: unit of systemd", unit(bench, &home, &folder));
    for scoop in ["scoop/apps/hospes/current", "Microsoft/WinGet/Packages/Hospes.Hospes_x"] {
        // These unpack the archive with its marker into folders of theirs.
        let place = home.join(scoop);
        fs::create_dir_all(&place)?;
        for file in ["hospes", "INSTALLED_BY"] {
            fs::copy(folder.join(file), place.join(file))?;
        }
        let expected =
            if scoop.starts_with("scoop") { "scoop update hospes" } else { "winget upgrade hospes" };
        let mut upgrade = Command::new(place.join("hospes"));
        upgrade.args(["--json", "upgrade"]);
        let said = bench.run(upgrade, &home, scoop).and_then(|done| upgrades_by(&done.stdout, expected));
        checks.add(&format!("archive in {scoop}: upgrade"), said);
    }
    Ok(())
}

/// Starts the host, asks for its state, and ends it as Ctrl-C does.
pub(super) fn up(bench: &Bench, home: &Path, start: impl Fn() -> Command) -> Result<String> {
    let server = start_up(bench, home, &start)?;
    let mut status = start();
    status.arg("status");
    let said = bench.run(status, home, "status")?.stdout;
    contains(&said, "time")?;
    server.stop()?;
    Ok(String::new())
}

/// Starts the host on a free port.
pub(super) fn start_up(bench: &Bench, home: &Path, start: impl Fn() -> Command) -> Result<BackgroundServer> {
    let mut up = start();
    up.args(["up", "--listen", "127.0.0.1:0", "--console", "off"]);
    bench.isolate(&mut up, home);
    BackgroundServer::start(up, "installs up", LIMIT)
}

/// The unit is valid once the program is where it says.
fn unit(bench: &Bench, home: &Path, folder: &Path) -> Result<String> {
    let unit = fs::read_to_string(folder.join("hospes.service"))?;
    let (begin, rest) =
        unit.split_once("ExecStart=%h/").context("the unit starts no program below the home")?;
    let (path, rest) = rest.split_once(' ').context("the unit has no arguments")?;
    ensure!(path == ".local/share/hospes/program/hospes", "the program is at {path}");
    let file = home.join("hospes.service");
    fs::write(&file, format!("{begin}ExecStart=\"{}/hospes\" {rest}", folder.display()))?;
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--user", "--man=no"]).arg(&file);
    bench.isolate(&mut verify, home);
    verify.env("XDG_RUNTIME_DIR", home);
    let done = crate::process::run(verify, "installs systemd-analyze", LIMIT)?.success()?;
    ensure!(done.stderr.is_empty(), "{}", done.stderr);
    Ok("systemd-analyze".to_owned())
}
