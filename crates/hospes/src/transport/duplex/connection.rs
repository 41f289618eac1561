//! One connection: reads lines, starts calls, writes what they say, in one task.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use hospes_proto::frame::LineFramer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Sleep;

#[cfg(feature = "stdio")]
use super::background::CallCounters;
use super::duplex_connection::DuplexConnection;
use super::limits::ConnectionLimits;
use super::outbox::MAX_UNWRITTEN_BYTES;
use crate::peer::RequestSender;
use crate::transport::adapter::ServiceAdapter;
#[cfg(feature = "stdio")]
use crate::transport::watchdog::ProgressPulse;

/// Time for calls to report that they were stopped, and for the output to end.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// One connection.
#[derive(Debug)]
pub(in crate::transport) struct StreamConnection<R, W> {
    input: R,
    output: W,
    framer: LineFramer,
    /// Whole lines; those before `written` are gone.
    out: Vec<u8>,
    written: usize,
    flushed: bool,
    duplex: DuplexConnection,
    phase: StreamConnectionPhase,
    limits: ConnectionLimits,
    #[cfg(feature = "stdio")]
    pulse: Option<Arc<ProgressPulse>>,
}

/// ```text
/// Serving ──(input ends, shutdown)──► Draining ──(shutdown_timeout)──► Stopping ──► end
///                                        └──────(nothing runs)──────────────────────► end
/// ```
#[derive(Debug)]
enum StreamConnectionPhase {
    Serving,
    /// Nothing is read any more; calls may finish.
    Draining(Pin<Box<Sleep>>),
    /// Calls were told to stop.
    Stopping(Pin<Box<Sleep>>),
}

impl<R, W> StreamConnection<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    pub(in crate::transport) fn new(
        input: R,
        output: W,
        adapter: Arc<ServiceAdapter>,
        limits: ConnectionLimits,
        sender: RequestSender,
    ) -> Self {
        Self {
            input,
            output,
            framer: LineFramer::new(limits.message_bytes),
            out: Vec::new(),
            written: 0,
            flushed: true,
            duplex: DuplexConnection::new(adapter, limits, sender),
            phase: StreamConnectionPhase::Serving,
            limits,
            #[cfg(feature = "stdio")]
            pulse: None,
        }
    }

    /// Shows that it gets on, and how many calls there are.
    #[cfg(feature = "stdio")]
    pub(in crate::transport) fn watched(
        mut self,
        pulse: Arc<ProgressPulse>,
        counters: Arc<CallCounters>,
    ) -> Self {
        self.pulse = Some(pulse);
        self.duplex.share_counters(counters);
        self
    }

    fn record_progress(&self) {
        #[cfg(feature = "stdio")]
        if let Some(pulse) = &self.pulse {
            pulse.record_progress();
        }
    }

    pub(in crate::transport) async fn run(mut self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let mut shutdown = pin!(shutdown);
        let ended = std::future::poll_fn(|cx| {
            // Only polled until then: a future that was ready must not be polled again.
            if matches!(self.phase, StreamConnectionPhase::Serving) && shutdown.as_mut().poll(cx).is_ready() {
                tracing::info!("shutdown requested: finishing accepted requests");
                self.drain();
            }
            self.poll(cx)
        })
        .await;
        // Some carriers say goodbye (TLS, WebSocket), and half of a socket does not end by being dropped.
        let _ = tokio::time::timeout(STOP_GRACE, self.output.shutdown()).await;
        ended
    }

    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        loop {
            self.duplex.poll_opening(cx, &mut self.out);
            self.take_lines(cx);
            if let Poll::Ready(read) = self.poll_read(cx) {
                self.record_progress();
                match read {
                    Ok(0) => {
                        if let Some(line) = self.framer.finish() {
                            self.duplex.handle_line(line, cx, &mut self.out);
                        }
                        self.drain();
                    }
                    // Until nothing is left to read, because only then will the task be woken for more.
                    Ok(_) => continue,
                    Err(error) => {
                        tracing::warn!(%error, "read failed");
                        self.drain();
                    }
                }
            }
            self.duplex.start_queued(cx, &mut self.out);
            // Before the output is taken: a call that ends in between leaves its answer for the next turn.
            let idle = self.duplex.is_idle();
            self.duplex.outbox().take(cx, &mut self.out);
            match self.poll_write(cx) {
                // What was written may have made room to go on reading.
                Poll::Ready(Ok(true)) => continue,
                Poll::Ready(Ok(false)) if idle && !matches!(self.phase, StreamConnectionPhase::Serving) => {
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Ok(false)) | Poll::Pending => {}
                Poll::Ready(Err(error)) => {
                    // The client is gone (EPIPE): nobody is left to answer.
                    tracing::debug!(%error, "write failed");
                    return Poll::Ready(Ok(()));
                }
            }
            if self.poll_phase(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            return Poll::Pending;
        }
    }

    /// Handles the lines that are here, as long as their answers find room.
    fn take_lines(&mut self, cx: &mut TaskContext<'_>) {
        while self.may_take() {
            let Some(line) = self.framer.poll_line() else { break };
            self.duplex.handle_line(line, cx, &mut self.out);
        }
        if let Some(endless) = self.framer.poll_endless() {
            tracing::warn!(
                limit = self.limits.message_bytes,
                "a line exceeds the limit (setting max_message_bytes); closing the connection"
            );
            self.duplex.handle_line(endless, cx, &mut self.out);
            self.drain();
        }
    }

    fn may_take(&self) -> bool {
        // A client that does not read its answers gets no further
        // requests served, so that they cannot fill the memory.
        matches!(self.phase, StreamConnectionPhase::Serving)
            && !self.duplex.is_opening()
            && self.out.len() < MAX_UNWRITTEN_BYTES
    }

    fn poll_read(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<usize>> {
        if !self.may_take() {
            return Poll::Pending;
        }
        pin!(self.input.read_buf(self.framer.buffer())).poll(cx)
    }

    /// Writes all there is in as few calls as possible; true when there was something.
    fn poll_write(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<bool>> {
        let some = self.written < self.out.len();
        while self.written < self.out.len() {
            let rest = &self.out[self.written..];
            let wrote = std::task::ready!(Pin::new(&mut self.output).poll_write(cx, rest))?;
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += wrote;
            self.flushed = false;
            self.record_progress();
        }
        // Room for one large answer is kept: to ask for it again each time costs more than to write it.
        if self.out.capacity() > 2 * MAX_UNWRITTEN_BYTES {
            self.out = Vec::new();
        } else {
            self.out.clear();
        }
        self.written = 0;
        if !self.flushed {
            std::task::ready!(Pin::new(&mut self.output).poll_flush(cx))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(some))
    }

    /// Reads nothing more; lets what was accepted finish.
    fn drain(&mut self) {
        if matches!(self.phase, StreamConnectionPhase::Serving) {
            self.duplex.close();
            self.phase = StreamConnectionPhase::Draining(Box::pin(tokio::time::sleep(self.limits.shutdown)));
        }
    }

    fn poll_phase(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        match &mut self.phase {
            StreamConnectionPhase::Serving => Poll::Pending,
            StreamConnectionPhase::Draining(deadline) => {
                std::task::ready!(deadline.as_mut().poll(cx));
                self.duplex.stop(&mut self.out);
                self.phase = StreamConnectionPhase::Stopping(Box::pin(tokio::time::sleep(STOP_GRACE)));
                // The calls have to report that they were stopped, and nothing has polled the new timer yet.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            StreamConnectionPhase::Stopping(deadline) => deadline.as_mut().poll(cx),
        }
    }
}
