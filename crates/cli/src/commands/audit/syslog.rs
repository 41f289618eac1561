//! Syslog messages of RFC 5424, by TLS (RFC 5425), TCP (RFC 6587) or UDP (RFC 5426).
//!
//! The format is written here: it is a line with seven fields before the JSON. Of the crates that have it, some open connections
//! of their own or write to the local daemon, and the one that only formats has had no release for years.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use hospes_store::{AuditOutcome, RecordedEntry};
use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter};
use tokio::net::{TcpStream, UdpSocket};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Url};

use crate::exit::{CliError, CliResult};

/// Maximum time of one step: to connect, or to send a page.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a message in a UDP datagram.
const MAX_DATAGRAM: usize = 65_000;
/// Maximum length of a host name in a message.
const MAX_HOST_LENGTH: usize = 255;
/// Facility `log audit`.
const FACILITY: u8 = 13;
const SEVERITY_NOTICE: u8 = 5;
const SEVERITY_INFO: u8 = 6;

/// Address of a syslog server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyslogUrl {
    transport: SyslogTransport,
    host: String,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyslogTransport {
    Tls,
    Tcp,
    Udp,
}

impl FromStr for SyslogUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || "expected tls://HOST[:PORT], tcp://HOST[:PORT] or udp://HOST[:PORT]".to_owned();
        let url = Url::parse(text).map_err(|_| expected())?;
        let (transport, default_port) = match url.scheme() {
            "tls" => (SyslogTransport::Tls, 6514),
            "tcp" => (SyslogTransport::Tcp, 601),
            "udp" => (SyslogTransport::Udp, 514),
            _ => return Err(expected()),
        };
        let is_plain = matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => return Err(expected()),
        };
        if !is_plain {
            return Err(expected());
        }
        Ok(Self { transport, host, port: url.port().unwrap_or(default_port) })
    }
}

/// Connection to a syslog server.
pub(super) enum SyslogSender {
    Udp(UdpSocket),
    Tcp(BufWriter<TcpStream>),
    Tls(Box<BufWriter<TlsStream<TcpStream>>>),
}

impl SyslogSender {
    /// Connects. `ca` is a PEM file of further authorities.
    pub(super) async fn connect(url: &SyslogUrl, ca: Option<&Path>) -> CliResult<Self> {
        if ca.is_some() && url.transport != SyslogTransport::Tls {
            return Err(CliError::usage("--syslog-ca is for tls:// alone"));
        }
        let address = (url.host.as_str(), url.port);
        let connected = async {
            if url.transport == SyslogTransport::Udp {
                let mut last = std::io::Error::other("the name has no address");
                for address in tokio::net::lookup_host(address).await? {
                    let own = if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
                    let socket = UdpSocket::bind(own).await?;
                    match socket.connect(address).await {
                        Ok(()) => return Ok(Self::Udp(socket)),
                        Err(error) => last = error,
                    }
                }
                return Err(last);
            }
            let stream = TcpStream::connect(address).await?;
            if url.transport == SyslogTransport::Tcp {
                return Ok(Self::Tcp(BufWriter::new(stream)));
            }
            let files: Vec<_> = ca.map(Path::to_owned).into_iter().collect();
            let config = hospes_http_client::tls_config(&files).map_err(std::io::Error::other)?;
            let name = ServerName::try_from(url.host.clone()).map_err(std::io::Error::other)?;
            let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
            Ok(Self::Tls(Box::new(BufWriter::new(stream))))
        };
        let failed = |error: &std::io::Error| {
            CliError::usage(format!("cannot connect to the syslog server {}:{}", url.host, url.port))
                .with_cause(error)
                .hint("nothing was exported; tls:// and tcp:// need a server that listens there")
        };
        within_limit(connected).await.map_err(|error| failed(&error))
    }

    /// Sends an entry, whose JSON is the message.
    pub(super) async fn send(&mut self, recorded: &RecordedEntry, json: &str) -> CliResult {
        let message = format_message(recorded, json);
        let sent = match self {
            Self::Udp(socket) if message.len() <= MAX_DATAGRAM => {
                within_limit(async { socket.send(message.as_bytes()).await.map(drop) }).await
            }
            Self::Udp(_) => {
                let number = recorded.seq;
                return Err(CliError::usage(format!("entry {number} is too long for a datagram"))
                    .hint("use tls:// or tcp://, which have no such limit"));
            }
            Self::Tcp(stream) => within_limit(write_frame(stream, &message)).await,
            Self::Tls(stream) => within_limit(write_frame(&mut **stream, &message)).await,
        };
        sent.map_err(|error| send_error(&error))
    }

    /// Sends what is buffered.
    pub(super) async fn flush(&mut self) -> CliResult {
        let flushed = match self {
            Self::Udp(_) => Ok(()),
            Self::Tcp(stream) => within_limit(stream.flush()).await,
            Self::Tls(stream) => within_limit(stream.flush()).await,
        };
        flushed.map_err(|error| send_error(&error))
    }

    /// Ends the connection, and waits until the server has read everything and closed it as well.
    pub(super) async fn finish(self) -> CliResult {
        let ended = match self {
            Self::Udp(_) => return Ok(()),
            Self::Tcp(stream) => end(stream.into_inner()).await,
            Self::Tls(stream) => end(stream.into_inner()).await,
        };
        ended.map_err(|error| send_error(&error))
    }
}

/// Shuts down a connection. A server that keeps it open, or that closes it without the end of TLS, has read as much.
async fn end(mut stream: impl AsyncWrite + tokio::io::AsyncRead + Unpin) -> std::io::Result<()> {
    within_limit(stream.shutdown()).await?;
    let mut rest = [0; 64];
    let closed = stream.read(&mut rest);
    // A reset says that something was not read.
    match tokio::time::timeout(Duration::from_secs(2), closed).await {
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionReset => Err(error),
        _ => Ok(()),
    }
}

/// Writes a message with its length before it.
async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), message: &str) -> std::io::Result<()> {
    stream.write_all(format!("{} ", message.len()).as_bytes()).await?;
    stream.write_all(message.as_bytes()).await
}

async fn within_limit<T>(step: impl Future<Output = std::io::Result<T>>) -> std::io::Result<T> {
    let done = tokio::time::timeout(STEP_TIMEOUT, step).await;
    done.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}

fn send_error(error: &std::io::Error) -> CliError {
    CliError::usage("cannot send to the syslog server").with_cause(error)
}

/// Formats an entry as a message: its JSON after a header.
fn format_message(recorded: &RecordedEntry, json: &str) -> String {
    let entry = &recorded.entry;
    let is_notable = matches!(entry.ending, Some(AuditOutcome::Refused | AuditOutcome::Failed));
    let severity = if is_notable { SEVERITY_NOTICE } else { SEVERITY_INFO };
    let priority = FACILITY * 8 + severity;
    let at = Timestamp::from_microsecond(entry.at).unwrap_or(Timestamp::UNIX_EPOCH);
    let host = recorded.origin.as_ref().map(|origin| host_name(&origin.node));
    let (host, kind) = (host.unwrap_or_else(|| "-".to_owned()), entry.kind.as_str());
    format!("<{priority}>1 {at} {host} hospes - {kind} - {json}")
}

/// Returns the host of a node's address, as the header of a message allows it.
fn host_name(node: &str) -> String {
    let host = node.rsplit_once(':').map_or(node, |(host, _)| host);
    let host: String = host.chars().filter(char::is_ascii_graphic).take(MAX_HOST_LENGTH).collect();
    if host.is_empty() { "-".to_owned() } else { host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_syslog_servers_have_a_transport_and_a_port() {
        let parsed = |text: &str| text.parse::<SyslogUrl>().map(|url| (url.host, url.port));
        assert_eq!(parsed("tls://logs.example"), Ok(("logs.example".to_owned(), 6514)));
        assert_eq!(parsed("tcp://127.0.0.1:1601/"), Ok(("127.0.0.1".to_owned(), 1601)));
        assert_eq!(parsed("udp://[::1]"), Ok(("::1".to_owned(), 514)));
        for wrong in
            ["logs.example", "http://logs.example", "tcp://", "tcp://a/b", "tls://u:p@a", "tcp://a?b"]
        {
            assert!(parsed(wrong).is_err_and(|error| error.starts_with("expected tls://")), "{wrong}");
        }
    }

    #[test]
    fn a_host_name_has_only_characters_that_a_header_allows() {
        assert_eq!(host_name("node-a.example:7341"), "node-a.example");
        assert_eq!(host_name("a b\nc:1"), "abc");
        assert_eq!(host_name(":1"), "-");
        assert_eq!(host_name(&"x".repeat(400)).len(), MAX_HOST_LENGTH);
    }
}
