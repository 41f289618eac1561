//! `hospes secret`: stores, lists and deletes the secrets that the configuration refers to. No command prints a value.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use hospes_host::config::import::{MAX_SECRET_VALUE, required_secrets};
use hospes_host::config::{ConfigLoader, ServerConfig, nearest};
use serde_json::json;
use zeroize::Zeroizing;

use crate::args::{SecretCommand, SecretListArgs, SecretRemoveArgs, SecretSetArgs};
use crate::exit::{CliError, CliResult};
use crate::output::{BOLD, CliOutput, DIM, YELLOW, ask_hidden, paint, printable, table_cell, widest};
use crate::paths;
use crate::secrets::{SecretStore, check_name, check_value};

pub(crate) fn run(command: SecretCommand, output: CliOutput) -> CliResult {
    match command {
        SecretCommand::Set(args) => set(&args, output),
        SecretCommand::List(args) => list(&args, output),
        SecretCommand::Remove(args) => remove(&args, output),
    }
}

fn set(args: &SecretSetArgs, output: CliOutput) -> CliResult {
    check_name(&args.name)?;
    let value = read_value(&args.name)?;
    check_value(&value)?;
    let store = SecretStore::open_or_create(args.credentials_store, output)?;
    let is_new = store.read(&args.name)?.is_none();
    store.write(&args.name, &value)?;
    let name = &args.name;
    if output.json {
        output.value(&json!({ "name": name, "replaced": !is_new }));
    } else {
        let done = if is_new { "stored" } else { "replaced" };
        output.say(format_args!("{done}; the configuration refers to it as ${{secret:{name}}}"));
    }
    Ok(())
}

/// Reads a value from the terminal, hidden, or all of standard input without the line break at its end.
fn read_value(name: &str) -> CliResult<Zeroizing<String>> {
    if std::io::stdin().is_terminal() {
        let question = format!("Value of {} (it is not shown): ", paint(BOLD, name));
        return ask_hidden(question).ok_or_else(|| CliError::usage("cancelled; nothing was stored"));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    // One byte more than the limit shows that there is more.
    let read = std::io::stdin().take(MAX_SECRET_VALUE as u64 + 3).read_to_end(&mut bytes);
    read.map_err(|error| CliError::usage("cannot read standard input").with_cause(&error))?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| CliError::usage("the value on standard input is not UTF-8 text; nothing was stored"))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    Ok(Zeroizing::new(text.strip_suffix('\r').unwrap_or(text).to_owned()))
}

fn list(args: &SecretListArgs, output: CliOutput) -> CliResult {
    let names = match SecretStore::open_existing()? {
        Some(store) => store.names()?,
        None => Vec::new(),
    };
    let mut users = users(&args.config, output);
    let mut rows: Vec<(String, bool, Vec<String>)> = names
        .into_iter()
        .map(|name| {
            let used = users.remove(&name).unwrap_or_default();
            (name, true, used)
        })
        .collect();
    rows.extend(users.into_iter().map(|(name, used)| (name, false, used)));
    if output.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, is_stored, used)| json!({ "name": name, "stored": is_stored, "servers": used }))
            .collect();
        output.value(&rows);
        return Ok(());
    }
    if rows.is_empty() {
        output.say("no secrets are stored");
        return Ok(());
    }
    let width = widest(rows.iter().map(|(name, ..)| name.as_str()));
    for (name, is_stored, used) in rows {
        let used = match used.as_slice() {
            [] => paint(DIM, "not used by a server"),
            used => printable(&used.join(", ")),
        };
        let missing = if is_stored { String::new() } else { format!("  {}", paint(YELLOW, "not stored")) };
        output.line(&format!("{}  {used}{missing}", table_cell(&name, width)));
    }
    Ok(())
}

/// Returns the servers that refer to each secret.
fn users(named: &[PathBuf], output: CliOutput) -> BTreeMap<String, Vec<String>> {
    let files: Vec<PathBuf> =
        if named.is_empty() { paths::default_config().into_iter().collect() } else { named.to_vec() };
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let loader = ConfigLoader::new().keep_references(true).keep_going(true).allow_unset(true);
    match loader.load(&files) {
        Ok(config) => {
            for server in &config.servers {
                for secret in required_secrets(server) {
                    users.entry(secret).or_default().push(server.name.clone());
                }
            }
            // A profile uses a secret in place of the one that its servers refer to.
            for profile in &config.profiles {
                let replaces = |server: &&ServerConfig, name: &String| {
                    profile.includes(&server.name) && required_secrets(server).contains(name)
                };
                for (name, stored) in &profile.secrets {
                    let servers = config.servers.iter().filter(|server| replaces(server, name));
                    let labels = servers.map(|server| format!("{} (profile {})", server.name, profile.name));
                    users.entry(stored.clone()).or_default().extend(labels);
                }
            }
        }
        // The names are worth showing without their users.
        Err(errors) => output.warn(format_args!("cannot tell which servers use them: {errors}")),
    }
    users
}

fn remove(args: &SecretRemoveArgs, output: CliOutput) -> CliResult {
    let name = &args.name;
    let store = SecretStore::open_existing()?;
    let names = store.as_ref().map_or(Ok(Vec::new()), SecretStore::names)?;
    let Some(store) = store.filter(|_| names.contains(name)) else {
        let missing = CliError::usage(format!("no secret `{}` is stored", printable(name)));
        return Err(match nearest(name, names.iter().map(String::as_str)) {
            Some(meant) => missing.hint(format!("did you mean `{meant}`?")),
            None => missing.hint("`hospes secret list` lists the names"),
        });
    };
    store.remove(name)?;
    if let Some(used) = users(&[], output).get(name) {
        let used = printable(&used.join(", "));
        output.warn(format_args!("servers that refer to it cannot start any more: {used}"));
    }
    output.say(format_args!("deleted {name}"));
    Ok(())
}
