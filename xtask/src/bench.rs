//! `cargo xtask bench`: our programs beside their peers, measured by the yardstick of `bench/yardstick`.

mod results;
mod rows;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::BuildOptions;
use crate::report::{PartOutcome, say};
use crate::{cargo, paths};
use results::BenchResults;

/// Options of `cargo xtask bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Parts: http, stdio, start, gateway, client, memory.
    #[arg(long, value_name = "PART,…")]
    only: Option<String>,
    #[arg(long, default_value = "3")]
    rounds: String,
    /// Length of a measurement in seconds.
    #[arg(long, default_value = "1.5")]
    secs: String,
    /// Pause between measurements in seconds.
    #[arg(long, default_value = "5")]
    wait: String,
    #[arg(long, value_name = "PEER,…")]
    peers: Option<String>,
    /// Files of results to write the table from, without measuring.
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    from: Vec<PathBuf>,
    /// Share of the processor that other programs may use before a measurement is dropped.
    #[arg(long, default_value_t = 0.5)]
    max_foreign: f64,
    /// Prints the table without writing it to the page.
    #[arg(long)]
    no_page: bool,
    #[command(flatten)]
    build: BuildOptions,
}

/// The parts of the yardstick's programs that the comparison needs. The other peers are built by hand, and join in
/// when they are there.
const YARDSTICK: [&str; 3] = ["load", "peer-limit", "peer-rmcp"];
const PAGE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// Builds, measures, and writes the table of `docs/performance.md`. With `--from FILE,…` it only writes the table.
pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    let files = if options.from.is_empty() { vec![measure(options)?] } else { options.from.clone() };
    let results = BenchResults::read(&files, options.max_foreign)?;
    let table = rows::table(&results, &ProgramSizes::read()?);
    say!("\n{table}");
    if options.no_page {
        return Ok(());
    }
    write_page(&table)
}

/// The sizes of the stripped programs with both transports, in bytes.
#[derive(Debug)]
pub(crate) struct ProgramSizes {
    pub(crate) ours: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) rmcp: Option<u64>,
}

impl ProgramSizes {
    fn read() -> Result<Self> {
        let size = |path: PathBuf| fs::metadata(path).ok().map(|file| file.len());
        let peers = peer_programs()?;
        Ok(Self {
            ours: size(own_programs()?.join("hospes-bench")),
            limit: size(peers.join("peer-limit")),
            rmcp: size(peers.join("peer-rmcp")),
        })
    }
}

fn yardstick() -> PathBuf {
    paths::root().join("bench/yardstick")
}

/// Returns the folder of this project's programs, in the profile of the peers.
fn own_programs() -> Result<PathBuf> {
    Ok(paths::target()?.join("bench-fat"))
}

/// Returns the folder of the peers: `BENCH_BIN`, or one below the target folder.
fn peer_programs() -> Result<PathBuf> {
    match env::var_os("BENCH_BIN") {
        Some(folder) => Ok(folder.into()),
        None => Ok(paths::target()?.join("yardstick/release")),
    }
}

fn build() -> Result<()> {
    say!("building our programs (the release profile of the peers: fat LTO, one codegen unit)");
    // One after the other: built together, the server would get the features that only the gateway wants.
    for package in ["hospes-bench", "hospes-bench-gateway"] {
        let arguments = ["build", "--quiet", "--profile", "bench-fat", "--package", package, "--bins"];
        if let PartOutcome::Failed(why) | PartOutcome::CannotRun(why) = cargo::run(&arguments) {
            bail!(why);
        }
    }
    if env::var_os("BENCH_BIN").is_some() {
        return Ok(());
    }
    say!("building the yardstick");
    let manifest = yardstick().join("Cargo.toml");
    let target = paths::target()?.join("yardstick");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--release", "--locked", "--manifest-path"]).arg(manifest);
    command.arg("--target-dir").arg(target);
    for package in YARDSTICK {
        command.args(["--package", package]);
    }
    ensure!(command.status().context("starting cargo")?.success(), "the yardstick could not be built");
    Ok(())
}

/// Runs the yardstick; returns the file with what it measured.
fn measure(options: &BenchOptions) -> Result<PathBuf> {
    if !options.build.no_build {
        build()?;
    }
    let folder = paths::target()?.join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let out = folder.join("results.json");
    let ours = own_programs()?;
    let program = |name: &str| program(&ours, name);
    let mut command = Command::new("python3");
    command.arg(yardstick().join("run.py")).arg("--out").arg(&out);
    for extra in [
        format!("hospes=http {} http {{port}}", program("hospes-bench")?),
        format!("hospes=stdio {} stdio", program("hospes-bench")?),
        format!("hospes=client {} {{kind}} {{to}}", program("hospes-bench-client")?),
        format!("hospes=gateway-http:b__ {} {{port}} {{back}}", program("hospes-bench-gateway")?),
        format!(
            "hospes-guarded=gateway-http:b__ {} {{port}} {{back}} guarded",
            program("hospes-bench-gateway")?
        ),
    ] {
        command.arg("--extra").arg(extra);
    }
    command.args(["--rounds", &options.rounds]);
    command.args(["--secs", &options.secs]);
    command.args(["--wait", &options.wait]);
    for (name, value) in [("only", &options.only), ("peers", &options.peers)] {
        if let Some(value) = value {
            command.arg(format!("--{name}={value}"));
        }
    }
    command.env("BENCH_BIN", peer_programs()?);
    ensure!(command.status().context("starting python3")?.success(), "the yardstick stopped early");
    Ok(out)
}

fn program(folder: &Path, name: &str) -> Result<String> {
    let path = folder.join(name);
    ensure!(path.exists(), "{} is not there; run without --no-build", path.display());
    path.into_os_string().into_string().ok().context("the target folder's path is no text")
}

/// Puts the table in the place of the last one.
fn write_page(table: &str) -> Result<()> {
    let path = paths::root().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let (Some(begin), Some(end)) = (page.find(BEGIN), page.find(END)) else {
        bail!("{PAGE} has no place for the table: {BEGIN} … {END}");
    };
    let page = format!("{}\n\n{table}\n{}", &page[..begin + BEGIN.len()], &page[end..]);
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    say!("\nwritten to {PAGE}");
    Ok(())
}
