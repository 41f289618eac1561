//! Answers that are streams of JSON lines, for as long as the session of the browser lasts.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use tokio::sync::{mpsc, watch};

use crate::additions::AdditionLines;
use crate::console::Console;

/// Lines for a page, as they come.
pub(super) trait LineSource: Send + 'static {
    /// Waits for the next line. `None` after the last one. Dropping the future loses no line.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

impl LineSource for AdditionLines {
    async fn next(&mut self) -> Option<Bytes> {
        Self::next(self).await
    }
}

impl LineSource for mpsc::Receiver<Bytes> {
    async fn next(&mut self) -> Option<Bytes> {
        self.recv().await
    }
}

/// Stream of lines. The browser ends what makes them by ending the request: the stream is then dropped, and its lines.
pub(super) struct LineStream<L> {
    pub(super) lines: L,
    pub(super) console: Console,
    pub(super) session: String,
    /// Changes of the sessions, subscribed before the session was used.
    pub(super) sessions: watch::Receiver<u64>,
}

impl<L: LineSource> LineStream<L> {
    /// Waits for the next line. `None` after the last one, and when the session has ended.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                line = self.lines.next() => return line,
                changed = self.sessions.changed() => {
                    changed.ok()?;
                    if !self.console.sessions().is_active(&self.session) {
                        return None;
                    }
                }
            }
        }
    }
}

impl<L: LineSource> IntoResponse for LineStream<L> {
    fn into_response(self) -> Response {
        let stream = futures::stream::unfold(self, async |mut stream| {
            let line = stream.next().await?;
            Some((Ok::<_, Infallible>(line), stream))
        });
        ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(stream)).into_response()
    }
}
