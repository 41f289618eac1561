//! Secrets that were typed in a try that did not end with a server.

use std::collections::BTreeMap;

use jiff::Timestamp;
use secrecy::ExposeSecret as _;

use super::answers::AnswerMap;
use super::find::FoundServer;
use super::plan::PlannedServer;
use crate::args::AddArgs;
use crate::exit::CliError;
use crate::output::{CliOutput, DIM, announce, one_line, paint};
use crate::packages::name::PackageName;
use crate::secrets::pending::PendingSecrets;

/// The secrets of a source that has an identity: a server of a registry, or a package.
pub(super) struct PendingTry(Option<PendingSecrets>);

impl PendingTry {
    /// Creates the place of the secrets of the server that was found. The registry belongs to it, because another one may
    /// have the same name for something else.
    pub(super) fn new(found: &FoundServer, registry_url: &str) -> Self {
        let source = match found {
            FoundServer::Entry { entry, registry: Some(_) } => Some(format!("{registry_url} {}", entry.name)),
            FoundServer::Entry { entry, registry: None } => {
                PackageName::of_entry(entry).map(|name| name.to_string())
            }
            _ => None,
        };
        Self(source.map(PendingSecrets::new))
    }

    /// Returns the secrets of the last try, and says that they are used again.
    pub(super) fn answers(&self, may_ask: bool) -> AnswerMap {
        let known = self.0.as_ref().filter(|_| may_ask).map(|pending| pending.known(Timestamp::now()));
        let known = known.unwrap_or_default();
        if !known.is_empty() {
            let names: Vec<String> = known.keys().map(|name| one_line(name)).collect();
            let text = format!("  as typed in the last try, within the hour: {}", names.join(", "));
            announce(paint(DIM, text));
        }
        known.into_iter().map(|(id, value)| (id, vec![value])).collect()
    }

    /// Seals the secrets of a try that failed for the next one, and says so in the error. What a script gave, it can give
    /// again.
    pub(super) fn keep(
        &self,
        planned: &PlannedServer,
        error: CliError,
        args: &AddArgs,
        may_ask: bool,
        output: CliOutput,
    ) -> CliError {
        let (Some(pending), Some(recipe)) = (&self.0, &planned.recipe) else { return error };
        let value = |(question, name): (&String, &String)| {
            let value = planned.draft.secrets.get(name)?;
            Some((question.clone(), value.expose_secret().to_owned()))
        };
        let answers: BTreeMap<String, String> = recipe.secrets.iter().filter_map(value).collect();
        if answers.is_empty() || !may_ask {
            return error;
        }
        match pending.keep(answers, (args.credentials_store, output), Timestamp::now()) {
            Ok(()) => CliError {
                message: format!(
                    "{}\n  the secrets that you typed are sealed for one hour, for another try",
                    error.message
                ),
                ..error
            },
            Err(failure) => {
                tracing::debug!(error = failure.message, "the typed secrets were not kept");
                error
            }
        }
    }

    /// Removes the secrets.
    pub(super) fn forget(&self) {
        if let Some(pending) = &self.0 {
            pending.forget();
        }
    }
}
