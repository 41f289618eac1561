//! `redis-server` for tests, in a folder of its own and on a free loopback port.

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use redis::{Client, ClientTlsConfig, Cmd, Connection, FromRedisValue, TlsCertificates};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::CONDITION_LIMIT;
use crate::certificates::TestCertificates;

/// Number of ports that are tried: another process may take a free one before the server does.
const PORT_ATTEMPTS: usize = 5;

/// Time for an answer to an administrator's command.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of a server.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RedisOptions {
    /// Keeps the data when the server is killed.
    pub append_only: bool,
    /// Password of the default user.
    pub password: Option<String>,
    /// Certificates for TLS, which clients then need as well.
    pub certificates: Option<TestCertificates>,
    /// Port of the primary that this server follows.
    pub replica_of: Option<u16>,
    /// More options, as pairs of a name and a value.
    pub settings: Vec<(String, String)>,
}

impl RedisOptions {
    /// Adds an option of the server, for example `maxmemory`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Server that is ended when it is dropped.
///
/// It also ends with the thread that starts it, so start it on the thread of a test.
#[derive(Debug)]
pub struct RedisServer {
    options: RedisOptions,
    folder: TempDir,
    port: u16,
    child: Child,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If the package is not installed, or the server does not start.
    #[must_use]
    pub fn start(options: RedisOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder is created");
        let port = free_port();
        let child = spawn(&options, &folder, port);
        let mut server = Self { options, folder, port, child };
        for _ in 0..PORT_ATTEMPTS {
            if server.wait_until_ready() {
                return server;
            }
            server.port = free_port();
            server.child = spawn(&server.options, &server.folder, server.port);
        }
        panic!("redis-server does not start: {}", log(&server.folder));
    }

    /// Id of the server's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Port of the server, which a restart keeps.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Folder of the server's files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// URL with the password, if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.options.certificates.is_some() { "rediss" } else { "redis" };
        let login =
            self.options.password.as_ref().map_or_else(String::new, |password| format!(":{password}@"));
        format!("{scheme}://{login}127.0.0.1:{}", self.port)
    }

    /// Certificates of the server.
    #[must_use]
    pub fn certificates(&self) -> Option<&TestCertificates> {
        self.options.certificates.as_ref()
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&mut self) {
        // An ended process is not an error: the test wants it to be gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts the server again on its port and waits until it answers. Without `append_only` it is empty.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        let start = Instant::now();
        loop {
            self.child = spawn(&self.options, &self.folder, self.port);
            if self.wait_until_ready() {
                return;
            }
            assert!(
                start.elapsed() < CONDITION_LIMIT,
                "redis-server does not restart: {}",
                log(&self.folder)
            );
        }
    }

    /// Starts the server again, with this delay for each command that it loads, and does not wait for its end.
    ///
    /// # Panics
    /// If it has no data that it keeps.
    pub fn restart_loading(&mut self, delay: Duration) {
        assert!(self.options.append_only, "the server has nothing to load");
        self.kill();
        self.options.settings.push(("key-load-delay".to_owned(), delay.as_micros().to_string()));
        self.child = spawn(&self.options, &self.folder, self.port);
        self.options.settings.pop();
    }

    /// Stops the process (SIGSTOP) until [`RedisServer::resume`].
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues the process (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server runs");
    }

    /// Makes a replica a primary.
    pub fn promote(&self) {
        let _: String = self.command(&["REPLICAOF", "NO", "ONE"]);
    }

    /// Runs an administrator's command.
    ///
    /// # Panics
    /// If it fails.
    pub fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = Cmd::new();
        for word in words {
            command.arg(*word);
        }
        let mut connection = self.connection().expect("the server accepts a connection");
        command.query(&mut connection).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    fn connection(&self) -> redis::RedisResult<Connection> {
        let client = match &self.options.certificates {
            None => Client::open(self.url())?,
            Some(certificates) => Client::build_with_tls(
                self.url(),
                TlsCertificates {
                    client_tls: Some(ClientTlsConfig {
                        client_cert: certificates.client_pem.clone().into_bytes(),
                        client_key: certificates.client_key_pem.clone().into_bytes(),
                    }),
                    root_cert: Some(certificates.ca_pem.clone().into_bytes()),
                },
            )?,
        };
        let connection = client.get_connection_with_timeout(ADMIN_TIMEOUT)?;
        connection.set_read_timeout(Some(ADMIN_TIMEOUT))?;
        Ok(connection)
    }

    /// Waits until the server answers; false if it has ended.
    fn wait_until_ready(&mut self) -> bool {
        let start = Instant::now();
        loop {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            let pong = self
                .connection()
                .and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection));
            if pong.is_ok() {
                return true;
            }
            assert!(start.elapsed() < CONDITION_LIMIT, "redis-server does not answer: {}", log(&self.folder));
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(options: &RedisOptions, folder: &TempDir, port: u16) -> Child {
    let path = folder.path();
    let port = port.to_string();
    // The kernel ends the server if the test is killed.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "redis-server", "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--maxmemory-policy", "noeviction", "--enable-debug-command", "local"]);
    // Else a replica waits for others before it is sent the data.
    command.args(["--repl-diskless-sync-delay", "0"]);
    command.args(["--appendonly", if options.append_only { "yes" } else { "no" }, "--appendfsync", "always"]);
    command.arg("--dir").arg(path).arg("--logfile").arg(path.join("log"));
    match &options.certificates {
        None => {
            command.args(["--port", &port]);
        }
        Some(certificates) => {
            let files = certificates.write(path);
            command.args(["--port", "0", "--tls-port", &port]);
            command.arg("--tls-ca-cert-file").arg(files.ca).arg("--tls-cert-file").arg(files.certificate);
            command.arg("--tls-key-file").arg(files.key);
        }
    }
    if let Some(password) = &options.password {
        command.args(["--requirepass", password]);
    }
    if let Some(primary) = options.replica_of {
        command.args(["--replicaof", &format!("127.0.0.1 {primary}")]);
    }
    for (name, value) in &options.settings {
        command.args([&format!("--{name}"), value]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    require("redis-server", "redis-server");
    require("setpriv", "util-linux");
    command.spawn().expect("the server is started")
}

/// Fails if a command is not installed.
fn require(command: &str, package: &str) {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&folders).any(|folder| folder.join(command).is_file());
    assert!(is_there, "{command} is not installed: apt-get install --no-install-recommends {package}");
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

fn log(folder: &TempDir) -> String {
    fs::read_to_string(folder.path().join("log")).unwrap_or_default()
}
