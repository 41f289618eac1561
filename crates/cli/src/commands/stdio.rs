//! `hospes stdio`: serves the whole host over stdin and stdout.

use hospes::transport::stdio_server::StdioServer;
use hospes_host::UpstreamAccounts;
use hospes_host::config::{HostConfig, ServerConfig};

use super::InterruptListener;
use super::up::{request_state, require, start, stop};
use crate::args::{HostOptions, StdioArgs};
use crate::attach;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::fleet::HostFleet;
use crate::output::{CliOutput, explain_stdio};
use crate::settings::{default_servers, load};
use crate::{credentials, missing_programs, profiles};

pub(crate) async fn run(args: StdioArgs) -> CliResult {
    // Standard output carries the protocol, and there is no person to report to at the end.
    let output = CliOutput { json: false, quiet: false };
    let quiet = CliOutput { quiet: true, ..output };
    if let Some(application) = &args.application
        && has_no_settings(&args.host)
    {
        if let Some(attachment) = attach::attach(application, args.profile.as_deref()).await? {
            tracing::info!(pid = attachment.pid, "attached to the running host");
            let ended = attachment.forward().await;
            return ended.map_err(|error| {
                CliError::new(FailureCode::Unreachable, "the connection to the running host has ended")
                    .with_cause(&error)
            });
        }
        output.say(
            "no running host can be used; starting one in this process (`hospes up` runs one for all applications)",
        );
    }
    let mut loaded = load(&args.host.files)?;
    if loaded.files.is_empty() {
        tracing::info!("no configuration found; starting the built-in servers");
        loaded.config.servers = default_servers();
    }
    if let Some(name) = &args.profile {
        narrow(&mut loaded.config, name)?;
    }
    missing_programs::restart_with_login_path(&loaded.config, output)?;
    explain_stdio("`hospes up` serves the same over HTTP");
    let mut ending = InterruptListener::new()?;
    warn_of_unserved(&loaded.config, "stdio has no sign-in", output);
    let shared = HostFleet::beside(&loaded.config).await?;
    let accounts = match &shared {
        Some(shared) => shared.accounts()?,
        None => UpstreamAccounts::new(credentials::open_when_created()?),
    };
    let host = Box::pin(start(&args.host, loaded.config, Some(accounts), shared, output)).await?;
    let Some(ready) = ending.unless(require(&host)).await else {
        stop(host, &mut ending, quiet).await;
        return Ok(());
    };
    ready?;
    let gateway = match &args.profile {
        None => Some(host.gateway()),
        Some(name) => host.gateway_of_profile(name),
    };
    let gateway = gateway.ok_or_else(|| CliError::usage("the host has no such profile"))?;
    let rounds = request_state(&host)?.map(|rounds| (rounds.keys_for(&gateway), rounds.lifetime));
    let mut server = StdioServer::new(gateway);
    if let Some((keys, lifetime)) = rounds {
        server = server.state_keys(keys).state_lifetime(lifetime);
    }
    let served = ending.serve(|shutdown| server.serve_process(shutdown), || {}).await;
    stop(host, &mut ending, quiet).await;
    served.map_err(|error| CliError::usage("cannot serve over stdin and stdout").with_cause(&error))
}

/// Leaves only the servers of a profile, so that no other is started.
fn narrow(config: &mut HostConfig, name: &str) -> CliResult {
    let profile = profiles::find(name, &config.profiles)?.clone();
    if profile.groups.is_some() {
        let why =
            format!("the profile `{name}` is for signed-in people of its `groups`, and stdio has no sign-in");
        return Err(
            CliError::usage(why).hint("connect the application to the endpoint of the profile over HTTP")
        );
    }
    // A server with secrets of the profile takes the place of the one for everybody.
    let is_shown =
        |server: &ServerConfig| profile.includes(&server.name) && !profile.own_servers.contains(&server.name);
    config.servers.retain(is_shown);
    config.profile_servers.retain(|server| server.profile.as_deref() == Some(name));
    config.profiles.retain(|profile| profile.name == name);
    Ok(())
}

/// Returns true if no option is given that the running host might not have.
fn has_no_settings(options: &HostOptions) -> bool {
    options.files.config.is_empty()
        && options.policy.is_none()
        && options.preset.is_none()
        && options.unattended.is_none()
        && options.pins.is_none()
        && options.roots.is_empty()
        && !options.no_audit
        && !options.audit_arguments
}

/// Warns about servers that are unavailable because they need a user who is signed in.
pub(crate) fn warn_of_unserved(config: &HostConfig, why: &str, output: CliOutput) {
    for server in config.servers.iter().filter(|server| server.is_per_user() && !server.disabled) {
        output.warn(format_args!(
            "server `{}` is not available here: it needs an account for each user, and {why}",
            server.name
        ));
    }
}
