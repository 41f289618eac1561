//! Selection of the servers to import, and their values and secrets.

use std::collections::BTreeMap;

use hospes_host::config::applications::ApplicationFile;
use hospes_host::config::import::{
    FoundServer, FoundServers, RefusedServer, SealedValue, fill_input, secret_name, take_secrets,
};
use hospes_host::config::{ConfigInput, ServerConfig, TextPart, nearest, servers_text};
use hospes_host::pins::Sha256Digest;
use sha2::{Digest as _, Sha256};

use super::names::rename;
use crate::args::ImportArgs;
use crate::exit::{CliError, CliResult};
use crate::output::{
    BOLD, CliOutput, announce, ask_hidden, discard_typed_input, one_line, paint, printable, shell_word,
};
use crate::paths;
use crate::secrets::{SecretStore, check_value};

/// Relation of a found server to the configuration file and to the other found ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerState {
    /// It can be added.
    New,
    /// The file has the same server.
    Present,
    /// The file has another server of this name.
    NameTaken,
    /// Applications have different servers of this name, and none was chosen.
    Conflict,
}

impl ServerState {
    /// Returns the name used in JSON.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Present => "present",
            Self::NameTaken => "name_taken",
            Self::Conflict => "conflict",
        }
    }
}

/// A found server, and what is to be done with it.
#[derive(Debug)]
pub(super) struct PlannedServer {
    pub(super) found: FoundServer,
    pub(super) state: ServerState,
    pub(super) is_selected: bool,
    /// The server as it is added, with references in place of secrets.
    pub(super) server: ServerConfig,
    /// Digest of its entry, with its origins, as it was found. Values of secrets are no part of it.
    pub(super) digest: Sha256Digest,
    /// Names under which its secrets are stored.
    pub(super) secrets: Vec<String>,
    /// Secrets that a person has to store before the server can start.
    pub(super) missing: Vec<String>,
}

impl PlannedServer {
    /// Returns `APP:NAME` for each origin.
    pub(super) fn qualified_names(&self) -> Vec<String> {
        self.found
            .origins
            .iter()
            .map(|origin| format!("{}:{}", origin.id(), self.found.server.name))
            .collect()
    }

    /// Returns the entry for the file, and the comment above it.
    pub(super) fn entry(&self) -> (ServerConfig, String) {
        (self.server.clone(), origins_comment(&self.found))
    }
}

fn origins_comment(found: &FoundServer) -> String {
    let origins = found.origins.iter().map(|origin| {
        let file = paths::display_path(origin.source.file());
        match origin.application {
            Some(application) => format!("{} ({file})", application.name),
            None => file,
        }
    });
    format!("From {}", origins.collect::<Vec<_>>().join(", "))
}

/// The found servers and their selection.
#[derive(Debug)]
pub(super) struct ImportPlan {
    pub(super) servers: Vec<PlannedServer>,
    pub(super) refused: Vec<RefusedServer>,
    pub(super) files: Vec<(ApplicationFile, usize)>,
    pub(super) unreadable: Vec<(std::path::PathBuf, String)>,
    /// Secrets that were typed in, by name.
    typed: Vec<SealedValue>,
}

impl ImportPlan {
    pub(super) fn new(found: FoundServers, existing: &[ServerConfig], args: &ImportArgs) -> CliResult<Self> {
        let FoundServers { mut servers, refused, files, unreadable, .. } = found;
        rename(&mut servers, &args.rename)?;
        let mut planned: Vec<PlannedServer> = Vec::with_capacity(servers.len());
        for found in servers {
            let known = existing.iter().find(|known| known.name == found.server.name);
            let state = match known {
                Some(known) if is_same(&found, known) => ServerState::Present,
                Some(_) => ServerState::NameTaken,
                None => ServerState::New,
            };
            let server = found.server.clone();
            // Shown before anything is asked; the final names are chosen when the secrets are stored.
            let mut secrets = Vec::new();
            let mut sealed = server.clone();
            let _values = take_secrets(&mut sealed, &mut |name, _| {
                secrets.push(name.to_owned());
                name.to_owned()
            });
            let entry = servers_text(&[(sealed, origins_comment(&found))]);
            let digest = Sha256Digest::new(Sha256::digest(entry).into());
            planned.push(PlannedServer {
                found,
                state,
                is_selected: false,
                server,
                digest,
                secrets,
                missing: Vec::new(),
            });
        }
        let mut plan = Self { servers: planned, refused, files, unreadable, typed: Vec::new() };
        plan.select(args)?;
        Ok(plan)
    }

    fn select(&mut self, args: &ImportArgs) -> CliResult {
        // Of a server in the file, the other variants are no choice.
        for index in 0..self.servers.len() {
            let name = &self.servers[index].found.server.name;
            let of_name = self.servers.iter().filter(|other| other.found.server.name == *name);
            if self.servers[index].state == ServerState::New && of_name.count() > 1 {
                self.servers[index].state = ServerState::Conflict;
            }
        }
        if args.servers.is_empty() {
            for planned in &mut self.servers {
                let is_chosen = args.project || !planned.found.is_of_project();
                planned.is_selected = planned.state == ServerState::New && is_chosen;
            }
            return Ok(());
        }
        for wanted in &args.servers {
            let is_wanted = |planned: &&mut PlannedServer| {
                planned.found.server.name == *wanted || planned.qualified_names().contains(wanted)
            };
            let mut matching: Vec<&mut PlannedServer> = self.servers.iter_mut().filter(is_wanted).collect();
            match matching.as_mut_slice() {
                [] => return Err(self.unknown(wanted)),
                [one] => {
                    if one.state == ServerState::NameTaken {
                        return Err(CliError::usage(format!(
                            "the configuration has another server `{}`",
                            printable(&one.found.server.name)
                        ))
                        .hint(format!(
                            "nothing was changed; import it under another name: --rename {}=NEW",
                            shell_word(&one_line(wanted))
                        )));
                    }
                    one.is_selected = one.state != ServerState::Present;
                    one.state = if one.is_selected { ServerState::New } else { one.state };
                }
                several => {
                    let names = several.iter().flat_map(|one| one.qualified_names());
                    let names: Vec<String> = names.map(|name| shell_word(&one_line(&name))).collect();
                    return Err(CliError::usage(format!(
                        "there are different servers `{}`",
                        printable(wanted)
                    ))
                    .hint(format!("choose one: --server {}", names.join(", --server "))));
                }
            }
        }
        Ok(())
    }

    fn unknown(&self, wanted: &str) -> CliError {
        let problem = CliError::usage(format!("no application has a server `{}`", printable(wanted)));
        let names: Vec<String> = self
            .servers
            .iter()
            .flat_map(|one| one.qualified_names().into_iter().chain([one.found.server.name.clone()]))
            .collect();
        match nearest(wanted, names.iter().map(String::as_str)) {
            Some(meant) => problem.hint(format!("did you mean `{meant}`?")),
            None => problem.hint("`hospes import --dry-run` lists the servers"),
        }
    }

    /// Checks that the servers to import are as they were seen. An empty list allows all.
    pub(super) fn check_seen(&self, seen: &[Sha256Digest]) -> CliResult {
        let changed = self.selected().find(|planned| !seen.is_empty() && !seen.contains(&planned.digest));
        let Some(changed) = changed else { return Ok(()) };
        let name = printable(&changed.found.server.name);
        Err(CliError::usage(format!("the server `{name}` has changed since it was shown"))
            .hint("nothing was changed; look at the servers again"))
    }

    /// Returns the servers to import.
    pub(super) fn selected(&self) -> impl Iterator<Item = &PlannedServer> {
        self.servers.iter().filter(|planned| planned.is_selected)
    }

    /// Asks the person which of several different servers of one name to take.
    pub(super) fn choose_variants(&mut self, output: CliOutput) {
        let mut index = 0;
        while index < self.servers.len() {
            let name = self.servers[index].found.server.name.clone();
            let end = index
                + self.servers[index..].iter().take_while(|other| other.found.server.name == name).count();
            let variants = &mut self.servers[index..end];
            index = end;
            let is_open = variants.iter().all(|variant| variant.state == ServerState::Conflict);
            // A conflict that was decided on the command line has one selected variant.
            if !is_open || variants.len() < 2 {
                continue;
            }
            announce(format_args!("\nThere are different servers {}:", paint(BOLD, printable(&name))));
            for (number, variant) in variants.iter().enumerate() {
                let origins: Vec<String> = variant.found.origins.iter().map(|origin| origin.id()).collect();
                let shown = printable(&variant.found.server.transport.to_string());
                announce(format_args!("  {}  {}: {shown}", number + 1, printable(&origins.join(", "))));
            }
            let answer = output.ask("Which one? [number; an empty line takes none] ");
            let chosen = answer.and_then(|answer| answer.trim().parse::<usize>().ok());
            if let Some(variant) = chosen.and_then(|number| variants.get_mut(number.checked_sub(1)?)) {
                variant.is_selected = true;
                variant.state = ServerState::New;
            }
        }
    }

    /// Fills in the values that the applications ask their users for: from the environment, or from the person.
    pub(super) fn answer_inputs(&mut self, may_ask: bool, output: CliOutput) -> CliResult {
        let mut known: BTreeMap<String, TextPart> = BTreeMap::new();
        for planned in self.servers.iter_mut().filter(|planned| planned.is_selected) {
            let origin = planned.found.origins[0].id();
            for input in planned.found.inputs.clone() {
                // The same id of another application may mean something else.
                let name = secret_name(&format!("{origin}.{}", input.id));
                let answer = match known.get(&name) {
                    Some(answer) => Some(answer.clone()),
                    None => answer(&input, &name, may_ask, &mut self.typed, output)?,
                };
                let Some(answer) = answer else {
                    if input.is_secret {
                        planned.missing.push(name.clone());
                        fill_input(&mut planned.server, &input.id, &TextPart::Secret(name));
                    } else {
                        planned.is_selected = false;
                        self.refused.push(refuse(planned, &input));
                        break;
                    }
                    continue;
                };
                fill_input(&mut planned.server, &input.id, &answer);
                known.insert(name, answer);
            }
        }
        Ok(())
    }

    /// Takes the secrets out of the selected servers. Returns all that are to be stored.
    pub(super) fn seal(&mut self, store: Option<&SecretStore>) -> CliResult<Vec<SealedValue>> {
        let mut stored: BTreeMap<String, String> = BTreeMap::new();
        if let Some(store) = store {
            for name in store.names()? {
                if let Some(value) = store.read(&name)? {
                    stored.insert(name, value);
                }
            }
            for planned in &mut self.servers {
                planned.missing.retain(|name| !stored.contains_key(name));
            }
        }
        let mut sealed = std::mem::take(&mut self.typed);
        // A typed value replaces a stored one of the same question.
        stored.extend(sealed.iter().map(|secret| (secret.name.clone(), secret.value.reveal().to_owned())));
        for planned in &mut self.servers {
            let taken = take_secrets(&mut planned.server, &mut |proposed, value| {
                let mut name = proposed.to_owned();
                let mut number = 2;
                // A secret of this name that something else refers to must not be replaced.
                while stored.get(&name).is_some_and(|known| known != value) {
                    name = secret_name(&format!("{number}-{proposed}"));
                    number += 1;
                }
                if planned.is_selected {
                    stored.insert(name.clone(), value.to_owned());
                }
                name
            });
            planned.secrets = taken.iter().map(|secret| secret.name.clone()).collect();
            if planned.is_selected {
                sealed.extend(taken);
            }
        }
        Ok(sealed)
    }
}

/// Returns true if the file has the server, perhaps with its secrets already sealed.
fn is_same(found: &FoundServer, known: &ServerConfig) -> bool {
    let mut sealed = found.server.clone();
    for input in found.inputs.iter().filter(|input| input.is_secret) {
        let name = secret_name(&format!("{}.{}", found.origins[0].id(), input.id));
        fill_input(&mut sealed, &input.id, &TextPart::Secret(name));
    }
    let _values = take_secrets(&mut sealed, &mut |name, _| name.to_owned());
    known.transport.to_string() == sealed.transport.to_string()
        && (known.transport == found.server.transport || known.transport == sealed.transport)
}

fn refuse(planned: &PlannedServer, input: &ConfigInput) -> RefusedServer {
    let variable = variable_of(&input.id);
    RefusedServer::new(
        planned.found.server.name.clone(),
        planned.found.origins[0].clone(),
        format!(
            "it needs a value for `{}`: run the command in a terminal, or set {variable}",
            printable(&input.id)
        ),
    )
}

/// Returns the environment variable with the answer to an input.
fn variable_of(id: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("HOSPES_INPUT_{}", id.chars().map(letter).collect::<String>())
}

/// Returns the value of an input, or `None` if nobody can be asked.
fn answer(
    input: &ConfigInput,
    name: &str,
    may_ask: bool,
    typed: &mut Vec<SealedValue>,
    output: CliOutput,
) -> CliResult<Option<TextPart>> {
    let variable = std::env::var(variable_of(&input.id)).ok().filter(|value| !value.is_empty());
    let value = match variable {
        Some(value) => Some(value),
        None if may_ask => ask(input, output),
        None if input.is_secret => None,
        None => input.default.clone(),
    };
    let Some(value) = value else { return Ok(None) };
    if !input.is_secret {
        return Ok(Some(TextPart::Literal(value)));
    }
    check_value(&value)?;
    typed.push(SealedValue::new(name, value));
    Ok(Some(TextPart::Secret(name.to_owned())))
}

fn ask(input: &ConfigInput, output: CliOutput) -> Option<String> {
    let about = if input.description.is_empty() { &input.id } else { &input.description };
    let about = paint(BOLD, printable(about));
    discard_typed_input();
    if input.is_secret {
        let typed = ask_hidden(format!("{about} (it is not shown; an empty line skips it): "))?;
        return Some(typed.to_string()).filter(|typed| !typed.is_empty());
    }
    let mut notes = Vec::new();
    if !input.options.is_empty() {
        notes.push(printable(&input.options.join(" | ")));
    }
    if let Some(default) = &input.default {
        notes.push(format!("default {}", printable(default)));
    }
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    let typed = output.ask(format!("{about}{notes}: "))?;
    let typed = typed.trim().to_owned();
    if typed.is_empty() { input.default.clone() } else { Some(typed) }
}
