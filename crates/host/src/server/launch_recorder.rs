//! Audit entries of a server's processes and connections: starts, failed starts and ends.

use std::sync::Arc;
use std::time::Instant;

use hospes::client::ProcessEvent;
use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, AuditOutcome};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::connector::UpstreamConnectError;
use super::process::ServerProcess;

/// The most bytes of a command line that are recorded.
const MAX_COMMAND: usize = 64 * 1024;

/// Records launches and connections of one server. The caller limits the rate: each failure makes the next attempt wait
/// longer ([`Backoff`](crate::upstream::Backoff)), so a server that ends at once does not flood the record.
#[derive(Debug)]
pub(crate) struct LaunchRecorder {
    audit: AuditLog,
    server: Arc<str>,
    /// Profile for which the server runs, if it has the secrets of one.
    profile: Option<Arc<str>>,
    /// User whose account is used, if each user has one.
    user: Option<Arc<str>>,
    /// Location of the server in the configuration.
    by: String,
    target: Arc<str>,
    /// Command line or URL for display.
    shown: String,
    /// Reason for which the server was last not started. It is kept so that repeated checks record it only once.
    refused: Mutex<Option<Arc<str>>>,
}

/// A process whose start or end is recorded.
#[derive(Debug)]
struct ProcessLaunch {
    id: String,
    begun: Instant,
}

impl LaunchRecorder {
    pub(crate) fn new(
        audit: &AuditLog,
        (server, profile): (&Arc<str>, Option<&Arc<str>>),
        by: &impl ToString,
        target: &Arc<str>,
        shown: &str,
    ) -> Self {
        Self {
            audit: audit.clone(),
            server: Arc::clone(server),
            profile: profile.cloned(),
            user: None,
            by: by.to_string(),
            target: Arc::clone(target),
            shown: shown.to_owned(),
            refused: Mutex::default(),
        }
    }

    /// Returns a recorder for a user's own connections.
    pub(crate) fn of(&self, user: &Arc<str>) -> Self {
        let mut own = Self::new(
            &self.audit,
            (&self.server, self.profile.as_ref()),
            &self.by,
            &self.target,
            &self.shown,
        );
        own.user = Some(Arc::clone(user));
        own
    }

    /// Checks before a start that it can be recorded.
    ///
    /// # Errors
    /// If the audit log cannot be written. The server must not be started then.
    pub(crate) async fn ready(&self) -> Result<(), UpstreamConnectError> {
        self.audit.check_writable().await.map_err(|error| {
            tracing::error!(server = %self.server, %error, "server not started because its start cannot be recorded");
            UpstreamConnectError::new("its start cannot be recorded at the moment, so it is not started")
        })
    }

    /// Records that the server is not started because it has been rejected or not accepted yet. Repetitions of one
    /// reason are recorded once.
    pub(crate) fn withheld(&self, problem: &UpstreamConnectError) {
        let mut refused = self.refused.lock();
        if refused.as_ref() == Some(&problem.message) {
            return;
        }
        *refused = Some(Arc::clone(&problem.message));
        drop(refused);
        self.not_started(problem, AuditOutcome::Refused);
    }

    /// Records that the server's command cannot be resolved or confined.
    pub(crate) fn unstartable(&self, problem: &UpstreamConnectError) {
        if problem.unenforceable {
            return self.not_started(problem, AuditOutcome::Refused);
        }
        let why = problem.hint.as_ref().map(|hint| format!("{}: {hint}", problem.message));
        self.not_started(
            &why.map_or_else(|| problem.clone(), UpstreamConnectError::new),
            AuditOutcome::Failed,
        );
    }

    fn not_started(&self, problem: &UpstreamConnectError, ending: AuditOutcome) {
        let mut entry = self.entry("not started", ending);
        entry.subject = Some(clipped(&self.shown));
        // It stands beside what cannot be connected to.
        let lead = format!("cannot connect to {} (spawn): ", self.shown);
        entry.how = Some(clipped(problem.message.strip_prefix(&lead).unwrap_or(&problem.message)));
        self.record(entry);
    }

    /// Returns an observer that records the processes of one connection. There is one process at a time.
    pub(crate) fn process_observer(
        self: &Arc<Self>,
        process: Option<Arc<ServerProcess>>,
    ) -> impl Fn(ProcessEvent<'_>) + Send + Sync + 'static {
        let (launches, now) = (Arc::clone(self), Mutex::new(None));
        move |news| {
            let mut now = now.lock();
            if let Some(entry) = launches.heard(news, process.as_deref(), &mut now) {
                launches.record(entry);
            }
        }
    }

    fn heard(
        &self,
        news: ProcessEvent<'_>,
        process: Option<&ServerProcess>,
        now: &mut Option<ProcessLaunch>,
    ) -> Option<AuditEntry> {
        let mut entry = match news {
            ProcessEvent::Started { .. } => {
                // A later refusal for the same reason is another event once the server has run in between.
                *self.refused.lock() = None;
                let launch = now.insert(ProcessLaunch { id: random(), begun: Instant::now() });
                let mut entry = self.entry("started", AuditOutcome::Done);
                entry.call = Some(launch.id.clone());
                entry
            }
            ProcessEvent::NotStarted { why } => {
                let mut entry = self.entry("not started", AuditOutcome::Failed);
                entry.how = Some(why.to_string());
                entry
            }
            ProcessEvent::Ended { how, was_asked, is_success, .. } => {
                let is_well = was_asked || is_success;
                let mut entry =
                    self.entry("exited", if is_well { AuditOutcome::Done } else { AuditOutcome::Failed });
                entry.how =
                    Some(if was_asked { format!("{how}, after it was asked to stop") } else { how.into() });
                if let Some(ProcessLaunch { id, begun }) = now.take() {
                    entry.micros = u64::try_from(begun.elapsed().as_micros()).ok();
                    entry.call = Some(id);
                }
                entry
            }
            _ => return None,
        };
        entry.subject = Some(clipped(process.map_or(&self.shown, |process| &process.command)));
        entry.sandbox = process.map(ServerProcess::permissions_text);
        Some(entry)
    }

    /// Records a successful connection to a URL.
    pub(crate) fn connected(&self) {
        self.at_url("connected", AuditOutcome::Done, None);
    }

    /// Records that a connection to a URL failed, and the reason as far as it is the host's own. Answers of servers are
    /// not recorded.
    pub(crate) fn not_connected(&self, wants_sign_in: bool) {
        let how = if wants_sign_in { "sign-in is required" } else { "it cannot be reached" };
        self.at_url("not connected", AuditOutcome::Failed, Some(how));
    }

    /// Records the end of a connection to a URL.
    pub(crate) fn disconnected(&self, how: &str, ending: AuditOutcome) {
        self.at_url("disconnected", ending, Some(how));
    }

    fn at_url(&self, what: &str, ending: AuditOutcome, how: Option<&str>) {
        let mut entry = self.entry(what, ending);
        entry.subject = Some(clipped(&self.shown));
        entry.how = how.map(str::to_owned);
        self.record(entry);
    }

    fn entry(&self, what: &str, ending: AuditOutcome) -> AuditEntry {
        let mut entry = AuditEntry::new(AuditEntryKind::Server);
        entry.server = Some(self.server.to_string());
        entry.profile = self.profile.as_deref().map(str::to_owned);
        entry.principal = self.user.as_deref().map(str::to_owned);
        entry.decision = Some(what.to_owned());
        entry.by = Some(self.by.clone());
        entry.target = Some(self.target.to_string());
        entry.ending = Some(ending);
        entry
    }

    /// Records an entry without waiting. If the record is behind, a background task waits.
    fn record(&self, entry: AuditEntry) {
        let Err(entry) = self.audit.try_enqueue(entry) else { return };
        // Without a runtime nothing can wait for the record, so the loss is logged.
        let Ok(runtime) = Handle::try_current() else {
            return tracing::error!(server = %self.server, "failed to record an event of a server");
        };
        let (audit, server) = (self.audit.clone(), Arc::clone(&self.server));
        runtime.spawn(async move {
            if let Err(error) = audit.enqueue(*entry).await {
                tracing::error!(%server, %error, "failed to record an event of a server");
            }
        });
    }
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_COMMAND) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Returns an id that links the end of a process to its start.
fn random() -> String {
    let mut bytes = [0_u8; 8];
    // It is a name, and no secret.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
