//! `hospes profile`: lists and shows the profiles of the configuration.

use std::fmt::Write as _;
use std::path::PathBuf;

use hospes_host::config::{HostConfig, ProfileConfig, ToolFilter};
use serde_json::{Value, json};

use crate::args::{ConfigFileArgs, ProfileCommand, ProfileListArgs, ProfileShowArgs};
use crate::exit::{CliError, CliResult};
use crate::known_servers::known_tool_names;
use crate::output::{BOLD, CYAN, CliOutput, DIM, paint, printable};
use crate::profiles::unmatched_text;
use crate::settings::load_without_secrets;
use crate::{paths, profiles};

pub(crate) async fn run(command: ProfileCommand, output: CliOutput) -> CliResult {
    match command {
        ProfileCommand::List(args) => list(&args, output),
        ProfileCommand::Show(args) => show(&args, output).await,
    }
}

fn list(args: &ProfileListArgs, output: CliOutput) -> CliResult {
    let config = read(&args.config)?;
    if output.json {
        let all: Vec<Value> = config.profiles.iter().map(|profile| value(profile, &config)).collect();
        output.value(&all);
        return Ok(());
    }
    let widest = config.profiles.iter().map(|profile| profile.name.len()).max().unwrap_or(0);
    for profile in &config.profiles {
        let name = format!("{:widest$}", profile.name);
        let title =
            profile.title.as_deref().map(|title| format!("  {}", printable(title))).unwrap_or_default();
        let servers: Vec<String> = shown_servers(profile, &config).into_iter().map(printable).collect();
        output.result(format!("{}{title}  {}", paint(BOLD, name), paint(DIM, servers.join(", "))));
    }
    if config.profiles.is_empty() {
        output.say("no profiles are configured");
        output.hint("a table `[profiles.NAME]` with `servers = [...]` in the configuration makes one");
    }
    Ok(())
}

async fn show(args: &ProfileShowArgs, output: CliOutput) -> CliResult {
    let config = read(&args.config)?;
    let profile = profiles::find(&args.name, &config.profiles)?;
    warn_of_unmatched(profile, &args.config, output).await;
    if output.json {
        output.value(&value(profile, &config));
        return Ok(());
    }
    let mut text = paint(BOLD, &profile.name);
    if let Some(title) = &profile.title {
        let _ = write!(text, "  {}", printable(title));
    }
    text.push('\n');
    if let Some(description) = &profile.description {
        let _ = writeln!(text, "  {}", printable(description));
    }
    let mut row = |what: &str, said: &str| {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  {}  {said}", paint(DIM, format!("{what:<8}")));
    };
    match endpoint(&profile.name) {
        Some(url) => row("endpoint", &paint(CYAN, url)),
        None => {
            row("endpoint", &format!("{} {}", path(&profile.name), paint(DIM, "(no host is running here)")))
        }
    }
    if profile.groups.is_none() {
        row("command", &format!("hospes stdio --profile {}", profile.name));
    }
    let servers = shown_servers(profile, &config);
    if servers.is_empty() {
        row("servers", &paint(DIM, "none"));
    }
    for (index, server) in servers.into_iter().enumerate() {
        let tools = profile.tools.get(server).map(|filter| format!("  {}", paint(DIM, filter_text(filter))));
        let what = if index == 0 { "servers" } else { "" };
        row(what, &format!("{}{}", printable(server), tools.unwrap_or_default()));
    }
    if let Some(groups) = &profile.groups {
        row("groups", &groups.iter().map(|group| printable(group)).collect::<Vec<_>>().join(", "));
    }
    for (index, (name, stored)) in profile.secrets.iter().enumerate() {
        row(
            if index == 0 { "secrets" } else { "" },
            &format!("{name} {}", paint(DIM, format!("is {stored}"))),
        );
    }
    output.result(text.trim_end());
    Ok(())
}

/// Warns of patterns that match none of the tools that a server is known to offer.
async fn warn_of_unmatched(profile: &ProfileConfig, files: &[PathBuf], output: CliOutput) {
    if profile.tools.is_empty() {
        return;
    }
    let files = ConfigFileArgs { config: files.to_vec(), allow_unset: true, strict: false };
    let servers = load_without_secrets(&files).map(|loaded| loaded.config.servers).unwrap_or_default();
    for server in servers.iter().filter(|server| profile.includes(&server.name)) {
        let Some(filter) = profile.tools.get(&server.name) else { continue };
        let Some(tools) = known_tool_names(server).await.filter(|tools| !tools.is_empty()) else { continue };
        if let Some(text) = unmatched_text(filter, &server.name, &tools) {
            output.warn(text);
        }
    }
}

fn read(files: &[PathBuf]) -> CliResult<HostConfig> {
    if files.is_empty() && paths::default_config().is_none() {
        return Ok(HostConfig::default());
    }
    profiles::read_config(files).ok_or_else(|| {
        CliError::usage("the configuration cannot be read").hint("`hospes doctor` says what is wrong with it")
    })
}

/// Returns the servers of the configuration that a profile shows.
fn shown_servers<'c>(profile: &ProfileConfig, config: &'c HostConfig) -> Vec<&'c str> {
    let servers = config.servers.iter().filter(|server| !server.disabled && profile.includes(&server.name));
    servers.map(|server| server.name.as_str()).collect()
}

fn value(profile: &ProfileConfig, config: &HostConfig) -> Value {
    let tools = profile.tools.iter().map(|(server, filter)| {
        let filter = json!({ "include": filter.include, "exclude": filter.exclude });
        (server.clone(), filter)
    });
    json!({
        "name": profile.name,
        "title": profile.title,
        "description": profile.description,
        "path": path(&profile.name),
        "endpoint": endpoint(&profile.name),
        "servers": shown_servers(profile, config),
        "tools": tools.collect::<serde_json::Map<String, Value>>(),
        "groups": profile.groups,
        "secrets": profile.secrets,
    })
}

fn filter_text(filter: &ToolFilter) -> String {
    let list = |names: &[String]| names.iter().map(|name| printable(name)).collect::<Vec<_>>().join(", ");
    let include = filter.include.as_deref().map(|names| format!("only {}", list(names)));
    let exclude = Some(&*filter.exclude).filter(|names| !names.is_empty());
    let exclude = exclude.map(|names| format!("without {}", list(names)));
    include.into_iter().chain(exclude).collect::<Vec<_>>().join("; ")
}

fn path(name: &str) -> String {
    format!("{}/{name}", hospes::transport::http_server::DEFAULT_PATH)
}

/// Returns the URL of a profile's endpoint at the host that was started last.
fn endpoint(name: &str) -> Option<String> {
    paths::list_host_notes().first().map(|(_, note)| format!("{}/{name}", note.endpoint))
}
