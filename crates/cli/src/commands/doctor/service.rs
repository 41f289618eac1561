//! Check of the installed service, which does not inherit the `PATH` of a terminal.

use std::ffi::OsStr;
use std::path::Path;

use hospes_host::config::{HostConfig, ServerTransport};

use super::check::{DoctorChain, DoctorFinding, H14};
use crate::commands::service::installed_program_and_path;

/// Checks that the program of the service exists, and that its `PATH` has the programs of the servers that this process finds.
pub(super) fn check(config: Option<&HostConfig>, chain: &mut DoctorChain) {
    let Some((program, path)) = installed_program_and_path() else { return chain.ok(&H14, "") };
    let root = Path::new("/");
    if let Err(error) = hospes_sandbox::resolve(OsStr::new(&program), None, root) {
        let finding = DoctorFinding::new(format!("the service cannot start {program}"))
            .why(error.to_string())
            .mend("hospes service install");
        return chain.fail(&H14, finding, &[]);
    }
    let Some(path) = path else { return chain.ok(&H14, "") };
    let servers = config.iter().flat_map(|config| &config.servers).filter(|server| !server.disabled);
    let here = hospes_sandbox::search_path();
    let mut missing = servers.filter_map(|server| match &server.transport {
        ServerTransport::Stdio(stdio) if !stdio.env.contains_key("PATH") => Some(stdio.command.reveal()),
        _ => None,
    });
    let is_missing = |command: &&str| {
        let found = |path: Option<&OsStr>| hospes_sandbox::resolve(OsStr::new(command), path, root).is_ok();
        !command.contains(['/', '\\']) && found(here.as_deref()) && !found(Some(OsStr::new(&path)))
    };
    let Some(command) = missing.find(is_missing) else { return chain.ok(&H14, "") };
    let finding = DoctorFinding::new(format!("the service does not find `{command}`, which is found here"))
        .why(format!("its PATH is {path}"))
        .mend("add the folder of the program to PATH in the files of your login shell; then: hospes service install");
    chain.warn(&H14, finding);
}
