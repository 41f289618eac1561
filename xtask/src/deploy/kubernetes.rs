//! The manifests for Kubernetes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{DeployBench, DeployCheck, Fault, node_command, run_command};

/// Oldest and newest version by whose schemas the manifests are judged.
const VERSIONS: [&str; 2] = ["1.27.0", "1.37.0"];
const FILES: [&str; 4] = ["namespace.yaml", "configuration.yaml", "nodes.yaml", "policies.yaml"];
const NODES: &str = "kubernetes/nodes.yaml";
const POLICIES: &str = "kubernetes/policies.yaml";

pub(super) const CHECKS: &[DeployCheck] = &[
    DeployCheck {
        name: "kubernetes: schemas of 1.27 and 1.37, strictly",
        examine: |bench, folder| {
            for version in VERSIONS {
                let mut validate = bench.python.program("kubernetes-validate");
                validate.args(["--strict", "--quiet", "--kubernetes-version", version]).args(paths(folder)?);
                run_command(validate, "kubernetes-validate")?;
            }
            Ok(String::new())
        },
        faults: &[
            Fault(NODES, "podManagementPolicy:", "podManagementPolicies:"),
            Fault(NODES, "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 60s"),
        ],
    },
    DeployCheck {
        name: "kubernetes: probes, privileges, times, secrets and names",
        examine,
        faults: &[
            Fault(NODES, "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 30"),
            Fault(NODES, "{ path: /readyz, port: http }", "{ path: /healthz, port: http }"),
            Fault(NODES, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"),
            Fault(NODES, "drop: [ALL]", "drop: [NET_RAW]"),
            Fault(NODES, "runAsNonRoot: true", "runAsNonRoot: false"),
            Fault(NODES, "\"$(POD_IP):7400\"", "\"$(POD_IP):7401\""),
            Fault(NODES, "mountPath: /data", "mountPath: /srv"),
            Fault(NODES, "sessionAffinity: None", "sessionAffinity: ClientIP"),
            Fault(POLICIES, "port: nodes", "port: node"),
            Fault(POLICIES, "maxUnavailable: 1", "maxUnavailable: 3"),
            Fault(POLICIES, "app.kubernetes.io/name: hospes", "app.kubernetes.io/name: hospes-node"),
            Fault(
                "kubernetes/configuration.yaml",
                "\"${file:/run/secrets/redis_url}\"",
                "\"redis://:password@redis\"",
            ),
        ],
    },
];

fn paths(folder: &Path) -> Result<Vec<PathBuf>> {
    let folder = folder.join("kubernetes");
    let mut found: Vec<_> = std::fs::read_dir(&folder)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    found.sort_unstable();
    let mut known = FILES;
    known.sort_unstable();
    ensure!(found == known, "the folder has {found:?}");
    // A namespace has to be there before what it contains.
    Ok(FILES.iter().map(|file| folder.join(file)).collect())
}

/// Reads the manifests by their kind, of which there is one each.
fn manifests(bench: &DeployBench, folder: &Path) -> Result<BTreeMap<String, Value>> {
    let mut manifests = BTreeMap::new();
    for manifest in bench.yaml(&paths(folder)?)? {
        let kind = manifest["kind"].as_str().context("a manifest without a kind")?.to_owned();
        ensure!(manifest["metadata"]["name"] == "hospes", "a {kind} has another name");
        let namespace = &manifest["metadata"]["namespace"];
        ensure!(kind == "Namespace" || *namespace == "hospes", "a {kind} is in another namespace");
        ensure!(manifests.insert(kind, manifest).is_none(), "two manifests have one kind");
    }
    Ok(manifests)
}

fn one<'a>(manifests: &'a BTreeMap<String, Value>, kind: &str) -> Result<&'a Value> {
    manifests.get(kind).with_context(|| format!("no {kind}"))
}

/// Returns the arguments of a node.
pub(super) fn arguments(bench: &DeployBench, folder: &Path) -> Result<Vec<String>> {
    let manifests = manifests(bench, folder)?;
    let container = &one(&manifests, "StatefulSet")?["spec"]["template"]["spec"]["containers"][0];
    serde_json::from_value(container["args"].clone()).context("the arguments of a node are no texts")
}

fn examine(bench: &DeployBench, folder: &Path) -> Result<String> {
    let manifests = manifests(bench, folder)?;
    let nodes = &one(&manifests, "StatefulSet")?["spec"];
    let pod = &nodes["template"]["spec"];
    let container = &pod["containers"][0];
    check_privileges(pod, container)?;

    let words = arguments(bench, folder)?;
    node_command::check_grace(&words, pod["terminationGracePeriodSeconds"].as_u64().unwrap_or_default())?;
    for (probe, path) in
        [("livenessProbe", "/healthz"), ("startupProbe", "/healthz"), ("readinessProbe", "/readyz")]
    {
        ensure!(container[probe]["httpGet"]["path"] == path, "the {probe} does not ask {path}");
    }

    let ports: BTreeMap<&str, u64> = container["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|port| Some((port["name"].as_str()?, port["containerPort"].as_u64()?)))
        .collect();
    let configuration =
        one(&manifests, "ConfigMap")?["data"]["hospes.toml"].as_str().context("no hospes.toml")?;
    for (port, key) in [("http", "listen"), ("nodes", "node_listen"), ("metrics", "listen")] {
        let number = ports.get(port).with_context(|| format!("no port {port}"))?;
        ensure!(
            configuration.contains(&format!("{key} = \"0.0.0.0:{number}\"")),
            "nothing listens at {port}"
        );
    }
    let address = container["env"].as_array().into_iter().flatten();
    let address =
        address.filter(|one| one["name"] == "HOSPES_NODE_ADDRESS").find_map(|one| one["value"].as_str());
    ensure!(address == Some(&*format!("$(POD_IP):{}", ports["nodes"])), "other nodes cannot reach it");
    ensure!(
        container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP",
        "the address of the pod is not known"
    );

    let mounted = |path: &str| {
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        mounts.filter(|mount| mount["mountPath"] == path).find_map(|mount| mount["name"].as_str())
    };
    let claim = &nodes["volumeClaimTemplates"][0]["metadata"]["name"];
    ensure!(mounted("/data") == claim.as_str(), "the audit log is not in the volume that stays");
    for path in ["/etc/hospes", "/run/secrets", "/tmp"] {
        ensure!(mounted(path).is_some(), "nothing is mounted at {path}");
    }
    let secrets = node_command::secret_files(configuration, "/run/secrets/")?;

    let service = &one(&manifests, "Service")?["spec"];
    ensure!(service["sessionAffinity"] == "None", "the Service has an affinity");
    ensure!(service["ports"][0]["targetPort"] == "http", "the Service leads to another port");
    let labels = &nodes["template"]["metadata"]["labels"];
    let (budget, network) =
        (&one(&manifests, "PodDisruptionBudget")?["spec"], &one(&manifests, "NetworkPolicy")?["spec"]);
    for (what, selector) in [
        ("Service", &service["selector"]),
        ("StatefulSet", &nodes["selector"]["matchLabels"]),
        ("PodDisruptionBudget", &budget["selector"]["matchLabels"]),
        ("NetworkPolicy", &network["podSelector"]["matchLabels"]),
    ] {
        ensure!(selector == labels, "the {what} selects {selector}");
    }
    ensure!(budget["maxUnavailable"] == 1, "several nodes may be evicted at once");
    check_network(network, labels, ports.keys().copied())?;
    Ok(format!("{} manifests, {} secrets", manifests.len(), secrets.len()))
}

fn check_privileges(pod: &Value, container: &Value) -> Result<()> {
    let (outer, inner) = (&pod["securityContext"], &container["securityContext"]);
    ensure!(outer["runAsNonRoot"] == true && outer["runAsUser"] == 65532, "nodes run as another user");
    ensure!(outer["seccompProfile"]["type"] == "RuntimeDefault", "system calls are not filtered");
    ensure!(inner["allowPrivilegeEscalation"] == false, "privileges can be gained");
    ensure!(inner["readOnlyRootFilesystem"] == true, "the file system is writable");
    ensure!(inner["capabilities"]["drop"][0] == "ALL", "capabilities are left");
    ensure!(pod["automountServiceAccountToken"] == false, "nodes have a token for the cluster");
    Ok(())
}

/// Each port has a rule that says who may connect, and nodes are reached by nodes alone.
fn check_network<'a>(network: &Value, labels: &Value, ports: impl Iterator<Item = &'a str>) -> Result<()> {
    let rules = || network["ingress"].as_array().into_iter().flatten();
    for port in ports {
        let mut rules = rules().filter(|rule| rule["ports"][0]["port"] == port);
        let rule = rules.next().with_context(|| format!("nobody may connect to {port}"))?;
        ensure!(rules.next().is_none(), "two rules are about {port}");
        let from = rule["from"].as_array().map(Vec::as_slice).unwrap_or_default();
        ensure!(from.len() == 1, "everybody may connect to {port}");
        let is_open = port == "nodes" && from[0]["podSelector"]["matchLabels"] != *labels;
        ensure!(!is_open, "others than nodes may connect to {port}");
    }
    Ok(())
}
