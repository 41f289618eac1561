//! Policy and audit log, set up from the command line.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hospes_host::approvals::ApprovalLimits;
use hospes_host::{ApprovalQueue, DefaultPinMode, FileProblems, PinMode, PolicyEnforcer};
use hospes_policy::{Policy, PolicyEnvironment, PolicyError};
use hospes_store::{AuditLog, AuditReader, StateStore};

use crate::args::HostOptions;
use crate::exit::{CliError, CliResult, error_chain};
use crate::fleet::HostFleet;
use crate::output::CliOutput;
use crate::paths;
use crate::policy_files::{PolicyFiles, PolicyReload};

/// Settings of the configuration for the enforcement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordSettings {
    /// True if the console answers questions of servers.
    pub(crate) answers_questions: bool,
    /// True if arguments of calls are recorded.
    pub(crate) keeps_arguments: bool,
    /// Retention time of audit log entries; none for no limit.
    pub(crate) kept_for: Option<Duration>,
}

/// What changes with the policy file while the host runs, besides the rules.
#[derive(Clone, Debug)]
pub(crate) struct PolicyEffects {
    /// Mode in which new servers are accepted; none if the command line sets it.
    pub(crate) pins: Option<DefaultPinMode>,
    /// Shows that the file has a mistake.
    pub(crate) problems: FileProblems,
}

/// Returns the mode in which new servers are accepted by default: with rules, a person reviews them.
pub(crate) fn default_pin_mode(has_rules: bool) -> PinMode {
    if has_rules { PinMode::Ask } else { PinMode::FirstUse }
}

/// Creates the enforcement of the policy in these files, which are followed, and of audit. Lasting decisions are kept in
/// the state.
pub(crate) async fn build_enforcer(
    options: &HostOptions,
    (state, fleet): (Option<&StateStore>, Option<&HostFleet>),
    (files, settings): (PolicyFiles, RecordSettings),
    effects: PolicyEffects,
    output: CliOutput,
) -> CliResult<Arc<PolicyEnforcer>> {
    let audit = if options.no_audit { None } else { open_audit()? };
    let reload = PolicyReload::begin(files, options.preset)?;
    let mut guard = PolicyEnforcer::new(reload.policy())
        .when_unattended(options.unattended.unwrap_or_default())
        .keeping_arguments(settings.keeps_arguments)
        .answering_questions(settings.answers_questions);
    if let Some(audit) = audit {
        if let Some(fleet) = fleet
            && let Some(shared) = fleet.audit()?
        {
            if let Some(member) = &fleet.member {
                member.ship_audit(&audit, shared.clone());
            }
            guard = guard.with_shared_audit(AuditReader::Shared(shared));
        }
        guard = guard.with_audit(audit);
    }
    if let Some(state) = state {
        let queue = match fleet.and_then(|fleet| fleet.member.as_ref()) {
            Some(member) => ApprovalQueue::open_shared(state, member.approval_nodes()).await,
            None => ApprovalQueue::open(state).await,
        };
        guard = guard.with_approvals(
            queue.map_err(|error| CliError::usage("cannot read lasting decisions").with_cause(&error))?,
        );
    }
    if let Some(member) = fleet.and_then(|fleet| fleet.member.as_ref()) {
        guard = guard.with_shared_flows(member.flows());
    }
    if let Some(timeout) = options.approval_timeout {
        guard = guard.with_approval_timeout(timeout);
    }
    let mut limits = ApprovalLimits::default();
    limits.waiting = options.max_waiting.unwrap_or(limits.waiting);
    limits.of_one = options.max_waiting_of_one.unwrap_or(limits.of_one);
    limits.bytes = options.max_waiting_bytes.unwrap_or(limits.bytes);
    guard.approvals().set_limits(limits);
    let guard = Arc::new(guard);
    if let Some(kept_for) = settings.kept_for {
        // The task ends by itself when the guard is dropped.
        let _goes_on = guard.spawn_retention(kept_for);
    }
    // A weak reference, or the task would keep the guard, and with it the audit log, open.
    tokio::spawn(reload.run(Arc::downgrade(&guard), effects, output));
    Ok(guard)
}

/// Reads and parses the policy file of the user.
pub(crate) fn read_policy(file: &Path) -> CliResult<Policy> {
    read_policy_in(file, &policy_environment())
}

/// Reads and parses a policy file.
pub(crate) fn read_policy_in(file: &Path, environment: &PolicyEnvironment) -> CliResult<Policy> {
    let hinted = |failure: CliError| {
        failure.hint("`hospes policy check` reports the same errors without starting anything")
    };
    let text = fs::read_to_string(file)
        .map_err(|error| hinted(CliError::usage(format!("{}: {error}", file.display()))))?;
    Policy::read(&text, environment).map_err(|error| hinted(policy_mistakes(file, &error)))
}

/// Returns the environment in which policy files are read: the home folder, and the links of this file system.
pub(crate) fn policy_environment() -> PolicyEnvironment {
    let mut reading = PolicyEnvironment::default();
    reading.home = std::env::home_dir().and_then(|home| home.into_os_string().into_string().ok());
    reading.links = Some(Arc::new(hospes_host::LocalLinks::default()));
    reading
}

/// Formats all errors of a policy file, each with its line and column.
fn policy_mistakes(file: &Path, error: &PolicyError) -> CliError {
    let file = file.display();
    let mut lines: Vec<String> = error
        .mistakes()
        .iter()
        .map(|mistake| format!("{file}:{}:{}: {}", mistake.line, mistake.column, mistake.sentence()))
        .collect();
    if let [only] = lines.as_slice() {
        return CliError::usage(only.clone());
    }
    let count = lines.len() + error.left_out();
    if error.left_out() > 0 {
        lines.push(format!("and {} more", error.left_out()));
    }
    CliError::usage(format!("{count} errors in the policy\n  {}", lines.join("\n  ")))
}

/// Opens the audit log. Returns `None` if there is no folder for it.
pub(crate) fn open_audit() -> CliResult<Option<AuditLog>> {
    let Some((file, key)) = paths::audit_files() else { return Ok(None) };
    for file in [&file, &key] {
        let folder = file.parent().unwrap_or_else(|| Path::new("."));
        fs::create_dir_all(folder).map_err(|error| {
            CliError::usage(format!("cannot create the folder {}", folder.display()))
                .with_cause(&error)
                .hint("--no-audit disables the audit log")
        })?;
    }
    let shown = paths::display_path(&file);
    let audit = AuditLog::open(file, key).map_err(|error| {
        CliError::usage(format!("cannot open the audit log {shown}"))
            .with_cause(&error)
            .hint("--no-audit disables the audit log")
    })?;
    Ok(Some(audit))
}

/// Opens the state store. Returns `None` if there is no folder for it.
pub(crate) fn open_state() -> CliResult<Option<StateStore>> {
    let Some(file) = paths::state_file() else { return Ok(None) };
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    let wrong = |error: &dyn std::error::Error| {
        let (file, folder) = (paths::display_path(&file), paths::display_path(folder));
        CliError::usage(format!("cannot open the state store {file}"))
            .with_cause(error)
            .hint(format!("make {folder} writable for you, or set XDG_STATE_HOME to another folder"))
    };
    fs::create_dir_all(folder).map_err(|error| wrong(&error))?;
    StateStore::open(file.clone()).map(Some).map_err(|error| wrong(&error))
}

/// Converts an error of the audit log for display.
pub(crate) fn audit_error(error: &hospes_store::StoreError) -> CliError {
    CliError::usage(error_chain(error))
}
