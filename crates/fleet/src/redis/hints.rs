//! Hints over publish and subscribe. They may be lost at each step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::redis::{Client, RedisResult, cmd};
use futures::StreamExt as _;
use futures::future::join_all;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{interval, sleep, timeout};

use super::link::EngineLink;
use super::records::{open_hint, seal_hint};
use super::settings::RedisSettings;
use crate::relay::RelayHint;
use crate::sealing::FleetKeys;

/// Number of hints that are sent at once.
const HINT_BATCH: usize = 64;

/// Both directions of hints.
#[derive(Debug)]
pub(super) struct HintChannel {
    sender: mpsc::Sender<RelayHint>,
    received: broadcast::Sender<RelayHint>,
    dropped: AtomicU64,
    max_bytes: usize,
}

impl HintChannel {
    /// Creates the channel, and the queue of hints for [`publish`].
    pub(super) fn new(settings: &RedisSettings) -> (Arc<Self>, mpsc::Receiver<RelayHint>) {
        let limits = &settings.relay.limits;
        let (sender, queue) = mpsc::channel(limits.hint_queue.max(1));
        let received = broadcast::Sender::new(limits.hint_queue.max(1));
        let channel = Self { sender, received, dropped: AtomicU64::new(0), max_bytes: limits.max_hint_bytes };
        (Arc::new(channel), queue)
    }

    pub(super) fn send(&self, hint: RelayHint) {
        let fits = hint.topic.len() + hint.detail.len() <= self.max_bytes;
        if !fits || self.sender.try_send(hint).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<RelayHint> {
        self.received.subscribe()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Sends the hints of the queue until the relay is dropped.
pub(super) async fn publish(
    link: EngineLink,
    channel: String,
    keys: FleetKeys,
    hints: Arc<HintChannel>,
    mut queue: mpsc::Receiver<RelayHint>,
) {
    let mut batch = Vec::with_capacity(HINT_BATCH);
    while queue.recv_many(&mut batch, HINT_BATCH).await > 0 {
        let send = batch.drain(..).map(|hint| {
            let mut command = cmd("PUBLISH");
            command.arg(&channel).arg(seal_hint(&keys, &hint));
            let link = &link;
            async move { link.command(&command).await.is_err() }
        });
        // At once, so that a slow link delays them by one round trip and not by one each.
        let lost = join_all(send).await.into_iter().filter(|is_lost| *is_lost).count();
        hints.dropped.fetch_add(lost as u64, Ordering::Relaxed);
    }
}

/// Receives hints until the relay is dropped, over one connection after the other.
pub(super) async fn receive(
    client: Client,
    settings: RedisSettings,
    channel: String,
    keys: FleetKeys,
    hints: Arc<HintChannel>,
) {
    let mut pause = settings.reconnect_min;
    loop {
        let was_connected = receive_once(&client, &settings, &channel, &keys, &hints).await;
        pause = if was_connected { settings.reconnect_min } else { (pause * 2).min(settings.reconnect_max) };
        tracing::debug!("the subscription to hints ended; connecting again");
        sleep(pause).await;
    }
}

/// Receives hints over one connection until it fails; returns true if it was subscribed.
async fn receive_once(
    client: &Client,
    settings: &RedisSettings,
    channel: &str,
    keys: &FleetKeys,
    hints: &HintChannel,
) -> bool {
    let Ok(Ok(connection)) = timeout(settings.connect_timeout, client.get_async_pubsub()).await else {
        return false;
    };
    let (mut sink, mut messages) = connection.split();
    if !answers(settings.response_timeout, sink.subscribe(channel)).await {
        return false;
    }
    let mut probes = interval(settings.probe_interval);
    loop {
        // Both wait on one connection. Messages and probes are independent, so either may come first.
        tokio::select! {
            message = messages.next() => {
                let Some(message) = message else { return true };
                if let Some(hint) = open_hint(keys, message.get_payload_bytes()) {
                    // Without receivers there is nobody to tell.
                    let _ = hints.received.send(hint);
                }
            }
            // A listener whose connection falls silent looks like one without hints.
            _ = probes.tick() => {
                if !answers(settings.response_timeout, sink.ping::<::redis::Value>()).await {
                    return true;
                }
            }
        }
    }
}

async fn answers<T>(limit: Duration, answer: impl Future<Output = RedisResult<T>>) -> bool {
    matches!(timeout(limit, answer).await, Ok(Ok(_)))
}
