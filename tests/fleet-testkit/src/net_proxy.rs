//! A TCP proxy in this process that delays, drops and cuts, by rules that a test changes while it runs.
//!
//! Rules hold for the whole proxy, per direction. They are read for each chunk, so they also affect open connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Number of bytes that are read at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Number of chunks of a direction that wait for their time. Beyond it the sender is not read from.
const WAITING_CHUNKS: usize = 1024;

/// Direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are two")]
pub enum LinkDirection {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// Rules for one direction. The default passes everything on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkRules {
    /// Time by which each chunk is late.
    pub delay: Duration,
    /// Number of bytes per second.
    pub bytes_per_second: Option<u64>,
    /// Drops bytes. A connection that has lost some stays silent in this direction, as a stream with a gap does.
    pub is_silent: bool,
    /// Number of bytes of a connection after which both its ends are closed.
    pub cut_after: Option<u64>,
}

impl LinkRules {
    /// Rules that only delay.
    #[must_use]
    pub fn delayed(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Rules that drop everything.
    #[must_use]
    pub fn silent() -> Self {
        Self { is_silent: true, ..Self::default() }
    }

    /// Rules that limit the rate.
    #[must_use]
    pub fn limited(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: Some(bytes_per_second), ..Self::default() }
    }

    /// Rules that close each connection after some bytes.
    #[must_use]
    pub fn cut_after(bytes: u64) -> Self {
        Self { cut_after: Some(bytes), ..Self::default() }
    }
}

/// What happens to new connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcceptMode {
    /// They are connected to the server.
    #[default]
    Forward,
    /// They are accepted, and nothing answers.
    Silence,
    /// They are reset.
    Reset,
}

/// What happens to the open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionFate {
    /// They go on.
    Open,
    /// Both ends receive a reset.
    Reset,
    /// The server's end is closed, and the client is not told.
    HalfOpen,
}

/// Proxy for one server. It ends when it is dropped.
#[derive(Debug)]
pub struct NetProxy {
    address: SocketAddr,
    shared: Arc<ProxyState>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct ProxyState {
    server: Mutex<SocketAddr>,
    rules: [Mutex<LinkRules>; 2],
    accept: Mutex<AcceptMode>,
    /// Fate of the connections of a generation; connections after an order belong to the next one.
    fate: watch::Sender<(u64, ConnectionFate)>,
    passed: [AtomicU64; 2],
    accepted: AtomicU64,
}

impl NetProxy {
    /// Starts a proxy for this server on a free loopback port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(ProxyState {
            server: Mutex::new(server),
            rules: Default::default(),
            accept: Mutex::default(),
            fate: watch::Sender::new((0, ConnectionFate::Open)),
            passed: Default::default(),
            accepted: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, _tasks: tasks }
    }

    /// Starts a proxy for a server on this loopback port.
    pub async fn to_port(port: u16) -> Self {
        Self::start(SocketAddr::from(([127, 0, 0, 1], port))).await
    }

    /// Address that clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Port that clients connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sets the server that new connections lead to, as a virtual address does after a failover.
    pub fn set_server(&self, server: SocketAddr) {
        *self.shared.server.lock() = server;
    }

    /// Sets the rules of a direction.
    pub fn set(&self, direction: LinkDirection, rules: LinkRules) {
        *self.shared.rules[direction as usize].lock() = rules;
    }

    /// Sets what happens to new connections.
    pub fn set_accept(&self, mode: AcceptMode) {
        *self.shared.accept.lock() = mode;
    }

    /// Removes all rules for new bytes and connections.
    pub fn heal(&self) {
        self.set(LinkDirection::ToServer, LinkRules::default());
        self.set(LinkDirection::ToClient, LinkRules::default());
        self.set_accept(AcceptMode::Forward);
    }

    /// Resets the open connections, for both ends.
    pub fn reset_connections(&self) {
        self.order(ConnectionFate::Reset);
    }

    /// Closes the server's end of the open connections. Clients are not told and get no answers.
    pub fn half_open_connections(&self) {
        self.order(ConnectionFate::HalfOpen);
    }

    fn order(&self, fate: ConnectionFate) {
        self.shared.fate.send_modify(|(generation, now)| {
            *generation += 1;
            *now = fate;
        });
    }

    /// Number of bytes that were passed on in a direction.
    #[must_use]
    pub fn passed(&self, direction: LinkDirection) -> u64 {
        self.shared.passed[direction as usize].load(Ordering::SeqCst)
    }

    /// Number of connections that were accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, shared: Arc<ProxyState>) {
    let mut connections = JoinSet::new();
    let mut kept = Vec::new();
    while let Ok((client, _)) = listener.accept().await {
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        let mode = *shared.accept.lock();
        match mode {
            AcceptMode::Forward => {
                let server = *shared.server.lock();
                connections.spawn(forward(client, server, Arc::clone(&shared)));
            }
            AcceptMode::Silence => kept.push(client),
            AcceptMode::Reset => reset(&client),
        }
    }
}

/// Makes the system send a reset when the socket is dropped.
fn reset(stream: &TcpStream) {
    // A connection that is gone already needs none.
    let _ = stream.set_zero_linger();
}

async fn forward(client: TcpStream, server: SocketAddr, shared: Arc<ProxyState>) {
    let mut fates = shared.fate.subscribe();
    fates.mark_unchanged();
    let Ok(upstream) = TcpStream::connect(server).await else {
        return reset(&client);
    };
    // Chunks leave when their time has come, not when more follow.
    let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), upstream.into_split());
    let mut request = LinkPump::new(LinkDirection::ToServer, from_client, to_server, &shared);
    let mut response = LinkPump::new(LinkDirection::ToClient, from_server, to_client, &shared);
    let fate = {
        // Whichever ends first decides: the order of the test, the cut of a direction, or both ends.
        tokio::select! {
            fate = next_fate(&mut fates) => fate,
            () = run_both(&mut request, &mut response) => return,
        }
    };
    let (from_client, to_server) = request.into_halves();
    let (from_server, to_client) = response.into_halves();
    let (Ok(client), Ok(upstream)) = (from_client.reunite(to_client), from_server.reunite(to_server)) else {
        return;
    };
    match fate {
        ConnectionFate::Reset => {
            reset(&client);
            reset(&upstream);
        }
        ConnectionFate::HalfOpen => {
            drop(upstream);
            // The client's end stays open until the proxy ends or the client closes it.
            let (mut from_client, _to_client) = client.into_split();
            let mut ignored = vec![0; CHUNK_BYTES];
            while from_client.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
        }
        ConnectionFate::Open => (),
    }
}

async fn next_fate(fates: &mut watch::Receiver<(u64, ConnectionFate)>) -> ConnectionFate {
    match fates.changed().await {
        Ok(()) => fates.borrow_and_update().1,
        Err(_) => ConnectionFate::Reset,
    }
}

/// Runs both directions until both have ended, or one of them cuts the connection.
async fn run_both(request: &mut LinkPump, response: &mut LinkPump) {
    let cut = tokio::sync::Notify::new();
    // A direction may end while the other one still carries an answer.
    tokio::select! {
        _ = async { tokio::join!(request.run(&cut), response.run(&cut)) } => (),
        () = cut.notified() => (),
    }
}

/// One direction of a connection.
struct LinkPump {
    direction: LinkDirection,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    shared: Arc<ProxyState>,
    /// Bytes of this connection that were passed on.
    passed: u64,
    /// True once bytes were dropped.
    has_gap: bool,
}

impl LinkPump {
    fn new(
        direction: LinkDirection,
        reader: OwnedReadHalf,
        writer: OwnedWriteHalf,
        shared: &Arc<ProxyState>,
    ) -> Self {
        Self { direction, reader, writer, shared: Arc::clone(shared), passed: 0, has_gap: false }
    }

    fn into_halves(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        (self.reader, self.writer)
    }

    /// Passes bytes on until the sender has closed. `cut` is notified when the connection has to be closed.
    async fn run(&mut self, cut: &tokio::sync::Notify) {
        let (sender, mut chunks) = mpsc::channel::<(Instant, Vec<u8>)>(WAITING_CHUNKS);
        let Self { direction, reader, writer, shared, passed, has_gap } = self;
        let index = *direction as usize;
        let read = async {
            let mut buffer = vec![0; CHUNK_BYTES];
            while let Ok(count @ 1..) = reader.read(&mut buffer).await {
                let due = Instant::now() + shared.rules[index].lock().delay;
                if sender.send((due, buffer[..count].to_vec())).await.is_err() {
                    break;
                }
            }
            drop(sender);
        };
        let write = async {
            while let Some((due, chunk)) = chunks.recv().await {
                sleep_until(due).await;
                let rules = shared.rules[index].lock().clone();
                *has_gap |= rules.is_silent;
                if *has_gap {
                    continue;
                }
                if pass_on(writer, &rules, &chunk, passed, &shared.passed[index]).await.is_err() {
                    cut.notify_one();
                    return;
                }
            }
            if !*has_gap {
                // The other end may be gone already.
                let _ = writer.shutdown().await;
            }
        };
        // Reading goes on while chunks wait for their time.
        tokio::join!(read, write);
    }
}

/// Writes a chunk by the rules; fails if the connection is to be cut or has broken.
async fn pass_on(
    writer: &mut OwnedWriteHalf,
    rules: &LinkRules,
    chunk: &[u8],
    passed: &mut u64,
    total: &AtomicU64,
) -> io::Result<()> {
    if let Some(rate) = rules.bytes_per_second {
        sleep(Duration::from_secs_f64(chunk.len() as f64 / rate.max(1) as f64)).await;
    }
    let left = rules
        .cut_after
        .map_or(usize::MAX, |limit| usize::try_from(limit.saturating_sub(*passed)).unwrap_or(usize::MAX));
    let part = &chunk[..chunk.len().min(left)];
    writer.write_all(part).await?;
    *passed += part.len() as u64;
    total.fetch_add(part.len() as u64, Ordering::SeqCst);
    if part.len() < chunk.len() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
}
