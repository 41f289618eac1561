//! Notices the end of stdin without reading it.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use tokio::sync::oneshot;

/// Waits for the other side of stdin to close. Data written meanwhile does not wake it.
pub(super) struct HangUp {
    input: OwnedFd,
    stop: PipeReader,
}

impl HangUp {
    /// Notifies `hung_up` once it happens. The watch ends when the returned value is dropped.
    ///
    /// # Errors
    /// When there is no descriptor or no thread for it.
    pub(super) fn watch(hung_up: oneshot::Sender<()>) -> io::Result<PipeWriter> {
        // A descriptor of its own, because stdin may be replaced
        // meanwhile; from 3 on, so that it becomes no standard stream.
        let input = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let (stop, stopper) = io::pipe()?;
        let this = Self { input, stop };
        let watch = move || {
            if this.wait_for_hang_up() {
                // If nobody listens any more, the server has ended first.
                let _ = hung_up.send(());
            }
        };
        std::thread::Builder::new().name("hospes-hang-up".to_owned()).spawn(watch)?;
        Ok(stopper)
    }

    /// Returns whether it happens before this is stopped.
    fn wait_for_hang_up(&self) -> bool {
        // `poll` reports the end of a pipe unasked; a socket whose peer
        // only stopped writing takes RDHUP, which few systems have.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let wanted = PollFlags::RDHUP;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let wanted = PollFlags::empty();
        loop {
            let mut watched = [PollFd::new(&self.input, wanted), PollFd::new(&self.stop, PollFlags::empty())];
            match poll(&mut watched, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return false,
            }
            let [input, stop] = watched.map(|watched| watched.revents());
            if !stop.is_empty() || input.contains(PollFlags::NVAL) {
                return false;
            }
            if !input.is_empty() {
                return true;
            }
        }
    }
}
