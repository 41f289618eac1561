//! Preparation of child processes: the file that a command means, and its sandbox.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hospes::client::{CommandTarget, Launcher, Target};
use hospes_sandbox::{Confinement, ENV_PREFIX, SandboxError, SandboxHelper};

use super::launcher_variables;
use crate::config::{SandboxConfig, ServerConfig, StdioTransport};
use crate::server::{ServerProcess, UpstreamConnectError};

/// Returns the target that the client starts for this server. May block.
pub(super) fn start(
    config: &ServerConfig,
    stdio: &StdioTransport,
    helper: Option<&SandboxHelper>,
) -> Result<(Target, ServerProcess), UpstreamConnectError> {
    let shown = config.transport.to_string();
    let mut command = Target::command(stdio.command.reveal())
        .args(stdio.args.iter().map(|arg| arg.reveal()))
        .envs(stdio.env.iter().map(|(name, value)| (name.as_str(), value.reveal())))
        .shown_as(shown.clone());
    if let Some(folder) = &stdio.cwd {
        command = command.cwd(folder);
    }
    if let Some(names) = &config.sandbox.environment {
        command = command.inherit(names);
    }
    let (command, sandbox) = confine_command(command, &config.sandbox, helper).map_err(|problem| {
        // `LaunchRecorder::not_started` cuts this lead off; both have to stay the same.
        let message = format!("cannot connect to {shown} (spawn): {}", problem.message);
        let why = UpstreamConnectError::new(message).with_hint(problem.hint);
        if problem.unenforceable { why.unenforceable() } else { why }
    })?;
    // What a reference stands for is not shown.
    let written = stdio.command.written();
    let file = command.program.to_string_lossy();
    let process = ServerProcess {
        command: stdio.command_line_of(if written.contains(['$', '{']) { written } else { &file }),
        sandbox,
        loader_variables: stdio.loader_variables().map(str::to_owned).collect(),
    };
    Ok((command.into(), process))
}

/// Returns the command with its program resolved to a file, started by the helper if there is one. A launcher of packages
/// gets its [variables](launcher_variables), unless the sandbox says which variables it gets. May block.
///
/// # Errors
/// If the program does not exist, or its sandbox cannot be enforced. It must not be started then.
pub fn confine_command(
    mut command: CommandTarget,
    sandbox: &SandboxConfig,
    helper: Option<&SandboxHelper>,
) -> Result<(CommandTarget, Option<Confinement>), UpstreamConnectError> {
    let unenforceable = |error: SandboxError| {
        UpstreamConnectError::new(error.to_string()).with_hint(Some(error.hint())).unenforceable()
    };
    if command.inherited.is_none() {
        for (name, value) in launcher_variables(&command.program) {
            // npm ignores the case of its variables, and the value of the entry counts.
            if !command.env.iter().any(|(own, _)| own.eq_ignore_ascii_case(&name)) {
                command = command.env(name, value);
            }
        }
    }
    let path = search_path(&command);
    command.program = resolved(&command, path.as_deref())?.into_os_string();
    // The program may start others that are in the same folders, as `npx.cmd` does with `node`.
    if cfg!(windows)
        && let Some(path) = path
    {
        command = command.env("PATH", path);
    }
    let Some(helper) = helper else {
        return match sandbox.profile.is_demanding() {
            true if !SandboxHelper::is_supported() => Err(unenforceable(SandboxError::System)),
            true => Err(unenforceable(SandboxError::NoHelper)),
            false => Ok((command, None)),
        };
    };
    let launch = helper.launch(&sandbox.profile, command.cwd.as_deref()).map_err(unenforceable)?;
    let launcher = Launcher::new(launch.program, launch.args, ENV_PREFIX);
    Ok((command.launched_by(launcher), Some(launch.confinement)))
}

/// Returns the search path of the child, not the host's, which the sandbox may keep from it.
fn search_path(command: &CommandTarget) -> Option<OsString> {
    // The last of several values is the one that the child gets.
    let own = command
        .env
        .iter()
        .rev()
        .find(|(name, _)| StdioTransport::is_search_path(name))
        .map(|(_, value)| value.clone());
    StdioTransport::search_path_of_child(own, command.inherited.as_deref())
}

fn resolved(command: &CommandTarget, path: Option<&OsStr>) -> Result<PathBuf, UpstreamConnectError> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let cwd = command.cwd.as_deref().map_or_else(|| here.clone(), |folder| here.join(folder));
    let problem = |hint: String| {
        let program = command.program.to_string_lossy();
        UpstreamConnectError::new(format!("{program} could not be started")).with_hint(Some(hint))
    };
    // Spawning reports a missing folder with the same error as a missing program.
    if !cwd.is_dir() {
        return Err(problem(format!("the folder {} does not exist", cwd.display())));
    }
    hospes_sandbox::resolve(&command.program, path, Path::new(&cwd)).map_err(|why| problem(why.to_string()))
}
