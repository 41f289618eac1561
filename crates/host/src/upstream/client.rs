//! Upstream connections that use the SDK's client: child processes and URLs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hospes::client::{CallError, Client, ClientBuilder, HealthCheck, Target};
use hospes::{BoxService, Call, Context, Outcome, Service};
use hospes_model::{
    ElicitUrlParams, Era, Method, Notification, RawJson, RootsCapability, RpcError, ServerCapabilities, code,
};
use hospes_sandbox::SandboxHelper;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::roots::RootsPolicy;
use crate::config::{BuiltinTransport, EraChoice, HttpFlavour, HttpTransport, ServerConfig, ServerTransport};
use crate::config::{HostSettings, SecretValues, is_exposed};
use crate::server::{
    AccountAuthorizer, CapabilitySet, ConnectOptions, ConnectorFuture, LaunchRecorder, MissingSignIn,
    ServerProcess, SignInChanges, UpstreamConnectError, UpstreamConnection, UpstreamConnector,
};

/// Time by which the client's limit is shorter than the connector's, so that the client can report the cause.
const CLIENT_TIMEOUT_MARGIN: Duration = Duration::from_secs(1);

/// Connects with the SDK's client.
#[derive(Debug)]
struct ClientConnector {
    name: Arc<str>,
    start: ConnectTarget,
    era: Option<Era>,
    /// True if the server is configured to use HTTP+SSE.
    sse: bool,
    connect_timeout: Duration,
    request_timeout: Option<Duration>,
    park_timeout: Duration,
    health_check: Option<HealthCheck>,
    roots: RootsPolicy,
    account: Option<Arc<dyn AccountAuthorizer>>,
    launches: Option<Arc<LaunchRecorder>>,
    /// Values of the configuration that a server may repeat in its answer.
    secrets: Arc<SecretValues>,
}

/// Target of the connection.
#[derive(Debug)]
enum ConnectTarget {
    /// The same target for each connection.
    Target(Target),
    /// None, for this reason.
    Refused(UpstreamConnectError),
    /// A child process, whose program and sandbox are resolved for each connection.
    Process {
        config: Box<ServerConfig>,
        helper: Option<SandboxHelper>,
        last: Mutex<Option<Arc<ServerProcess>>>,
    },
}

impl ConnectTarget {
    fn new(
        config: &ServerConfig,
        settings: &HostSettings,
        account: Option<&Arc<dyn AccountAuthorizer>>,
    ) -> Self {
        match (&config.transport, account) {
            (ServerTransport::Stdio(_), _) => {
                let (config, helper) = (Box::new(config.clone()), settings.helper.clone());
                Self::Process { config, helper, last: Mutex::default() }
            }
            (ServerTransport::Http(http), account) => match (unencrypted(http), account) {
                (Some(refusal), _) => Self::Refused(refusal),
                (None, Some(account)) => {
                    Self::Target(at_url(http).authorizer(Arc::clone(account) as _).into())
                }
                (None, None) => Self::Target(at_url(http).into()),
            },
            (ServerTransport::Builtin(builtin), _) => Self::Target(part_of_us(builtin)),
        }
    }

    async fn target(&self) -> Result<Target, UpstreamConnectError> {
        let (config, helper, last) = match self {
            Self::Target(target) => return Ok(target.clone()),
            Self::Refused(refusal) => return Err(refusal.clone()),
            Self::Process { config, helper, last } => (config.clone(), helper.clone(), last),
        };
        // It looks at files, and may start a program to find out what works here.
        let found = tokio::task::spawn_blocking(move || match &config.transport {
            ServerTransport::Stdio(stdio) => super::process::start(&config, stdio, helper.as_ref()).map(Some),
            ServerTransport::Http(_) | ServerTransport::Builtin(_) => Ok(None),
        });
        let found = found.await.map_err(|error| UpstreamConnectError::new(error.to_string()))??;
        let Some((target, process)) = found else {
            return Err(UpstreamConnectError::new("the server is not a program"));
        };
        *last.lock() = Some(Arc::new(process));
        Ok(target)
    }
}

/// Returns a connector for a child process or a URL.
pub(crate) fn client_connector(
    config: &ServerConfig,
    settings: &HostSettings,
    roots: &RootsPolicy,
    account: Option<Arc<dyn AccountAuthorizer>>,
    launches: Option<Arc<LaunchRecorder>>,
) -> Arc<dyn UpstreamConnector> {
    let connect_timeout = config.timeouts.connect.unwrap_or(settings.connect_timeout);
    Arc::new(ClientConnector {
        name: config.name.as_str().into(),
        start: ConnectTarget::new(config, settings, account.as_ref()),
        era: config.era.map(EraChoice::era),
        sse: matches!(&config.transport, ServerTransport::Http(http) if http.flavour == HttpFlavour::Sse),
        // Below two seconds the head start would take most of the limit, so half of it is always kept.
        connect_timeout: connect_timeout.saturating_sub(CLIENT_TIMEOUT_MARGIN).max(connect_timeout / 2),
        request_timeout: config.timeouts.request.or(settings.request_timeout),
        park_timeout: config.timeouts.park.unwrap_or(settings.park_timeout),
        health_check: health_check(config.timeouts.health_check.or(settings.health_check)),
        roots: roots.clone(),
        account,
        launches,
        secrets: Arc::new(SecretValues::of(&config.transport)),
    })
}

/// Returns the health check for this interval. For a server that hangs, or over HTTP, a lost server cannot be detected
/// otherwise.
fn health_check(interval: Option<Duration>) -> Option<HealthCheck> {
    let interval = interval.filter(|interval| !interval.is_zero())?;
    Some(HealthCheck::every(interval).max_unanswered(2))
}

/// Returns the target for the SDK's client; a program is started through the helper. Errors show it as written in the
/// configuration, without secrets, because they reach logs, the status and the model. May block.
///
/// # Errors
/// If the program does not exist, or its sandbox cannot be enforced. It must not be started then.
pub fn target(config: &ServerConfig, helper: Option<&SandboxHelper>) -> Result<Target, UpstreamConnectError> {
    Ok(match &config.transport {
        ServerTransport::Stdio(stdio) => super::process::start(config, stdio, helper)?.0,
        ServerTransport::Http(http) => match unencrypted(http) {
            Some(refusal) => return Err(refusal),
            None => at_url(http).into(),
        },
        ServerTransport::Builtin(builtin) => part_of_us(builtin),
    })
}

/// Returns why a server is not connected to: its URL has no encryption and leads to another machine.
fn unencrypted(http: &HttpTransport) -> Option<UpstreamConnectError> {
    if http.plain_http || !is_exposed(http.url.reveal()) {
        return None;
    }
    let why =
        format!("not connected: {} is not encrypted, so anybody on the way can read and change it", http.url);
    Some(UpstreamConnectError::new(why).with_hint(Some(
        "use an `https://` URL, or set `plain_http = true` for this server if the network is yours",
    )))
}

fn at_url(http: &HttpTransport) -> hospes::client::UrlTarget {
    let target = Target::url(http.url.reveal().as_str()).shown_as(http.url.to_string());
    http.headers.iter().fold(target, |target, (name, value)| target.header(name, value.reveal()))
}

fn part_of_us(builtin: &BuiltinTransport) -> Target {
    Target::Invalid { text: builtin.name.clone(), why: "it is built into this program".to_owned() }
}

impl UpstreamConnector for ClientConnector {
    fn process(&self) -> Option<Arc<ServerProcess>> {
        match &self.start {
            ConnectTarget::Target(_) | ConnectTarget::Refused(_) => None,
            ConnectTarget::Process { last, .. } => last.lock().clone(),
        }
    }

    fn changes(&self) -> Option<watch::Receiver<SignInChanges>> {
        self.account.as_ref().map(|account| account.changes())
    }

    fn has_sign_in(&self) -> ConnectorFuture<'_, Option<bool>> {
        Box::pin(async {
            match &self.account {
                Some(account) => Some(account.has_tokens().await),
                None => None,
            }
        })
    }

    fn connect(
        &self,
        wish: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        Box::pin(async move {
            let (name, secrets) = (Arc::clone(&self.name), Arc::clone(&self.secrets));
            let (on_log, on_notification) = (Arc::clone(&wish.on_log), Arc::clone(&wish.on_notification));
            let mut builder = Client::builder()
                .info(crate::server::implementation())
                .on_log(move |message| on_log(message))
                .on_notification(move |notification| on_notification(notification))
                .connect_timeout(self.connect_timeout)
                .park_timeout(self.park_timeout)
                // Lists are kept by the host itself, which reads them again when it has reason to; a resource that an
                // application may keep, the application is told so. What is asked here is asked of the server.
                .cache_bytes(0)
                .on_stderr(move |line| {
                    tracing::debug!(target: "hospes::stderr", server = %name, "{}", secrets.mask(line));
                });
            // The configured era comes first: what is remembered may be from before the setting.
            if let Some(era) = self.era.or_else(|| wish.known.map(|known| known.era)) {
                builder = builder.era(era);
            }
            builder = builder.sse(wish.known.map_or(self.sse, |known| known.sse));
            if let Some(check) = self.health_check {
                builder = builder.health_check(check);
            }
            if let Some(timeout) = self.request_timeout {
                builder = builder.timeout(timeout);
            }
            // A server that nobody has accepted yet is told no names of folders (HOST-04).
            let roots = if wish.quarantined { &[][..] } else { &self.roots.own };
            let told = self.roots.clone();
            let builder =
                declaring(builder, wish.abilities, roots).expose_roots_if(move |roots| told.may_send(roots));
            let target = self.start.target().await.inspect_err(|problem| {
                if let Some(launches) = &self.launches {
                    launches.unstartable(problem);
                }
            })?;
            let builder = match &self.launches {
                Some(launches) if matches!(target, Target::Command(_)) => {
                    // Asked before the process exists: a program that runs without a record could only be killed again.
                    launches.ready().await?;
                    builder.on_process(launches.process_observer(self.process()))
                }
                _ => builder,
            };
            let client = builder.connect(target).await.map_err(|error| {
                let text = error.to_string();
                // It gets a place of its own.
                let hint = error.hint.clone();
                let shown = hint.as_deref().and_then(|hint| text.strip_suffix(&format!("\n  hint: {hint}")));
                let sign_in = error.sign_in.as_deref();
                // Whose link it is, that person alone is told.
                let shown = shown.unwrap_or(&text).lines();
                let shown: Vec<&str> =
                    shown.filter(|line| sign_in.is_none_or(|url| !line.contains(url))).collect();
                let shown = self.secrets.mask(&shown.join("\n"));
                let hint = hint.map(|hint| self.secrets.mask(&hint));
                let mut problem = UpstreamConnectError::new(shown).with_hint(hint).with_sign_in(sign_in);
                problem.needs_sign_in = error.needs_sign_in;
                problem
            })?;
            Ok(connection(&self.name, client, &self.secrets))
        })
    }
}

/// Declares the capabilities of a connection for applications with these abilities.
pub(crate) fn declaring(
    mut builder: ClientBuilder,
    mut abilities: CapabilitySet,
    roots: &[PathBuf],
) -> ClientBuilder {
    if !roots.is_empty() {
        // The host is the client, and whoever started it said that these folders may be told. An application that has
        // roots of its own is asked for them instead.
        abilities = abilities.with_roots();
    }
    let mut capabilities = abilities.capabilities();
    if !roots.is_empty() {
        builder = builder.roots(roots);
        // They are watched; an application's are not.
        capabilities.roots.get_or_insert_with(RootsCapability::new).list_changed = Some(true);
    }
    builder.capabilities(capabilities)
}

/// A client that adds the server's name to its own errors, because applications see many servers behind one endpoint.
struct NamedClientService {
    name: Arc<str>,
    client: Client,
    /// Values that are masked in errors.
    secrets: Arc<SecretValues>,
    /// Refusal of the last request that lacked a sign-in.
    missing_sign_in: Arc<Mutex<Option<MissingSignIn>>>,
    /// Number of calls in progress.
    calls: Arc<watch::Sender<usize>>,
}

impl NamedClientService {
    /// Masks the secrets in an error of the server. An error that shows none stays as it is.
    fn masked(&self, mut error: RpcError) -> RpcError {
        error.message = self.secrets.mask(&error.message).into();
        // The URLs of a question are opened, and must stay whole.
        let data = error.data.as_ref().filter(|_| error.code != code::URL_ELICITATION_REQUIRED);
        if let Some(data) = data {
            let text = data.to_string();
            let shown = self.secrets.mask(&text);
            if shown != text {
                // An escape that was cut would leave no JSON.
                error.data = RawJson::parse(shown).ok();
            }
        }
        error
    }
}

/// Guard of a call in progress.
struct InFlightCall(Arc<watch::Sender<usize>>);

impl InFlightCall {
    fn begin(calls: &Arc<watch::Sender<usize>>) -> Self {
        calls.send_modify(|calls| *calls += 1);
        Self(Arc::clone(calls))
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        self.0.send_modify(|calls| *calls -= 1);
    }
}

impl Service for NamedClientService {
    async fn notified(&self, notification: Notification, context: Context) {
        self.client.notified(notification, context).await;
    }

    async fn call(&self, call: Call) -> Outcome {
        // Whoever listens does so until the connection is closed.
        let listens = call.method == Method::SubscriptionsListen;
        let _under_way = (!listens).then(|| InFlightCall::begin(&self.calls));
        Outcome::Failed(match self.client.forward(call).await {
            Ok(Outcome::Failed(error)) | Err(CallError::Rpc(error)) => self.masked(error),
            Ok(outcome) => return outcome,
            Err(CallError::NotAuthorized(why)) if why.sign_in.is_some() => {
                sign_in_required_error(&self.name, why.sign_in.as_deref().unwrap_or_default())
            }
            Err(error) => {
                if let CallError::NotAuthorized(why) = &error
                    && why.needs_sign_in
                {
                    let hint = why.hint.as_deref().map(|hint| self.secrets.mask(hint).into());
                    *self.missing_sign_in.lock() = Some(MissingSignIn { hint });
                }
                let mut said = error.to_rpc();
                // Here it is set by another name.
                let why = said.message.replace("(setting timeout)", "(setting request_timeout)");
                // The body of an HTTP error may repeat what was sent.
                said.message = format!("the server `{}`: {}", self.name, self.secrets.mask(&why)).into();
                said
            }
        })
    }
}

/// Creates the error that names the URL for signing in. The gateway converts it for the application.
pub(crate) fn sign_in_required_error(name: &str, url: &str) -> RpcError {
    let message = format!("`{name}` requires you to sign in with your account there");
    let id = url.rsplit('/').next().unwrap_or_default();
    RpcError::url_elicitation_required(vec![ElicitUrlParams::new(message, url).with_elicitation_id(id)])
}

/// Wraps a client as a connection to the server of this name, which was given no secrets.
#[cfg(test)]
pub(crate) fn in_memory(name: &Arc<str>, client: Client) -> UpstreamConnection {
    connection(name, client, &Arc::default())
}

/// Wraps a client as a connection to the server of this name.
pub(super) fn connection(name: &Arc<str>, client: Client, secrets: &Arc<SecretValues>) -> UpstreamConnection {
    let (calls, missing_sign_in) = (Arc::new(watch::Sender::new(0)), Arc::default());
    let named = NamedClientService {
        name: Arc::clone(name),
        client: client.clone(),
        secrets: Arc::clone(secrets),
        missing_sign_in: Arc::clone(&missing_sign_in),
        calls: Arc::clone(&calls),
    };
    let service = BoxService::new(named);
    let mut connection = UpstreamConnection::new(service, client.revision());
    connection.sse = client.is_over_sse();
    connection.server = client.server_info().cloned();
    connection.capabilities = client.capabilities().cloned().unwrap_or_else(ServerCapabilities::new);
    connection.instructions = client.instructions().map(str::to_owned);
    let watched = client.clone();
    connection.parked = Box::new(move || watched.parked_calls());
    connection.settled = Box::new(move || {
        let mut calls = calls.subscribe();
        Box::pin(async move {
            // Without a sender there is nobody who could call.
            let _ = calls.wait_for(|calls| *calls == 0).await;
        })
    });
    connection.missing_sign_in = Box::new(move || missing_sign_in.lock().clone());
    let (watched, masked) = (client.clone(), Arc::clone(secrets));
    connection.noise = Box::new(move || watched.noise().1.map(|line| masked.mask(&line)));
    let watched = client.clone();
    connection.is_closed = Box::new(move || watched.closed().is_some());
    let (watched, secrets_of_reason) = (client.clone(), Arc::clone(secrets));
    connection.closed = Box::new(move || {
        let client = watched.clone();
        let secrets = Arc::clone(&secrets_of_reason);
        Box::pin(async move { secrets.mask(&client.wait_closed().await.to_string()) })
    });
    connection.close = Box::new(move || {
        let client = client.clone();
        Box::pin(async move { client.close().await })
    });
    connection
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigLoader, ConfigSource};

    #[tokio::test]
    async fn what_a_failed_connection_says_holds_no_secret() {
        let text = r#"{ "mcpServers": {
            "a": { "command": "/no/such/program", "args": ["--token", "${KEY}", "${KEY}"] },
            "b": { "url": "http://127.0.0.1:9/${KEY}/mcp?key=${KEY}" }
        } }"#;
        let loader = ConfigLoader::new().variables(|name| (name == "KEY").then(|| "hunter2".to_owned()));
        let config = loader.parse("mcp.json", text).unwrap();
        assert_eq!(config.servers.len(), 2);
        for server in &config.servers {
            let texts = match target(server, None) {
                Ok(target) => {
                    let error = Client::connect(target.clone()).await.unwrap_err();
                    [error.to_string(), format!("{error:?}"), target.to_string(), format!("{target:?}")]
                }
                Err(problem) => {
                    [&problem.message, &problem.hint.unwrap_or_default(), &problem.message, &problem.message]
                        .map(ToString::to_string)
                }
            };
            assert!(
                texts.iter().all(|text| !text.contains("hunter2")) && texts[0].contains("KEY"),
                "{texts:?}"
            );
        }
    }

    #[test]
    fn a_server_elsewhere_needs_encryption_unless_the_operator_does_without() {
        let refusal = |url: &str, plain_http: bool| {
            let mut transport = ServerTransport::http(url.parse().unwrap());
            if let ServerTransport::Http(http) = &mut transport {
                http.plain_http = plain_http;
            }
            let config = ServerConfig::new("one", transport, ConfigSource::unwritten("a test"));
            target(&config, None).err()
        };
        for url in ["http://mcp.example/mcp", "http://10.0.0.7:8000/", "http://[2001:db8::1]/"] {
            let refused = refusal(url, false).unwrap();
            assert!(refused.message.contains("is not encrypted"), "{refused:?}");
            assert!(refused.hint.unwrap().contains("plain_http = true"));
            assert!(refusal(url, true).is_none(), "{url}");
        }
        for url in ["https://mcp.example/", "http://localhost:8000/", "http://127.0.0.1/", "http://[::1]:9/"]
        {
            assert!(refusal(url, false).is_none(), "{url}");
        }
    }
}
