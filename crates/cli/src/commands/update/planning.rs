//! The start of the new version of a server, planned, and its entry with the secrets.

use std::sync::Arc;

use hospes_host::config::{ConfigLoader, Secret, SecretValues, ServerConfig, replace_server};
use hospes_registry::{ServerEntry, is_local_registry};
use parking_lot::Mutex;
use secrecy::ExposeSecret as _;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::super::add::answers::Asker;
use super::super::add::plan::{self, ChosenEntry, PlanRequest, PlannedServer};
use super::super::add::reviewer::AdditionReviewer;
use super::super::config_target::ConfigTarget;
use super::super::interrupted;
use super::before::known_answers;
use super::{UNCHANGED, Update};
use crate::exit::{CliError, CliResult};

impl Update {
    /// Plans the update. The person is asked for values that the new version needs.
    pub(super) async fn plan_with(
        self: &Arc<Self>,
        reviewer: &mut AdditionReviewer<'_>,
        servers: &[ServerConfig],
    ) -> CliResult<PlannedServer> {
        if let AdditionReviewer::Page(person) = reviewer {
            let planned = person.unless_cancelled(self.plan(servers, Asker::Page(person))).await;
            let planned = planned.unwrap_or_else(|| Err(interrupted(UNCHANGED)))?;
            // The server may repeat what it is given, also what was typed earlier.
            planned.draft.secrets.values().for_each(|secret| person.hide(secret.expose_secret()));
            return Ok(planned);
        }
        // In a thread, because it asks for values, and Ctrl-C ends these questions, too.
        let asker = if reviewer.may_ask() { Asker::Terminal } else { Asker::Nobody };
        let (this, servers, runtime) = (Arc::clone(self), servers.to_vec(), Handle::current());
        let plan = spawn_blocking(move || runtime.block_on(this.plan(&servers, asker)));
        let planned = reviewer.unless(plan).await.ok_or_else(|| interrupted(UNCHANGED))?;
        planned.map_err(|error| CliError::usage("cannot plan the update").with_cause(&error))?
    }

    /// Plans the start of the new version.
    async fn plan(&self, servers: &[ServerConfig], asker: Asker<'_>) -> CliResult<PlannedServer> {
        let (candidate, args) = (&self.candidate, &*self.args);
        let name = &candidate.server.name;
        let others = servers.iter().filter(|server| server.name != *name);
        let known = others.map(|server| server.origin.registry.as_deref().unwrap_or(&server.name)).collect();
        let version = candidate.record.as_ref().map(|record| &record.current);
        let previous = version.and_then(|version| ServerEntry::from_value(version.recipe.entry.clone()).ok());
        let kind = args.package.as_deref().or_else(|| version.map(|version| version.recipe.kind.as_str()));
        // A server that was added with its launcher keeps it.
        let is_launched = version.is_some_and(|version| {
            version.folder.is_none() && matches!(version.recipe.kind.as_str(), "npm" | "pypi")
        });
        let request = PlanRequest {
            package: kind,
            set: &args.set,
            secret: &args.secret,
            sha256: None,
            known: known_answers(version)?,
            installs: !args.no_install && (!is_launched || args.package.is_some()),
            is_registry_local: candidate.registry().is_some_and(is_local_registry),
            asker,
            output: self.output,
        };
        let host = candidate.host();
        let chosen =
            ChosenEntry { entry: &self.entry, registry: host.as_deref(), known, previous: previous.as_ref() };
        let mut planned = plan::plan(&chosen, &request, &|_: &str| name.clone()).await?;
        let publishers = (
            version.and_then(|version| version.recipe.publisher.as_deref()),
            planned.recipe.as_ref().and_then(|recipe| recipe.publisher.as_deref()),
        );
        if let (Some(before), Some(now)) = publishers
            && before != now
        {
            let warning = format!("published by the account {now}; the version before by {before}");
            planned.screen.warning(&warning);
            planned.warnings.push(warning);
            planned.has_other_owner = true;
        }
        Ok(planned)
    }

    /// Returns the merged server as it is started for the trial, and the secrets in it.
    pub(super) fn resolve(
        &self,
        target: &ConfigTarget,
        merged: &ServerConfig,
        planned: &PlannedServer,
    ) -> CliResult<(ServerConfig, SecretValues)> {
        let mut merged = merged.clone();
        // Secrets of a server that is switched off are not looked up.
        merged.disabled = false;
        let text = replace_server(&target.file, &target.text, &merged)
            .map_err(|error| CliError::usage("the new entry cannot be read").with_cause(&error))?;
        let given = planned.draft.secrets.clone();
        let stored = crate::secrets::look_up();
        let used = Mutex::new(Vec::new());
        let loader = ConfigLoader::new().keep_going(true).secrets(|name| {
            let value = match given.get(name) {
                Some(value) => Some(value.expose_secret().to_owned()),
                None => stored(name)?,
            };
            used.lock().extend(value.clone().map(Secret::new));
            Ok(value)
        });
        let config =
            loader.parse(&target.file, &text).map_err(|errors| CliError::usage(errors.to_string()))?;
        drop(loader);
        let rejected = config.rejected.iter().find(|rejected| rejected.name == merged.name);
        if let Some(rejected) = rejected {
            return Err(CliError::usage(rejected.errors.to_string()).hint(UNCHANGED));
        }
        let found = config.servers.into_iter().find(|server| server.name == merged.name);
        let server = found.ok_or_else(|| CliError::usage("the new entry cannot be read"))?;
        let mut secrets = planned.draft.secret_values(&server);
        secrets.extend(used.into_inner());
        Ok((server, secrets))
    }
}
