//! A connection to the engine that is replaced when it fails.
//!
//! ```text
//! connecting --> up --broken--> connecting        A connection is up only after its identity was compared.
//!     |           '--silent, refused--> up, until another one is up or cannot be opened
//!     '--failed--> down --pause--> connecting     Operations fail at once while the link is down.
//! ```

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::{ConnectionLike as _, MultiplexedConnection};
use ::redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Script, Value, cmd};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::identity::EngineIdentity;
use super::reply::{ScriptReply, fault_of};
use super::settings::RedisSettings;
use crate::recovery::RecoveryWindow;
use crate::relay::{EngineFault, RelayError};

/// Number of reports about failed connections that wait; more tell nothing new.
const REPORTS: usize = 8;

/// Name of the link for leases, which tells of outages.
pub(super) const LEASE_LINK: &str = "lease";

/// Maximum number of bytes that a connection gathers before it writes them to the socket.
const WRITE_BUFFER: usize = 64 * 1024;

/// Handle on a link. The link ends with its task, which the relay owns.
#[derive(Debug)]
pub(super) struct EngineLink {
    state: watch::Receiver<LinkState>,
    reports: mpsc::Sender<LinkReport>,
    response_timeout: Duration,
}

#[derive(Clone, Debug)]
enum LinkState {
    Connecting,
    Up(EngineConnection),
    Down(EngineFault),
}

/// Connection whose identity was compared.
#[derive(Clone, Debug)]
pub(super) struct EngineConnection {
    number: u64,
    connection: MultiplexedConnection,
    pub(super) identity: Arc<EngineIdentity>,
}

/// Report that an operation on this connection failed.
#[derive(Clone, Copy, Debug)]
struct LinkReport {
    number: u64,
    fault: EngineFault,
}

impl EngineLink {
    /// Creates a link, and the future that keeps it connected.
    pub(super) fn new(
        name: &'static str,
        client: Client,
        settings: &RedisSettings,
        window: Arc<RecoveryWindow>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (state_sender, state) = watch::channel(LinkState::Connecting);
        let (reports, received) = mpsc::channel(REPORTS);
        let task = LinkTask {
            name,
            client,
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(settings.connect_timeout))
                .set_response_timeout(Some(settings.response_timeout))
                .set_concurrency_limit(settings.max_in_flight)
                .set_write_backpressure_boundary(WRITE_BUFFER),
            settings: settings.clone(),
            window,
            state: state_sender,
            reports: received,
            next_number: 0,
        };
        (Self { state, reports, response_timeout: settings.response_timeout }, task.run())
    }

    /// Returns the present connection. A first attempt to connect is waited for, later ones are not.
    pub(super) async fn connection(&self) -> Result<EngineConnection, RelayError> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| !matches!(state, LinkState::Connecting));
        match timeout(self.response_timeout, settled).await {
            Ok(Ok(state)) => match &*state {
                LinkState::Up(connection) => Ok(connection.clone()),
                // These tell an operator more than that there is no connection.
                LinkState::Down(
                    fault @ (EngineFault::Authentication | EngineFault::ReadOnly | EngineFault::Loading),
                ) => Err(RelayError::Unavailable(*fault)),
                LinkState::Down(_) | LinkState::Connecting => {
                    Err(RelayError::Unavailable(EngineFault::NotConnected))
                }
            },
            Ok(Err(_)) | Err(_) => Err(RelayError::Unavailable(EngineFault::NotConnected)),
        }
    }

    /// Runs a command.
    pub(super) async fn command(&self, command: &Cmd) -> Result<Value, RelayError> {
        let mut connection = self.connection().await?;
        let sent = timeout(self.response_timeout, connection.connection.req_packed_command(command)).await;
        let answer = sent.map_err(|_| EngineFault::Timeout);
        self.check(connection.number, answer)
    }

    /// Runs a script; one that the server does not have is sent and run again.
    pub(super) async fn script(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[&[u8]],
    ) -> Result<ScriptReply, RelayError> {
        let connection = self.connection().await?;
        ScriptReply::read(self.script_on(connection, script, keys, arguments).await?)
    }

    /// Runs a script on this connection.
    pub(super) async fn script_on(
        &self,
        mut connection: EngineConnection,
        script: &Script,
        keys: &[&str],
        arguments: &[&[u8]],
    ) -> Result<Value, RelayError> {
        let mut call = script.prepare_invoke();
        for key in keys {
            call.key(*key);
        }
        for argument in arguments {
            call.arg(*argument);
        }
        let sent = timeout(self.response_timeout, call.invoke_async(&mut connection.connection)).await;
        self.check(connection.number, sent.map_err(|_| EngineFault::Timeout))
    }

    /// Compares the identity of the server at the other end of the present connection.
    pub(super) async fn check_identity(&self, window: &RecoveryWindow) -> Result<(), RelayError> {
        let mut connection = self.connection().await?;
        let asked = timeout(self.response_timeout, EngineIdentity::of(&mut connection.connection)).await;
        match asked.unwrap_or(Err(EngineFault::Timeout)) {
            // Without the permission to ask, a connection is the identity.
            Ok(identity) if identity.replication_id.is_empty() => Ok(()),
            Ok(identity) => {
                window.observe(&identity.to_text(), identity.alone_for);
                if identity.to_text() != connection.identity.to_text() {
                    self.report(connection.number, EngineFault::ReadOnly);
                }
                Ok(())
            }
            Err(fault) => {
                self.report(connection.number, fault);
                Err(RelayError::Unavailable(fault))
            }
        }
    }

    fn check(
        &self,
        number: u64,
        answer: Result<Result<Value, RedisError>, EngineFault>,
    ) -> Result<Value, RelayError> {
        let fault = match answer {
            Ok(Ok(Value::ServerError(error))) => fault_of(&error.into()),
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => fault_of(&error),
            Err(fault) => fault,
        };
        self.report(number, fault);
        Err(RelayError::Unavailable(fault))
    }

    fn report(&self, number: u64, fault: EngineFault) {
        let is_of_connection = matches!(
            fault,
            EngineFault::Disconnected
                | EngineFault::NotConnected
                | EngineFault::Timeout
                | EngineFault::ReadOnly
        );
        if is_of_connection {
            // A full queue already has reports on this connection.
            let _ = self.reports.try_send(LinkReport { number, fault });
        }
    }
}

struct LinkTask {
    name: &'static str,
    client: Client,
    config: AsyncConnectionConfig,
    settings: RedisSettings,
    window: Arc<RecoveryWindow>,
    state: watch::Sender<LinkState>,
    reports: mpsc::Receiver<LinkReport>,
    next_number: u64,
}

impl LinkTask {
    /// Keeps the link connected until all its handles are gone.
    async fn run(mut self) {
        let mut pause = self.settings.reconnect_min;
        // Said once for an outage, by one of the links: they lead to the same server.
        let (is_speaker, mut is_said) = (self.name == LEASE_LINK && !self.settings.is_quiet, false);
        while !self.state.is_closed() {
            match self.connect().await {
                Ok(connection) => {
                    match std::mem::take(&mut is_said) {
                        true => tracing::info!("connected to the shared store again"),
                        false => tracing::debug!(link = self.name, "connected to the shared store"),
                    }
                    pause = self.settings.reconnect_min;
                    self.state.send_replace(LinkState::Up(connection.clone()));
                    let Some(fault) = self.failure_of(connection).await else { return };
                    match is_speaker {
                        true => tracing::warn!(%fault, "the connection to the shared store failed"),
                        false => {
                            tracing::debug!(link = self.name, %fault, "a connection to the shared store failed")
                        }
                    }
                    is_said |= is_speaker;
                    if matches!(fault, EngineFault::Disconnected | EngineFault::NotConnected) {
                        self.state.send_replace(LinkState::Connecting);
                    }
                }
                Err(fault) => {
                    match is_speaker && !is_said {
                        true => {
                            tracing::warn!(%fault, "cannot connect to the shared store; trying again until it answers")
                        }
                        false => {
                            tracing::debug!(link = self.name, %fault, "cannot connect to the shared store")
                        }
                    }
                    is_said |= is_speaker;
                    self.state.send_replace(LinkState::Down(fault));
                    sleep(pause).await;
                    pause = (pause * 2).min(self.settings.reconnect_max);
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<EngineConnection, EngineFault> {
        let connect = self.client.get_multiplexed_async_connection_with_config(&self.config);
        let mut connection = connect.await.map_err(|error| fault_of(&error))?;
        let asked = timeout(self.settings.response_timeout, EngineIdentity::of(&mut connection)).await;
        let identity = asked.map_err(|_| EngineFault::Timeout)??;
        // Before any operation can use the connection: it must not take what is lost for what never was.
        self.window.observe(&identity.to_text(), identity.alone_for);
        self.next_number += 1;
        Ok(EngineConnection { number: self.next_number, connection, identity: Arc::new(identity) })
    }

    /// Waits until a connection fails: an operation says so, or it does not answer a probe. `None` if nobody uses the
    /// link any more.
    async fn failure_of(&mut self, mut connection: EngineConnection) -> Option<EngineFault> {
        loop {
            // The reports wake the task at once; probes find a connection that broke, or fell silent, without operations.
            match timeout(self.settings.probe_interval, self.reports.recv()).await {
                Ok(None) => return None,
                Ok(Some(report)) if report.number == connection.number => return Some(report.fault),
                Ok(Some(_)) => continue,
                Err(_) => (),
            }
            let ping = cmd("PING");
            let probe = connection.connection.req_packed_command(&ping);
            let fault = match timeout(self.settings.response_timeout, probe).await {
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => fault_of(&error),
                Err(_) => EngineFault::Timeout,
            };
            if matches!(fault, EngineFault::Disconnected | EngineFault::NotConnected | EngineFault::Timeout) {
                return Some(fault);
            }
        }
    }
}
