//! Large buffers, kept from one call for the next.
//!
//! A system clears every page of memory that a program asks for, and most allocators return a large piece as soon as it
//! is free. For a message of a megabyte that costs as much as all other work on it.

#[cfg(feature = "http")]
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(feature = "http")]
use bytes::Bytes;

/// Minimum size of pooled buffers; smaller ones are left to the allocator.
const MIN_KEPT_BUFFER_BYTES: usize = 128 * 1024;
/// Maximum size of a pooled buffer: the limit `max_kept_buffer_bytes`.
#[cfg(feature = "http")]
const MAX_BUFFER_BYTES: usize = 4 * 1024 * 1024;
/// Maximum size of all pooled buffers: the limit `max_kept_bytes`.
#[cfg(feature = "http")]
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;

/// Pool of unused buffers.
#[derive(Debug, Default)]
pub(crate) struct BufferPool(Mutex<PooledBuffers>);

#[derive(Debug, Default)]
struct PooledBuffers {
    /// The one given back last is the last.
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    /// An empty buffer with room for `bytes`.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes >= MIN_KEPT_BUFFER_BYTES {
            let mut kept = self.lock();
            if let Some(at) = kept.buffers.iter().rposition(|buffer| buffer.capacity() >= bytes) {
                let buffer = kept.buffers.remove(at);
                kept.bytes -= buffer.capacity();
                return buffer;
            }
        }
        Vec::with_capacity(bytes)
    }

    /// Reserves room for `bytes` more behind the content.
    pub(crate) fn make_room(&self, out: &mut Vec<u8>, bytes: usize) {
        if bytes >= MIN_KEPT_BUFFER_BYTES && out.capacity() - out.len() < bytes {
            let mut wide = self.take(out.len() + bytes);
            wide.extend_from_slice(out);
            *out = wide;
        }
    }

    /// Shares the text as memory that returns to the pool when the last reference is dropped.
    #[cfg(feature = "http")]
    pub(crate) fn share(self: &Arc<Self>, text: Vec<u8>) -> Bytes {
        if !(MIN_KEPT_BUFFER_BYTES..=MAX_BUFFER_BYTES).contains(&text.capacity()) {
            return text.into();
        }
        Bytes::from_owner(PooledText { text, home: Arc::clone(self) })
    }

    #[cfg(feature = "http")]
    fn keep(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut kept = self.lock();
        kept.bytes += buffer.capacity();
        kept.buffers.push(buffer);
        // What has not been wanted for longest may be too small for what goes on now.
        while kept.bytes > MAX_KEPT_BYTES {
            let oldest = kept.buffers.remove(0);
            kept.bytes -= oldest.capacity();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PooledBuffers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A text whose memory goes home in the end.
#[cfg(feature = "http")]
struct PooledText {
    text: Vec<u8>,
    home: Arc<BufferPool>,
}

#[cfg(feature = "http")]
impl AsRef<[u8]> for PooledText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(feature = "http")]
impl Drop for PooledText {
    fn drop(&mut self) {
        self.home.keep(std::mem::take(&mut self.text));
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    #[test]
    fn a_large_buffer_is_used_again_once_nobody_looks_at_it() {
        let buffers = Arc::new(BufferPool::default());
        let mut text = buffers.take(MIN_KEPT_BUFFER_BYTES);
        text.extend_from_slice(b"some text");
        let place = text.as_ptr();
        let whole = buffers.share(text);
        let part = whole.slice(5..);
        drop(whole);
        assert!(buffers.lock().buffers.is_empty(), "a part of it is still in use");
        assert_eq!(part, "text");
        drop(part);
        let larger = buffers.take(2 * MIN_KEPT_BUFFER_BYTES);
        assert!(
            larger.capacity() >= 2 * MIN_KEPT_BUFFER_BYTES && larger.as_ptr() != place,
            "it is too small"
        );
        let again = buffers.take(MIN_KEPT_BUFFER_BYTES);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
    }

    #[test]
    fn small_ones_huge_ones_and_too_many_are_given_back() {
        let buffers = Arc::new(BufferPool::default());
        for bytes in [MIN_KEPT_BUFFER_BYTES - 1, MAX_BUFFER_BYTES + 1] {
            drop(buffers.share(Vec::with_capacity(bytes)));
            assert!(buffers.lock().buffers.is_empty(), "{bytes}");
        }
        let lent: Vec<Bytes> =
            (0..100).map(|_| buffers.share(Vec::with_capacity(MAX_BUFFER_BYTES))).collect();
        drop(lent);
        let kept = buffers.lock();
        assert_eq!((kept.buffers.len(), kept.bytes), (MAX_KEPT_BYTES / MAX_BUFFER_BYTES, MAX_KEPT_BYTES));
    }

    #[test]
    fn what_is_written_stays_when_room_is_made() {
        let buffers = BufferPool::default();
        let mut out = b"begun".to_vec();
        buffers.make_room(&mut out, MIN_KEPT_BUFFER_BYTES);
        assert!(out == b"begun" && out.capacity() >= MIN_KEPT_BUFFER_BYTES + 5);
        let place = out.as_ptr();
        buffers.make_room(&mut out, MIN_KEPT_BUFFER_BYTES);
        assert_eq!(out.as_ptr(), place, "there is room already");
    }
}
