//! Reading the bodies of requests: how long each may be, how long it may take, and how much all of them may hold.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use hospes_model::RpcError;
use hospes_proto::http::HttpRejection;
use http::StatusCode;

use super::endpoint_inner::EndpointInner;
use super::response::busy_rejection;

/// Pause in a refused body after which its client is taken to have stopped sending.
const DRAIN_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of bytes read of a refused body, so that a client that is still sending it gets to read the refusal.
const MAX_DRAINED_BYTES: usize = 64 * 1024 * 1024;
/// A body that comes in one piece of at most this size lies in its connection's own buffer, whose size is bounded by
/// the number of connections.
const UNCHARGED_BYTES: usize = 16 * 1024;

/// The room that a body takes of what all bodies may take (setting `max_buffered_bytes`).
struct BufferReservation {
    endpoint: Arc<EndpointInner>,
    bytes: usize,
}

impl BufferReservation {
    fn new(endpoint: &Arc<EndpointInner>) -> Self {
        Self { endpoint: Arc::clone(endpoint), bytes: 0 }
    }

    /// Grows the reservation to so many bytes in all.
    fn grow(&mut self, bytes: usize) -> Result<(), HttpRejection> {
        let Some(more) = bytes.checked_sub(self.bytes) else { return Ok(()) };
        let limit = self.endpoint.limits.buffered_bytes;
        let counter = &self.endpoint.buffered;
        // Added before it is compared: two bodies at once must not both get the last room.
        if counter.fetch_add(more, Ordering::AcqRel) + more > limit {
            counter.fetch_sub(more, Ordering::AcqRel);
            let why = format!(
                "too many buffered requests: the limit is {limit} bytes (setting max_buffered_bytes)"
            );
            return Err(busy_rejection(None, why));
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for BufferReservation {
    fn drop(&mut self) {
        self.endpoint.buffered.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// A body, and the room that it takes until the last part of it is let go.
struct ReservedBody {
    body: Bytes,
    _charge: Box<BufferReservation>,
}

impl AsRef<[u8]> for ReservedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// Reads a body. One that arrives in one piece is not copied. `length` is what its head says, and at most the limit.
pub(super) async fn read<B>(
    endpoint: &Arc<EndpointInner>,
    mut body: Pin<&mut B>,
    length: Option<usize>,
) -> Result<Bytes, HttpRejection>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    let limit = endpoint.admission.max_message_bytes;
    let mut first = Bytes::new();
    let mut rest: Option<Vec<u8>> = None;
    let mut charge: Option<Box<BufferReservation>> = None;
    // A body that is there costs no timer.
    let mut deadline = None;
    loop {
        let timeout = endpoint.limits.body;
        let frame = std::future::poll_fn(|cx| {
            if let std::task::Poll::Ready(frame) = body.as_mut().poll_frame(cx) {
                return std::task::Poll::Ready(Ok(frame));
            }
            let deadline = deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
            deadline.as_mut().poll(cx).map(|()| Err(()))
        });
        let piece = match frame.await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(piece) => piece,
                // Trailers say nothing to us.
                Err(_) => continue,
            },
            Ok(Some(Err(error))) => {
                let why = format!("the request body ended early: {error}");
                return Err(HttpRejection::new(StatusCode::BAD_REQUEST, RpcError::invalid_request(why)));
            }
            Err(()) => {
                let why = format!("the body took longer than {timeout:?} (setting body_timeout)");
                return Err(HttpRejection::new(StatusCode::REQUEST_TIMEOUT, RpcError::invalid_request(why)));
            }
        };
        let so_far = rest.as_ref().map_or(first.len(), Vec::len);
        if so_far + piece.len() > limit {
            return Err(drained(body, HttpRejection::too_large(limit)).await);
        }
        // The length is the client's word, but room is made for all of it.
        let all = (so_far + piece.len()).max(if so_far == 0 { 0 } else { length.unwrap_or_default() });
        if so_far > 0 || all > UNCHARGED_BYTES {
            let charged = charge.get_or_insert_with(|| Box::new(BufferReservation::new(endpoint))).grow(all);
            if let Err(rejection) = charged {
                // Given back before the draining, which may take seconds.
                drop((charge, rest, first));
                return Err(drained(body, rejection).await);
            }
        }
        if so_far == 0 {
            first = piece;
        } else {
            let rest = rest.get_or_insert_with(|| {
                // The first piece is let go, so that the connection reads into its memory again.
                let first = std::mem::take(&mut first);
                let mut rest = endpoint.adapter.buffers().take(all);
                rest.extend_from_slice(&first);
                rest
            });
            rest.extend_from_slice(&piece);
        }
        if body.is_end_stream() {
            break;
        }
    }
    let whole = rest.map_or(first, |rest| endpoint.adapter.buffers().share(rest));
    Ok(match charge {
        Some(charge) => Bytes::from_owner(ReservedBody { body: whole, _charge: charge }),
        None => whole,
    })
}

/// Lets the client finish, so that it reads the refusal. Rare, and not worth a place in every request's future.
fn drained<B: http_body::Body<Data = Bytes>>(
    body: Pin<&mut B>,
    rejection: HttpRejection,
) -> Pin<Box<impl Future<Output = HttpRejection>>> {
    Box::pin(async move {
        drain(body).await;
        rejection
    })
}

/// Reads on and forgets, within reason.
pub(super) async fn drain<B: http_body::Body<Data = Bytes>>(mut body: Pin<&mut B>) {
    let mut left = MAX_DRAINED_BYTES;
    let all = async {
        // A client that has stopped sending, or never began, waits for the answer.
        while let Ok(Some(Ok(frame))) =
            tokio::time::timeout(DRAIN_PAUSE, std::future::poll_fn(|cx| body.as_mut().poll_frame(cx))).await
        {
            left = match frame.data_ref().map_or(Some(left), |piece| left.checked_sub(piece.len())) {
                Some(left) => left,
                None => return,
            };
        }
    };
    // A client that sends slowly must not hold the connection: the refusal goes out, whatever is left unread.
    let _ = tokio::time::timeout(Duration::from_secs(5), all).await;
}
