//! State that the nodes of a fleet share, and the node that `hospes up` is.

mod approval_nodes;
mod engine_settings;
mod fleet_metrics;
mod flows;
mod node;
mod placement;
mod rate_limits;
mod token_store;

use std::path::Path;
use std::sync::Arc;

use hospes_host::UpstreamAccounts;
use hospes_host::accounts::{SharedCredentialStore, SharedPendingStore};
use hospes_host::config::{ClientCertificate, FleetConfig, HostConfig, Secret};
use hospes_host::server::ServerPlaces;
use hospes_oauth::{CredentialStore, PendingStore};
use hospes_store::{PostgresSettings, SharedAuditLog, StateStore, StoreError};
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

pub(crate) use self::fleet_metrics::{DatabaseMetrics, ShippingMetrics};
pub(crate) use self::node::{FleetMember, FleetNode, redis_relay};
pub(crate) use self::rate_limits::NodeRateLimits;
pub(crate) use self::token_store::FleetTokenStore;
use crate::args::ConfigFileArgs;
use crate::exit::{CliError, CliResult};
use crate::settings::{load, load_without_secrets};

/// State and membership that a host shares with the other nodes of its fleet.
#[derive(Clone, Debug)]
pub(crate) struct HostFleet {
    pub(crate) state: StateStore,
    /// Membership of this process. `None` for a host beside the nodes, such as that of `hospes stdio`.
    pub(crate) member: Option<FleetMember>,
    pub(crate) databases: DatabaseMetrics,
    /// Name of the node of this machine, by its configuration.
    pub(crate) node: String,
}

impl HostFleet {
    /// Connects a host that is not a node itself.
    pub(crate) async fn beside(config: &HostConfig) -> CliResult<Option<Self>> {
        let shared = SharedState::connect(config).await?;
        Ok(shared.map(|shared| shared.for_host(None)))
    }

    /// Returns the state, which records decisions under the name of the node unless there `is_no_audit`.
    pub(crate) fn host_state(&self, is_no_audit: bool) -> CliResult<StateStore> {
        if is_no_audit {
            return Ok(self.state.clone());
        }
        let node = self.member.as_ref().map_or(&*self.node, FleetMember::address);
        recording_decisions(&self.state, node)
    }

    /// Returns the nodes that run servers with placement `one`.
    pub(crate) fn places(&self) -> Arc<dyn ServerPlaces> {
        match &self.member {
            Some(member) => member.places(),
            None => Arc::new(placement::OutsidePlaces),
        }
    }

    /// Returns the accounts at servers for a host that signs nobody in.
    pub(crate) fn accounts(&self) -> CliResult<UpstreamAccounts> {
        let shared = SharedAccounts::of(&self.state)?;
        Ok(UpstreamAccounts::new(shared.tokens).with_pending_store(shared.pending))
    }

    /// Returns the audit record of all nodes.
    pub(crate) fn audit(&self) -> CliResult<Option<SharedAuditLog>> {
        shared_audit(&self.state)
    }
}

/// Returns the audit record of all nodes, in their state.
pub(crate) fn shared_audit(state: &StateStore) -> CliResult<Option<SharedAuditLog>> {
    let failed = |error: StoreError| {
        CliError::usage("cannot use the audit record in the database of the fleet").with_cause(&error)
    };
    state.audit().map_err(failed)
}

/// Returns the state such that decisions are recorded in the transactions that make them.
fn recording_decisions(state: &StateStore, node: &str) -> CliResult<StateStore> {
    state.recording_decisions(node).map_err(|error| {
        CliError::usage("cannot use the audit record in the database of the fleet").with_cause(&error)
    })
}

/// State of all nodes, in PostgreSQL.
#[derive(Clone, Debug)]
pub(crate) struct SharedState {
    /// Decisions, grants, pins, tasks and budgets.
    pub(crate) state: StateStore,
    pub(crate) databases: DatabaseMetrics,
    /// Rate limits of all nodes, if this process is one.
    pub(crate) rate_limits: Option<NodeRateLimits>,
    settings: PostgresSettings,
    /// Name of the node of this machine, by its configuration.
    node: String,
}

impl SharedState {
    /// Connects to the state of all nodes. Returns `None` if the configuration has no fleet.
    pub(crate) async fn connect(config: &HostConfig) -> CliResult<Option<Self>> {
        match &config.fleet {
            Some(fleet) => Self::connect_with(fleet, postgres_settings(fleet)?).await.map(Some),
            None => Ok(None),
        }
    }

    /// Connects with these settings.
    pub(crate) async fn connect_with(fleet: &FleetConfig, settings: PostgresSettings) -> CliResult<Self> {
        let state = StateStore::connect(settings.clone(), state_secrets(fleet));
        let state = state.await.map_err(|error| {
            let failure = CliError::usage("cannot use the database of the fleet").with_cause(&error);
            match error {
                StoreError::Sealed => failure.hint(
                    "all nodes need the same `fleet.secret`; to change it, list the new one behind the old one first",
                ),
                _ => failure.hint("`fleet.postgres` in the configuration says where it is"),
            }
        })?;
        let databases = DatabaseMetrics::default();
        databases.add(state.metrics());
        Ok(Self { state, databases, rate_limits: None, settings, node: fleet.node_name() })
    }

    /// Returns what a host needs of it. `member` is its node, if it is one.
    pub(crate) fn for_host(self, member: Option<FleetMember>) -> HostFleet {
        HostFleet { state: self.state, member, databases: self.databases, node: self.node }
    }

    /// Returns the state for decisions of a command, which are recorded under the name of the node of this machine.
    pub(crate) fn command_state(&self) -> CliResult<StateStore> {
        recording_decisions(&self.state, &self.node)
    }

    /// Returns a secret for one purpose, which all nodes have.
    #[cfg(feature = "authorization-server")]
    pub(crate) fn secret(&self, purpose: &str) -> CliResult<Zeroizing<[u8; 32]>> {
        self.state.secret(purpose).map_err(|error| {
            CliError::usage("cannot use the key in the database of the fleet").with_cause(&error)
        })
    }

    /// Returns the tokens of accounts at servers, and what waits for sign-ins there. All nodes share them.
    pub(crate) fn accounts(&self) -> CliResult<SharedAccounts> {
        SharedAccounts::of(&self.state)
    }

    /// Returns true if the default configuration, or that which `HOSPES_CONFIG` names, has a fleet.
    pub(crate) fn is_configured() -> CliResult<bool> {
        // Without secrets, because reading one may unlock a keyring.
        load_without_secrets(&default_files()).map(|loaded| loaded.config.fleet.is_some())
    }

    /// Returns the tokens of the fleet that the default configuration, or that which `HOSPES_CONFIG` names, has; within a
    /// runtime. They are connected to when they are used.
    pub(crate) fn default_tokens() -> CliResult<Option<Arc<FleetTokenStore>>> {
        if Self::is_configured().is_ok_and(|is_configured| !is_configured) {
            return Ok(None);
        }
        Ok(load(&default_files())?.config.fleet.map(FleetTokenStore::new))
    }

    /// Connects to the state of the nodes of the default configuration, or of that which `HOSPES_CONFIG` names, for a command without a host.
    pub(crate) async fn of_default_config() -> CliResult<Option<Self>> {
        if Self::is_configured().is_ok_and(|is_configured| !is_configured) {
            return Ok(None);
        }
        Self::connect(&load(&default_files())?.config).await
    }

    /// Connects to the data of the authorization server.
    #[cfg(feature = "authorization-server")]
    pub(crate) async fn auth(&self) -> CliResult<SharedAuth> {
        use hospes_oauth_server::SqlAuthStore;
        let failed = |error: &dyn std::error::Error| {
            CliError::usage("cannot use the data of the authorization server in the database of the fleet")
                .with_cause(error)
        };
        let store = SqlAuthStore::connect(self.settings.clone()).await.map_err(|error| failed(&error))?;
        let key = self.state.secret(AUTH_PURPOSE).map_err(|error| failed(&error))?;
        self.databases.add(store.metrics());
        Ok(SharedAuth { store: std::sync::Arc::new(store), key: auth_key(&key) })
    }
}

/// Accounts at servers that the nodes share.
#[derive(Clone, Debug)]
pub(crate) struct SharedAccounts {
    pub(crate) tokens: Arc<dyn CredentialStore>,
    pub(crate) pending: Arc<dyn PendingStore>,
}

impl SharedAccounts {
    /// Returns the accounts in this state, within a runtime.
    fn of(state: &StateStore) -> CliResult<Self> {
        let failed = |error: &dyn std::error::Error| {
            CliError::usage("cannot use the accounts at servers in the database of the fleet")
                .with_cause(error)
        };
        let tokens = SharedCredentialStore::new(state).map_err(|error| failed(&error))?;
        let pending = SharedPendingStore::new(state).map_err(|error| failed(&error))?;
        match (tokens, pending) {
            (Some(tokens), Some(pending)) => {
                Ok(Self { tokens: Arc::new(tokens), pending: Arc::new(pending) })
            }
            _ => Err(CliError::usage("the state of the fleet is not in a database of several nodes")),
        }
    }
}

/// Data of the authorization server that the nodes share.
#[cfg(feature = "authorization-server")]
pub(crate) struct SharedAuth {
    pub(crate) store: std::sync::Arc<dyn hospes_oauth_server::AuthStore>,
    /// Seals its keys and the tokens of providers.
    pub(crate) key: Secret,
}

/// Purpose of the secret of a shared state that seals the data of the authorization server.
pub(crate) const AUTH_PURPOSE: &str = "authorization server";

/// Purpose of the secret of a shared state that seals what a provider has returned while people sign in for the pages of
/// accounts.
#[cfg(feature = "authorization-server")]
pub(crate) const VISITORS_PURPOSE: &str = "visitors of account pages";

/// Returns the key of the authorization server's data from the secret for [`AUTH_PURPOSE`].
#[cfg(feature = "authorization-server")]
pub(crate) fn auth_key(secret: &[u8; 32]) -> Secret {
    Secret::new(hex(secret))
}

/// Returns the settings of the database of a fleet.
pub(crate) fn postgres_settings(fleet: &FleetConfig) -> CliResult<PostgresSettings> {
    let mut settings = PostgresSettings::new(fleet.postgres.reveal().into());
    settings.ca_pem = read_pem("fleet.postgres_ca", fleet.postgres_ca.as_deref())?;
    settings.client_identity = read_identity("postgres", fleet.postgres_client.as_ref())?;
    Ok(settings)
}

/// Returns the secrets that seal the key of the state, the present one first.
pub(crate) fn state_secrets(fleet: &FleetConfig) -> Vec<Zeroizing<[u8; 32]>> {
    secrets_for(fleet, "state")
}

/// Returns the configuration file of commands that have no option for it.
fn default_files() -> ConfigFileArgs {
    let named = std::env::var_os("HOSPES_CONFIG").map(Into::into).into_iter().collect();
    ConfigFileArgs { config: named, allow_unset: true, strict: false }
}

/// Derives a key for one purpose from each secret of a fleet, the present one first.
fn secrets_for(config: &FleetConfig, purpose: &str) -> Vec<Zeroizing<[u8; 32]>> {
    let derive = |secret: &Secret| {
        let mut hash = Sha256::new();
        // The lengths are fixed or part of the text, so no two pairs have the same text.
        hash.update(format!("hospes fleet {purpose} {}\n", secret.reveal().len()));
        hash.update(secret.reveal());
        Zeroizing::new(<[u8; 32]>::from(hash.finalize()))
    };
    config.secrets.iter().map(derive).collect()
}

/// Reads the certificate and the private key with which nodes name themselves to an engine.
fn read_identity(
    engine: &str,
    files: Option<&ClientCertificate>,
) -> CliResult<Option<(Vec<u8>, SecretString)>> {
    let Some(files) = files else { return Ok(None) };
    let certificate = read_pem(&format!("fleet.{engine}_cert"), Some(&files.certificate))?;
    let field = format!("fleet.{engine}_key");
    let key = read_pem(&field, Some(&files.key))?.map(Zeroizing::new).unwrap_or_default();
    let key = std::str::from_utf8(&key)
        .map_err(|_| CliError::usage(format!("`{field}`: {} is not PEM", files.key.display())))?;
    Ok(certificate.map(|certificate| (certificate, key.into())))
}

/// Reads a PEM file of the configuration.
fn read_pem(key: &str, file: Option<&Path>) -> CliResult<Option<Vec<u8>>> {
    let Some(file) = file else { return Ok(None) };
    let read = std::fs::read(file);
    let read = read.map_err(|error| {
        CliError::usage(format!("`{key}`: cannot read {}", file.display())).with_cause(&error)
    })?;
    Ok(Some(read))
}

#[cfg(feature = "authorization-server")]
fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
