//! Node of a fleet: a process of `hospes up` with a home of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;

use crate::child::ChildProcess;
use crate::http::{HttpRequest, send};

/// Time limit of a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Interval of probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);

/// Settings of the table `[fleet]`.
#[derive(Clone, Debug)]
pub(crate) struct NodeFleetSettings {
    pub(crate) secret: String,
    pub(crate) postgres: String,
    pub(crate) redis: String,
    pub(crate) node_listen: String,
    pub(crate) node_address: String,
}

/// Settings of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeSettings {
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    /// File with the servers, which all nodes have.
    pub(crate) servers: PathBuf,
    pub(crate) policy: Option<&'static str>,
    pub(crate) fleet: Option<NodeFleetSettings>,
    pub(crate) variant: NodeVariant,
}

/// Differences from the usual node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeVariant {
    /// Time for which a call waits for a person, who is asked about each and decides with [`crate::decider`]. `None`:
    /// nobody is asked.
    pub(crate) asks_for: Option<Duration>,
    /// Port of the public URL of its authorization server, if its endpoint needs tokens.
    pub(crate) auth_port: Option<u16>,
    /// True if its clock is [`CLOCK_OFFSET`] ahead.
    pub(crate) is_ahead: bool,
}

/// Time by which the clock of a node is ahead, with [`NodeVariant::is_ahead`].
pub(crate) const CLOCK_OFFSET: Duration = Duration::from_secs(300);

/// Password of the user `ann` at the authorization server of a node.
pub(crate) const PASSWORD: &str = "a password of this test alone";

/// Client with a secret at the authorization server of a node.
pub(crate) const MACHINE: &str = "machine";
pub(crate) const MACHINE_SECRET: &str = "a-secret-of-this-test-alone";

/// Another resource that tokens are issued for, so that they are signed.
const OTHER_RESOURCE: &str = "https://other.example/mcp";

/// Library of Debian's package `faketime`, in the folder of the machine's architecture below `/usr/lib`.
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";

/// Node that can be killed and started again.
#[derive(Debug)]
pub(crate) struct FleetNode {
    settings: NodeSettings,
    process: ChildProcess,
    /// Starts that ended at once.
    pub(crate) failed_starts: Vec<String>,
}

impl FleetNode {
    /// Starts a node.
    pub(crate) fn start(settings: NodeSettings) -> Result<Self> {
        for folder in ["home", "config", "state", "run"] {
            fs::create_dir_all(settings.folder.join(folder))?;
        }
        let config = settings.folder.join("hospes.toml");
        fs::write(&config, settings.configuration())
            .with_context(|| format!("writing {}", config.display()))?;
        if settings.variant.asks_for.is_some() {
            let rules = settings.folder.join("rules.toml");
            fs::write(&rules, "[[rule]]\ndecide = 'ask'\n")
                .with_context(|| format!("writing {}", rules.display()))?;
        }
        if let Some(policy) = settings.policy {
            let file = settings.folder.join("policy.toml");
            fs::write(&file, policy).with_context(|| format!("writing {}", file.display()))?;
        }
        let process = settings.spawn()?;
        Ok(Self { settings, process, failed_starts: Vec::new() })
    }

    /// Port of its endpoint, which a restart keeps.
    pub(crate) fn port(&self) -> u16 {
        self.settings.port
    }

    /// Id of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits until the node serves.
    async fn wait_until_ready(&mut self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while self.probe("/readyz").await != Some(200) {
            self.process.check_alive()?;
            if start.elapsed() > limit {
                bail!("not ready after {} s:\n{}", limit.as_secs(), self.process.tail());
            }
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
        Ok(())
    }

    /// Waits until the node serves sessions, and returns how long that took.
    pub(crate) async fn wait_until_it_serves_sessions(&mut self, limit: Duration) -> Result<Duration> {
        let start = Instant::now();
        while self.probe("/readyz/sessions").await != Some(200) {
            self.process.check_alive()?;
            if start.elapsed() > limit {
                bail!("/readyz/sessions is not 200 after {} s", limit.as_secs());
            }
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
        Ok(start.elapsed())
    }

    /// Returns what the clock of the node says.
    pub(crate) async fn clock(&self) -> Result<Timestamp> {
        let response = send(HttpRequest::get(self.settings.port, "/readyz")).await?;
        let date = response.date.context("a response without the header Date")?;
        let read = jiff::fmt::rfc2822::parse(&date).with_context(|| format!("not a date: {date}"))?;
        Ok(read.timestamp())
    }

    /// Returns the status of a page; `None` without an answer.
    pub(crate) async fn probe(&self, path: &str) -> Option<u16> {
        let request = HttpRequest::get(self.settings.port, path);
        let response = tokio::time::timeout(PROBE_LIMIT, send(request)).await;
        response.ok()?.ok().map(|response| response.status)
    }

    /// Starts a killed node again, in its folder and on its port.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.process = self.settings.spawn()?;
        Ok(())
    }

    /// Waits until the node serves. A node that ends because an engine is busy is started once more, as a supervisor
    /// would.
    pub(crate) async fn wait_and_restart(&mut self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            match self.wait_until_ready(limit.saturating_sub(start.elapsed())).await {
                Err(error) if start.elapsed() < limit && self.process.check_alive().is_err() => {
                    self.failed_starts.push(format!("{error:#}"));
                    self.restart()?;
                }
                done => return done,
            }
        }
    }

    /// Tells the node to end (SIGTERM), and waits until it has. Returns how, and after which time.
    pub(crate) async fn end(&mut self, limit: Duration) -> Result<(ExitStatus, Duration)> {
        self.process.terminate()?;
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.ended()? {
                return Ok((status, start.elapsed()));
            }
            if start.elapsed() > limit {
                bail!("still runs {} s after SIGTERM:\n{}", limit.as_secs(), self.process.tail());
            }
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
    }

    /// Makes the next start one of this program.
    pub(crate) fn set_program(&mut self, program: &Path) {
        program.clone_into(&mut self.settings.program);
    }

    /// Kills the node (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops the node (SIGSTOP), without the servers that it has started, until [`FleetNode::resume`].
    pub(crate) fn pause(&self) -> Result<()> {
        self.process.pause()
    }

    /// Continues the node (SIGCONT).
    pub(crate) fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// Program and settings of its start.
    pub(crate) fn settings(&self) -> &NodeSettings {
        &self.settings
    }

    /// Returns an error with the end of its log if it has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        self.process.check_alive()
    }
}

impl NodeSettings {
    fn configuration(&self) -> String {
        // Who calls is the balancer. Looking for its process at each connection would take more time than the calls.
        let mut text = "[endpoint]\ncallers = \"any\"\n".to_owned();
        if let Some(fleet) = &self.fleet {
            text.push_str("[fleet]\n");
            for (name, value) in [
                ("secret", &fleet.secret),
                ("postgres", &fleet.postgres),
                ("redis", &fleet.redis),
                ("node_listen", &fleet.node_listen),
                ("node_address", &fleet.node_address),
            ] {
                // The strings of JSON are strings of TOML.
                let value = serde_json::Value::from(value.as_str());
                text.push_str(&format!("{name} = {value}\n"));
            }
        }
        if let Some(port) = self.variant.auth_port {
            text.push_str(&format!(
                "[auth]\nbase_url = \"http://127.0.0.1:{port}\"\ntrusted_proxies = [\"127.0.0.1\"]\n\
                 dpop = \"allowed\"\ndpop_nonces = true\nresources = [\"{OTHER_RESOURCE}\"]\n\
                 [auth.users]\nann = \"{PASSWORD}\"\n\
                 [auth.clients.{MACHINE}]\nsecret = \"{MACHINE_SECRET}\"\n"
            ));
        }
        text
    }

    fn spawn(&self) -> Result<ChildProcess> {
        let config = self.folder.join("hospes.toml").to_string_lossy().into_owned();
        let servers = self.servers.to_string_lossy().into_owned();
        let listen = format!("127.0.0.1:{}", self.port);
        let policy = self.folder.join("policy.toml").to_string_lossy().into_owned();
        let rules = self.folder.join("rules.toml").to_string_lossy().into_owned();
        let mut arguments = vec!["up", "--config", &config, "--config", &servers, "--listen", &listen];
        let wait = self.variant.asks_for.map(|wait| wait.as_secs().to_string());
        if let Some(wait) = &wait {
            arguments.extend(["--console", "127.0.0.1:0", "--policy", &rules, "--approval-timeout", wait]);
        } else {
            arguments.extend(["--console", "off"]);
        }
        if self.policy.is_some() {
            arguments.extend(["--policy", &policy]);
        }
        arguments.extend(["--plain", "--pins", "off", "--preset", "off", "--start-wait", "60"]);
        arguments.extend(["--drain-notice", "1", "--shutdown-timeout", "30"]);
        let mut variables = self.variables();
        variables.push(("HOSPES_LOG", std::env::var("HOSPES_LOG").unwrap_or_else(|_| "info".to_owned())));
        if self.variant.is_ahead {
            variables.push(("LD_PRELOAD", faketime()?.to_string_lossy().into_owned()));
            variables.push(("FAKETIME", format!("+{}s", CLOCK_OFFSET.as_secs())));
            // Without it, timers would look at a clock that the kernel does not have.
            variables.push(("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()));
        }
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let log = self.folder.join("log");
        ChildProcess::start(&self.program, &arguments, &variables, &log)
    }

    /// Variables with the folders of the node, which its other commands need as well.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let folder = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        vec![
            ("HOME", folder("home")),
            ("XDG_CONFIG_HOME", folder("config")),
            ("XDG_STATE_HOME", folder("state")),
            ("XDG_RUNTIME_DIR", folder("run")),
        ]
    }
}

/// Finds the library that moves the clock of a program.
fn faketime() -> Result<PathBuf> {
    let folders = fs::read_dir("/usr/lib")?.flatten();
    let found = folders.map(|folder| folder.path().join(FAKETIME)).find(|library| library.is_file());
    found.context("faketime is not installed: apt-get install --no-install-recommends faketime")
}
