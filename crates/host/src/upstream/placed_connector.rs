//! Connector of a server that one node of a fleet runs for all nodes: connects here, or to the node that runs it.

use std::sync::Arc;
use std::time::Duration;

use hospes::client::Client;
use hospes::{BoxService, Call, Context, Outcome, Service};
use hospes_model::{Method, Notification, code};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::client::{connection, declaring};
use crate::config::{HostSettings, SecretValues, ServerConfig};
use crate::server::{
    CapabilitySet, ConnectOptions, ConnectorFuture, ServerHold, ServerPlace, ServerPlaces, ServerProcess,
    SignInChanges, UpstreamConnectError, UpstreamConnection, UpstreamConnector, lost_call,
};

/// Time that the first connection waits until it is known which node runs the server. An engine that has just started is
/// in doubt about it for some seconds.
const FIRST_PLACE_WAIT: Duration = Duration::from_secs(10);
/// Time that later connections wait for it. They are tried again when it is known.
const PLACE_WAIT: Duration = Duration::from_secs(1);

/// Time for which calls may end when a server is given to another node. With the time that its process takes to end, it
/// is below the limit for closing a connection.
const SETTLE_TIME: Duration = Duration::from_millis(1500);

/// Time within which a process ends whose connection was dropped.
const PROCESS_END_TIME: Duration = Duration::from_secs(4);

/// Connector that connects at one node only.
pub(crate) struct PlacedConnector {
    /// Name of the server in errors.
    name: Arc<str>,
    /// Label under which the server is claimed.
    label: String,
    places: Arc<dyn ServerPlaces>,
    place: watch::Receiver<ServerPlace>,
    /// Connector that is used at the node that runs the server.
    inner: Arc<dyn UpstreamConnector>,
    /// Counts the places, so that a connection that waits is tried again.
    moves: watch::Receiver<SignInChanges>,
    /// True if the server has one connection, which all applications share. It is asked nothing then, since nothing says
    /// whose call a question of an older server belongs to.
    is_single: bool,
    connect_timeout: Duration,
    request_timeout: Option<Duration>,
    park_timeout: Duration,
    secrets: Arc<SecretValues>,
}

impl PlacedConnector {
    /// Wraps the connector of a server. From now on this node runs the server when no other does.
    pub(crate) fn wrap(
        inner: Arc<dyn UpstreamConnector>,
        places: &Arc<dyn ServerPlaces>,
        config: &ServerConfig,
        settings: &HostSettings,
    ) -> Arc<dyn UpstreamConnector> {
        let (label, places) = (config.label(), Arc::clone(places));
        let place = places.follow(&label);
        let (counted, moves) = watch::channel(SignInChanges::default());
        tokio::spawn(count_moves(place.clone(), counted));
        Arc::new(Self {
            name: config.name.as_str().into(),
            label,
            places,
            place,
            moves,
            inner,
            is_single: config.max_connections == Some(1),
            connect_timeout: config.timeouts.connect.unwrap_or(settings.connect_timeout),
            request_timeout: config.timeouts.request.or(settings.request_timeout),
            park_timeout: config.timeouts.park.unwrap_or(settings.park_timeout),
            secrets: Arc::new(SecretValues::of(&config.transport)),
        })
    }

    /// Waits until it is known which node runs the server.
    async fn known_place(&self) -> Result<ServerPlace, UpstreamConnectError> {
        let mut place = self.place.clone();
        let is_first = self.moves.borrow().times == 0;
        let limit = if is_first { FIRST_PLACE_WAIT } else { PLACE_WAIT };
        let known = timeout(limit, place.wait_for(is_known));
        if let Ok(Ok(known)) = known.await {
            return Ok(known.clone());
        }
        let why = match &*self.place.borrow() {
            ServerPlace::Unknown(why) => Arc::clone(why),
            ServerPlace::Leaving => Arc::from("this node is about to end"),
            known => return Ok(known.clone()),
        };
        // In the message, because a model sees no hint.
        Err(UpstreamConnectError::new(format!(
            "not started, because it is not known which node runs it: {why}. Nodes need Redis for servers with \
             `placement = \"one\"`, so that two never run at once; it is tried again by itself"
        )))
    }

    /// Connects here, and keeps the claim until the connection is closed.
    async fn connect_here(
        &self,
        wish: ConnectOptions,
        at: ServerPlace,
    ) -> Result<UpstreamConnection, UpstreamConnectError> {
        let hold = PlaceHold(Arc::new(Mutex::new(Some(self.places.hold(&self.label)))));
        // Not even begun if the claim is lost meanwhile; dropping the attempt ends what it has started.
        let mut connected = tokio::select! {
            biased;
            why = left(self.place.clone(), at.clone()) => return Err(UpstreamConnectError::new(why)),
            connected = self.inner.connect(wish) => connected?,
        };
        let (close, settled, place) = (connected.close, connected.settled, self.place.clone());
        let settled = Arc::new(settled);
        connected.settled = Box::new({
            let settled = Arc::clone(&settled);
            move || settled()
        });
        connected.close = Box::new(move || {
            let settling = (*place.borrow() == ServerPlace::Leaving).then(|| settled());
            let (closing, hold) = (close(), ReleasedHold(Arc::clone(&hold.0)));
            Box::pin(async move {
                if let Some(settling) = settling {
                    let _ = timeout(SETTLE_TIME, settling).await;
                }
                closing.await;
                drop(hold);
            })
        });
        Ok(self.bound_to(at, connected))
    }

    /// Connects to the node that runs the server.
    async fn connect_elsewhere(
        &self,
        wish: ConnectOptions,
        at: ServerPlace,
    ) -> Result<UpstreamConnection, UpstreamConnectError> {
        let stream = self.places.open(&self.label).await?;
        let (on_log, on_notification) = (Arc::clone(&wish.on_log), Arc::clone(&wish.on_notification));
        let mut builder = Client::builder()
            .info(crate::server::implementation())
            .on_log(move |message| on_log(message))
            .on_notification(move |notification| on_notification(notification))
            .connect_timeout(self.connect_timeout)
            .park_timeout(self.park_timeout)
            .cache_bytes(0)
            // Spoken as the server itself speaks, so that its questions are tied to calls as they are there.
            .revision(stream.revision);
        if let Some(timeout) = self.request_timeout {
            builder = builder.timeout(timeout);
        }
        // The other node tells the server the folders of the configuration.
        let client = declaring(builder, wish.abilities, &[]).over(stream.read, stream.write).await;
        let client =
            client.map_err(|error| UpstreamConnectError::new(self.secrets.mask(&error.to_string())))?;
        let mut connected = connection(&self.name, client.clone(), &self.secrets);
        let (name, inner) = (Arc::clone(&self.name), connected.service);
        connected.service = BoxService::new(RemoteService { name, inner, client });
        Ok(self.bound_to(at, connected))
    }

    /// Ends a connection with the place for which it was made.
    fn bound_to(&self, at: ServerPlace, mut connected: UpstreamConnection) -> UpstreamConnection {
        let (is_closed, place, here) = (connected.is_closed, self.place.clone(), at.clone());
        connected.is_closed = Box::new(move || is_closed() || *place.borrow() != here);
        let (closed, place) = (connected.closed, self.place.clone());
        connected.closed = Box::new(move || {
            let (closed, moved) = (closed(), left(place.clone(), at.clone()));
            Box::pin(async move {
                tokio::select! {
                    why = moved => why,
                    why = closed => why,
                }
            })
        });
        connected
    }
}

impl UpstreamConnector for PlacedConnector {
    fn is_shared(&self) -> bool {
        self.is_single
    }

    fn connect(
        &self,
        mut wish: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        if self.is_single {
            wish.abilities = CapabilitySet::NONE;
        }
        Box::pin(async move {
            match self.known_place().await? {
                at @ ServerPlace::Here { .. } => self.connect_here(wish, at).await,
                at => self.connect_elsewhere(wish, at).await,
            }
        })
    }

    fn process(&self) -> Option<Arc<ServerProcess>> {
        let is_here = matches!(*self.place.borrow(), ServerPlace::Here { .. });
        self.inner.process().filter(|_| is_here)
    }

    fn changes(&self) -> Option<watch::Receiver<SignInChanges>> {
        Some(self.inner.changes().unwrap_or_else(|| self.moves.clone()))
    }

    fn has_sign_in(&self) -> ConnectorFuture<'_, Option<bool>> {
        self.inner.has_sign_in()
    }

    fn node(&self) -> Option<Arc<str>> {
        match &*self.place.borrow() {
            ServerPlace::Elsewhere { node, .. } => Some(Arc::clone(node)),
            ServerPlace::Here { .. } | ServerPlace::Leaving | ServerPlace::Unknown(_) => None,
        }
    }
}

fn is_known(place: &ServerPlace) -> bool {
    matches!(place, ServerPlace::Here { .. } | ServerPlace::Elsewhere { .. })
}

/// Claim of a connection. The connection itself may be remembered for its lists after it is closed.
struct PlaceHold(Arc<Mutex<Option<ServerHold>>>);

impl Drop for PlaceHold {
    fn drop(&mut self) {
        // Without an orderly end, a process may end only in a moment.
        let hold = self.0.lock().take();
        if let (Some(hold), Ok(runtime)) = (hold, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                sleep(PROCESS_END_TIME).await;
                drop(hold);
            });
        }
    }
}

/// Releases the claim of a connection when its closing has ended, or is not waited for any more.
struct ReleasedHold(Arc<Mutex<Option<ServerHold>>>);

impl Drop for ReleasedHold {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

/// Waits until the server has another place, and says so.
async fn left(mut place: watch::Receiver<ServerPlace>, at: ServerPlace) -> String {
    match place.wait_for(|now| *now != at).await.as_deref() {
        Ok(ServerPlace::Unknown(why)) => format!("this node may not run it any more: {why}"),
        Ok(ServerPlace::Leaving) => "this node is about to end".to_owned(),
        Ok(_) => "another node runs it now".to_owned(),
        // Nobody claims anything any more: the host ends.
        Err(_) => "this node has left the fleet".to_owned(),
    }
}

/// Counts the known places of a server, until nobody connects to it any more.
async fn count_moves(mut place: watch::Receiver<ServerPlace>, counted: watch::Sender<SignInChanges>) {
    loop {
        tokio::select! {
            changed = place.changed() => if changed.is_err() { return },
            () = counted.closed() => return,
        }
        if is_known(&place.borrow_and_update()) {
            counted.send_modify(|changes| changes.times += 1);
        }
    }
}

/// Server at another node. A call whose connection is lost has an unknown outcome.
struct RemoteService {
    name: Arc<str>,
    inner: BoxService,
    client: Client,
}

impl Service for RemoteService {
    async fn call(&self, call: Call) -> Outcome {
        let method = call.method.clone();
        match self.inner.call(call).await {
            // The client's own failures have this code.
            Outcome::Failed(error)
                if error.code == code::INTERNAL_ERROR
                    && self.client.closed().is_some()
                    && method != Method::SubscriptionsListen =>
            {
                let name = &self.name;
                lost_call(
                    &method,
                    &format!("The node that runs the server `{name}` was lost while this call ran"),
                )
            }
            outcome => outcome,
        }
    }

    async fn notified(&self, notification: Notification, context: Context) {
        self.inner.notified(notification, context).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hospes::Server;
    use hospes_model::Revision;
    use tokio::sync::Notify;

    use super::*;
    use crate::config::{ConfigSource, ServerTransport};
    use crate::server::ServerStream;

    /// Places that a test sets. A server elsewhere is one in memory.
    #[derive(Debug)]
    struct SetPlaces {
        place: watch::Sender<ServerPlace>,
        holds: Arc<AtomicUsize>,
        servers: Mutex<Vec<tokio::task::JoinHandle<std::io::Result<()>>>>,
        /// Notified when the tool of a server elsewhere is called.
        called: Arc<Notify>,
    }

    struct CountedHold(Arc<AtomicUsize>);

    impl Drop for CountedHold {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl ServerPlaces for SetPlaces {
        fn follow(&self, _: &str) -> watch::Receiver<ServerPlace> {
            self.place.subscribe()
        }

        fn hold(&self, _: &str) -> ServerHold {
            self.holds.fetch_add(1, Ordering::SeqCst);
            Box::new(CountedHold(Arc::clone(&self.holds)))
        }

        fn open<'a>(&'a self, _: &'a str) -> ConnectorFuture<'a, Result<ServerStream, UpstreamConnectError>> {
            Box::pin(async {
                let (near, far) = tokio::io::duplex(64 * 1024);
                let called = Arc::clone(&self.called);
                let slow = Server::new("there", "1").tool("wait", move || {
                    called.notify_one();
                    async {
                        std::future::pending::<()>().await;
                        "never"
                    }
                });
                let (read, write) = tokio::io::split(far);
                let server = hospes::transport::stdio_server::StdioServer::new(slow);
                self.servers.lock().push(tokio::spawn(server.serve_io(read, write)));
                let (read, write) = tokio::io::split(near);
                Ok(ServerStream { revision: Revision::LATEST, read: Box::new(read), write: Box::new(write) })
            })
        }
    }

    /// Connector of the server here.
    struct HereConnector;

    impl UpstreamConnector for HereConnector {
        fn connect(
            &self,
            _: ConnectOptions,
        ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
            Box::pin(async {
                let service = BoxService::new(Server::new("here", "1"));
                Ok(UpstreamConnection::new(service, Revision::LATEST))
            })
        }
    }

    fn unknown() -> ServerPlace {
        ServerPlace::Unknown("the engine is away".into())
    }

    fn placed(place: ServerPlace) -> (Arc<SetPlaces>, Arc<dyn UpstreamConnector>) {
        let (place, holds) = (watch::Sender::new(place), Arc::default());
        let places = Arc::new(SetPlaces { place, holds, servers: Mutex::default(), called: Arc::default() });
        let transport = ServerTransport::stdio("run", ["it"]);
        let config = ServerConfig::new("files", transport, ConfigSource::unwritten("a test"));
        let shared: Arc<dyn ServerPlaces> = Arc::clone(&places) as _;
        let connector =
            PlacedConnector::wrap(Arc::new(HereConnector), &shared, &config, &HostSettings::default());
        (places, connector)
    }

    fn wish() -> ConnectOptions {
        ConnectOptions::new(CapabilitySet::NONE)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_runs_here_only_while_this_is_its_place() {
        let (places, connector) = placed(unknown());
        let refused = connector.connect(wish()).await.unwrap_err();
        assert!(refused.message.contains("the engine is away"), "{refused}");
        assert_eq!(places.holds.load(Ordering::SeqCst), 0);

        places.place.send_replace(ServerPlace::Here { epoch: 1 });
        let connection = connector.connect(wish()).await.unwrap();
        assert_eq!(places.holds.load(Ordering::SeqCst), 1);
        assert!(!(connection.is_closed)());
        let closed = (connection.closed)();
        places.place.send_replace(unknown());
        assert!(closed.await.contains("this node may not run it any more"));
        assert!((connection.is_closed)());
        assert_eq!(places.holds.load(Ordering::SeqCst), 1, "it has not been closed");
        (connection.close)().await;
        assert_eq!(places.holds.load(Ordering::SeqCst), 0, "although its lists may be remembered");
        drop(connection);

        // What was not closed in order may end a moment later.
        places.place.send_replace(ServerPlace::Here { epoch: 2 });
        drop(connector.connect(wish()).await.unwrap());
        tokio::task::yield_now().await;
        assert_eq!(places.holds.load(Ordering::SeqCst), 1);
        sleep(PROCESS_END_TIME * 2).await;
        assert_eq!(places.holds.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_call_whose_node_is_lost_has_an_unknown_outcome() {
        let node: Arc<str> = "10.0.0.7:7341".into();
        let (places, connector) = placed(ServerPlace::Elsewhere { node: Arc::clone(&node), epoch: 1 });
        let connection = connector.connect(wish()).await.unwrap();
        assert_eq!(connector.node(), Some(node));
        let peer = hospes::Peer::new(Revision::LATEST, None, hospes_model::ClientCapabilities::new());
        let params = hospes_model::RawJson::parse(r#"{"name":"wait","arguments":{}}"#).unwrap();
        let call = Call::new(Method::ToolsCall, params, Context::new(Arc::new(peer)));
        let service = connection.service.clone();
        let calling = tokio::spawn(async move { service.call(call).await });
        // Until it is there, nothing would be lost.
        tokio::time::timeout(Duration::from_secs(10), places.called.notified()).await.unwrap();
        places.servers.lock().iter().for_each(|server| server.abort());
        let outcome = tokio::time::timeout(Duration::from_secs(10), calling).await.unwrap().unwrap();
        let Outcome::Complete(hospes_model::Reply::CallTool(result)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(result.is_error, Some(true));
        assert!(result.all_text().contains("may or may not have taken effect"), "{result:?}");
        assert_eq!(places.holds.load(Ordering::SeqCst), 0, "it runs elsewhere");
    }
}
