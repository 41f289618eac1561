//! Sign-ins of a trial: the stored ones, and a new one that is kept only with the server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hospes_host::UpstreamAccounts;
use hospes_host::config::{ServerConfig, ServerTransport};
use hospes_oauth::OAuthClient;
use parking_lot::Mutex;
use url::Url;

use super::super::{InterruptListener, auth, interrupted};
use super::confirm;
use crate::credentials::{self, CredentialsStore, OverlayStore};
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{CliOutput, printable};
use crate::shown_commands::shown_command;

/// Maximum time for taking back the tokens of a server that was not added.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Accounts of a server that is tried: those of earlier sign-ins, and one of a sign-in during the trial.
pub(in crate::commands) struct TrialAccounts {
    store: Arc<OverlayStore>,
    /// Client of the sign-in during the trial, also of one that has failed or was cancelled: it may have tokens.
    signed_in: Mutex<Option<OAuthClient>>,
}

impl TrialAccounts {
    /// Opens the store of the sign-ins when a server needs one.
    pub(in crate::commands) fn open() -> CliResult<Self> {
        let store = Arc::new(OverlayStore::new(credentials::open_when_created()?));
        Ok(Self { store, signed_in: Mutex::default() })
    }

    /// Returns the accounts for a host.
    pub(in crate::commands) fn for_host(&self) -> UpstreamAccounts {
        UpstreamAccounts::new(Arc::clone(&self.store) as _)
    }

    /// Returns true if the person has signed in during the trial, or has begun to. Another sign-in would bring the same.
    pub(in crate::commands) fn is_signed_in(&self) -> bool {
        self.signed_in.lock().is_some()
    }

    /// Signs in to a server with a browser, which `show` brings to the page. Nothing is stored yet.
    pub(super) async fn sign_in(
        &self,
        server: &ServerConfig,
        show: impl Fn(&Url) -> io::Result<()> + Send + Sync + 'static,
        output: CliOutput,
    ) -> CliResult {
        // The tokens of an attempt that has failed would be forgotten by this one, and stay valid.
        self.discard().await;
        self.store.hold_back();
        let begun = |oauth: OAuthClient| *self.signed_in.lock() = Some(oauth);
        auth::sign_in_to_server(server, Arc::clone(&self.store) as _, show, begun, output).await
    }

    /// Asks the person at the terminal to sign in to a server. `end` says what is not done without it, and `login` is the
    /// target of `hospes auth login`.
    pub(in crate::commands) async fn sign_in_at_terminal(
        &self,
        server: &ServerConfig,
        (may_ask, ending): (bool, Option<&mut InterruptListener>),
        (login, end): (&str, &str),
        output: CliOutput,
    ) -> CliResult {
        let host = printable(&host_of(server));
        let refused = |why: String| {
            CliError::new(FailureCode::Unauthorized, why).hint(format!(
                "sign in first, and repeat the command: {}",
                shown_command("auth login", login)
            ))
        };
        if !may_ask {
            return Err(refused(format!("{host} requires a sign-in, and {end}")));
        }
        let work = async {
            // In a thread, so that Ctrl-C ends the question.
            let question = format!("  {host} asks you to sign in. Open the browser?");
            let answer = tokio::task::spawn_blocking(move || confirm(&question, output)).await;
            if !answer.unwrap_or(false) {
                return Err(refused(format!("not signed in to {host}; {end}")));
            }
            self.sign_in(server, auth::open_browser, output).await.map_err(|error| CliError {
                message: format!("not signed in to {host}, and {end}: {}", error.message),
                ..error
            })
        };
        match ending {
            Some(ending) => ending.unless(work).await.unwrap_or_else(|| Err(interrupted(end))),
            None => work.await,
        }
    }

    /// Stores the tokens of the sign-in during the trial.
    ///
    /// # Errors
    /// If the store cannot be created or written.
    pub(in crate::commands) async fn keep(&self, wanted: CredentialsStore, output: CliOutput) -> CliResult {
        if !self.store.has_changes() {
            return Ok(());
        }
        let store = Arc::clone(&self.store);
        // In a thread, because a keyring may ask the person before it answers.
        let kept = tokio::task::spawn_blocking(move || {
            let created = credentials::open_or_create(wanted, output)?;
            let failed = |error| CliError::usage("cannot store the tokens of the sign-in").with_cause(&error);
            store.keep_in(&*created).map_err(failed)
        });
        kept.await.map_err(|error| CliError::usage("cannot store the tokens").with_cause(&error))?
    }

    /// Takes back the tokens of the sign-in during the trial: nothing of them stays here or at the authorization server.
    pub(in crate::commands) async fn discard(&self) {
        let Some(oauth) = self.signed_in.lock().take() else { return };
        let revoke = async {
            // The trial may have refreshed them.
            oauth.recheck().await?;
            oauth.revoke().await
        };
        match tokio::time::timeout(REVOKE_TIMEOUT, revoke).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the tokens of a server that was not added were not revoked")
            }
            Err(_) => tracing::warn!("the tokens of a server that was not added were not revoked in time"),
        }
    }
}

/// Returns the host at which a person signs in.
pub(super) fn host_of(server: &ServerConfig) -> String {
    let ServerTransport::Http(http) = &server.transport else { return server.name.clone() };
    http.url.reveal().host_str().unwrap_or_default().to_owned()
}
