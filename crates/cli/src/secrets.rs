//! Sealed secrets: named values in the encrypted store that also holds the tokens. Configuration files refer to them
//! as `${secret:NAME}`.

pub(crate) mod pending;

use std::sync::{Arc, OnceLock};

use hospes_host::config::{import::MAX_SECRET_VALUE, is_secret_reference};
use hospes_oauth::{CredentialStore, FileCredentialStore, StepError};
use secrecy::{ExposeSecret, SecretString};

use crate::credentials::{self, CredentialsStore, LazyStore};
use crate::exit::{CliError, CliResult, error_chain};
use crate::output::CliOutput;
use crate::printed_secrets;

/// Prefix of the names of secrets in the store.
const PREFIX: &str = "secret ";

/// The secrets of the encrypted store.
#[derive(Debug)]
pub(crate) struct SecretStore(Arc<FileCredentialStore>);

impl SecretStore {
    /// Opens the store if it exists.
    pub(crate) fn open_existing() -> CliResult<Option<Self>> {
        Ok(credentials::open_existing()?.map(|(store, _)| Self(store)))
    }

    /// Opens the store. Creates it if it does not exist.
    pub(crate) fn open_or_create(wanted: CredentialsStore, output: CliOutput) -> CliResult<Self> {
        credentials::open_or_create(wanted, output).map(Self)
    }

    /// Returns the names of all secrets, in alphabetical order.
    pub(crate) fn names(&self) -> CliResult<Vec<String>> {
        let names = self.0.names(PREFIX).map_err(store_error)?;
        let mut names: Vec<String> =
            names.iter().filter_map(|name| name.strip_prefix(PREFIX)).map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the value of a secret.
    pub(crate) fn read(&self, name: &str) -> CliResult<Option<String>> {
        let value = self.0.read(&format!("{PREFIX}{name}")).map_err(store_error)?;
        Ok(value.map(|value| known(value.expose_secret())))
    }

    /// Stores a secret, in place of an earlier one of the name.
    pub(crate) fn write(&self, name: &str, value: &str) -> CliResult {
        self.0.write(&format!("{PREFIX}{name}"), &SecretString::from(value.to_owned())).map_err(store_error)
    }

    /// Removes a secret.
    pub(crate) fn remove(&self, name: &str) -> CliResult {
        self.0.remove(&format!("{PREFIX}{name}")).map_err(store_error)
    }
}

/// Returns the function with which a configuration looks up secrets. The store is opened for the first of them.
pub(crate) fn look_up() -> impl Fn(&str) -> Result<Option<String>, String> + Send + Sync + 'static {
    let store: OnceLock<Result<Option<Arc<LazyStore>>, String>> = OnceLock::new();
    move |name| {
        let store = store.get_or_init(|| credentials::open_lazily().map_err(|error| error.to_string()));
        match store {
            Ok(Some(store)) => {
                let value = store.read(&format!("{PREFIX}{name}")).map_err(|error| error_chain(&error))?;
                Ok(value.map(|value| known(value.expose_secret())))
            }
            Ok(None) => Ok(None),
            Err(why) => Err(why.clone()),
        }
    }
}

/// Returns a value that is masked from now on wherever this program prints it.
fn known(value: &str) -> String {
    printed_secrets::add_value(value);
    value.to_owned()
}

/// Checks the name of a secret.
pub(crate) fn check_name(name: &str) -> CliResult {
    if is_secret_reference(name) {
        return Ok(());
    }
    Err(CliError::usage("not the name of a secret: expected letters, digits, `.`, `_` and `-`")
        .hint("the value is read from the terminal or from standard input, never from an argument"))
}

/// Checks the value of a secret.
pub(crate) fn check_value(value: &str) -> CliResult {
    if value.is_empty() {
        return Err(CliError::usage("the value is empty; nothing was stored"));
    }
    if value.len() > MAX_SECRET_VALUE {
        let problem = format!("the value is larger than {MAX_SECRET_VALUE} bytes, the maximum of a secret");
        return Err(CliError::usage(problem));
    }
    if value.contains('\0') {
        return Err(CliError::usage("the value contains a NUL character, which no variable can have"));
    }
    Ok(())
}

// By value, for use with `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn store_error(error: StepError) -> CliError {
    CliError::usage(error_chain(&error)).hint_if_unwritable(&error)
}
