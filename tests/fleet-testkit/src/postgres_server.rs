//! PostgreSQL for tests, in a folder of its own and on a free loopback port.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::CONDITION_LIMIT;
use crate::certificates::TestCertificates;

/// Folder of Debian's versions of the programs, which are not in `PATH`.
const VERSIONS: &str = "/usr/lib/postgresql";

/// User of Debian's package. The programs refuse to run as root.
pub(crate) const USER: &str = "postgres";

/// Password of the administrator of each server.
pub(crate) const PASSWORD: &str = "secret-of-the-test";

/// Options of a server.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// Certificates for TLS, which clients then need as well.
    pub certificates: Option<TestCertificates>,
    /// More settings, as pairs of a name and a value.
    pub settings: Vec<(String, String)>,
}

impl PostgresOptions {
    /// Adds a setting of the server, for example `synchronous_commit`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Server that is ended when it is dropped, or with the thread that started it.
#[derive(Debug)]
pub struct PostgresServer {
    options: PostgresOptions,
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    child: Child,
}

impl PostgresServer {
    /// Creates a server with the database `postgres`, and waits until it answers.
    ///
    /// # Panics
    /// If the package is not installed, or the server does not start.
    #[must_use]
    pub fn start(options: PostgresOptions) -> Self {
        let programs = programs();
        let folder = tempfile::tempdir().expect("a folder is created");
        if geteuid().is_root() {
            run(Command::new("chown").arg(USER).arg(folder.path()));
        }
        let password = folder.path().join("password");
        fs::write(&password, PASSWORD).expect("the password is written");
        let mut create = as_user(&programs.join("initdb"));
        create.arg("--pgdata").arg(folder.path().join("data")).arg("--pwfile").arg(&password);
        create.args(["--username", USER, "--auth", "scram-sha-256", "--encoding", "UTF8", "--no-sync"]);
        // Another order than that of bytes, as the servers of users have.
        create.args(["--locale-provider", "icu", "--icu-locale", "en"]);
        run(&mut create);
        let port = free_port();
        let child = spawn(&options, &programs, folder.path(), port);
        let mut server = Self { options, folder, programs, port, child };
        server.wait_until_ready();
        server
    }

    /// Creates a replica that follows this server through a port of this machine, and waits until it answers.
    ///
    /// Commits wait for it from `synchronous_standby_names` on, which the replica does not get.
    ///
    /// # Panics
    /// If the copy fails, or the replica does not start.
    #[must_use]
    pub fn start_replica(&self, port: u16) -> Self {
        let folder = tempfile::tempdir().expect("a folder is created");
        if geteuid().is_root() {
            run(Command::new("chown").arg(USER).arg(folder.path()));
        }
        let mut copy = as_user(&self.programs.join("pg_basebackup"));
        copy.arg("--pgdata").arg(folder.path().join("data")).args(["--write-recovery-conf", "--no-sync"]);
        copy.args(["--checkpoint", "fast", "--wal-method", "stream", "--host", "127.0.0.1"]);
        copy.args(["--port", &port.to_string(), "--username", USER]).env("PGPASSWORD", PASSWORD);
        run(&mut copy);
        assert!(self.options.certificates.is_none(), "a replica with TLS is not provided for");
        let options = PostgresOptions { certificates: None, settings: self.options.settings.clone() };
        let port = free_port();
        let child = spawn(&options, &self.programs, folder.path(), port);
        let mut server = Self { options, folder, programs: self.programs.clone(), port, child };
        server.wait_until_ready();
        server
    }

    /// Makes a replica accept changes, and waits until it does.
    ///
    /// # Panics
    /// If it is no replica, or does not become a primary.
    pub fn promote(&self) {
        let mut promote = as_user(&self.programs.join("pg_ctl"));
        run(promote.arg("promote").arg("--pgdata").arg(self.folder.path().join("data")));
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

    /// URL of the database with the administrator's password.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// URL of the database behind another port of this machine.
    #[must_use]
    pub fn url_at(&self, port: u16) -> String {
        let tls = if self.options.certificates.is_some() { "" } else { "?sslmode=disable" };
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres{tls}")
    }

    /// Password in the URL.
    #[must_use]
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    /// Certificates of the server.
    #[must_use]
    pub fn certificates(&self) -> Option<&TestCertificates> {
        self.options.certificates.as_ref()
    }

    /// Runs a statement as administrator and returns its output.
    ///
    /// # Panics
    /// If it fails.
    #[must_use]
    pub fn query(&self, sql: &str) -> String {
        run(&mut query_command(&self.programs, self.port, sql)).trim().to_owned()
    }

    /// Kills the server (SIGKILL) with all its connections.
    pub fn kill(&mut self) {
        // An ended process is not an error: the test wants it to be gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts the server again on its port after its recovery.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.options, &self.programs, self.folder.path(), self.port);
        self.wait_until_ready();
    }

    /// Stops the process that accepts connections (SIGSTOP) until [`PostgresServer::resume`]. Open connections go on.
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

    fn wait_until_ready(&mut self) {
        let start = Instant::now();
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.args(["--quiet", "--host", "127.0.0.1", "--port", &self.port.to_string()]);
        loop {
            // Processes of a killed server can hold its memory for a moment, and the new one then ends at once.
            if !matches!(self.child.try_wait(), Ok(None)) {
                self.child = spawn(&self.options, &self.programs, self.folder.path(), self.port);
            }
            let is_open = TcpStream::connect(("127.0.0.1", self.port)).is_ok();
            if is_open && ready.status().is_ok_and(|status| status.success()) {
                return;
            }
            assert!(
                start.elapsed() < CONDITION_LIMIT,
                "postgres does not start: {}",
                log(self.folder.path())
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(options: &PostgresOptions, programs: &Path, folder: &Path, port: u16) -> Child {
    let mut command = as_user(&programs.join("postgres"));
    command.arg("-D").arg(folder.join("data"));
    let mut set = |name: &str, value: &str| {
        command.arg("-c").arg(format!("{name}={value}"));
    };
    set("port", &port.to_string());
    set("listen_addresses", "127.0.0.1");
    // The paths of such sockets are limited to 107 bytes.
    set("unix_socket_directories", "");
    // A killed server leaves nothing outside of its folder.
    set("dynamic_shared_memory_type", "mmap");
    set("max_connections", "60");
    if let Some(certificates) = &options.certificates {
        let files = certificates.write(folder);
        if geteuid().is_root() {
            run(Command::new("chown").args([USER]).args([&files.ca, &files.certificate, &files.key]));
        }
        run(Command::new("chmod").arg("600").arg(&files.key));
        set("ssl", "on");
        set("ssl_ca_file", &files.ca.to_string_lossy());
        set("ssl_cert_file", &files.certificate.to_string_lossy());
        set("ssl_key_file", &files.key.to_string_lossy());
        let access = "hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n";
        fs::write(folder.join("data/pg_hba.conf"), access).expect("the access list is written");
    }
    for (name, value) in &options.settings {
        set(name, value);
    }
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    command.stderr(log.expect("the log is opened")).spawn().expect("the server is started")
}

/// Returns a command that the kernel ends if the test is killed, and that does not run as root.
pub(crate) fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if geteuid().is_root() {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command.arg(program);
    command
}

/// Returns a command that runs a statement as administrator at a server on this port.
pub(crate) fn query_command(programs: &Path, port: u16, sql: &str) -> Command {
    let mut psql = Command::new(programs.join("psql"));
    psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]);
    psql.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--username", USER]);
    psql.args(["--dbname", "postgres", "--command", sql]).env("PGPASSWORD", PASSWORD);
    psql
}

/// Returns the folder of the newest version's programs.
pub(crate) fn programs() -> PathBuf {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let newest = versions.map(|version| version.path()).max_by_key(|path| number(path));
    let programs = newest.map(|version| version.join("bin")).filter(|bin| bin.join("initdb").is_file());
    programs.expect("PostgreSQL is not installed: apt-get install --no-install-recommends postgresql")
}

/// Runs a command to its end and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let ran = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ran.status.success(), "{command:?}: {}", text(&ran.stderr));
    text(&ran.stdout)
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").port()
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}
