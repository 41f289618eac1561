//! `hospes upgrade`: prints the command that upgrades the program. It replaces no file itself, because package managers
//! keep records of their files, and looks up no releases.

use crate::exit::{CliError, CliResult};
use crate::installation::{IS_RELEASE, InstallChannel, InstallEvidence};
use crate::output::{BOLD, CliOutput, printable};

/// Advice for a program that is no release. A package manager would find nothing, or a package of somebody else.
const UNRELEASED_ADVICE: &str =
    "build the new version from a checkout, and install its package as you installed this one";

pub(crate) fn run(output: CliOutput) -> CliResult {
    let evidence = InstallEvidence::gather().map_err(|error| {
        CliError::usage("cannot determine the path of the hospes executable").with_cause(&error)
    })?;
    let channel = evidence.channel();
    let (command, advice) = match IS_RELEASE || channel == InstallChannel::Build {
        true => (channel.command(), channel.advice()),
        false => (None, Some(UNRELEASED_ADVICE)),
    };
    if output.json {
        output.value(&serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "program": evidence.program,
            "installedBy": channel.as_str(),
            "isRelease": IS_RELEASE,
            "command": command,
            "advice": advice,
            "afterRelease": channel.command().or_else(|| channel.advice()),
        }));
        return Ok(());
    }
    output.say(format_args!(
        "hospes {} at {}, installed by: {}",
        env!("CARGO_PKG_VERSION"),
        printable(&evidence.program),
        crate::output::paint(BOLD, channel.as_str())
    ));
    match command {
        Some(command) => {
            output.say("whether there is a newer version is not looked up; this command installs it, then restart the host:");
            output.result(command);
        }
        None => {
            if !IS_RELEASE {
                output.say("this program is no published release; a package `hospes` of a registry may be of somebody else");
            }
            output.result(advice.unwrap_or_default());
        }
    }
    Ok(())
}
