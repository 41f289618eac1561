//! Search for the server that is meant.

use std::path::PathBuf;

use hospes_registry::{RegistryClient, ServerEntry};

use super::super::config_target::ConfigTarget;
use super::source::AddSource;
use super::{NOT_UNDERSTOOD, view};
use crate::args::AddArgs;
use crate::exit::{CliError, CliResult};
use crate::output::{self, CliOutput, announce, one_line, printable, talk_width, wrap_lines};
use crate::packages::name::{newest_version, package_entry};
use crate::progress::StepBar;
use crate::registry::{base_url, open_registry};

/// Maximum number of search results that are offered.
const MAX_CANDIDATES: usize = 9;

/// Server that was found for the word of the command line.
pub(super) enum FoundServer {
    Entry { entry: Box<ServerEntry>, registry: Option<String> },
    Url(String),
    Command(Vec<String>),
    Bundle(PathBuf),
}

/// Finds the server that is meant. Words are searched for in the registry, and the person chooses.
pub(super) async fn find(
    source: AddSource,
    args: &AddArgs,
    target: &ConfigTarget,
    may_ask: bool,
    output: CliOutput,
) -> CliResult<FoundServer> {
    let registry = || open_registry(&base_url(&args.registry, target.registry().as_deref()));
    match source {
        AddSource::Url(url) => Ok(FoundServer::Url(url)),
        AddSource::Bundle(file) => Ok(FoundServer::Bundle(file)),
        AddSource::Command(words) => Ok(FoundServer::Command(words)),
        AddSource::Package(entry) => Ok(FoundServer::Entry { entry, registry: None }),
        AddSource::NewestPackage { kind, identifier } => {
            let shown = printable(&identifier);
            let bar = StepBar::spinner(&format!("asking for the newest version of {shown}"), output);
            let version = newest_version(&kind, &identifier).await?;
            drop(bar);
            let entry = Box::new(package_entry(&kind, &identifier, Some(&version))?);
            Ok(FoundServer::Entry { entry, registry: None })
        }
        AddSource::Registered(name) => {
            find_registered(&registry()?, &name, args.version.as_deref(), output).await
        }
        AddSource::Words(words) => {
            let registry = registry()?;
            let bar = StepBar::spinner(&format!("searching {}", registry.host()), output);
            let answer = registry.search(&words, MAX_CANDIDATES).await;
            drop(bar);
            let answer = answer?;
            let total = answer.value.total;
            let mut entries = answer.value.entries;
            let chosen = match entries.len() {
                0 => {
                    return Err(CliError::usage(format!(
                        "no server in the registry matches `{}`",
                        printable(&words)
                    ))
                    .hint("a package of that name is not taken instead: name it as npm:NAME@VERSION or pypi:NAME==VERSION"));
                }
                1 => 0,
                _ => choose(&entries, total, (registry.host(), may_ask), output)?,
            };
            let mut entry = entries.swap_remove(chosen);
            if args.version.is_some() {
                let answer = registry.entry(&entry.name, args.version.as_deref()).await?;
                entry = answer.value;
            }
            let registry = Some(registry.host().to_owned());
            Ok(FoundServer::Entry { entry: Box::new(entry), registry })
        }
    }
}

/// Asks the registry for the entry with this full name.
pub(super) async fn find_registered(
    registry: &RegistryClient,
    name: &str,
    version: Option<&str>,
    output: CliOutput,
) -> CliResult<FoundServer> {
    let _bar = StepBar::spinner(&format!("asking {}", registry.host()), output);
    let answer = registry.entry(name, version).await?;
    Ok(FoundServer::Entry { entry: Box::new(answer.value), registry: Some(registry.host().to_owned()) })
}

/// Asks which of several search results is meant.
fn choose(
    entries: &[ServerEntry],
    total: usize,
    (registry, may_ask): (&str, bool),
    output: CliOutput,
) -> CliResult<usize> {
    if !may_ask {
        let names: Vec<String> = entries.iter().map(|entry| one_line(&entry.name)).collect();
        return Err(CliError::usage("several servers of the registry match")
            .hint(format!("name one in full: {}", names.join(", "))));
    }
    let shown = entries.len();
    announce(format_args!("\n  {shown} of {total} matches in {}\n", printable(registry)));
    for (index, entry) in entries.iter().enumerate() {
        announce(wrap_lines(&view::candidate(index + 1, entry), 4, talk_width()));
    }
    loop {
        output::discard_typed_input();
        let answer = output.ask(format!("\n  Which one? [1–{shown}; Enter takes 1, q none] "));
        match answer.as_deref().map(str::trim) {
            Some("") => return Ok(0),
            None | Some("q" | "Q" | "n" | "N" | "no") => {
                return Err(CliError::usage("cancelled; nothing was changed"));
            }
            Some(number) => match number.parse().ok().and_then(|number: usize| number.checked_sub(1)) {
                Some(index) if index < shown => return Ok(index),
                _ => announce(NOT_UNDERSTOOD),
            },
        }
    }
}
