//! Other names of servers whose names are taken.

use hospes_host::config::ServerConfig;
use hospes_host::config::import::FoundServer;

use super::plan::{ImportPlan, ServerState};
use crate::args::is_server_name;
use crate::exit::{CliError, CliResult};
use crate::output::{BOLD, CliOutput, announce, paint, printable};

/// Gives found servers other names.
pub(super) fn rename(servers: &mut [FoundServer], names: &[(String, String)]) -> CliResult {
    for (old, new) in names {
        let is_meant = |found: &FoundServer| {
            let name = &found.server.name;
            name == old || found.origins.iter().any(|origin| format!("{}:{name}", origin.id()) == *old)
        };
        let mut count = 0;
        for found in servers.iter_mut().filter(|found| is_meant(found)) {
            new.clone_into(&mut found.server.name);
            count += 1;
        }
        if count == 0 {
            return Err(CliError::usage(format!(
                "--rename: no application has a server `{}`",
                printable(old)
            ))
            .hint("`hospes import --dry-run` lists the servers"));
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    // Different servers of one name stand together.
    servers.sort_by(|one, other| one.server.name.cmp(&other.server.name));
    Ok(())
}

impl ImportPlan {
    /// Asks the person for other names of servers whose names are taken by others in the file.
    pub(super) fn choose_names(&mut self, existing: &[ServerConfig], output: CliOutput) {
        let mut taken: Vec<String> = existing.iter().map(|server| server.name.clone()).collect();
        taken.extend(self.servers.iter().map(|planned| planned.found.server.name.clone()));
        for planned in &mut self.servers {
            // Servers of a project are imported only if they are asked for.
            if planned.state != ServerState::NameTaken || planned.found.is_of_project() {
                continue;
            }
            let name = planned.found.server.name.clone();
            let shown = printable(&planned.found.server.transport.to_string());
            announce(format_args!(
                "\nThe file has another server {}. This one is: {shown}",
                paint(BOLD, printable(&name))
            ));
            while let Some(answer) = output.ask("Name for it? [an empty line leaves it out] ") {
                let new = answer.trim();
                if new.is_empty() {
                    break;
                }
                if !is_server_name(new) {
                    announce("a name has up to 64 letters, digits, `-`, `_` and `.`");
                    continue;
                }
                if taken.iter().any(|name| name == new) {
                    announce(format_args!("the name {new} is taken"));
                    continue;
                }
                taken.push(new.to_owned());
                for server in [&mut planned.found.server, &mut planned.server] {
                    new.clone_into(&mut server.name);
                }
                (planned.state, planned.is_selected) = (ServerState::New, true);
                break;
            }
        }
    }
}
