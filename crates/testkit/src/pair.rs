//! Both ends of a connection, joined by two byte streams.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hospes_model::{Era, Revision};
use hospes_proto::Revisions;
use hospes_proto::frame::line::end_line;
use hospes_proto::frame::{Line, LineFramer};

use crate::{ClientEnd, Clock, Manner, Record, ServerEnd, Side};

/// A client and a server in memory, with a latency between them and time that passes when told to.
///
/// ```
/// use hospes_proto::Revisions;
/// use hospes_proto::session::TimeLimits;
/// use hospes_testkit::{End, Manner, Pair};
///
/// let mut pair = Pair::new(Revisions::ALL, Manner::Proper);
/// pair.settle();
/// let call = pair.client.call(pair.clock.now(), TimeLimits::NONE).expect("connected");
/// pair.settle();
/// assert!(pair.server.finish(0));
/// pair.settle();
/// assert!(matches!(pair.client.end_of(call), Some(End::Answered(Ok(_)))));
/// ```
#[derive(Debug)]
pub struct Pair {
    /// The client.
    pub client: ClientEnd,
    /// The server.
    pub server: ServerEnd,
    /// The time for both.
    pub clock: Clock,
    /// Everything that was said.
    pub record: Record,
    /// Number of times the server was restarted.
    pub respawns: u32,
    /// The streams between them.
    pub traffic: Traffic,
    revisions: Revisions,
    manner: Manner,
}

/// Messages in transit, and their timing.
#[derive(Debug)]
#[non_exhaustive]
pub struct Traffic {
    /// Time that a message takes.
    pub latency: Duration,
    /// In pieces of how many bytes it arrives.
    pub piece: usize,
    to_server: Stream,
    to_client: Stream,
}

#[derive(Debug, Default)]
struct Stream {
    queue: VecDeque<(Instant, Vec<u8>)>,
    framer: LineFramer,
}

impl Stream {
    fn send(&mut self, at: Instant, mut message: Vec<u8>) {
        end_line(&mut message, 0);
        self.queue.push_back((at, message));
    }

    fn due(&self) -> Option<Instant> {
        self.queue.front().map(|(at, _)| *at)
    }

    /// The lines of the next message, if it has arrived.
    fn receive(&mut self, now: Instant, piece: usize) -> Vec<Line> {
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

impl Pair {
    /// A client that knows nothing, and a server that speaks these revisions.
    #[must_use]
    pub fn new(revisions: Revisions, manner: Manner) -> Self {
        Self::with_client(ClientEnd::new(None, None), revisions, manner)
    }

    /// Creates a pair whose client remembers an era or requires one revision.
    #[must_use]
    pub fn knowing(
        pinned: Option<Revision>,
        known: Option<Era>,
        revisions: Revisions,
        manner: Manner,
    ) -> Self {
        Self::with_client(ClientEnd::new(pinned, known), revisions, manner)
    }

    fn with_client(client: ClientEnd, revisions: Revisions, manner: Manner) -> Self {
        let traffic = Traffic {
            latency: Duration::from_millis(1),
            piece: 7,
            to_server: Stream::default(),
            to_client: Stream::default(),
        };
        Self {
            client,
            server: ServerEnd::new(revisions, manner),
            clock: Clock::new(),
            record: Record::new(),
            respawns: 0,
            traffic,
            revisions,
            manner,
        }
    }

    /// Puts what both ends have to say on its way.
    pub fn drive(&mut self) {
        let now = self.clock.now();
        self.client.drive(now);
        if self.client.take_respawn() {
            self.respawns += 1;
            self.server = ServerEnd::new(self.revisions, self.manner);
            self.traffic.to_server = Stream::default();
            self.traffic.to_client = Stream::default();
            self.client.handle_respawned();
            self.client.drive(now);
        }
        let arrival = now + self.traffic.latency;
        for message in self.client.take_outbox() {
            self.record.push(self.clock.passed(), Side::Client, message.clone());
            if !self.server.has_exited() {
                self.traffic.to_server.send(arrival, message);
            }
        }
        for message in self.server.take_outbox() {
            self.record.push(self.clock.passed(), Side::Server, message.clone());
            self.traffic.to_client.send(arrival, message);
        }
    }

    /// Delivers one message to `side`, if one has arrived. Whether one had.
    pub fn deliver(&mut self, side: Side) -> bool {
        let now = self.clock.now();
        let stream = match side {
            Side::Server => &mut self.traffic.to_server,
            Side::Client => &mut self.traffic.to_client,
        };
        let lines = stream.receive(now, self.traffic.piece);
        for line in &lines {
            let Line::Message(line) = line else { continue };
            match side {
                Side::Server if self.server.has_exited() => {}
                Side::Server => self.server.handle_line(now, line),
                Side::Client => self.client.handle_line(now, line),
            }
        }
        self.drive();
        if self.server.has_exited() && self.traffic.to_client.queue.is_empty() {
            self.client.handle_exit();
            self.drive();
        }
        !lines.is_empty()
    }

    /// Lets time pass, with everything that happens meanwhile.
    pub fn advance(&mut self, by: Duration) {
        let until = self.clock.now() + by;
        self.run_until(until);
        self.clock.advance_to(until);
        self.fire();
    }

    /// Goes on until nothing is on its way. Only latency passes, no time limit runs out.
    pub fn settle(&mut self) {
        self.drive();
        while let Some(next) = self.next_arrival() {
            self.clock.advance_to(next);
            self.deliver(Side::Server);
            self.deliver(Side::Client);
        }
    }

    /// Goes on until the client has agreed with the server or given up.
    ///
    /// # Panics
    /// When that takes an hour.
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
            self.deliver(Side::Server);
            self.deliver(Side::Client);
            self.fire();
        }
    }

    /// Lets time limits run out.
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
