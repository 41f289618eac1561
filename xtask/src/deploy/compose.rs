//! The compose file and the container file.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value};

use super::{DeployBench, DeployCheck, Fault, node_command, read, run_command};

pub(super) const CHECKS: &[DeployCheck] = &[
    DeployCheck {
        name: "compose: schema of the specification",
        examine: |bench, folder| {
            let mut check = bench.python.module("check_jsonschema");
            check.args(["--builtin-schema", "vendor.compose-spec"]).arg(folder.join("compose/compose.yaml"));
            run_command(check, "check-jsonschema").map(|_| String::new())
        },
        faults: &[Fault(
            "compose/compose.yaml",
            "    depends_on: [node-a, node-b]",
            "    depends-on: [node-a, node-b]",
        )],
    },
    DeployCheck {
        name: "compose: nodes, secrets and files",
        examine,
        faults: &[
            Fault("compose/compose.yaml", "stop_grace_period: 60s", "stop_grace_period: 40s"),
            Fault("compose/compose.yaml", "cap_drop: [ALL]", "cap_drop: [NET_RAW]"),
            Fault(
                "compose/compose.yaml",
                "POSTGRES_PASSWORD_FILE: /run/secrets/postgres_password",
                "POSTGRES_PASSWORD: hospes",
            ),
            Fault("compose/compose.yaml", "  ann_password: { file: ./secrets/ann_password }\n", ""),
            Fault("compose/compose.yaml", "\"node-b:7400\"", "\"node-a:7400\""),
            Fault("compose/hospes.toml", "172.30.7.0/24", "172.30.8.0/24"),
            Fault("compose/hospes.toml", "\"${file:/run/secrets/fleet_secret}\"", "\"0123456789abcdef\""),
        ],
    },
    DeployCheck {
        name: "container file: hadolint",
        examine: |bench, folder| {
            let mut hadolint = bench.python.program("hadolint");
            hadolint.arg(folder.join("container/Containerfile"));
            run_command(hadolint, "hadolint").map(|_| String::new())
        },
        faults: &[Fault("container/Containerfile", "EXPOSE 7337", "EXPOSE 73370")],
    },
];

fn examine(bench: &DeployBench, folder: &Path) -> Result<String> {
    let file = bench.yaml(&[folder.join("compose/compose.yaml")])?.pop().context("the file is empty")?;
    let table = |name: &str| file[name].as_object().with_context(|| format!("no {name}"));
    let (services, secrets) = (table("services")?, table("secrets")?);
    let words = node_command::of_container(folder)?;
    let configuration = read(folder, "compose/hospes.toml")?;
    let needed = node_command::secret_files(&configuration, "/run/secrets/")?;
    let mut addresses = BTreeSet::new();
    for (name, node) in services.iter().filter(|(name, _)| name.starts_with("node-")) {
        check_node(node, &words, &needed).with_context(|| name.clone())?;
        let address = node["environment"]["HOSPES_NODE_ADDRESS"].as_str().unwrap_or_default();
        ensure!(address == format!("{name}:7400"), "other nodes cannot reach {name} at `{address}`");
        addresses.insert(address.to_owned());
    }
    ensure!(addresses.len() == 2, "there are {} nodes", addresses.len());
    let subnet = file["networks"]["edge"]["ipam"]["config"][0]["subnet"].as_str().context("no subnet")?;
    ensure!(
        configuration.contains(&format!("trusted_proxies = [\"{subnet}\"]")),
        "HAProxy, in {subnet}, is not trusted"
    );
    ensure!(file["networks"]["inner"]["internal"] == true, "the engines have a way out");
    for (name, service) in services {
        check_references(service, secrets, table("configs")?, folder).with_context(|| name.clone())?;
    }
    for (name, secret) in secrets {
        // What make-secrets.sh writes, which is never committed.
        ensure!(secret["file"] == format!("./secrets/{name}").as_str(), "secret {name} is in {secret}");
    }
    Ok(format!("{} services", services.len()))
}

fn check_node(node: &Value, words: &[String], needed: &BTreeSet<String>) -> Result<()> {
    ensure!(node["read_only"] == true, "the file system is writable");
    ensure!(node["cap_drop"][0] == "ALL", "capabilities are left");
    ensure!(node["security_opt"][0] == "no-new-privileges:true", "privileges can be gained");
    let grace = node["stop_grace_period"].as_str().and_then(|text| text.strip_suffix('s')?.parse().ok());
    node_command::check_grace(words, grace.context("no stop_grace_period in seconds")?)?;
    let given: BTreeSet<String> = texts(&node["secrets"]).collect();
    ensure!(given == *needed, "it gets the secrets {given:?}, and its configuration names {needed:?}");
    Ok(())
}

/// Secrets and files of a service are there, and no secret is a value.
fn check_references(
    service: &Value,
    secrets: &Map<String, Value>,
    configs: &Map<String, Value>,
    folder: &Path,
) -> Result<()> {
    for secret in texts(&service["secrets"]) {
        ensure!(secrets.contains_key(&secret), "secret {secret} is not there");
    }
    for config in service["configs"].as_array().into_iter().flatten() {
        let source = config["source"].as_str().unwrap_or_default();
        let file = configs.get(source).and_then(|config| config["file"].as_str());
        let file = file.with_context(|| format!("config {source} is not there"))?;
        ensure!(folder.join("compose").join(file).is_file(), "{file} is not there");
    }
    for (variable, _) in service["environment"].as_object().into_iter().flatten() {
        let is_secret = ["PASSWORD", "SECRET", "TOKEN", "KEY"].iter().any(|word| variable.contains(word));
        ensure!(!is_secret || variable.ends_with("_FILE"), "{variable} holds a secret");
    }
    Ok(())
}

fn texts(list: &Value) -> impl Iterator<Item = String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned))
}
