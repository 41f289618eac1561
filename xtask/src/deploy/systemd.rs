//! The unit of systemd.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{DeployBench, DeployCheck, Fault, node_command, read, run_command};
use crate::paths;

const UNIT: &str = "systemd/hospes-node.service";
/// Highest exposure that `systemd-analyze security` may find, in tenths. Up to 2.0 is its best grade for services.
const MAX_EXPOSURE: &str = "14";

pub(super) const CHECKS: &[DeployCheck] = &[
    DeployCheck {
        name: "systemd-analyze verify",
        examine: verified,
        faults: &[
            Fault(UNIT, "Type=notify", "Type=notifying"),
            Fault(UNIT, "KillMode=mixed", "KilMode=mixed"),
            Fault(UNIT, "SystemCallFilter=@system-service", "SystemCallFilter=@system-services"),
        ],
    },
    DeployCheck {
        name: "systemd-analyze security: exposure of at most 1.4",
        examine: |_, folder| {
            let mut analyze = Command::new("systemd-analyze");
            analyze.args(["security", "--offline=true", "--no-pager", "--threshold", MAX_EXPOSURE]);
            analyze.arg(folder.join(UNIT));
            let done = run_command(analyze, "systemd-analyze security")?;
            let said = done.stdout.lines().find(|line| line.contains("Overall exposure"));
            Ok(said
                .and_then(|line| line.rsplit_once(": "))
                .map(|(_, grade)| grade.to_owned())
                .unwrap_or_default())
        },
        faults: &[Fault(UNIT, "RestrictNamespaces=yes\n", ""), Fault(UNIT, "PrivateUsers=yes\n", "")],
    },
    DeployCheck {
        name: "systemd: times, credentials and sandboxes",
        examine,
        faults: &[
            Fault(UNIT, "TimeoutStopSec=60", "TimeoutStopSec=45"),
            Fault(UNIT, "KillMode=mixed\n", ""),
            Fault(UNIT, "LoadCredential=ann_password", "LoadCredential=ann_pass"),
            Fault("systemd/hospes.toml", "hospes-node.service/redis_url", "hospes.service/redis_url"),
        ],
    },
];

/// systemd finds nothing to say about the unit, once the program is where it says.
fn verified(bench: &DeployBench, folder: &Path) -> Result<String> {
    let program = paths::program("hospes")?;
    let unit = read(folder, UNIT)?.replace("/usr/bin/hospes", &program.to_string_lossy());
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).arg(bench.write("hospes-node.service", &unit)?);
    let done = run_command(verify, "systemd-analyze verify")?;
    ensure!(done.stderr.is_empty(), "{}", done.stderr);
    Ok(String::new())
}

fn examine(_: &DeployBench, folder: &Path) -> Result<String> {
    let unit = read(folder, UNIT)?;
    let values = |key: &str| -> Vec<String> {
        let key = format!("{key}=");
        unit.lines().filter_map(|line| line.strip_prefix(&key).map(str::to_owned)).collect()
    };
    let stop = values("TimeoutStopSec").pop().and_then(|time| time.parse().ok());
    node_command::check_grace(
        &node_command::of_unit(folder)?,
        stop.context("no TimeoutStopSec in seconds")?,
    )?;
    // Else servers are ended while their calls go on.
    ensure!(values("KillMode") == ["mixed"], "systemd ends the servers together with the host");
    let given =
        values("LoadCredential").into_iter().map(|one| one.split(':').next().unwrap_or_default().to_owned());
    let given: BTreeSet<String> = given.collect();
    let needed = node_command::secret_files(
        &read(folder, "systemd/hospes.toml")?,
        "/run/credentials/hospes-node.service/",
    )?;
    ensure!(given == needed, "the unit loads {given:?}, and the configuration names {needed:?}");
    Ok(String::new())
}
