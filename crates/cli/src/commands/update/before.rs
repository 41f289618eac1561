//! The server before an update: its answers, and what it offers.

use hospes_host::pins::PinState;
use hospes_host::{PinMode, PinningConfig};
use hospes_store::StateStore;
use hospes_store::pins::{ServerFingerprint, ServerSighting, TrustMode};

use super::super::add::answers;
use super::super::add::trial::{DefinitionMap, definitions};
use crate::enforcement;
use crate::exit::{CliError, CliResult};
use crate::secrets::SecretStore;
use crate::server_record::RecordedVersion;

/// State of the server before the update.
pub(super) struct BeforeUpdate {
    pub(super) definitions: DefinitionMap,
    /// True if a person, or the rules, accepted all that the server offered last.
    pub(super) is_accepted: bool,
    fingerprint: Option<ServerFingerprint>,
    state: StateStore,
}

/// Returns the answers that were given when a version was added, with the secrets of the store.
pub(super) fn known_answers(version: Option<&RecordedVersion>) -> CliResult<answers::AnswerMap> {
    let Some(version) = version else { return Ok(answers::AnswerMap::new()) };
    let mut known: answers::AnswerMap = version.recipe.answers.clone();
    if version.recipe.secrets.is_empty() {
        return Ok(known);
    }
    let Some(store) = SecretStore::open_existing()? else { return Ok(known) };
    for (question, name) in &version.recipe.secrets {
        // A deleted one is asked for again.
        if let Some(value) = store.read(name)? {
            known.insert(question.clone(), vec![value]);
        }
    }
    Ok(known)
}

impl BeforeUpdate {
    pub(super) async fn read(name: &str) -> CliResult<Self> {
        let nowhere =
            || CliError::usage("no folder found in which to store accepted definitions").hint("set HOME");
        let state = enforcement::open_state()?.ok_or_else(nowhere)?;
        let pins = PinningConfig::new(state.clone(), PinMode::Ask).offline();
        let pinned = pins.server(name).await.ok();
        let is_accepted = pinned.as_ref().is_some_and(|pinned| pinned.state == PinState::Accepted);
        let fingerprint = pinned.map(|pinned| pinned.fingerprint);
        Ok(Self { definitions: definitions(&pins, name).await, is_accepted, fingerprint, state })
    }

    /// Makes the version before the one that was seen last again.
    pub(super) async fn restore(&self, name: &str) {
        let Some(fingerprint) = &self.fingerprint else { return };
        let mut sighting = ServerSighting::new(name, fingerprint.clone(), "");
        sighting.is_whole = false;
        if let Err(error) = self.state.pins().record_sighting(sighting, TrustMode::Ask).await {
            tracing::warn!(%error, server = %name, "the state of the version before was not restored");
        }
    }
}
