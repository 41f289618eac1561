//! The dashboard of Grafana: its expressions are PromQL, and `/metrics` has what they name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::{DeployBench, DeployCheck, Fault, read, run_command};
use crate::paths;

const FILE: &str = "grafana/hospes.json";

pub(super) const CHECKS: &[DeployCheck] = &[DeployCheck {
    name: "grafana: the dashboard fits the documented metrics",
    examine,
    faults: &[
        Fault(FILE, "hospes_approvals_open{", "hospes_approvals_opened{"),
        Fault(FILE, "hospes_approval_wait_seconds_bucket{", "hospes_approval_wait_seconds{"),
        Fault(FILE, "by (mcp_method_name)", "by (method)"),
        Fault(FILE, "sum by (instance)", "sum by (instance"),
        Fault(FILE, "\"id\": 2,", "\"id\": 3,"),
        Fault(FILE, "\"x\": 4,", "\"x\": 3,"),
        Fault(FILE, "{{error_type}}", "{{error}}"),
    ],
}];

/// Labels that Prometheus adds, and that of the bounds of buckets.
const COMMON_LABELS: [&str; 3] = ["instance", "job", "le"];

/// What an expression names.
#[derive(Debug, Deserialize)]
struct Expression {
    metrics: Vec<Selector>,
    /// Labels by which it groups.
    labels: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Selector {
    name: String,
    labels: Vec<String>,
}

fn examine(bench: &DeployBench, folder: &Path) -> Result<String> {
    let board: Value = serde_json::from_str(&read(folder, FILE)?)?;
    let panels = board["panels"].as_array().context("no panels")?;
    check_places(panels)?;
    let documented = documented()?;
    let mut targets = Vec::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        ensure!(!panel["targets"].as_array().context("a panel has no targets")?.is_empty(), "an empty panel");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = |key: &str| target[key].as_str().with_context(|| format!("a target has no {key}"));
            targets.push((text("expr")?, text("legendFormat")?));
        }
    }
    let mut shown = BTreeSet::new();
    for ((text, legend), expression) in targets.iter().zip(parse(bench, &targets)?) {
        let found = check_expression(&expression, legend, &documented).with_context(|| (*text).to_owned())?;
        shown.extend(found);
    }
    let missing: Vec<_> = documented.keys().filter(|metric| !shown.contains(*metric)).collect();
    ensure!(missing.is_empty(), "no panel shows {missing:?}");
    // The lists of values that a reader chooses from.
    for variable in board["templating"]["list"].as_array().into_iter().flatten() {
        let query = variable["definition"].as_str().unwrap_or_default();
        let Some(query) = query.strip_prefix("label_values(") else { continue };
        ensure!(variable["query"]["query"] == variable["definition"], "two queries in {}", variable["name"]);
        let metric = query.split(['{', ',']).next().unwrap_or_default();
        ensure!(documented.contains_key(metric), "the variable {} asks {metric}", variable["name"]);
    }
    Ok(format!("{} metrics, {} expressions", shown.len(), targets.len()))
}

/// Parses the expressions as Prometheus does, with values in place of the variables of Grafana.
fn parse(bench: &DeployBench, targets: &[(&str, &str)]) -> Result<Vec<Expression>> {
    let texts: Vec<String> = targets.iter().map(|(text, _)| text.replace("$__rate_interval", "5m")).collect();
    let file = bench.write("expressions.json", &serde_json::to_string(&texts)?)?;
    let mut read = bench.python.script(&paths::root().join("tools/deploy/read.py"));
    read.arg("promql").arg(file);
    let expressions: Vec<Expression> = serde_json::from_str(&run_command(read, "promql")?.stdout)?;
    ensure!(expressions.len() == texts.len(), "an expression was not read");
    Ok(expressions)
}

/// Checks that the metrics and labels are documented, and returns the metrics.
fn check_expression(
    expression: &Expression,
    legend: &str,
    documented: &BTreeMap<String, Metric>,
) -> Result<Vec<String>> {
    let mut labels = expression.labels.clone();
    labels.extend(legend.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0.to_owned())));
    let mut found = Vec::new();
    for selector in &expression.metrics {
        let (name, metric) = documented
            .iter()
            .find(|(name, metric)| metric.has_series(name, &selector.name))
            .with_context(|| format!("{} is not documented", selector.name))?;
        for label in selector.labels.iter().chain(&labels) {
            let is_known = metric.labels.contains(label) || COMMON_LABELS.contains(&label.as_str());
            ensure!(is_known, "{name} has no label {label}");
        }
        found.push(name.clone());
    }
    Ok(found)
}

/// Panels have numbers of their own and do not overlap.
fn check_places(panels: &[Value]) -> Result<()> {
    let mut numbers = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().context("a panel without a title")?;
        ensure!(numbers.insert(panel["id"].as_u64()), "{title}: its id is that of another panel");
        let place = |key: &str| panel["gridPos"][key].as_u64().with_context(|| format!("{title}: no {key}"));
        let (left, top, width, height) = (place("x")?, place("y")?, place("w")?, place("h")?);
        ensure!(left + width <= 24, "{title} is too wide");
        for cell in (left..left + width).flat_map(|x| (top..top + height).map(move |y| (x, y))) {
            ensure!(cells.insert(cell), "{title} covers another panel");
        }
    }
    Ok(())
}

/// A metric in the table of docs/operations.md.
#[derive(Debug)]
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
}

impl Metric {
    fn has_series(&self, name: &str, series: &str) -> bool {
        match self.kind.as_str() {
            "histogram" => {
                series.strip_prefix(name).is_some_and(|end| ["_bucket", "_count", "_sum"].contains(&end))
            }
            _ => series == name,
        }
    }
}

/// Reads the tables; tests of the program compare the first with what `/metrics` prints.
fn documented() -> Result<BTreeMap<String, Metric>> {
    let page = fs::read_to_string(paths::root().join("docs/operations.md"))?;
    let (_, section) = page.split_once("\n## Metrics\n").context("no section about metrics")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let words =
        |text: &str| -> BTreeSet<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let item = section.split("\n- ").find(|item| item.starts_with("Labels of operations"));
    let operations = words(item.context("the labels of operations are not listed")?);
    let (_, export) = page.split_once("\n## Export by OTLP\n").context("no section about the export")?;
    let export = export.split("\n## ").next().unwrap_or_default();
    let fleet = fs::read_to_string(paths::root().join("docs/fleet.md"))?;
    let (_, node) = fleet.split_once("\n## Metrics of a node\n").context("no section about nodes")?;
    let node = node.split("\n## ").next().unwrap_or_default();
    let mut metrics = BTreeMap::new();
    let others = export.lines().chain(node.lines()).filter(|line| line.starts_with("| `hospes_"));
    for row in section.lines().filter(|line| line.starts_with("| `")).chain(others) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels] = cells.as_slice() else { anyhow::bail!("the row {row}") };
        let mut known = words(labels);
        if labels.contains("those of operations") {
            known.extend(operations.iter().cloned());
        }
        metrics.insert(name.trim_matches('`').to_owned(), Metric { kind: (*kind).to_owned(), labels: known });
    }
    ensure!(metrics.len() > 5, "only {} metrics were found", metrics.len());
    Ok(metrics)
}
