//! Two PostgreSQL servers whose primary Patroni chooses, over one etcd, in a folder of their own and on loopback.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::postgres_server::{PASSWORD, USER, as_user, free_port, programs, query_command, run};

/// Programs of Debian's packages `patroni` and `etcd-server`.
const PATRONI: &str = "/usr/bin/patroni";
const PATRONICTL: &str = "/usr/bin/patronictl";
const ETCD: &str = "/usr/bin/etcd";

/// Name of the cluster.
const SCOPE: &str = "fleet";

/// Time for the first start, with a copy of the database.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Interval of looks at the cluster.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Shell script that kills the servers once the test process has ended, however it did: they are no children of Patroni,
/// which is killed by the kernel. Its input ends then. Arguments: the folders of the data.
const GUARD: &str = r#"read -r _
for folder in "$@"; do
  pid=$(head -n 1 "$folder/postmaster.pid") && grep -qsF "$folder" "/proc/$pid/cmdline" && kill -KILL "$pid"
done"#;

/// Times of Patroni's settings. Later versions than 3.0 refuse a `ttl` below 20 s.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PatroniTimes {
    /// Lifetime of the primary's lock, `ttl`.
    pub lock: Duration,
    /// Interval of the looks of each member, `loop_wait`. Default: 2 s.
    pub interval: Duration,
    /// Time for which requests to etcd and PostgreSQL are repeated, `retry_timeout`. Default: 3 s.
    pub retry: Duration,
}

impl PatroniTimes {
    /// Creates short times. Patroni demands that `lock` is at least 8 s: `interval` and twice `retry`.
    #[must_use]
    pub fn new(lock: Duration) -> Self {
        Self { lock, interval: Duration::from_secs(2), retry: Duration::from_secs(3) }
    }
}

/// Cluster that is ended when it is dropped, or with the thread that started it.
#[derive(Debug)]
pub struct PatroniCluster {
    members: [ClusterMember; 2],
    etcd: Child,
    programs: PathBuf,
    folder: TempDir,
    guard: Child,
    /// End of the guard's input. The guard does its work when it is closed.
    _guard_input: ChildStdin,
}

#[derive(Debug)]
struct ClusterMember {
    name: &'static str,
    port: u16,
    data: PathBuf,
    patroni: Child,
}

impl PatroniCluster {
    /// Starts a cluster with synchronous replication, and waits until the replica confirms what the primary commits.
    ///
    /// A primary that crashes is not restarted: the replica takes its place.
    ///
    /// # Panics
    /// If a package is not installed, or the cluster does not start.
    #[must_use]
    pub fn start(times: PatroniTimes) -> Self {
        let programs = programs();
        let is_installed = [PATRONI, PATRONICTL, ETCD].iter().all(|program| Path::new(program).is_file());
        assert!(
            is_installed,
            "Patroni or etcd is not installed: apt-get install --no-install-recommends patroni etcd-server"
        );
        let folder = tempfile::tempdir().expect("a folder is created");
        if geteuid().is_root() {
            run(Command::new("chown").arg(USER).arg(folder.path()));
        }
        let (etcd, etcd_port) = start_etcd(folder.path());
        let member = |name| start_member(name, &times, etcd_port, folder.path(), &programs);
        let members = [member("one"), member("two")];
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).args(members.iter().map(|member| &member.data));
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut guard = guard.spawn().expect("the guard is started");
        let input = guard.stdin.take().expect("its input is a pipe");
        let cluster = Self { members, etcd, programs, folder, guard, _guard_input: input };
        cluster.wait_until_synchronous();
        cluster
    }

    /// URL of the database with the administrator's password, all members, and the wish for the primary.
    #[must_use]
    pub fn url(&self) -> String {
        let [one, two] = self.members.each_ref().map(|member| member.port);
        format!(
            "postgres://{USER}:{PASSWORD}@127.0.0.1:{one},127.0.0.1:{two}/postgres?sslmode=disable&\
             target_session_attrs=read-write"
        )
    }

    /// Returns the number of the member that accepts changes; `None` if there is none.
    #[must_use]
    pub fn primary(&self) -> Option<usize> {
        (0..self.members.len()).find(|member| {
            let port = self.members[*member].port;
            let answer = query_command(&self.programs, port, "SELECT pg_is_in_recovery()").output();
            answer.is_ok_and(|answer| answer.stdout.starts_with(b"f"))
        })
    }

    /// Runs a statement at the primary and returns its output.
    ///
    /// # Panics
    /// If there is none, or the statement fails.
    #[must_use]
    pub fn query(&self, sql: &str) -> String {
        let member = self.primary().expect("there is a primary");
        run(&mut query_command(&self.programs, self.members[member].port, sql)).trim().to_owned()
    }

    /// Kills Patroni and PostgreSQL of a member (SIGKILL), as the loss of its machine would.
    pub fn kill_member(&mut self, member: usize) {
        self.members[member].kill();
    }

    /// Kills PostgreSQL of a member (SIGKILL), and leaves its Patroni.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill_postgres(&self, member: usize) {
        let pid = self.members[member].postmaster().expect("PostgreSQL runs");
        kill_process(pid, Signal::KILL).expect("it is ended");
    }

    /// Asks Patroni to make the other member the primary, and waits until it says that this is done.
    ///
    /// # Panics
    /// If it refuses.
    pub fn switch_over(&self, primary: usize) {
        let [leader, candidate] = [primary, 1 - primary].map(|member| self.members[member].name);
        let mut command = self.control();
        command.args(["switchover", "--leader", leader, "--candidate", candidate, "--force", SCOPE]);
        let said = run(&mut command);
        assert!(said.contains("Successfully switched over"), "{said}");
    }

    /// Returns the ends of the members' logs, for errors.
    #[must_use]
    pub fn log(&self) -> String {
        let tail = |member: &ClusterMember| {
            let text = fs::read_to_string(log_file(self.folder.path(), member.name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("{}:\n{}\n", member.name, lines[lines.len().saturating_sub(10)..].join("\n"))
        };
        self.members.iter().map(tail).collect()
    }

    fn control(&self) -> Command {
        let mut command = Command::new(PATRONICTL);
        command.arg("-c").arg(self.folder.path().join("one.yml"));
        command
    }

    fn wait_until_synchronous(&self) {
        let start = Instant::now();
        loop {
            // Patroni promotes a replica only if etcd has this note, which follows the setting of PostgreSQL.
            let said = self.control().args(["list", "--format", "json", SCOPE]).output();
            let said = said.expect("patronictl is started");
            if String::from_utf8_lossy(&said.stdout).contains("Sync Standby") {
                return;
            }
            assert!(start.elapsed() < START_LIMIT, "the cluster does not start: {}", self.log());
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for PatroniCluster {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(ClusterMember::kill);
        for child in [&mut self.etcd, &mut self.guard] {
            // Ended processes are no error: they are to be gone.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl ClusterMember {
    /// Returns the first process of its PostgreSQL, if it runs: a server that was killed leaves its file behind.
    fn postmaster(&self) -> Option<Pid> {
        let file = fs::read_to_string(self.data.join("postmaster.pid")).ok()?;
        let pid: i32 = file.lines().next()?.trim().parse().ok()?;
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        Pid::from_raw(pid).filter(|_| command.contains(&*self.data.to_string_lossy()))
    }

    fn kill(&mut self) {
        // Patroni first: it would start PostgreSQL again.
        let _ = self.patroni.kill();
        if let Some(pid) = self.postmaster() {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.patroni.wait();
    }
}

fn start_etcd(folder: &Path) -> (Child, u16) {
    let (port, peer_port) = (free_port(), free_port());
    let [url, peer_url] = [port, peer_port].map(|port| format!("http://127.0.0.1:{port}"));
    let mut command = as_user(Path::new(ETCD));
    command.arg("--data-dir").arg(folder.join("etcd")).args(["--name", "etcd"]);
    command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
    command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
    command.args(["--initial-cluster", &format!("etcd={peer_url}")]);
    (spawn(command, folder, "etcd"), port)
}

fn start_member(
    name: &'static str,
    times: &PatroniTimes,
    etcd_port: u16,
    folder: &Path,
    programs: &Path,
) -> ClusterMember {
    let (port, data) = (free_port(), folder.join(name));
    let file = folder.join(format!("{name}.yml"));
    let text = configuration(name, times, (etcd_port, free_port(), port), folder, programs);
    fs::write(&file, text).expect("the configuration is written");
    let mut command = as_user(Path::new(PATRONI));
    command.arg(&file);
    ClusterMember { name, port, data, patroni: spawn(command, folder, name) }
}

/// Configuration of a member, with the ports of etcd, of its REST API and of PostgreSQL.
fn configuration(
    name: &str,
    times: &PatroniTimes,
    (etcd_port, api_port, port): (u16, u16, u16),
    folder: &Path,
    programs: &Path,
) -> String {
    let [lock, interval, retry] = [times.lock, times.interval, times.retry].map(|time| time.as_secs());
    let (folder, programs) = (folder.display(), programs.display());
    let user = format!("{{username: {USER}, password: {PASSWORD}}}");
    // Without a strict mode the primary goes on alone when it has lost the replica, or has taken the place of the other.
    format!(
        "scope: {SCOPE}
name: {name}
restapi: {{listen: '127.0.0.1:{api_port}', connect_address: '127.0.0.1:{api_port}'}}
etcd3: {{host: '127.0.0.1:{etcd_port}'}}
bootstrap:
  dcs:
    ttl: {lock}
    loop_wait: {interval}
    retry_timeout: {retry}
    synchronous_mode: true
    primary_start_timeout: 0
    postgresql: {{use_pg_rewind: true, parameters: {{fsync: 'on'}}}}
  initdb: [encoding: UTF8, auth: scram-sha-256, locale-provider: icu, icu-locale: en]
  pg_hba:
  - host all all 127.0.0.1/32 scram-sha-256
  - host replication all 127.0.0.1/32 scram-sha-256
postgresql:
  listen: '127.0.0.1:{port}'
  connect_address: '127.0.0.1:{port}'
  data_dir: {folder}/{name}
  bin_dir: {programs}
  pgpass: {folder}/{name}.pgpass
  authentication: {{superuser: {user}, replication: {user}}}
  parameters: {{unix_socket_directories: '', dynamic_shared_memory_type: mmap}}
"
    )
}

fn spawn(mut command: Command, folder: &Path, name: &str) -> Child {
    let log = File::create(log_file(folder, name)).expect("the log is created");
    let output = log.try_clone().expect("its handle is copied");
    command.stdin(Stdio::null()).stdout(output).stderr(log).process_group(0);
    command.spawn().expect("the program is started")
}

fn log_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}
