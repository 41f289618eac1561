//! An update that a person makes on a page of the console.

use std::path::PathBuf;
use std::sync::Arc;

use hospes_console::{AddedServer, AdditionPerson, WantedUpdate};

use super::{UpdateOutcome, update};
use crate::args::{RegistryOptions, UpdateArgs};
use crate::commands::add::reviewer::AdditionReviewer;
use crate::commands::config_target::ConfigTarget;
use crate::credentials;
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, printable};
use crate::paths;

/// Output of an update by a page: none, because the terminal belongs to the host.
const SILENT: CliOutput = CliOutput { json: true, quiet: true };

/// Updates a server of a configuration file, and asks the person at the page.
pub(in crate::commands) async fn run(
    config: Option<PathBuf>,
    wanted: WantedUpdate,
    person: &AdditionPerson,
) -> CliResult<AddedServer> {
    let args = Arc::new(UpdateArgs {
        server: Some(wanted.name.clone()),
        all: false,
        check: false,
        auto: false,
        rollback: false,
        version: None,
        package: None,
        no_install: false,
        set: Vec::new(),
        secret: Vec::new(),
        yes: false,
        registry: RegistryOptions { registry: None },
        config: config.clone(),
        credentials_store: credentials::store_from_environment()?,
    });
    let mut reviewer = AdditionReviewer::Page(person);
    let outcome = Box::pin(update(&wanted.name, &args, &mut reviewer, Some(wanted.by), SILENT)).await?;
    if let UpdateOutcome::Current = outcome {
        return Err(CliError::usage(format!("there is no newer version of {}", printable(&wanted.name))));
    }
    let file = ConfigTarget::read(config)?.file;
    Ok(AddedServer { server: wanted.name, file: paths::display_path(&file), example: None })
}
