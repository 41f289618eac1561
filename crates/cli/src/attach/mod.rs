//! Attachment of `hospes stdio` to the running host, over a local socket beside the host's note. After one line in each
//! direction, the socket carries what standard input and output carry. A pipe of Windows cannot be closed in one direction,
//! so that a byte marks the end of the input.
//!
//! Only programs of the same user are served, and not the servers that a host has started: the rule of the endpoint. Where
//! the endpoint requires more (sign-in, or a token by configuration), there is no socket.

mod end_mark;

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hospes::transport::stdio_server::StdioServer;
use hospes_host::callers::local_socket::{LocalListener, LocalStream, check_peer, connect, remove_socket};
use hospes_host::callers::{CallerLookupError, LocalCaller};
use hospes_host::config::AllowedCallers;
use hospes_host::{Host, HostGateways, RequestStateConfig};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf, split,
};
use tokio::task::JoinSet;

use self::end_mark::{END_MARK, UntilEndMark};
use crate::args;
use crate::exit::CliResult;
use crate::paths;
use crate::profiles::unknown_profile;

/// First line of a client, before the name of the application and that of a profile.
const GREETING: &str = "hospes-attach 2";
/// First line of the host.
const ACCEPTED: &str = "accepted";
/// Begin of the first line of a host that has no such profile. The names of its profiles follow.
const UNKNOWN_PROFILE: &str = "unknown profile";
/// Maximum length of a first line, in bytes. The names of all profiles fit.
const MAX_GREETING: u64 = 4096;
/// Time for the first lines.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of attached programs.
const MAX_ATTACHED: usize = 256;

/// Returns the path of the socket at which the host with this process serves attached programs. It does not end in
/// `.sock`, because programs look for the console by that.
fn attach_socket(pid: u32) -> Option<PathBuf> {
    Some(paths::runtime()?.join(format!("{pid}.attach")))
}

/// Returns true if programs of the user may attach without a token.
pub(crate) fn is_allowed(has_sign_in: bool, callers: Option<AllowedCallers>) -> bool {
    !has_sign_in && callers != Some(AllowedCallers::Token)
}

/// Socket at which programs attach. Dropping it removes the socket.
pub(crate) struct AttachSocket {
    listener: LocalListener,
    path: PathBuf,
}

impl AttachSocket {
    pub(crate) async fn bind() -> io::Result<Self> {
        paths::create_runtime_folder()?;
        let path = attach_socket(std::process::id()).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { listener: LocalListener::bind(&path).await?, path })
    }

    /// Serves attached programs. Dropping the future closes their connections.
    pub(crate) async fn serve(&self, host: &Host, rounds: Option<&RequestStateConfig>) -> Infallible {
        let mut attached = JoinSet::new();
        loop {
            // Ended ones are collected while waiting, so that they do not pile up.
            let stream = tokio::select! {
                stream = self.listener.accept(), if attached.len() < MAX_ATTACHED => stream,
                Some(_ended) = attached.join_next() => continue,
            };
            let (gateways, rounds) = (host.gateways(), rounds.cloned());
            attached.spawn(async move {
                if let Err(error) = serve_one(stream, &gateways, rounds).await {
                    tracing::debug!(%error, "attached program was not served");
                }
            });
        }
    }
}

impl Drop for AttachSocket {
    fn drop(&mut self) {
        remove_socket(&self.path);
    }
}

async fn serve_one(
    stream: LocalStream,
    gateways: &HostGateways,
    rounds: Option<RequestStateConfig>,
) -> io::Result<()> {
    let denied = |reason: &str| io::Error::new(io::ErrorKind::PermissionDenied, reason.to_owned());
    let peer = check_peer(&stream).ok_or_else(|| denied("another user"))?;
    // It reads many files of `/proc`, or the table of processes, which blocks.
    let look_up = move || {
        let pid = peer.pid.ok_or(CallerLookupError::System)?;
        LocalCaller::of_process(pid, peer.uid)
    };
    let caller = tokio::task::spawn_blocking(look_up).await.map_err(io::Error::other)?;
    let caller = caller.map_err(|error| denied(&error.to_string()))?;
    if !caller.is_same_user() || caller.is_server {
        tracing::warn!(%caller, "refused a program that attaches");
        return Err(denied("another user, or a server that a host has started"));
    }
    let (input, mut output) = split(stream);
    let mut input = BufReader::new(input);
    let line = first_line(&mut input).await?;
    let names = line.strip_prefix(GREETING).and_then(|rest| rest.strip_prefix(' '));
    let names = names.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unknown first line"))?;
    let (name, profile) = match names.split_once(' ') {
        Some((name, profile)) => (name, Some(profile)),
        None => (names, None),
    };
    let name = args::application_name(name).map_err(io::Error::other)?;
    let gateway = match profile {
        None => Some(gateways.everything()),
        // Programs of this machine have not signed in, and are in no group.
        Some(profile) if is_for_groups(gateways, profile) => None,
        Some(profile) => gateways.profile(profile),
    };
    let Some(gateway) = gateway else {
        let mut profiles = gateways.profiles();
        profiles.retain(|profile| profile.groups.is_none());
        let known: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
        output.write_all(format!("{UNKNOWN_PROFILE} {}\n", known.join(" ")).as_bytes()).await?;
        output.flush().await?;
        return Err(denied("unknown profile"));
    };
    output.write_all(format!("{ACCEPTED}\n").as_bytes()).await?;
    output.flush().await?;
    tracing::info!(application = %name, profile, %caller, "application attached");
    let rounds = rounds.map(|rounds| (rounds.keys_for(&gateway), rounds.lifetime));
    let mut server = StdioServer::new(gateway);
    if let Some((keys, lifetime)) = rounds {
        server = server.state_keys(keys).state_lifetime(lifetime);
    }
    // The name is what the program says of itself; the process is what the system says.
    let served = server.caller(format!("{name}: {caller}")).serve_io(UntilEndMark::new(input), output);
    // A profile that is removed has no more to say: the application sees its server end, and learns why when it
    // starts the server again.
    tokio::select! {
        served = served => served,
        () = gateways.wait_for_removal(profile) => Err(denied("the profile was removed")),
    }
}

/// Reads the first line, without its end.
async fn first_line(input: &mut BufReader<ReadHalf<LocalStream>>) -> io::Result<String> {
    let mut line = String::new();
    let mut limited = input.take(MAX_GREETING);
    let read = limited.read_line(&mut line);
    tokio::time::timeout(GREETING_TIMEOUT, read).await.map_err(|_| io::ErrorKind::TimedOut)??;
    let line = line.strip_suffix('\n').ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(line.to_owned())
}

/// Connection to the running host.
pub(crate) struct HostAttachment {
    input: BufReader<ReadHalf<LocalStream>>,
    output: WriteHalf<LocalStream>,
    pub(crate) pid: u32,
}

/// Returns true if only the people of some groups may use a profile.
fn is_for_groups(gateways: &HostGateways, name: &str) -> bool {
    gateways.profiles().iter().any(|profile| profile.name == name && profile.groups.is_some())
}

/// Attaches to the most recently started host that accepts, to one of its profiles if one is named. `None` if there is
/// none.
///
/// # Errors
/// If the host has no such profile.
pub(crate) async fn attach(application: &str, profile: Option<&str>) -> CliResult<Option<HostAttachment>> {
    for (_, note) in paths::list_host_notes() {
        let Some(path) = attach_socket(note.pid) else { return Ok(None) };
        let greeted = greet(&path, application, profile).await;
        match greeted {
            Ok((line, input, output)) if line == ACCEPTED => {
                return Ok(Some(HostAttachment { input, output, pid: note.pid }));
            }
            Ok((line, ..)) => match (line.strip_prefix(UNKNOWN_PROFILE), profile) {
                (Some(known), Some(profile)) => {
                    let known: Vec<&str> = known.split_whitespace().collect();
                    return Err(unknown_profile(profile, &known));
                }
                _ => tracing::debug!(pid = note.pid, "recorded host answers otherwise"),
            },
            Err(error) => tracing::debug!(pid = note.pid, %error, "recorded host does not accept"),
        }
    }
    Ok(None)
}

/// Sends the first line, and returns that of the host.
async fn greet(
    path: &Path,
    application: &str,
    profile: Option<&str>,
) -> io::Result<(String, BufReader<ReadHalf<LocalStream>>, WriteHalf<LocalStream>)> {
    let (input, mut output) = split(connect(path).await?);
    let profile = profile.map(|profile| format!(" {profile}")).unwrap_or_default();
    output.write_all(format!("{GREETING} {application}{profile}\n").as_bytes()).await?;
    output.flush().await?;
    let mut input = BufReader::new(input);
    Ok((first_line(&mut input).await?, input, output))
}

impl HostAttachment {
    /// Forwards standard input to the host and its messages to standard output, until the host has answered everything
    /// after the end of the input.
    pub(crate) async fn forward(self) -> io::Result<()> {
        let Self { mut input, mut output, .. } = self;
        let mut received = std::pin::pin!(async {
            let mut stdout = tokio::io::stdout();
            tokio::io::copy(&mut input, &mut stdout).await?;
            stdout.flush().await
        });
        let sent = async {
            tokio::io::copy(&mut tokio::io::stdin(), &mut output).await?;
            output.write_all(&[END_MARK]).await?;
            output.flush().await
        };
        // The host ends first if it ends altogether, or if the profile is removed; nothing that is sent later would be
        // answered.
        tokio::select! {
            ended = &mut received => {
                ended?;
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the running host ends, or no longer has the profile"));
            }
            sent = sent => sent?,
        }
        received.await
    }
}
