//! The configuration of HAProxy.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{DeployBench, DeployCheck, Fault, read, run_command};
use crate::paths;

pub(super) const CHECKS: &[DeployCheck] = &[
    DeployCheck {
        name: "haproxy -c",
        examine: accepted,
        faults: &[
            Fault("compose/haproxy.cfg", "balance roundrobin", "balance roundrobbin"),
            Fault("compose/haproxy.cfg", "default_backend nodes", "default_backend node"),
        ],
    },
    DeployCheck {
        name: "haproxy: balancing, checks, repetitions and times",
        examine,
        faults: &[
            Fault(
                "compose/haproxy.cfg",
                "    balance roundrobin",
                "    balance roundrobin\n    cookie node insert",
            ),
            Fault("compose/haproxy.cfg", "retry-on conn-failure", "retry-on all-retryable-errors"),
            Fault("compose/haproxy.cfg", "timeout server 60s", "timeout server 10s"),
            Fault("compose/haproxy.cfg", "GET /readyz", "GET /healthz"),
        ],
    },
];

/// HAProxy accepts the file without a warning, with a certificate and with addresses for the names of containers.
fn accepted(bench: &DeployBench, folder: &Path) -> Result<String> {
    let (certificate, key) = (bench.folder.join("proxy.crt"), bench.folder.join("proxy.key"));
    if !certificate.exists() {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]);
        openssl.args(["-subj", "/CN=mcp.example.org", "-keyout"]).arg(&key).arg("-out").arg(&certificate);
        run_command(openssl, "openssl")?;
    }
    let pem = std::fs::read_to_string(&certificate)? + &std::fs::read_to_string(&key)?;
    let pem = bench.write("proxy.pem", &pem)?;
    let file = read(folder, "compose/haproxy.cfg")?
        .replace("/run/secrets/tls_pem", &pem.to_string_lossy())
        .replace("parse-resolv-conf", "nameserver engine 127.0.0.1:53")
        .replace(" node-a:", " 127.0.0.1:")
        .replace(" node-b:", " 127.0.0.2:");
    let mut haproxy = Command::new("haproxy");
    // Warnings fail.
    haproxy.args(["-c", "-dW", "-f"]).arg(bench.write("haproxy.cfg", &file)?);
    run_command(haproxy, "haproxy -c").map(|_| String::new())
}

fn examine(_: &DeployBench, folder: &Path) -> Result<String> {
    let file = read(folder, "compose/haproxy.cfg")?;
    let lines: Vec<&str> =
        file.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let has = |line: &str| lines.contains(&line);
    for line in [
        "balance roundrobin",
        "option httpchk GET /readyz",
        "option abortonclose",
        "http-check expect status 200",
    ] {
        ensure!(has(line), "no `{line}`");
    }
    for word in ["cookie ", "stick", "option http-buffer", "compression ", "on-marked-down"] {
        ensure!(!lines.iter().any(|line| line.starts_with(word)), "`{word}` is there");
    }
    let repeated: Vec<_> = lines.iter().filter(|line| line.starts_with("retry-on")).collect();
    ensure!(repeated == [&"retry-on conn-failure"], "requests are repeated: {repeated:?}");
    let silence = keep_alive_seconds()?;
    for side in ["client", "server"] {
        let time = lines.iter().find_map(|line| line.strip_prefix(&format!("timeout {side} ")));
        let time = time.and_then(|time| time.strip_suffix('s')?.parse::<u64>().ok());
        let time = time.with_context(|| format!("no `timeout {side}` in seconds"))?;
        // A comment that is late is no reason to close a stream.
        ensure!(time >= 2 * silence, "timeout {side} {time} s, and streams are silent for {silence} s");
    }
    Ok(format!("streams are silent for {silence} s"))
}

/// Returns the interval of comments on silent streams.
fn keep_alive_seconds() -> Result<u64> {
    let settings = "crates/hospes/src/transport/http_server/settings.rs";
    let text = std::fs::read_to_string(paths::root().join(settings))?;
    let (_, value) = text
        .split_once("const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(")
        .with_context(|| format!("{settings} has no DEFAULT_KEEP_ALIVE"))?;
    Ok(value.split(')').next().unwrap_or_default().parse()?)
}
