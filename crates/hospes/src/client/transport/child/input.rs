//! The standard input of a child process, and whether the process has read any of it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::process::ChildStdin;

/// Writer to a child's standard input that counts the bytes written.
#[derive(Debug)]
pub(crate) struct CountedInput {
    pipe: ChildStdin,
    written: Arc<AtomicU64>,
}

/// Second handle of a child's standard input, by which the bytes that lie unread in the pipe are counted. It keeps the pipe
/// open: drop it before the end of the input is to reach the child.
#[derive(Debug)]
pub(crate) struct UnreadInput {
    #[cfg(target_os = "linux")]
    pipe: std::os::fd::OwnedFd,
    #[cfg(target_os = "linux")]
    written: Arc<AtomicU64>,
}

/// A child's standard input with its second handle; none where the system cannot tell what was read.
pub(crate) fn count_input(pipe: ChildStdin) -> (CountedInput, Option<UnreadInput>) {
    let written = Arc::new(AtomicU64::new(0));
    #[cfg(target_os = "linux")]
    let unread = {
        use std::os::fd::AsFd as _;
        let second = pipe.as_fd().try_clone_to_owned().ok();
        second.map(|pipe| UnreadInput { pipe, written: Arc::clone(&written) })
    };
    #[cfg(not(target_os = "linux"))]
    let unread = None;
    (CountedInput { pipe, written }, unread)
}

impl UnreadInput {
    /// Returns true if none of the written bytes has been read.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_untouched(&self) -> bool {
        // If the counter lags behind the pipe, the input seems
        // to have been read, which costs one more start at most.
        let unread = rustix::io::ioctl_fionread(&self.pipe);
        unread.is_ok_and(|unread| unread == self.written.load(Ordering::Acquire))
    }

    /// Returns true if none of the written bytes has been read; not known on this system.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn is_untouched(&self) -> bool {
        false
    }
}

impl CountedInput {
    fn count(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.written.fetch_add(*bytes as u64, Ordering::Release);
        }
    }
}

impl AsyncWrite for CountedInput {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.pipe).poll_write(cx, bytes);
        self.count(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.pipe).poll_write_vectored(cx, slices);
        self.count(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.pipe.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}
