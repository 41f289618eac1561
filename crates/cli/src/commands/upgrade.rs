//! `hospes upgrade`: prints the command that upgrades the program. It replaces no file itself, because package managers
//! keep records of their files.

use crate::exit::{CliError, CliResult};
use crate::installation::InstallEvidence;
use crate::output::{BOLD, CliOutput, printable};

pub(crate) fn run(output: CliOutput) -> CliResult {
    let evidence = InstallEvidence::gather().map_err(|error| {
        CliError::usage("cannot determine the path of the hospes executable").with_cause(&error)
    })?;
    let channel = evidence.channel();
    if output.json {
        output.value(&serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "program": evidence.program,
            "installedBy": channel.as_str(),
            "command": channel.command(),
            "advice": channel.advice(),
        }));
        return Ok(());
    }
    output.say(format_args!(
        "hospes {} at {}, installed by: {}",
        env!("CARGO_PKG_VERSION"),
        printable(&evidence.program),
        crate::output::paint(BOLD, channel.as_str())
    ));
    match channel.command() {
        Some(command) => {
            output.say("this command upgrades it; then restart the host:");
            output.result(command);
        }
        None => output.result(channel.advice().unwrap_or_default()),
    }
    Ok(())
}
