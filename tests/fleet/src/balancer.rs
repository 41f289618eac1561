//! HAProxy in front of the nodes: round robin without stickiness.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::child::ChildProcess;
use crate::cluster::free_port;

/// Path of Debian's program, which is not in the `PATH` of every user.
const PROGRAM: &str = "/usr/sbin/haproxy";

/// Time for the start.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Load balancer of a fleet.
#[derive(Debug)]
pub(crate) struct LoadBalancer {
    port: u16,
    process: ChildProcess,
}

impl LoadBalancer {
    /// Starts it for nodes on these ports, and so many connections of clients.
    pub(crate) async fn start(folder: &Path, nodes: &[u16], connections: usize) -> Result<Self> {
        ensure!(
            Path::new(PROGRAM).is_file(),
            "HAProxy is not installed: apt-get install --no-install-recommends haproxy"
        );
        let port = free_port()?;
        let config = folder.join("haproxy.cfg");
        fs::write(&config, configuration(port, nodes, connections)).context("writing haproxy.cfg")?;
        let arguments = ["-db".to_owned(), "-f".to_owned(), config.to_string_lossy().into_owned()];
        let mut process =
            ChildProcess::start(&PathBuf::from(PROGRAM), &arguments, &[], &folder.join("haproxy.log"))?;
        process.wait_until_it_listens(port, START_LIMIT).await?;
        Ok(Self { port, process })
    }

    /// Port that clients use.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Id of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Settings. A request is sent again only if no connection was made, because any other repeat would be an effect twice.
/// A connection that its client has closed is closed to the node too, since that cancels a request of 2026-07-28.
fn configuration(port: u16, nodes: &[u16], connections: usize) -> String {
    let mut text = format!(
        "global\n    maxconn {connections}\n    log stdout format raw local0 warning\n\
         defaults\n    mode http\n    log global\n    timeout connect 1s\n    timeout check 2s\n    timeout client 60s\n    \
         timeout server 60s\n    option abortonclose\n    option redispatch 1\n    retries 3\n    \
         retry-on conn-failure\n\
         frontend clients\n    bind 127.0.0.1:{port}\n    default_backend nodes\n\
         backend nodes\n    balance roundrobin\n    option httpchk GET /readyz\n    \
         http-check expect status 200\n    default-server check inter 200ms fall 2 rise 1\n"
    );
    for (index, node) in nodes.iter().enumerate() {
        text.push_str(&format!("    server node{} 127.0.0.1:{node}\n", index + 1));
    }
    text
}
