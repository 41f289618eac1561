//! Node of a fleet: a process of `hospes up` with a home of its own.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::child::ChildProcess;
use crate::http::{HttpRequest, send};

/// Time limit of a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Interval of probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);

/// Settings of the table `[fleet]`.
#[derive(Debug)]
pub(crate) struct NodeFleetSettings {
    pub(crate) secret: String,
    pub(crate) postgres: String,
    pub(crate) redis: String,
    pub(crate) node_listen: String,
    pub(crate) node_address: String,
}

/// Settings of a node.
#[derive(Debug)]
pub(crate) struct NodeSettings {
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    /// File with the servers, which all nodes have.
    pub(crate) servers: PathBuf,
    pub(crate) fleet: Option<NodeFleetSettings>,
}

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
        let process = settings.spawn()?;
        Ok(Self { settings, process, failed_starts: Vec::new() })
    }

    /// Port of its endpoint, which a restart keeps.
    pub(crate) fn port(&self) -> u16 {
        self.settings.port
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

    /// Kills the node (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.process.kill();
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
        text
    }

    fn spawn(&self) -> Result<ChildProcess> {
        let config = self.folder.join("hospes.toml").to_string_lossy().into_owned();
        let servers = self.servers.to_string_lossy().into_owned();
        let listen = format!("127.0.0.1:{}", self.port);
        let arguments = [
            "up",
            "--config",
            &config,
            "--config",
            &servers,
            "--listen",
            &listen,
            "--console",
            "off",
            "--plain",
            "--pins",
            "off",
            "--preset",
            "off",
            "--start-wait",
            "60",
            "--drain-notice",
            "1",
            "--shutdown-timeout",
            "30",
        ];
        let folder = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        let variables = [
            ("HOME", folder("home")),
            ("XDG_CONFIG_HOME", folder("config")),
            ("XDG_STATE_HOME", folder("state")),
            ("XDG_RUNTIME_DIR", folder("run")),
            ("HOSPES_LOG", std::env::var("HOSPES_LOG").unwrap_or_else(|_| "info".to_owned())),
        ];
        let log = self.folder.join("log");
        ChildProcess::start(&self.program, &arguments.map(str::to_owned), &variables, &log)
    }
}
