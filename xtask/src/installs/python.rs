//! The wheel: through uv, uvx and pip, from a file and from an index on loopback.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Bench, LIMIT, command};
use crate::checks::CheckList;
use crate::process::BackgroundServer;

pub(super) fn examine(bench: &Bench, checks: &mut CheckList) -> Result<()> {
    let arch = std::env::consts::ARCH;
    let files = bench.release.files()?;
    let is_own = |name: &str| name.contains("linux_") && name.ends_with(&format!("_{arch}.whl"));
    let wheel =
        files.iter().find(|file| is_own(&file.to_string_lossy())).context("no wheel for this machine")?;
    let home = bench.home("python home")?;

    let uvx = || {
        let mut uvx = uv(bench, ["tool", "run", "--offline", "--from"]);
        uvx.arg(wheel).arg("hospes");
        uvx
    };
    bench.check_program(checks, "uvx from a file", &home, uvx, "uvx hospes@latest --version");
    let mut install = uv(bench, ["tool", "install", "--offline"]);
    install.arg(wheel);
    bench.run(install, &home, "uv tool install")?;
    let program = home.join(".local/bin/hospes");
    bench.check_program(checks, "uv tool", &home, || Command::new(&program), "uv tool upgrade hospes");
    bench.run(uv(bench, ["tool", "uninstall", "hospes"]), &home, "uv tool uninstall")?;
    checks.add("uv tool: removed", gone(&[&program, &home.join(".local/share/uv/tools/hospes")]));

    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let url = format!("http://127.0.0.1:{port}/simple/");
    let shelf = home.join("index");
    fs::create_dir_all(&shelf)?;
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "whl")) {
        fs::hard_link(file, shelf.join(file.file_name().unwrap_or_default()))?;
    }
    let mut index = bench.python.module("pypiserver");
    index.args(["run", "--host", "127.0.0.1", "--port", &port.to_string()]).arg(&shelf);
    let server = BackgroundServer::start_at(index, "installs pypiserver", &url, LIMIT)?;
    let place = home.join("environment");
    let mut create = command("python3", ["-m", "venv", "--without-pip"]);
    create.arg(&place);
    bench.run(create, &home, "python -m venv")?;
    let pip = |arguments: &[&str]| {
        let mut pip = command("python3", ["-m", "pip", "--python"]);
        pip.arg(place.join("bin/python")).args(arguments);
        pip
    };
    // Several wheels are there, and pip must choose the one that runs here.
    bench.run(pip(&["install", "--isolated", "--index-url", &url, "hospes"]), &home, "pip install")?;
    let program = place.join("bin/hospes");
    let upgrade = "python -m pip install --upgrade hospes";
    bench.check_program(checks, "pip from an index", &home, || Command::new(&program), upgrade);
    bench.run(pip(&["uninstall", "--isolated", "--yes", "hospes"]), &home, "pip uninstall")?;
    checks.add("pip from an index: removed", gone(&[&program]));
    let uvx = || {
        let mut uvx = uv(bench, ["tool", "run", "--default-index", &url, "hospes@latest"]);
        uvx.env("UV_HTTP_TIMEOUT", "30");
        uvx
    };
    bench.check_program(checks, "uvx from an index", &home, uvx, "uvx hospes@latest --version");
    // A program of others, which does not end on SIGINT where that is ignored, as in the background of a shell.
    drop(server);
    Ok(())
}

/// uv, which downloads no Python.
fn uv<const N: usize>(bench: &Bench, arguments: [&str; N]) -> Command {
    let mut command = bench.python.program("uv");
    command.arg("--no-python-downloads").arg("--no-progress").args(arguments);
    command
}

fn gone(paths: &[&Path]) -> Result<String> {
    for path in paths {
        ensure!(!path.exists(), "{} is still there", path.display());
    }
    Ok(String::new())
}
