//! The one task that moves a connection's bytes.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use hospes_proto::frame::LineFramer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{ConnectionGuard, DuplexLink, DuplexShared};
use crate::client::error::ConnectionClosed;
use crate::client::link::{ClientLimits, InboundMessages};
use crate::client::target::env_secrets::EnvSecrets;
use crate::client::transport::duplex::incoming::PendingEffects;

/// Time to wait for the exit of a server that closed its stdin or stdout. The exit status explains more than the closed
/// pipe.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time to wait for the end of a closed connection; a child is killed well before.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time a server has to read the remaining output before the connection is closed.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum number of reads in one turn. A peer that never stops writing would otherwise use up the budget that tokio
/// gives a task for one turn; without it the timer never rings, and no request expires. The runtime looks at its timers
/// after some dozens of turns, so they are short.
const MAX_READS_PER_TURN: usize = 2;
/// A buffer that grew beyond this for one message is given back.
const MAX_RETAINED_BUFFER_BYTES: usize = 256 * 1024;

/// The bytes, and how they can end.
pub(crate) struct DuplexTransport<R, W> {
    pub(crate) read: R,
    pub(crate) write: W,
    /// Resolves when the peer is gone, with what happened to it: the end of a pipe that a helper holds open never
    /// comes. None where the end of the bytes is the end of the peer.
    pub(crate) gone: Option<BoxFuture<'static, ConnectionClosed>>,
    /// Called once our side is closed.
    pub(crate) on_close: Option<Box<dyn FnOnce() + Send>>,
    /// Resource that ends with the connection.
    pub(crate) guard: Option<Arc<dyn ConnectionGuard>>,
    /// Secrets given to the server; they are redacted when its output is quoted.
    pub(crate) hidden: Arc<EnvSecrets>,
}

impl<R, W> DuplexTransport<R, W> {
    /// Two byte streams behind which nothing else has to end.
    pub(crate) fn new(read: R, write: W) -> Self {
        Self { read, write, gone: None, on_close: None, guard: None, hidden: Arc::default() }
    }
}

/// Starts to move bytes. Must be called within a runtime.
pub(crate) fn spawn<R, W>(
    wire: DuplexTransport<R, W>,
    limits: ClientLimits,
    inbound: Arc<dyn InboundMessages>,
) -> DuplexLink
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let framer = LineFramer::new(limits.max_message_bytes);
    let shared = Arc::new(DuplexShared::new(limits, wire.hidden, inbound));
    let driver = DuplexDriver {
        shared: Arc::clone(&shared),
        read: Some(wire.read),
        write: Some(wire.write),
        framer,
        writing: Vec::new(),
        written: 0,
        unflushed: false,
        flush_by: None,
        gone: wire.gone,
        end: None,
        on_close: wire.on_close,
        timer: None,
        batch: PendingEffects::default(),
    };
    tokio::spawn(driver);
    DuplexLink { shared, guard: wire.guard }
}

struct DuplexDriver<R, W> {
    shared: Arc<DuplexShared>,
    /// None once the peer's side has ended.
    read: Option<R>,
    /// None once our side has ended.
    write: Option<W>,
    framer: LineFramer,
    writing: Vec<u8>,
    written: usize,
    unflushed: bool,
    /// Time at which writing stops, even with output left, because the connection is closing.
    flush_by: Option<Instant>,
    gone: Option<BoxFuture<'static, ConnectionClosed>>,
    end: Option<PendingClose>,
    on_close: Option<Box<dyn FnOnce() + Send>>,
    timer: Option<Pin<Box<Sleep>>>,
    batch: PendingEffects,
}

/// Pending end of the connection: its deadline, and the reason to report if no better one is found by then.
struct PendingClose {
    by: Instant,
    closed: ConnectionClosed,
}

impl<R, W> Future for DuplexDriver<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let this = &mut *self;
        // First: what callers queue while this turn runs must wake another one.
        this.shared.driver.register(cx.waker());
        this.poll_peer_exit(cx);
        this.poll_write(cx);
        this.poll_read(cx);
        // What was read may have called for answers.
        this.poll_write(cx);
        let now = this.end.as_ref().map(|_| Instant::now());
        if let Some(end) = this.end.take_if(|end| now.is_some_and(|now| now >= end.by)) {
            this.stop_writing();
            this.shared.fail_all(end.closed);
            return Poll::Ready(());
        }
        this.poll_timer(cx);
        Poll::Pending
    }
}

impl<R, W> DuplexDriver<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    fn poll_peer_exit(&mut self, cx: &mut TaskContext<'_>) {
        if let Some(gone) = &mut self.gone
            && let Poll::Ready(closed) = gone.as_mut().poll(cx)
        {
            self.gone = None;
            // Its last words are still in the pipe: this turn reads them, and no other turn follows.
            self.end = Some(PendingClose { by: Instant::now(), closed });
        }
    }

    /// Writes until the buffer is empty or the peer is slow. While the connection is closing, the time for this is
    /// limited.
    fn poll_write(&mut self, cx: &mut TaskContext<'_>) {
        let written = self.poll_write_all(cx);
        if self.write.is_none() || !self.shared.lock().closing {
            return;
        }
        let by = *self.flush_by.get_or_insert_with(|| Instant::now() + FLUSH_TIMEOUT);
        if written && self.poll_shutdown(cx) || Instant::now() >= by {
            self.stop_writing();
            self.schedule_end(CLOSE_TIMEOUT, "the connection was closed");
        }
    }

    /// Shuts down the write side; returns true when that is done. Some transports (TLS, WebSocket) need an explicit
    /// shutdown, and dropping half of a socket does not close it.
    fn poll_shutdown(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let Some(write) = &mut self.write else { return true };
        Pin::new(write).poll_shutdown(cx).is_ready()
    }

    /// Writes the queued output. Returns true if nothing is left to write.
    fn poll_write_all(&mut self, cx: &mut TaskContext<'_>) -> bool {
        loop {
            let idle = self.written == self.writing.len() && !self.take_queued_output();
            let Some(write) = &mut self.write else { return true };
            let polled = if !idle {
                Pin::new(write).poll_write(cx, &self.writing[self.written..])
            } else if self.unflushed {
                // Only once nothing is left: a flush after each message would cost a system call for each.
                Pin::new(write).poll_flush(cx).map_ok(|()| 0)
            } else {
                return true;
            };
            match polled {
                Poll::Ready(Ok(0)) if idle => self.unflushed = false,
                Poll::Ready(Ok(0)) => self.handle_write_error(&io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(bytes)) => {
                    self.written += bytes;
                    self.unflushed = true;
                }
                Poll::Ready(Err(error)) => self.handle_write_error(&error),
                Poll::Pending => return false,
            }
        }
    }

    /// Takes the output that callers have queued. Returns true if there was any.
    fn take_queued_output(&mut self) -> bool {
        self.writing.clear();
        self.written = 0;
        if self.writing.capacity() > MAX_RETAINED_BUFFER_BYTES {
            self.writing = Vec::new();
        }
        let mut state = self.shared.lock();
        // Swapped, so that callers fill one buffer while the other is written, and neither is allocated anew.
        std::mem::swap(&mut state.out, &mut self.writing);
        let crowd = std::mem::take(&mut state.blocked_callers);
        // The callers take this lock as soon as they are woken.
        drop(state);
        crowd.into_iter().for_each(Waker::wake);
        !self.writing.is_empty()
    }

    fn handle_write_error(&mut self, error: &io::Error) {
        tracing::debug!(%error, "cannot write to the server");
        self.stop_writing();
        self.schedule_end(EXIT_TIMEOUT, "the server closed its stdin");
    }

    fn stop_writing(&mut self) {
        self.write = None;
        if let Some(on_close) = self.on_close.take() {
            on_close();
        }
    }

    /// Reads until no more input is available, or until it is the turn of the timer.
    fn poll_read(&mut self, cx: &mut TaskContext<'_>) {
        for _ in 0..MAX_READS_PER_TURN {
            let Some(read) = &mut self.read else { return };
            let result = pin!(read.read_buf(self.framer.buffer())).poll(cx);
            let framer = &mut self.framer;
            match result {
                Poll::Ready(Ok(1..)) => {
                    let lines = std::iter::from_fn(|| framer.poll_line());
                    self.shared.handle_lines(lines, &mut self.batch);
                    if let Some(endless) = framer.poll_endless() {
                        self.shared.handle_lines([endless].into_iter(), &mut self.batch);
                        self.read = None;
                        self.schedule_end(
                            Duration::ZERO,
                            "the server sent a line over the limit (setting max_message_bytes)",
                        );
                    }
                }
                Poll::Ready(ended) => {
                    self.shared.handle_lines(framer.finish().into_iter(), &mut self.batch);
                    self.read = None;
                    let what = match ended {
                        Err(error) => format!("the connection was lost: {error}"),
                        Ok(_) if self.gone.is_some() => "the server closed its stdout".into(),
                        Ok(_) => "the server closed the connection".into(),
                    };
                    let patience = if self.gone.is_some() { EXIT_TIMEOUT } else { Duration::ZERO };
                    self.schedule_end(patience, &what);
                }
                Poll::Pending => return,
            }
        }
        cx.waker().wake_by_ref();
    }

    /// The connection ends soon; the first reason counts, the earliest time does.
    fn schedule_end(&mut self, patience: Duration, what: &str) {
        let by = Instant::now() + patience;
        match &mut self.end {
            Some(end) => end.by = end.by.min(by),
            None => self.end = Some(PendingClose { by, closed: ConnectionClosed::new(what) }),
        }
    }

    /// Waits for the next moment at which something is due.
    fn poll_timer(&mut self, cx: &mut TaskContext<'_>) {
        let mut due = self.shared.lock().session.poll_timeout().map(Instant::from_std);
        loop {
            let flush_by = self.flush_by.filter(|_| self.write.is_some());
            let moments = [due, self.end.as_ref().map(|end| end.by), flush_by];
            let Some(wake) = moments.into_iter().flatten().min() else { return };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(wake)));
            // One that rings too early costs one turn; moving it with every request would cost every request.
            if wake < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(wake);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            let now = Instant::now();
            if self.end.as_ref().is_some_and(|end| end.by <= now) || flush_by.is_some_and(|by| by <= now) {
                // The next turn sees to it.
                cx.waker().wake_by_ref();
                return;
            }
            due = self.shared.expire_requests(now);
            // What expired was announced to the server.
            self.poll_write(cx);
        }
    }
}
