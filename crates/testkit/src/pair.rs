//! Both ends of a connection, connected by two byte streams.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hospes_model::{Era, Revision};
use hospes_proto::RevisionSet;
use hospes_proto::frame::line::end_line;
use hospes_proto::frame::{FramedLine, LineFramer};

use crate::{ClientEnd, ManualClock, MessageRecord, PairSide, ServerEnd, UnknownMethodManner};

/// A client and a server in memory, with a latency between them and a clock that the test controls.
///
/// ```
/// use hospes_proto::RevisionSet;
/// use hospes_proto::session::TimeLimits;
/// use hospes_testkit::{ClientCallEnd, UnknownMethodManner, MemoryPair};
///
/// let mut pair = MemoryPair::new(RevisionSet::ALL, UnknownMethodManner::Proper);
/// pair.settle();
/// let call = pair.client.call(pair.clock.now(), TimeLimits::NONE).expect("connected");
/// pair.settle();
/// assert!(pair.server.finish(0));
/// pair.settle();
/// assert!(matches!(pair.client.end_of(call), Some(ClientCallEnd::Answered(Ok(_)))));
/// ```
#[derive(Debug)]
pub struct MemoryPair {
    /// The client.
    pub client: ClientEnd,
    /// The server.
    pub server: ServerEnd,
    /// Clock of both ends.
    pub clock: ManualClock,
    /// Record of all messages.
    pub record: MessageRecord,
    /// Number of times the server was restarted.
    pub respawns: u32,
    /// Messages between the ends.
    pub traffic: PairTraffic,
    revisions: RevisionSet,
    manner: UnknownMethodManner,
}

/// Messages in transit, and their timing.
#[derive(Debug)]
#[non_exhaustive]
pub struct PairTraffic {
    /// Latency of a message.
    pub latency: Duration,
    /// Size of the pieces in which a message arrives, in bytes.
    pub piece: usize,
    to_server: DelayedStream,
    to_client: DelayedStream,
}

#[derive(Debug, Default)]
struct DelayedStream {
    queue: VecDeque<(Instant, Vec<u8>)>,
    framer: LineFramer,
}

impl DelayedStream {
    fn send(&mut self, at: Instant, mut message: Vec<u8>) {
        end_line(&mut message, 0);
        self.queue.push_back((at, message));
    }

    fn due(&self) -> Option<Instant> {
        self.queue.front().map(|(at, _)| *at)
    }

    /// Returns the lines of the next message, if it has arrived.
    fn receive(&mut self, now: Instant, piece: usize) -> Vec<FramedLine> {
        let mut lines = Vec::new();
        if let Some((_, bytes)) = self.queue.pop_front_if(|(at, _)| *at <= now) {
            for piece in bytes.chunks(piece.max(1)) {
                self.framer.buffer().extend_from_slice(piece);
                lines.extend(std::iter::from_fn(|| self.framer.poll_line()));
            }
        }
        lines
    }
}

impl MemoryPair {
    /// Creates a pair whose client remembers nothing and whose server supports these revisions.
    #[must_use]
    pub fn new(revisions: RevisionSet, manner: UnknownMethodManner) -> Self {
        Self::with_client(ClientEnd::new(None, None), revisions, manner)
    }

    /// Creates a pair whose client remembers an era or requires one revision.
    #[must_use]
    pub fn knowing(
        pinned: Option<Revision>,
        known: Option<Era>,
        revisions: RevisionSet,
        manner: UnknownMethodManner,
    ) -> Self {
        Self::with_client(ClientEnd::new(pinned, known), revisions, manner)
    }

    fn with_client(client: ClientEnd, revisions: RevisionSet, manner: UnknownMethodManner) -> Self {
        let traffic = PairTraffic {
            latency: Duration::from_millis(1),
            // Few bytes, so that every message arrives in several pieces.
            piece: 7,
            to_server: DelayedStream::default(),
            to_client: DelayedStream::default(),
        };
        Self {
            client,
            server: ServerEnd::new(revisions, manner),
            clock: ManualClock::new(),
            record: MessageRecord::new(),
            respawns: 0,
            traffic,
            revisions,
            manner,
        }
    }

    /// Sends everything that both ends have to send.
    pub fn drive(&mut self) {
        let now = self.clock.now();
        self.client.drive(now);
        if self.client.take_respawn() {
            self.respawns += 1;
            self.server = ServerEnd::new(self.revisions, self.manner);
            // Messages in transit are lost with the old process.
            self.traffic.to_server = DelayedStream::default();
            self.traffic.to_client = DelayedStream::default();
            self.client.handle_respawned();
            self.client.drive(now);
        }
        let arrival = now + self.traffic.latency;
        for message in self.client.take_outbox() {
            self.record.push(self.clock.passed(), PairSide::Client, message.clone());
            if !self.server.has_exited() {
                self.traffic.to_server.send(arrival, message);
            }
        }
        for message in self.server.take_outbox() {
            self.record.push(self.clock.passed(), PairSide::Server, message.clone());
            self.traffic.to_client.send(arrival, message);
        }
    }

    /// Delivers one message to `side`. Returns true if one had arrived.
    pub fn deliver(&mut self, side: PairSide) -> bool {
        let now = self.clock.now();
        let stream = match side {
            PairSide::Server => &mut self.traffic.to_server,
            PairSide::Client => &mut self.traffic.to_client,
        };
        let lines = stream.receive(now, self.traffic.piece);
        for line in &lines {
            let FramedLine::Message(line) = line else { continue };
            match side {
                PairSide::Server if self.server.has_exited() => {}
                PairSide::Server => self.server.handle_line(now, line),
                PairSide::Client => self.client.handle_line(now, line),
            }
        }
        self.drive();
        // The client sees the end only after everything sent before it.
        if self.server.has_exited() && self.traffic.to_client.queue.is_empty() {
            self.client.handle_exit();
            self.drive();
        }
        !lines.is_empty()
    }

    /// Advances the clock and delivers messages and timeouts on the way.
    pub fn advance(&mut self, by: Duration) {
        let until = self.clock.now() + by;
        self.run_until(until);
        self.clock.advance_to(until);
        self.fire();
    }

    /// Runs until no message is in transit. Only latency passes; no time limit elapses.
    pub fn settle(&mut self) {
        self.drive();
        while let Some(next) = self.next_arrival() {
            self.clock.advance_to(next);
            self.deliver(PairSide::Server);
            self.deliver(PairSide::Client);
        }
    }

    /// Runs until the negotiation has succeeded or failed.
    ///
    /// # Panics
    /// If that takes an hour of the clock's time.
    pub fn connect(&mut self) {
        self.settle();
        let end = self.clock.now() + Duration::from_secs(3600);
        while self.client.agreed().is_none() && self.client.failure().is_none() {
            assert!(self.clock.now() < end, "no end of connecting:\n{}", self.record);
            self.advance(Duration::from_millis(500));
        }
        self.settle();
    }

    fn run_until(&mut self, until: Instant) {
        self.drive();
        loop {
            let timers = [self.client.poll_timeout(), self.server.poll_timeout(), self.next_arrival()];
            let Some(next) = timers.into_iter().flatten().min().filter(|next| *next <= until) else { return };
            self.clock.advance_to(next);
            // Messages before time limits: a message that arrives at the last moment is in time.
            self.deliver(PairSide::Server);
            self.deliver(PairSide::Client);
            self.fire();
        }
    }

    /// Handles elapsed time limits.
    pub fn fire(&mut self) {
        let now = self.clock.now();
        self.client.handle_timeout(now);
        self.server.handle_timeout(now);
        self.drive();
    }

    fn next_arrival(&self) -> Option<Instant> {
        [self.traffic.to_server.due(), self.traffic.to_client.due()].into_iter().flatten().min()
    }
}
