//! The process's own stdin and stdout, taken away from the rest of the program.
//!
//! Pipes and sockets (Node starts children with socket pairs) are read and written without blocking. Files and
//! terminals cannot be polled, so a thread of their own reads or writes them.

use std::io;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;

/// Maximum number of bytes that a thread reads at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Maximum number of chunks between a thread and the connection.
const MAX_QUEUED_CHUNKS: usize = 4;

/// Source of requests.
#[derive(Debug)]
pub(super) enum StdioInput {
    #[cfg(unix)]
    Pipe(tokio::net::unix::pipe::Receiver),
    #[cfg(unix)]
    Socket(tokio::net::UnixStream),
    Thread(ThreadReader),
}

/// Destination of answers.
#[derive(Debug)]
pub(super) enum StdioOutput {
    #[cfg(unix)]
    Pipe(tokio::net::unix::pipe::Sender),
    #[cfg(unix)]
    Socket(tokio::net::UnixStream),
    Thread(ThreadWriter),
}

/// Takes stdin and stdout. From here on the rest of the program reads end of file and prints to stderr.
#[cfg(unix)]
pub(super) fn take() -> io::Result<(StdioInput, StdioOutput)> {
    use rustix::io::fcntl_dupfd_cloexec;

    // From 3 on, so that no copy is a standard stream;
    // `cloexec`, so that no child holds the client's pipes open.
    let input = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((StdioInput::new(input)?, StdioOutput::new(output)?))
}

/// Takes stdin and stdout. From here on `println!` and children print to stderr, as all code does that asks the system for
/// its standard streams. The C library has copies of its own, so that its `printf` still reaches the client. Terminals are
/// left as they are: the standard library translates their text.
#[cfg(windows)]
pub(super) fn take() -> io::Result<(StdioInput, StdioOutput)> {
    use std::fs::File;
    use std::io::IsTerminal as _;
    use std::os::windows::io::AsHandle as _;

    use filedescriptor::{FileDescriptor, StdioDescriptor};

    // The former handles are never closed, because the C library uses them.
    let keep_open = |former: filedescriptor::Result<FileDescriptor>| {
        former.map(std::mem::forget).map_err(io::Error::other)
    };
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let input = if stdin.is_terminal() {
        ThreadReader::start(stdin)?
    } else {
        let own = File::from(stdin.as_handle().try_clone_to_owned()?);
        keep_open(FileDescriptor::redirect_stdio(&File::open("NUL")?, StdioDescriptor::Stdin))?;
        ThreadReader::start(own)?
    };
    let output = if stdout.is_terminal() {
        ThreadWriter::start(stdout)?
    } else {
        let own = File::from(stdout.as_handle().try_clone_to_owned()?);
        keep_open(FileDescriptor::redirect_stdio(&io::stderr(), StdioDescriptor::Stdout))?;
        ThreadWriter::start(own)?
    };
    Ok((StdioInput::Thread(input), StdioOutput::Thread(output)))
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream as StdUnixStream;

    use rustix::fs::FileType;
    use tokio::net::UnixStream;
    use tokio::net::unix::pipe;

    use super::{StdioInput, StdioOutput, ThreadReader, ThreadWriter};

    /// Maximum pipe size that Linux allows without privilege, in bytes: 2.7 times as fast for messages of a megabyte.
    #[cfg(target_os = "linux")]
    const PIPE_BYTES: usize = 1024 * 1024;

    impl StdioInput {
        pub(in super::super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
            Ok(match kind(&descriptor)? {
                FileType::Fifo => {
                    widen(&descriptor);
                    Self::Pipe(pipe::Receiver::from_owned_fd(descriptor)?)
                }
                FileType::Socket => Self::Socket(socket(descriptor)?),
                _ => Self::Thread(ThreadReader::start(File::from(descriptor))?),
            })
        }
    }

    impl StdioOutput {
        pub(in super::super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
            Ok(match kind(&descriptor)? {
                FileType::Fifo => {
                    widen(&descriptor);
                    Self::Pipe(pipe::Sender::from_owned_fd(descriptor)?)
                }
                FileType::Socket => Self::Socket(socket(descriptor)?),
                _ => Self::Thread(ThreadWriter::start(File::from(descriptor))?),
            })
        }
    }

    fn kind(descriptor: &OwnedFd) -> io::Result<FileType> {
        Ok(FileType::from_raw_mode(rustix::fs::fstat(descriptor)?.st_mode))
    }

    fn socket(descriptor: OwnedFd) -> io::Result<UnixStream> {
        let socket = StdUnixStream::from(descriptor);
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket)
    }

    #[cfg(target_os = "linux")]
    fn widen(pipe: &OwnedFd) {
        // Where the system says no (its limit per user is reached) the pipe stays as it is.
        if rustix::pipe::fcntl_getpipe_size(pipe).is_ok_and(|bytes| bytes < PIPE_BYTES) {
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn widen(_: &OwnedFd) {}
}

impl AsyncRead for StdioInput {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            #[cfg(unix)]
            Self::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buffer),
            #[cfg(unix)]
            Self::Socket(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Thread(thread) => thread.poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for StdioOutput {
    fn poll_write(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            #[cfg(unix)]
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            #[cfg(unix)]
            Self::Socket(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Thread(thread) => thread.poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Thread(thread) => thread.poll_flush(cx),
            // What is written to these has reached the system already.
            #[cfg(unix)]
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            #[cfg(unix)]
            Self::Pipe(_) => Poll::Ready(Ok(())),
            #[cfg(unix)]
            Self::Socket(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Thread(thread) => thread.poll_flush(cx),
        }
    }
}

/// Reads a file or a terminal in a thread. The thread ends with its source, or with the process.
#[derive(Debug)]
pub(super) struct ThreadReader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

impl ThreadReader {
    fn start(mut source: impl io::Read + Send + 'static) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(MAX_QUEUED_CHUNKS);
        let read = move || {
            let mut buffer = vec![0; CHUNK_BYTES];
            loop {
                let chunk = match source.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(bytes) => Ok(Bytes::copy_from_slice(&buffer[..bytes])),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = chunk.is_err();
                // This waits for the connection: what it does not take stays with the client.
                if sender.blocking_send(chunk).is_err() || failed {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("hospes-stdin".to_owned()).spawn(read)?;
        Ok(Self { chunks, rest: Bytes::new() })
    }

    fn poll_read(&mut self, cx: &mut TaskContext<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            match std::task::ready!(self.chunks.poll_recv(cx)) {
                Some(chunk) => self.rest = chunk?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let part = self.rest.split_to(self.rest.len().min(buffer.remaining()));
        buffer.put_slice(&part);
        Poll::Ready(Ok(()))
    }
}

/// Writes a file or a terminal in a thread.
#[derive(Debug)]
pub(super) struct ThreadWriter {
    chunks: mpsc::Sender<Bytes>,
    /// Reports of the thread: one unit for each chunk written, or the error that ended it.
    written: mpsc::Receiver<io::Result<()>>,
    pending: BytesMut,
    unwritten: usize,
}

impl ThreadWriter {
    fn start(mut target: impl io::Write + Send + 'static) -> io::Result<Self> {
        let (chunks, mut source) = mpsc::channel::<Bytes>(MAX_QUEUED_CHUNKS);
        // Room for more reports than there can be unwritten chunks,
        // so that the thread never waits for them to be read.
        let (report, written) = mpsc::channel(MAX_QUEUED_CHUNKS * 2);
        let write = move || {
            while let Some(chunk) = source.blocking_recv() {
                let result = target.write_all(&chunk).and_then(|()| target.flush());
                let failed = result.is_err();
                if report.blocking_send(result).is_err() || failed {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("hospes-stdout".to_owned()).spawn(write)?;
        Ok(Self { chunks, written, pending: BytesMut::new(), unwritten: 0 })
    }

    fn poll_write(&mut self, cx: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        while self.unwritten >= MAX_QUEUED_CHUNKS {
            std::task::ready!(self.poll_report(cx))?;
        }
        self.pending.extend_from_slice(bytes);
        let chunk = self.pending.split().freeze();
        let taken = chunk.remaining();
        // There is room, because fewer than `MAX_QUEUED_CHUNKS` are unwritten.
        match self.chunks.try_send(chunk) {
            Ok(()) => {
                self.unwritten += 1;
                Poll::Ready(Ok(taken))
            }
            Err(_) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        while self.unwritten > 0 {
            std::task::ready!(self.poll_report(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_report(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        match std::task::ready!(self.written.poll_recv(cx)) {
            Some(Ok(())) => {
                self.unwritten -= 1;
                Poll::Ready(Ok(()))
            }
            Some(Err(error)) => Poll::Ready(Err(error)),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }
}
