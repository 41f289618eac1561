//! `hospes export`: writes the configured servers in the form of an application.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use hospes_host::config::applications::Application;
use hospes_host::config::export::{ExportedServers, RevealSecret, export_servers};
use hospes_host::config::{ConfigLoader, ServerConfig, nearest};
use serde_json::json;

use crate::args::ExportArgs;
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, printable};
use crate::{installation, paths, printed_secrets, secrets};

pub(crate) fn run(args: &ExportArgs, output: CliOutput) -> CliResult {
    let application = Application::find(&args.format)
        .ok_or_else(|| CliError::usage(format!("unknown format `{}`", printable(&args.format))))?;
    if args.with_secrets {
        printed_secrets::reveal();
    }
    let servers = servers(args)?;
    let program = installation::lasting_program()?;
    let look_up = secrets::look_up();
    let reveal = |name: &str| match look_up(name) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(format!("the secret `{name}` is not stored; `hospes secret set {name}` stores it")),
        Err(why) => Err(format!("the secret `{name}` cannot be read: {why}")),
    };
    let reveal: Option<&RevealSecret<'_>> = if args.with_secrets { Some(&reveal) } else { None };
    let exported = export_servers(&servers, &application.shape, &program, reveal).map_err(CliError::usage)?;
    if let Some(file) = &args.output {
        write_new(file, &exported)?;
    } else if !output.json {
        output.result(&exported.text);
    }
    if output.json {
        output.value(&json!({
            "format": application.id,
            "file": args.output,
            "text": args.output.is_none().then_some(&exported.text),
            "variables": exported.variables,
            "omitted": exported
                .omitted
                .iter()
                .map(|(server, reason)| json!({ "server": server, "reason": reason }))
                .collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    explain(&exported, application, args, output);
    Ok(())
}

/// Returns the servers to export, with their references.
fn servers(args: &ExportArgs) -> CliResult<Vec<ServerConfig>> {
    let files = match args.config.is_empty() {
        false => args.config.clone(),
        true => paths::default_config().into_iter().collect(),
    };
    if files.is_empty() {
        return Err(CliError::usage("there is no configuration to export")
            .hint("`hospes import` creates one from your applications"));
    }
    let loader = ConfigLoader::new().keep_references(true).allow_unset(true);
    let config = loader.load(&files).map_err(|errors| {
        CliError::usage(errors.to_string()).hint("nothing was exported; correct the file and try again")
    })?;
    if args.servers.is_empty() {
        return Ok(config.servers);
    }
    let mut chosen = Vec::with_capacity(args.servers.len());
    for name in &args.servers {
        match config.server(name) {
            Some(server) => chosen.push(server.clone()),
            None => {
                let names = config.servers.iter().map(|server| server.name.as_str());
                let problem = CliError::usage(format!("no server `{}` is configured", printable(name)));
                return Err(match nearest(name, names) {
                    Some(meant) => problem.hint(format!("did you mean `{meant}`?")),
                    None => problem,
                });
            }
        }
    }
    Ok(chosen)
}

/// Writes a new file. An existing one may have more than servers in it, so it is never replaced.
fn write_new(file: &Path, exported: &ExportedServers) -> CliResult {
    let created = if exported.has_secrets { hospes_fs::create_private(file) } else { File::create_new(file) };
    let written = created.and_then(|mut opened| opened.write_all(exported.text.as_bytes()));
    written.map_err(|error| {
        let problem =
            CliError::usage(format!("cannot write {}", paths::display_path(file))).with_cause(&error);
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                problem.hint("an existing file is not replaced; choose another name")
            }
            _ => problem,
        }
    })
}

fn explain(exported: &ExportedServers, application: &Application, args: &ExportArgs, output: CliOutput) {
    for (server, reason) in &exported.omitted {
        output.warn(format_args!("`{}`: {reason}", printable(server)));
    }
    if !exported.variables.is_empty() {
        let names: Vec<&str> = exported.variables.keys().map(String::as_str).collect();
        output.hint(format_args!(
            "{} needs values for {}; --with-secrets writes them into the text",
            application.name,
            names.join(", ")
        ));
    }
    if exported.has_secrets {
        output.warn("the text has secrets in it; keep it to yourself");
    }
    if let Some(file) = &args.output {
        output.say(format_args!("wrote {}", paths::display_path(file)));
    }
}
