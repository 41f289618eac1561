//! Configured servers and what they are known to offer, against which rules are checked.

use std::path::PathBuf;

use hospes::client::Client;
use hospes::model::{Tool, ToolAnnotations};
use hospes_host::config::{ServerConfig, ServerTransport};
use hospes_host::pins::{ItemKind, PinManager};
use hospes_host::{Host, PinMode, PinningConfig, known_labels};
use hospes_policy::{KnownLabels, KnownOffers, KnownServer, KnownTool, Policy, ToolEffectSet, UnmatchedPart};
use serde_json::Value;

use crate::args::ConfigFileArgs;
use crate::exit::CliResult;
use crate::output::CliOutput;
use crate::{builtins, enforcement, paths, settings};

/// Source of what is known about a server's offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffersSource {
    /// The server is built in and was asked just now.
    Builtin,
    /// The state folder remembers what a host last saw of it.
    Remembered,
    /// No host has seen the server, or nothing about it is stored.
    Unseen,
}

impl OffersSource {
    /// Word for JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Remembered => "remembered",
            Self::Unseen => "unseen",
        }
    }
}

/// A server of the configuration.
pub(crate) struct ConfiguredServer {
    pub(crate) server: KnownServer,
    pub(crate) origin: OffersSource,
    config: ServerConfig,
}

impl ConfiguredServer {
    /// Returns what is known about the labels of a tool without the policy file.
    pub(crate) async fn known_labels(&self, tool: &str) -> KnownLabels {
        // As for the offers: an unreadable state must not prevent a test of the rules.
        let pins = open_pins().unwrap_or_default();
        known_labels(&self.config, tool, pins.as_ref()).await
    }
}

/// Returns the servers of the configuration, or the built-in ones if there is none. Starts and writes nothing: built-in
/// servers are asked in this process, and others are known as a host last saw them. Warns and returns `None` if the
/// configuration cannot be read.
pub(crate) async fn configured_servers(
    files: &[PathBuf],
    output: CliOutput,
) -> Option<Vec<ConfiguredServer>> {
    // Unset variables do not matter, because a server's tools do not depend on them here.
    let files = ConfigFileArgs { config: files.to_vec(), allow_unset: true, strict: false };
    let servers = match settings::load_without_secrets(&files) {
        Ok(loaded) if loaded.files.is_empty() => settings::default_servers(),
        Ok(loaded) => {
            let rejected = loaded.config.rejected;
            if !rejected.is_empty() {
                let names: Vec<&str> = rejected.iter().map(|one| &*one.name).collect();
                output.warn(format_args!(
                    "servers not checked against the rules because of errors in their configuration: {}",
                    names.join(", ")
                ));
            }
            loaded.config.servers
        }
        Err(failure) => {
            output.warn(format_args!("the rules were not checked against the servers: {}", failure.message));
            return None;
        }
    };
    // An unreadable state must not prevent checking the rules.
    let pins = open_pins().unwrap_or_default();
    let mut all = Vec::with_capacity(servers.len());
    for server in servers {
        all.push(one(&server, pins.as_ref()).await);
    }
    Some(all)
}

/// Returns the names of the servers of the configuration, or of those that run without one.
pub(crate) fn names(files: &[PathBuf]) -> Vec<String> {
    load_quietly(files).into_iter().map(|server| server.name.to_string()).collect()
}

/// Returns the names of the tools of one configured or built-in server, as far as they are known without starting it.
pub(crate) async fn tool_names(files: &[PathBuf], name: &str) -> Vec<String> {
    let configured = load_quietly(files).into_iter().find(|server| &*server.name == name);
    let offers = match configured {
        Some(server) => return known_tool_names(&server).await.unwrap_or_default(),
        None => {
            let args: Vec<String> =
                builtins::default_arguments(name).iter().map(|&arg| arg.to_owned()).collect();
            of_builtin(name, &args).await
        }
    };
    offers.map(|offers| offers.tools.into_iter().map(|tool| tool.name).collect()).unwrap_or_default()
}

/// Returns the names of the tools of a server, as far as they are known without starting it.
pub(crate) async fn known_tool_names(server: &ServerConfig) -> Option<Vec<String>> {
    let pins = match server.transport {
        ServerTransport::Builtin(_) => None,
        _ => open_pins().unwrap_or_default(),
    };
    let offers = one(server, pins.as_ref()).await.server.offers?;
    Some(offers.tools.into_iter().map(|tool| tool.name).collect())
}

/// Returns the servers of the configuration, and none if it cannot be read.
fn load_quietly(files: &[PathBuf]) -> Vec<ServerConfig> {
    let files = ConfigFileArgs { config: files.to_vec(), allow_unset: true, strict: false };
    match settings::load(&files) {
        Ok(loaded) if loaded.files.is_empty() => settings::default_servers(),
        Ok(loaded) => loaded.config.servers,
        Err(_) => Vec::new(),
    }
}

/// Opens the remembered definitions of servers, if there are any.
pub(crate) fn open_pins() -> CliResult<Option<PinManager>> {
    // Opening the state would create it, and this command writes nothing.
    if paths::state_file().is_none_or(|file| !file.is_file()) {
        return Ok(None);
    }
    Ok(enforcement::open_state()?.map(|state| PinningConfig::new(state, PinMode::Ask).offline()))
}

async fn one(server: &ServerConfig, pins: Option<&PinManager>) -> ConfiguredServer {
    let (offers, origin) = match &server.transport {
        ServerTransport::Builtin(builtin) => {
            let args: Vec<String> = builtin.args.iter().map(|arg| arg.reveal().to_owned()).collect();
            (of_builtin(&builtin.name, &args).await, OffersSource::Builtin)
        }
        _ => match pins {
            Some(pins) => (of_pins(&server.name, pins).await, OffersSource::Remembered),
            None => (None, OffersSource::Unseen),
        },
    };
    let origin = if offers.is_none() { OffersSource::Unseen } else { origin };
    let mut known = KnownServer::named(&server.name);
    known.offers = offers;
    ConfiguredServer { server: known, origin, config: server.clone() }
}

async fn of_builtin(name: &str, args: &[String]) -> Option<KnownOffers> {
    // `memory` creates its file on start, and its tools do not depend on the file's content.
    let folder = (name == "memory").then(paths::private_folder).transpose().ok()?;
    let apart = folder.as_ref().map(|folder| {
        ["--file".to_owned(), folder.path().join("knowledge.db").to_string_lossy().into_owned()]
    });
    let service = builtins::find(name, apart.as_ref().map_or(args, |apart| &apart[..])).ok()?;
    let client = Client::in_memory(service).await.ok()?;
    let tools = client.tools().all().await.ok();
    let prompts = client.prompts().all().await.unwrap_or_default();
    client.close().await;
    Some(offers(&tools?, prompts.into_iter().map(|prompt| prompt.name)))
}

async fn of_pins(name: &str, pins: &PinManager) -> Option<KnownOffers> {
    let recorded = pins.history(name, None).await.ok()?;
    let (mut tools, mut prompts) = (Vec::new(), Vec::new());
    for one in recorded.into_iter().filter(|one| one.item.is_current) {
        match one.item.kind {
            ItemKind::Tool => {
                let definition: Option<Value> =
                    one.definition.and_then(|text| serde_json::from_str(&text).ok());
                let definition = definition.unwrap_or_default();
                let annotations: Option<ToolAnnotations> =
                    serde_json::from_value(definition["annotations"].clone()).ok();
                let effects = ToolEffectSet::from_annotations(annotations.as_ref());
                tools.push(KnownTool::new(one.item.name, effects, &definition["inputSchema"]));
            }
            ItemKind::Prompt => prompts.push(one.item.name),
            _ => (),
        }
    }
    Some(KnownOffers::new(tools, prompts))
}

fn offers(tools: &[Tool], prompts: impl Iterator<Item = String>) -> KnownOffers {
    let tools = tools.iter().map(|tool| {
        let schema = tool.input_schema.to_value().unwrap_or(Value::Null);
        KnownTool::new(&tool.name, ToolEffectSet::from_annotations(tool.annotations.as_deref()), &schema)
    });
    KnownOffers::new(tools.collect(), prompts.collect())
}

/// Returns the rules of a running host that match nothing that its servers offer. Rules about servers whose offers are
/// still unknown are left out.
pub(crate) fn unmatched_rules(host: &Host, policy: &Policy) -> Vec<UnmatchedPart> {
    let servers = host.servers();
    let known = servers.status().servers.into_iter().map(|server| {
        let known = KnownServer::named(&server.name);
        match servers.listing(&server.name) {
            Ok(Some(listing)) => {
                let prompts = listing.prompts.iter().map(|prompt| prompt.name.clone());
                known.offering(offers(&listing.tools, prompts))
            }
            _ => known,
        }
    });
    policy.unmatched(&known.collect::<Vec<_>>())
}
