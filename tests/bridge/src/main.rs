//! The two ends between which `cargo xtask bridge` puts the gateway: a server and an application that speak one
//! revision and no other.
//!
//! ```text
//! hospes-bridge serve REVISION NAME [ADDR]        over stdio, or HTTP at ADDR
//! hospes-bridge use REVISION NAME,… TARGET        what holds with each of the servers, as lines of JSON
//! ```
//!
//! The application knows what each server can do, and what two revisions cannot say to each other (`docs/bridging.md`).
//! A behaviour holds if it does what it should, or if that is lost in the way that the document says, never in silence.

mod application;
mod server;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hospes::model::Revision;

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hospes-bridge: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(words: &[&str]) -> Result<()> {
    match words {
        ["serve", revision, name, rest @ ..] => {
            server::serve(read(revision)?, name, rest.first().copied()).await
        }
        ["use", revision, names, target] => {
            let names: Vec<(Revision, &str)> = names.split(',').map(server_of).collect::<Result<_>>()?;
            application::run(read(revision)?, &names, target).await
        }
        _ => bail!("expected `serve REVISION NAME [ADDR]` or `use REVISION NAME,… TARGET`"),
    }
}

fn read(revision: &str) -> Result<Revision> {
    revision.parse().with_context(|| format!("{revision} is no revision"))
}

/// A server is called after its revision: `r20250618-http`.
fn server_of(name: &str) -> Result<(Revision, &str)> {
    let digits = name.get(1..9).with_context(|| format!("{name} names no revision"))?;
    let (year, rest) = digits.split_at(4);
    let (month, day) = rest.split_at(2);
    Ok((read(&format!("{year}-{month}-{day}"))?, name))
}
