//! First start of a server that is being added: alone, and with nothing that it offers in use.

use std::collections::BTreeMap;
use std::time::Duration;

use hospes_console::OfferedItem;
use hospes_host::config::{HostConfig, ServerConfig, ServerTransport};
use hospes_host::pins::{ItemKind, PinManager, PinnedServer};
use hospes_host::upstream::{UpstreamState, UpstreamStatus};
use hospes_host::{Host, HostSettings, PinningConfig};
use hospes_store::StateStore;
use serde_json::Value;

use super::definitions::ToolEffect;
use super::trial_accounts::TrialAccounts;
use crate::exit::{CliError, CliResult, error_chain};
use crate::policy_files::PolicyFiles;
use crate::settings::launch_helper;
use crate::{builtins, enforcement, known_servers};

/// Maximum time of the first start, in which launchers download packages.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// A server that runs for a trial. Its definitions are recorded and not accepted.
pub(in crate::commands) struct ServerTrial {
    host: Host,
    name: String,
    state: StateStore,
    /// True if the person has signed in, so that another sign-in would bring the same.
    is_signed_in: bool,
}

/// Offers of a server, as they are shown to the person.
#[derive(Debug)]
pub(in crate::commands) struct TrialReport {
    pub(in crate::commands) status: UpstreamStatus,
    /// Definitions of the server, with the findings in them. `None` if it offers nothing that can be pinned.
    pub(in crate::commands) pinned: Option<PinnedServer>,
    /// The definitions with their findings: conspicuous ones first, then tools, first those that destroy or change.
    pub(in crate::commands) offers: Vec<OfferedItem>,
    pub(in crate::commands) tools: ToolCounts,
    /// Name of a tool that says that it only reads and needs no argument, as an example.
    pub(in crate::commands) example: Option<String>,
}

impl TrialReport {
    fn count_tool(&mut self, name: &str, definition: Option<&Value>) {
        match ToolEffect::of(definition) {
            ToolEffect::Reads => {
                self.tools.reads += 1;
                let required =
                    definition.and_then(|definition| definition["inputSchema"]["required"].as_array());
                if self.example.is_none() && required.is_none_or(Vec::is_empty) {
                    self.example = Some(name.to_owned());
                }
            }
            effect => {
                self.tools.changes += 1;
                self.tools.destroys += usize::from(effect == ToolEffect::Destroys);
            }
        }
    }

    fn sort_offers(&mut self) {
        let order = |item: &OfferedItem| match item.kind.as_str() {
            kind if kind == ItemKind::Tool.as_str() => 0,
            kind if kind == ItemKind::Prompt.as_str() => 1,
            _ => 2,
        };
        self.offers.sort_by_key(|item| {
            let effect = (order(item) == 0).then(|| ToolEffect::of(item.definition.as_ref()));
            (item.findings.is_empty(), order(item), effect)
        });
    }
}

/// Numbers of tools by what they say of themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct ToolCounts {
    pub(in crate::commands) reads: usize,
    pub(in crate::commands) changes: usize,
    /// Those of `changes` that say that they destroy, and do not just add.
    pub(in crate::commands) destroys: usize,
}

/// Definitions of a server, by kind and name.
pub(in crate::commands) type DefinitionMap = BTreeMap<(ItemKind, String), Value>;

/// Returns the definitions that a server offered last, as far as they are stored.
pub(in crate::commands) async fn definitions(pins: &PinManager, server: &str) -> DefinitionMap {
    let history = pins.history(server, None).await.unwrap_or_default();
    let current = history.into_iter().filter(|known| known.item.is_current);
    current
        .map(|known| {
            let text = known.definition.as_deref();
            let definition = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            ((known.item.kind, known.item.name), definition)
        })
        .collect()
}

impl ServerTrial {
    /// Starts a server. If a person will accept what it offers, nothing is accepted before; otherwise it is accepted as
    /// the host would accept it. Its definitions are compared with those of the `existing` servers, which are not started.
    pub(in crate::commands) async fn start(
        mut server: ServerConfig,
        existing: &[ServerConfig],
        is_reviewed: bool,
        accounts: &TrialAccounts,
    ) -> CliResult<Self> {
        server.timeouts.connect = Some(server.timeouts.connect.unwrap_or(START_TIMEOUT));
        let has_rules = PolicyFiles::find(None, None)?.has_rules()?;
        let mode = enforcement::default_pin_mode(is_reviewed || has_rules);
        server.pins = Some(mode);
        let name = server.name.clone();
        let nowhere =
            || CliError::usage("no folder found in which to store accepted definitions").hint("set HOME");
        let state = enforcement::open_state()?.ok_or_else(nowhere)?;
        let mut pinning = PinningConfig::new(state.clone(), mode);
        for other in existing.iter().filter(|other| other.name != name) {
            pinning = match other.transport {
                ServerTransport::Builtin(_) => {
                    let tools = known_servers::known_tool_names(other).await;
                    pinning.with_neighbour_tools(&other.name, tools.unwrap_or_default())
                }
                _ => pinning.with_neighbours([other.name.clone()]),
            };
        }
        let mut config = HostConfig::default();
        config.servers = vec![server];
        let mut settings = HostSettings::default();
        settings.helper = launch_helper();
        let host = Host::builder(config)
            .settings(settings)
            .builtins(builtins::all())
            .accounts(accounts.for_host())
            .pins(pinning)
            .start()
            .map_err(|error| CliError::usage("cannot start the server").with_cause(&error))?;
        Ok(Self { host, name, state, is_signed_in: accounts.is_signed_in() })
    }

    /// Waits until the server is ready. The inner error is its status if it is not, or if a list of it requires a sign-in.
    pub(in crate::commands) async fn report(&self) -> CliResult<Result<TrialReport, Box<UpstreamStatus>>> {
        let mut seen = 0;
        let status = loop {
            let status = self.host.status().servers.into_iter().find(|one| one.name == self.name);
            match status {
                Some(status) if status.needs_sign_in && !self.is_signed_in => {
                    return Ok(Err(Box::new(status)));
                }
                Some(status) if matches!(status.state, UpstreamState::Ready | UpstreamState::Withheld) => {
                    break status;
                }
                Some(status) if status.problem.is_some() => return Ok(Err(Box::new(status))),
                _ => seen = self.host.changed(seen).await,
            }
        };
        let failed =
            |error: &dyn std::error::Error| CliError::usage("cannot read what it offers").with_cause(error);
        let mut report = TrialReport {
            status,
            pinned: None,
            offers: Vec::new(),
            tools: ToolCounts::default(),
            example: None,
        };
        let Some(pins) = self.host.pins() else { return Ok(Ok(report)) };
        let Ok(pinned) = pins.server(&self.name).await else { return Ok(Ok(report)) };
        let history = pins.history(&self.name, None).await.map_err(|error| failed(&error))?;
        for item in &pinned.items {
            let text = history
                .iter()
                .map(|one| (&one.item, &one.definition))
                .find(|(one, _)| one.kind == item.kind && one.name == item.name && one.hash == item.hash);
            let text = text.and_then(|(_, definition)| definition.as_deref());
            let definition: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
            if item.kind == ItemKind::Tool {
                report.count_tool(&item.name, definition.as_ref());
            }
            report.offers.push(OfferedItem {
                kind: item.kind.as_str().to_owned(),
                name: item.name.clone(),
                findings: item.lints.iter().map(|lint| lint.text.clone()).collect(),
                definition,
            });
        }
        report.sort_offers();
        report.pinned = Some(pinned);
        Ok(Ok(report))
    }

    /// Returns the definitions that the server offers, by kind and name.
    pub(in crate::commands) async fn definitions(&self) -> DefinitionMap {
        match self.host.pins() {
            Some(pins) => definitions(pins, &self.name).await,
            None => DefinitionMap::new(),
        }
    }

    /// Accepts exactly what the report has shown.
    pub(in crate::commands) async fn accept(&self, shown: &PinnedServer, by: &str) -> CliResult {
        let Some(pins) = self.host.pins() else { return Ok(()) };
        pins.accept(&self.name, None, shown.hash, by).await.map(drop).map_err(|error| {
            CliError::usage(format!("cannot accept what the server offers: {}", error_chain(&error)))
                .hint("nothing was added; try again")
        })
    }

    /// Ends the server.
    pub(in crate::commands) async fn end(self) {
        self.host.stop().await;
    }

    /// Ends the server, and removes what was recorded of it unless somebody has decided about it.
    pub(in crate::commands) async fn discard(self) {
        let Self { host, name, state, .. } = self;
        host.stop().await;
        if let Err(error) = state.pins().forget_undecided(&name).await {
            tracing::warn!(%error, server = %name, "the definitions of a server that was not added were not removed");
        }
    }
}
