//! Rules for a passed scenario. The suite itself accepts warnings, any exit code of a client, and a scenario without
//! checks; these rules do not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// The check that almost every scenario has, and that an idle fixture passes too.
const SCHEMA_CHECK: &str = "wire-schema-valid";

/// The judgement on one scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScenarioVerdict {
    /// Number of checks that succeeded.
    pub(crate) passed: usize,
    /// Everything that is wrong; empty means passed.
    pub(crate) troubles: Vec<String>,
}

impl ScenarioVerdict {
    /// A scenario that did not get so far as to be judged.
    pub(crate) fn trouble(what: impl Into<String>) -> Self {
        Self { passed: 0, troubles: vec![what.into()] }
    }

    /// Judges the suite's `checks.json`.
    pub(crate) fn of(checks: &Value) -> Self {
        let Some(checks) = checks.as_array() else { return Self::trouble("checks.json is no list") };
        let mut verdict = Self::default();
        let mut telling = false;
        for check in checks {
            let text = |key: &str| check.get(key).and_then(Value::as_str).unwrap_or_default();
            match text("status") {
                "SUCCESS" => {
                    verdict.passed += 1;
                    telling |= text("id") != SCHEMA_CHECK;
                }
                "SKIPPED" | "INFO" => {}
                status => {
                    let why =
                        [text("errorMessage"), text("description")].into_iter().find(|why| !why.is_empty());
                    let why = why.unwrap_or("no reason given");
                    verdict.troubles.push(format!("{status} {}: {why}", text("id")));
                }
            }
        }
        if !telling && verdict.troubles.is_empty() {
            verdict.troubles.push("nothing but the schema of our messages was checked".to_owned());
        }
        verdict
    }

    /// Returns true if there are no troubles.
    pub(crate) fn is_good(&self) -> bool {
        self.troubles.is_empty()
    }
}

/// The verdicts on everything the suite wrote below `folder`, by scenario.
pub(crate) fn read(folder: &Path) -> Result<BTreeMap<String, ScenarioVerdict>> {
    let mut verdicts = BTreeMap::new();
    gather(folder, folder, &mut verdicts)?;
    Ok(verdicts)
}

fn gather(top: &Path, folder: &Path, verdicts: &mut BTreeMap<String, ScenarioVerdict>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            gather(top, &path, verdicts)?;
        } else if path.file_name().is_some_and(|name| name == "checks.json") {
            let text = fs::read_to_string(&path)?;
            let checks =
                serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
            let name = folder.strip_prefix(top).unwrap_or(folder).to_string_lossy().into_owned();
            verdicts.insert(scenario(&name).to_owned(), ScenarioVerdict::of(&checks));
        }
    }
    Ok(())
}

/// The scenario in `server-<scenario>-<time>` or `<scenario>-<time>`.
fn scenario(folder: &str) -> &str {
    const TIME: usize = "-2026-11-21T15-29-53-207Z".len();
    folder.len().checked_sub(TIME).and_then(|end| folder.get(..end)).unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judge(statuses: &[(&str, &str)]) -> ScenarioVerdict {
        let checks =
            statuses.iter().map(|(id, status)| json!({ "id": id, "status": status, "errorMessage": "so" }));
        ScenarioVerdict::of(&checks.collect())
    }

    #[test]
    fn one_telling_success_and_no_complaint_is_good() {
        let verdict = judge(&[("a", "SUCCESS"), (SCHEMA_CHECK, "SUCCESS"), ("b", "INFO"), ("c", "SKIPPED")]);
        assert!(verdict.is_good());
        assert_eq!(verdict.passed, 2);
    }

    #[test]
    fn warnings_and_failures_are_trouble() {
        for status in ["WARNING", "FAILURE", "NEW_IN_SOME_VERSION"] {
            let verdict = judge(&[("a", "SUCCESS"), ("b", status)]);
            assert_eq!(verdict.troubles, [format!("{status} b: so")]);
        }
    }

    #[test]
    fn a_scenario_in_which_nothing_happened_has_not_passed() {
        assert!(!judge(&[]).is_good());
        assert!(!judge(&[(SCHEMA_CHECK, "SUCCESS")]).is_good());
        assert!(!ScenarioVerdict::of(&json!({})).is_good());
    }

    #[test]
    fn folders_name_scenarios() {
        assert_eq!(scenario("auth/dpop-2026-11-21T15-29-53-207Z"), "auth/dpop");
        assert_eq!(scenario("short"), "short");
    }
}
