//! Additions and updates that a person makes on a page of the console, with the steps of `hospes add` and `hospes update`.

use std::path::PathBuf;
use std::sync::Arc;

use hospes_console::{
    AddedServer, AdditionFailure, AdditionOutcome, AdditionPerson, ServerAdder, SetupOutcome, WantedServer,
    WantedUpdate,
};
use hospes_registry::RegistryClient;

use super::super::config_target::ConfigTarget;
use super::super::{search, update};
use super::addition::{ServerAddition, not_added};
use super::answers::{AnswerMap, Asker};
use super::find;
use super::reviewer::AdditionReviewer;
use crate::args::RegistryOptions;
use crate::credentials;
use crate::exit::{CliError, CliResult};
use crate::output::CliOutput;
use crate::paths;
use crate::progress::{StepListener, StepReport};
use crate::registry::{base_url, open_registry};

/// Number of search results for a page.
const MAX_RESULTS: usize = 30;
/// Output of an addition by a page: none, because the terminal belongs to the host.
const SILENT: CliOutput = CliOutput { json: true, quiet: true };

/// Adds servers of the registry for the console.
#[derive(Clone, Debug)]
pub(in crate::commands) struct RegistryAdder {
    /// Configuration file to which servers are added. The default one if there is none.
    pub(in crate::commands) config: Option<PathBuf>,
}

impl ServerAdder for RegistryAdder {
    fn search(&self, words: String) -> SetupOutcome {
        let adder = self.clone();
        Box::pin(async move {
            let results = async {
                let target = ConfigTarget::read(adder.config.clone())?;
                let registry = open(&target)?.1;
                let answer = Box::pin(registry.search(&words, MAX_RESULTS)).await?;
                let servers = target.servers()?;
                let known = servers.iter().map(|one| one.origin.registry.as_deref().unwrap_or(&one.name));
                Ok(search::to_json(&registry, &answer, &known.collect::<Vec<_>>()))
            };
            results.await.map_err(|error: CliError| {
                let failure = failure(&error);
                failure
                    .hint
                    .map_or_else(|| failure.message.clone(), |hint| format!("{}; {hint}", failure.message))
            })
        })
    }

    fn add(&self, wanted: WantedServer, person: Arc<AdditionPerson>) -> AdditionOutcome {
        let adder = self.clone();
        Box::pin(async move {
            let added = Box::pin(listener(&person).listen(adder.run(wanted, &person))).await;
            added.map_err(|error| failure(&error))
        })
    }

    fn update(&self, wanted: WantedUpdate, person: Arc<AdditionPerson>) -> AdditionOutcome {
        let config = self.config.clone();
        Box::pin(async move {
            let updated =
                Box::pin(listener(&person).listen(update::on_page::run(config, wanted, &person))).await;
            updated.map_err(|error| failure(&error))
        })
    }
}

/// Creates a listener that shows the steps to the person.
fn listener(person: &Arc<AdditionPerson>) -> StepListener {
    let shown = Arc::clone(person);
    StepListener::new(move |report| match report {
        StepReport::Text(text) => shown.show_step(text),
        StepReport::Bytes(done, total) => shown.show_bytes(done, total),
    })
}

impl RegistryAdder {
    async fn run(&self, wanted: WantedServer, person: &AdditionPerson) -> CliResult<AddedServer> {
        let target = ConfigTarget::read(self.config.clone())?;
        let existing = target.servers()?;
        let (registry_url, registry) = open(&target)?;
        let addition = ServerAddition {
            target: &target,
            existing: &existing,
            registry: registry_url,
            local_name: None,
            headers: &[],
            package: wanted.package.as_deref(),
            set: &[],
            secret: &[],
            sha256: None,
            installs: true,
            by: Some(wanted.by),
            credentials_store: credentials::store_from_environment()?,
            output: SILENT,
        };
        let planning = async {
            let found =
                find::find_registered(&registry, &wanted.name, wanted.version.as_deref(), SILENT).await?;
            addition.plan(found, AnswerMap::new(), Asker::Page(person)).await
        };
        let planned = person.unless_cancelled(planning).await;
        let planned = planned.unwrap_or_else(|| Err(CliError::usage("cancelled; nothing was changed")));
        let (mut planned, mut reviewer) = (planned?, AdditionReviewer::Page(person));
        let is_confined = reviewer.ask_start(&planned, false, SILENT).await?;
        let report = Box::pin(addition.carry_out(&mut planned, is_confined, &mut reviewer)).await?;
        let report = report.ok_or_else(not_added)?;
        Ok(AddedServer {
            server: planned.draft.name,
            file: paths::display_path(&target.file),
            example: report.example,
        })
    }
}

/// Opens the registry of the environment, the configuration, or the official one. Returns its base URL as well.
fn open(target: &ConfigTarget) -> CliResult<(String, RegistryClient)> {
    let url = base_url(&RegistryOptions { registry: None }, target.registry().as_deref());
    let registry = open_registry(&url)?;
    Ok((url, registry))
}

fn failure(error: &CliError) -> AdditionFailure {
    let message = match &error.cause {
        Some(cause) => format!("{}: {cause}", error.message),
        None => error.message.clone(),
    };
    AdditionFailure { message, hint: error.hint.clone() }
}
