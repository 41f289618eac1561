//! `hospes service`: starts the host when the user signs in, through the service manager of the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::args::{ServiceCommand, ServiceInstallArgs};
use crate::exit::{CliError, CliResult};
use crate::output::{BOLD, CliOutput, DIM, paint, printable};
use crate::service_files::{
    LAUNCHD_LABEL, NAME, ServiceDefinition, ServiceManager, created_folders, is_ours, program_and_path,
};
use crate::{installation, login_path, paths};

/// Maximum time of one command of the service manager. Starting waits until the host is ready.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(100);

pub(crate) async fn run(command: ServiceCommand, output: CliOutput) -> CliResult {
    match command {
        ServiceCommand::Install(args) => install(args, output).await,
        ServiceCommand::Status => status(output).await,
        ServiceCommand::Remove => remove(output).await,
    }
}

async fn install(args: ServiceInstallArgs, output: CliOutput) -> CliResult {
    let manager = args.manager.unwrap_or(ServiceManager::of_this_system());
    let file = service_file(manager)?;
    let before = read_own(&file)?;
    let definition = define(&args, &file, before.as_deref())?;
    let content = definition.render(manager).map_err(|text| {
        CliError::usage(format!("a service file cannot contain the control characters of {text:?}"))
            .hint("rename the file or correct PATH, then try again")
    })?;
    if args.dry_run {
        output.result(content);
        return Ok(());
    }
    if let Some(warning) = installation::cache_warning() {
        output.warn(warning);
    }
    write(&file, &content)?;
    let mut failure = None;
    for command in start_commands(manager, &file) {
        if let Err(error) = run_command(&command).await {
            failure = Some(error);
            break;
        }
    }
    if let Some(failure) = failure {
        // What was there before is restored, so that a failed installation leaves nothing.
        match before {
            Some(before) => write(&file, &before)?,
            None => {
                for command in stop_commands(manager) {
                    // What was not enabled cannot be disabled.
                    let _unknown = run_command(&command).await;
                }
                delete(manager, &file, &content).await?;
            }
        }
        return Err(failure.hint("nothing was installed; `hospes service install --dry-run` prints the file"));
    }
    output.say(format_args!("installed and started: {}", paths::display_path(&file)));
    output.say(paint(
        DIM,
        "`hospes service status` and `hospes logs` show how it is; `hospes service remove` undoes this",
    ));
    Ok(())
}

/// Returns what the service runs, from the options and the environment.
fn define(args: &ServiceInstallArgs, file: &Path, before: Option<&str>) -> CliResult<ServiceDefinition> {
    // Quiet, because links to the console and tokens, which `up` prints otherwise, do not belong into a system log.
    let mut arguments = vec!["--quiet".to_owned(), "up".to_owned()];
    for config in &args.config {
        if !config.is_file() {
            return Err(CliError::usage(format!("--config: file not found: {}", config.display())));
        }
        let absolute = std::path::absolute(config).map_err(|error| {
            CliError::usage(format!("--config: cannot make {} absolute", config.display())).with_cause(&error)
        })?;
        arguments.extend(["--config".to_owned(), text(&absolute)?]);
    }
    let program = installation::lasting_program()?;
    let path = login_path::read().or_else(|| std::env::var("PATH").ok()).unwrap_or_default();
    // A second installation has to remember what the first one created.
    let created_folders = match before {
        Some(before) => created_folders(before),
        None => missing_folders(file).iter().map(|folder| text(folder)).collect::<CliResult<_>>()?,
    };
    Ok(ServiceDefinition { program: text(&program)?, arguments, path, created_folders })
}

fn text(path: &Path) -> CliResult<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| CliError::usage(format!("{} is not UTF-8, as a service file must be", path.display())))
}

/// Returns the path of the service file.
fn service_file(manager: ServiceManager) -> CliResult<PathBuf> {
    let folder = match manager {
        ServiceManager::Systemd => paths::systemd_units(),
        ServiceManager::Launchd => std::env::home_dir().map(|home| home.join("Library/LaunchAgents")),
        ServiceManager::TaskScheduler => {
            let local = std::env::var_os("LOCALAPPDATA").map(PathBuf::from);
            local.or_else(std::env::home_dir).map(|folder| folder.join("hospes"))
        }
    };
    let name = match manager {
        ServiceManager::Systemd => format!("{NAME}.service"),
        ServiceManager::Launchd => format!("{LAUNCHD_LABEL}.plist"),
        ServiceManager::TaskScheduler => format!("{NAME}.xml"),
    };
    let folder =
        folder.ok_or_else(|| CliError::usage("no folder found for the service (HOME is not set)"))?;
    Ok(folder.join(name))
}

/// Returns the program and the `PATH` of the installed service. `None` if none is installed.
pub(crate) fn installed_program_and_path() -> Option<(String, Option<String>)> {
    let manager = ServiceManager::of_this_system();
    program_and_path(&read_own(&service_file(manager).ok()?).ok()??, manager)
}

/// Reads an installed file. Returns an error if it is not one of this program.
fn read_own(file: &Path) -> CliResult<Option<String>> {
    match fs::read_to_string(file) {
        Ok(content) if is_ours(&content) => Ok(Some(content)),
        Ok(_) => {
            Err(CliError::usage(format!("{} was not written by `hospes service install`", file.display()))
                .hint("it is left as it is; move it away first"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::usage(format!("cannot read {}", file.display())).with_cause(&error)),
    }
}

/// Returns the folders above a file that do not exist, the outermost first.
fn missing_folders(file: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        file.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

fn write(file: &Path, content: &str) -> CliResult {
    let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(file, content));
    written.map_err(|error| {
        CliError::usage(format!("cannot write {}", file.display()))
            .with_cause(&error)
            .hint_if_unwritable(&error)
    })
}

/// Deletes the file and the folders that were created for it, as far as they are empty.
async fn delete(manager: ServiceManager, file: &Path, content: &str) -> CliResult {
    fs::remove_file(file)
        .map_err(|error| CliError::usage(format!("cannot delete {}", file.display())).with_cause(&error))?;
    for command in forget_commands(manager) {
        // A manager that does not run knows nothing of the file either.
        let _unknown = run_command(&command).await;
    }
    let folders = created_folders(content);
    if let Some(folder) = file.parent().filter(|_| !folders.is_empty()) {
        // systemd leaves the folder of its links, which is in ours.
        let _not_empty = fs::remove_dir(folder.join("default.target.wants"));
    }
    for folder in folders.iter().rev() {
        // Not empty: somebody else uses it by now.
        let _not_empty = fs::remove_dir(folder);
    }
    Ok(())
}

async fn remove(output: CliOutput) -> CliResult {
    let manager = ServiceManager::of_this_system();
    let file = service_file(manager)?;
    let Some(content) = read_own(&file)? else {
        output.say(format_args!("not installed: there is no {}", paths::display_path(&file)));
        return Ok(());
    };
    for command in stop_commands(manager) {
        if let Err(failure) = run_command(&command).await {
            // The file must not stay only because there is no manager, as in a container.
            output.warn(format_args!("{failure}"));
        }
    }
    delete(manager, &file, &content).await?;
    output.say(format_args!("stopped and removed: {}", paths::display_path(&file)));
    Ok(())
}

async fn status(output: CliOutput) -> CliResult {
    let manager = ServiceManager::of_this_system();
    let file = service_file(manager)?;
    let is_installed = read_own(&file)?.is_some();
    let (mut is_enabled, mut is_running) = (false, false);
    if is_installed {
        match manager {
            ServiceManager::Systemd => {
                is_enabled = run_command(&systemctl(&["is-enabled", "--quiet", UNIT])).await.is_ok();
                is_running = run_command(&systemctl(&["is-active", "--quiet", UNIT])).await.is_ok();
            }
            ServiceManager::Launchd => {
                let printed = run_command(&words("launchctl", &["print", &launchd_target()])).await;
                is_enabled = printed.is_ok();
                is_running = printed.is_ok_and(|text| text.contains("state = running"));
            }
            ServiceManager::TaskScheduler => {
                let printed = run_command(&words("schtasks", &["/query", "/tn", NAME, "/fo", "list"])).await;
                is_enabled = printed.is_ok();
                // The word is translated on other systems than English ones.
                is_running = printed.is_ok_and(|text| text.contains("Running"));
            }
        }
    }
    if output.json {
        output.value(&serde_json::json!({
            "manager": manager.as_str(),
            "file": file,
            "installed": is_installed,
            "enabled": is_enabled,
            "running": is_running,
        }));
        return Ok(());
    }
    let word = |is_so: bool| if is_so { "yes" } else { "no" };
    output.result(format!(
        "{}  {}\n  installed  {}\n  enabled    {}\n  running    {}",
        paint(BOLD, manager.as_str()),
        paint(DIM, printable(&paths::display_path(&file))),
        word(is_installed),
        word(is_enabled),
        word(is_running),
    ));
    Ok(())
}

/// Name of the unit of systemd.
const UNIT: &str = "hospes.service";

fn words(program: &str, arguments: &[&str]) -> Vec<String> {
    std::iter::once(program).chain(arguments.iter().copied()).map(str::to_owned).collect()
}

fn systemctl(arguments: &[&str]) -> Vec<String> {
    words("systemctl", &[&["--user"], arguments].concat())
}

fn launchd_domain() -> String {
    format!("gui/{}", crate::platform::user_id())
}

fn launchd_target() -> String {
    format!("{}/{LAUNCHD_LABEL}", launchd_domain())
}

/// Returns the commands that enable and start a service whose file is written.
fn start_commands(manager: ServiceManager, file: &Path) -> Vec<Vec<String>> {
    let file = file.to_string_lossy();
    match manager {
        // `enable --now` would not restart a host that runs with an older file.
        ServiceManager::Systemd => {
            vec![systemctl(&["daemon-reload"]), systemctl(&["enable", UNIT]), systemctl(&["restart", UNIT])]
        }
        ServiceManager::Launchd => vec![words("launchctl", &["bootstrap", &launchd_domain(), &file])],
        ServiceManager::TaskScheduler => vec![
            words("schtasks", &["/create", "/tn", NAME, "/xml", &file, "/f"]),
            words("schtasks", &["/run", "/tn", NAME]),
        ],
    }
}

/// Returns the commands that stop and disable a service, before its file is deleted.
fn stop_commands(manager: ServiceManager) -> Vec<Vec<String>> {
    match manager {
        ServiceManager::Systemd => vec![systemctl(&["disable", "--now", UNIT])],
        ServiceManager::Launchd => vec![words("launchctl", &["bootout", &launchd_target()])],
        ServiceManager::TaskScheduler => vec![
            words("schtasks", &["/end", "/tn", NAME]),
            words("schtasks", &["/delete", "/tn", NAME, "/f"]),
        ],
    }
}

/// Returns the commands that follow the deletion of the file.
fn forget_commands(manager: ServiceManager) -> Vec<Vec<String>> {
    match manager {
        ServiceManager::Systemd => vec![systemctl(&["daemon-reload"])],
        ServiceManager::Launchd | ServiceManager::TaskScheduler => Vec::new(),
    }
}

/// Runs a command of the service manager and returns its output.
async fn run_command(command: &[String]) -> CliResult<String> {
    let shown = command.join(" ");
    let Some((program, arguments)) = command.split_first() else { return Ok(String::new()) };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let ran = tokio::time::timeout(COMMAND_TIMEOUT, command.output()).await;
    let ran =
        ran.map_err(|_| CliError::usage(format!("`{shown}` did not end within {COMMAND_TIMEOUT:?}")))?;
    let ran = ran.map_err(|error| CliError::usage(format!("cannot run `{shown}`")).with_cause(&error))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(CliError::usage(format!("`{shown}` failed: {}", printable(said.trim()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_manager_has_its_commands() {
        let lines = |commands: Vec<Vec<String>>| -> Vec<String> {
            commands.into_iter().map(|words| words.join(" ")).collect()
        };
        let file = Path::new("/f");
        assert_eq!(
            lines(start_commands(ServiceManager::Systemd, file)),
            [
                "systemctl --user daemon-reload",
                "systemctl --user enable hospes.service",
                "systemctl --user restart hospes.service"
            ]
        );
        let launchd = lines(start_commands(ServiceManager::Launchd, file));
        assert!(
            launchd[0].starts_with("launchctl bootstrap gui/") && launchd[0].ends_with(" /f"),
            "{launchd:?}"
        );
        assert_eq!(
            lines(start_commands(ServiceManager::TaskScheduler, file)),
            ["schtasks /create /tn hospes /xml /f /f", "schtasks /run /tn hospes"]
        );
        assert_eq!(
            lines(stop_commands(ServiceManager::Systemd)),
            ["systemctl --user disable --now hospes.service"]
        );
        assert!(lines(stop_commands(ServiceManager::Launchd))[0].ends_with("/dev.hospes"));
        assert_eq!(stop_commands(ServiceManager::TaskScheduler).len(), 2);
    }
}
