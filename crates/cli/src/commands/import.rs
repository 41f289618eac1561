//! `hospes import`: takes over the servers that applications are configured with. The files of the applications are
//! only read.

mod names;
mod plan;
mod view;

use std::path::{Path, PathBuf};

use hospes_host::config::applications::{APPLICATIONS, Application, ApplicationFolders, SystemKind};
use hospes_host::config::import::{FoundServers, SealedValue};
use hospes_host::config::{ServerConfig, add_servers, nearest, servers_text};

use self::plan::{ImportPlan, PlannedServer};
use super::application_package::{choose_package, several};
use super::config_target::ConfigTarget;
use super::file_replace;
use crate::args::ImportArgs;
use crate::exit::{CliError, CliResult};
use crate::output::{self, CliOutput, paint, printable};
use crate::paths;
use crate::secrets::SecretStore;

pub(crate) fn run(args: &ImportArgs, output: CliOutput) -> CliResult {
    let target = ConfigTarget::read(args.config.clone())?;
    let found = find(args, output)?;
    let existing = target.servers()?;
    let mut plan = ImportPlan::new(found, &existing, args)?;
    plan.check_seen(&args.seen)?;
    let may_ask = output::is_interactive() && !args.yes && !args.dry_run && !output.json;
    if may_ask {
        view::show(&plan, &target.file, output);
        plan.choose_variants(output);
        plan.choose_names(&existing, output);
    }
    if args.yes || args.dry_run || may_ask {
        plan.answer_inputs(may_ask, output)?;
    }
    let store = SecretStore::open_existing;
    // Without a change, no keyring has to be unlocked.
    let store = if args.yes || may_ask { store()? } else { None };
    let sealed = plan.seal(store.as_ref())?;
    if !may_ask && !output.json {
        view::show(&plan, &target.file, output);
    }
    let selected: Vec<&PlannedServer> = plan.selected().collect();
    let mut imported = false;
    if !selected.is_empty() && (args.yes || may_ask && confirm(&selected, &target.file, output)) {
        imported = true;
        apply(&target, &selected, &sealed, args, output)?;
    }
    if output.json {
        view::print_json(&plan, &target.file, imported, output);
    } else {
        view::conclude(&plan, &target.file, imported, may_ask, output);
    }
    Ok(())
}

/// Reads the files of the applications, or the named ones.
fn find(args: &ImportArgs, output: CliOutput) -> CliResult<FoundServers> {
    let home = std::env::home_dir().ok_or_else(|| {
        CliError::usage("no home folder found in which applications keep files").hint("set HOME")
    })?;
    let project = std::env::current_dir()
        .map_err(|error| CliError::usage("cannot determine the current folder").with_cause(&error))?;
    let variable = |name: &str| std::env::var(name).ok();
    let folders = ApplicationFolders::new(SystemKind::current(), home, variable).project(&project);
    let mut applications: Vec<&str> = args.from.iter().map(String::as_str).collect();
    let mut files: Vec<&Path> = Vec::new();
    for source in &args.sources {
        // A path has a separator or an extension; the ids of applications have neither.
        let application = Application::find(source);
        // A shown name may be that of a file, too.
        if let Some(known) = application.filter(|known| known.id == *source || !Path::new(source).is_file()) {
            applications.push(known.id);
        } else if source.contains(['/', '\\', '.']) || Path::new(source).is_file() {
            files.push(Path::new(source));
        } else {
            let known = APPLICATIONS.iter().map(|one| one.id);
            let problem = CliError::usage(format!("unknown application or file `{}`", printable(source)));
            return Err(match nearest(source, known.clone()) {
                Some(meant) => problem.hint(format!("did you mean `{meant}`?")),
                None => problem.hint(format!("known applications: {}", known.collect::<Vec<_>>().join(", "))),
            });
        }
    }
    let mut found = FoundServers::default();
    let is_all = applications.is_empty() && files.is_empty();
    let may_ask = output::is_interactive() && !args.yes && !args.dry_run && !output.json;
    let is_wanted = |id: &str| is_all || applications.contains(&id);
    let mut left_out: Vec<PathBuf> = Vec::new();
    for application in APPLICATIONS.iter().filter(|application| is_wanted(application.id)) {
        let mut packages = folders.packaged(application);
        packages.retain(|package| package.path.is_file());
        if packages.len() < 2 {
            continue;
        }
        let chosen = choose_package(&packages, |question| if may_ask { output.ask(question) } else { None });
        let chosen = chosen.ok().map(|chosen| chosen.path.clone());
        if chosen.is_none() {
            let why = format!("{}; name the file that is to be read", several(&packages));
            found.unreadable.push((packages[0].path.clone(), why));
        }
        let others = packages.into_iter().map(|package| package.path);
        left_out.extend(others.filter(|path| chosen.as_ref() != Some(path)));
    }
    for file in folders.find() {
        if left_out.contains(&file.path) {
            continue;
        }
        let is_of_other =
            || file.application.sharing_files().is_some_and(|other| applications.contains(&other.id));
        if is_wanted(file.application.id) || is_of_other() {
            found.add_file(&file, &project, &variable);
        }
    }
    for file in files {
        found.add_named(file, &project, &variable);
    }
    if !is_all
        && found.servers.is_empty()
        && found.refused.is_empty()
        && let Some((file, problem)) = found.unreadable.first()
    {
        let shown = paths::display_path(file);
        return Err(CliError::usage(problem.clone()).hint(match file.exists() {
            true => format!("correct {shown} and try again"),
            false => format!("there is no file {shown}; correct the path"),
        }));
    }
    Ok(found)
}

fn confirm(selected: &[&PlannedServer], file: &Path, output: CliOutput) -> bool {
    let count = match selected.len() {
        1 => "1 server".to_owned(),
        count => format!("{count} servers"),
    };
    let file = paths::display_path(file);
    output::discard_typed_input();
    let answer = output.ask(format!("\nImport {count} into {}? [y/N] ", paint(output::BOLD, file)));
    answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Stores the secrets and adds the servers to the file.
fn apply(
    target: &ConfigTarget,
    selected: &[&PlannedServer],
    sealed: &[SealedValue],
    args: &ImportArgs,
    output: CliOutput,
) -> CliResult {
    let servers: Vec<(ServerConfig, String)> = selected.iter().map(|planned| planned.entry()).collect();
    let text = add_servers(&target.file, &target.text, &servers).map_err(|error| {
        let file = paths::display_path(&target.file);
        CliError::usage(format!("cannot add to {file}")).with_cause(&error).hint(format!(
            "nothing was changed; write `[servers]` as a table of its own, or add this by hand:\n{}",
            servers_text(&servers)
        ))
    })?;
    // First the secrets: a file that refers to missing ones would be worse than secrets that nothing refers to.
    if !sealed.is_empty() {
        let store = SecretStore::open_or_create(args.credentials_store, output)?;
        for secret in sealed {
            store.write(&secret.name, secret.value.reveal())?;
        }
    }
    file_replace::replace(&target.file, &target.text, &text)
}
