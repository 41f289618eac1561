//! Storage of tokens and of the key that encrypts them.
//!
//! Tokens are stored in an encrypted file. Its key is a passphrase, or a random key in the system keyring or in a
//! separate file. The key is used from its present location. Only signing in and repairing move it to the wanted
//! location, so an unattended job never depends on a keyring that was missing at sign-in.

mod lazy_store;
mod overlay_store;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use hospes_oauth::{CredentialStore, FileCredentialStore, KeyringError, StepError, StoreKey, SystemKeyring};

pub(crate) use self::lazy_store::LazyStore;
pub(crate) use self::overlay_store::OverlayStore;
use crate::exit::{CliError, CliResult, error_chain};
use crate::output::CliOutput;
use crate::paths;

/// Environment variable with the passphrase that encrypts the tokens.
const PASSPHRASE_VARIABLE: &str = "HOSPES_PASSPHRASE";
/// Environment variable that selects the location of the token encryption key.
pub(crate) const KEPT_IN: &str = "HOSPES_CREDENTIALS_STORE";

/// Wanted location of the key that encrypts the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CredentialsStore {
    /// System keyring if available, else a file
    #[default]
    Auto,
    /// System keyring only
    Keyring,
    /// File that only its owner can read
    File,
}

/// Location of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyLocation {
    Passphrase,
    Keyring,
    File,
}

/// Purpose for which the key is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyPurpose {
    /// Using stored tokens. The key must exist.
    Use,
    /// Storing tokens. The key is created if it is missing, or moved to the wanted location.
    Keep,
    /// Storing tokens, as with `Keep`. A store that can no longer be decrypted is set aside and replaced.
    Repair,
}

struct CredentialFiles {
    sealed: PathBuf,
    key: PathBuf,
    keyring: SystemKeyring,
}

/// Opens the store if it exists. Nothing is created before the first sign-in.
pub(crate) fn open_existing() -> CliResult<Option<(Arc<FileCredentialStore>, KeyLocation)>> {
    match paths::credentials() {
        Some((sealed, _)) if sealed.exists() => {
            open(KeyPurpose::Use, store_from_environment()?, None).map(Some)
        }
        _ => Ok(None),
    }
}

/// Returns the store if it exists, to be opened on first use.
pub(crate) fn open_lazily() -> CliResult<Option<Arc<LazyStore>>> {
    let store = open_when_created()?;
    Ok(is_created().then_some(store))
}

/// Returns the store, to be opened on first use. Until the store exists, nothing is in it; the first document creates it.
pub(crate) fn open_when_created() -> CliResult<Arc<LazyStore>> {
    // An invalid variable is reported now and not at the first call that needs a token.
    store_from_environment()?;
    let open = |is_needed| match is_created() {
        true => open(KeyPurpose::Use, store_from_environment()?, None).map(|(store, _)| Some(store)),
        false if is_needed => {
            open(KeyPurpose::Keep, store_from_environment()?, None).map(|(store, _)| Some(store))
        }
        false => Ok(None),
    };
    Ok(Arc::new(LazyStore::new(open)))
}

fn is_created() -> bool {
    paths::credentials().is_some_and(|(sealed, _)| sealed.exists())
}

/// Opens the store for a running host. If the store does not exist and `will_be` is set, it is created.
pub(crate) fn open_for_host(will_be: bool, output: CliOutput) -> CliResult<Option<Arc<dyn CredentialStore>>> {
    match open_lazily()? {
        Some(later) => Ok(Some(later)),
        None if will_be => open_or_create(store_from_environment()?, output).map(|store| Some(store as _)),
        None => Ok(None),
    }
}

/// Finds out where a new key would be stored, by storing another one and removing it again.
///
/// # Errors
/// If the key has to be in the keyring, and the keyring does not take it.
pub(crate) fn try_new_key() -> CliResult<KeyLocation> {
    if std::env::var(PASSPHRASE_VARIABLE).is_ok_and(|text| !text.is_empty()) {
        return Ok(KeyLocation::Passphrase);
    }
    let wanted = store_from_environment()?;
    if wanted == CredentialsStore::File {
        return Ok(KeyLocation::File);
    }
    // An entry of its own: the key of other stores may be in the usual one.
    let keyring = SystemKeyring::new("hospes", "doctor-probe");
    let key = StoreKey::generate().map_err(unusable_store_error)?;
    match keyring.put(&key).and_then(|()| keyring.remove()) {
        Ok(()) => Ok(KeyLocation::Keyring),
        Err(error) if wanted == CredentialsStore::Keyring => Err(keyring_required_error(&error)),
        Err(error) => {
            tracing::debug!(%error, "the keyring takes no key");
            Ok(KeyLocation::File)
        }
    }
}

/// Opens the store. Creates it if it does not exist.
pub(crate) fn open_or_create(
    wanted: CredentialsStore,
    output: CliOutput,
) -> CliResult<Arc<FileCredentialStore>> {
    open(KeyPurpose::Keep, wanted, Some(output)).map(|(store, _)| store)
}

/// Opens the store. A store that can no longer be decrypted is set aside.
pub(crate) fn repair_store(
    wanted: CredentialsStore,
    output: CliOutput,
) -> CliResult<Arc<FileCredentialStore>> {
    open(KeyPurpose::Repair, wanted, Some(output)).map(|(store, _)| store)
}

/// Returns the location of the key that the environment asks for.
pub(crate) fn store_from_environment() -> CliResult<CredentialsStore> {
    match std::env::var(KEPT_IN) {
        Ok(text) if !text.is_empty() => CredentialsStore::from_str(&text, true)
            .map_err(|_| CliError::usage(format!("{KEPT_IN}: expected auto, keyring or file"))),
        _ => Ok(CredentialsStore::default()),
    }
}

/// Describes the location of the tokens.
pub(crate) fn describe_location() -> String {
    match paths::credentials() {
        Some((sealed, _)) => format!("the encrypted file {}", paths::display_path(&sealed)),
        None => "memory".to_owned(),
    }
}

impl KeyLocation {
    /// Returns the name used in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Passphrase => "passphrase",
            Self::Keyring => "keyring",
            Self::File => "file",
        }
    }

    /// Describes the location for people.
    pub(crate) fn shown(self) -> String {
        match self {
            Self::Passphrase => format!("from the passphrase in {PASSPHRASE_VARIABLE}"),
            Self::Keyring => "in the system keyring".to_owned(),
            Self::File => paths::credentials()
                .map(|(_, key)| format!("in {}", paths::display_path(&key)))
                .unwrap_or_default(),
        }
    }
}

fn open(
    purpose: KeyPurpose,
    wanted: CredentialsStore,
    output: Option<CliOutput>,
) -> CliResult<(Arc<FileCredentialStore>, KeyLocation)> {
    let (sealed, key) = paths::credentials()
        .ok_or_else(|| CliError::usage("no home folder found in which to store tokens").hint("set HOME"))?;
    let places = CredentialFiles { sealed, key, keyring: SystemKeyring::new("hospes", "credentials") };
    make_folder(&places.sealed)?;
    // A passphrase takes precedence over all keys, so that neither the keyring nor a key file is used.
    if let Some(text) = std::env::var(PASSPHRASE_VARIABLE).ok().filter(|text| !text.is_empty()) {
        let store = FileCredentialStore::new(&places.sealed, StoreKey::passphrase(text));
        return Ok((Arc::new(store), KeyLocation::Passphrase));
    }
    make_folder(&places.key)?;
    // Without the lock below, because nothing is created or moved.
    if purpose == KeyPurpose::Use {
        let (key, place) = places.find_key(wanted)?;
        return Ok((Arc::new(FileCredentialStore::new(&places.sealed, key)), place));
    }
    let say = |text: &str| {
        if let Some(output) = output {
            output.say(text);
        }
    };
    // Two concurrent sign-ins would create two keys.
    let _alone = places.lock_key()?;
    let (key, place) = places.settle_key(purpose, wanted, &say)?;
    let store = FileCredentialStore::new(&places.sealed, key);
    if purpose == KeyPurpose::Repair && !store.can_open().map_err(unusable_store_error)? {
        let aside = store.set_aside().map_err(unusable_store_error)?;
        say(&format!(
            "{} could not be decrypted with its key and was renamed to {}; sign in to your servers again, and store \
             the secrets that `hospes secret list` names",
            paths::display_path(&places.sealed),
            paths::display_path(&aside)
        ));
    }
    Ok((Arc::new(store), place))
}

impl CredentialFiles {
    /// Returns the key from its present location.
    fn find_key(&self, wanted: CredentialsStore) -> CliResult<(StoreKey, KeyLocation)> {
        // The file first, because a keyring may ask the person to unlock it.
        if let Some(key) = StoreKey::from_file(&self.key).map_err(unusable_store_error)? {
            return Ok((key, KeyLocation::File));
        }
        if wanted == CredentialsStore::File {
            return Err(self.gone(&format!("{} does not exist", paths::display_path(&self.key))));
        }
        match self.keyring.key() {
            Ok(Some(key)) => Ok((key, KeyLocation::Keyring)),
            Ok(None) => Err(self.key_lost_error()),
            Err(error) => Err(self.key_unreachable_error(&error)),
        }
    }

    /// Returns the key, after creating it or moving it to the wanted location.
    fn settle_key(
        &self,
        purpose: KeyPurpose,
        wanted: CredentialsStore,
        say: &dyn Fn(&str),
    ) -> CliResult<(StoreKey, KeyLocation)> {
        let in_file = StoreKey::from_file(&self.key).map_err(unusable_store_error)?;
        match (in_file, wanted) {
            (Some(key), CredentialsStore::File) => Ok((key, KeyLocation::File)),
            (Some(key), wanted) => self.move_to_keyring(key, wanted, say),
            (None, CredentialsStore::File) if self.sealed.exists() => self.move_to_file(purpose, say),
            (None, CredentialsStore::File) => self.new_file(),
            (None, wanted) => self.in_keyring(purpose, wanted, say),
        }
    }

    /// Moves the key from its file into the keyring. The file is removed last, so the key is never lost.
    fn move_to_keyring(
        &self,
        key: StoreKey,
        wanted: CredentialsStore,
        say: &dyn Fn(&str),
    ) -> CliResult<(StoreKey, KeyLocation)> {
        let put = self.keyring.key().and_then(|known| match known {
            // A different key in the keyring may open other tokens and is not overwritten.
            Some(known) => Ok(known.is_same(&key)),
            None => self.keyring.put(&key).map(|()| true),
        });
        match put {
            Ok(true) => {
                let gone = fs::remove_file(&self.key);
                gone.map_err(|error| {
                    CliError::usage(format!("cannot remove {}", paths::display_path(&self.key)))
                        .with_cause(&error)
                })?;
                say(&format!(
                    "moved the token encryption key from {} to the system keyring",
                    paths::display_path(&self.key)
                ));
                Ok((key, KeyLocation::Keyring))
            }
            Ok(false) if wanted == CredentialsStore::Keyring => {
                Err(CliError::usage("the keyring already has a different key for Hospes").hint(
                    "remove its entry `hospes` / `credentials` if it is not needed, or use \
                     --credentials-store file",
                ))
            }
            Err(error) if wanted == CredentialsStore::Keyring => Err(keyring_required_error(&error)),
            Ok(false) => Ok((key, KeyLocation::File)),
            Err(error) => {
                tracing::info!(%error, "token encryption key not moved to the keyring");
                Ok((key, KeyLocation::File))
            }
        }
    }

    /// Copies the key from the keyring into its file. The keyring keeps it, because it may open other stores.
    fn move_to_file(&self, purpose: KeyPurpose, say: &dyn Fn(&str)) -> CliResult<(StoreKey, KeyLocation)> {
        match self.keyring.key() {
            Ok(Some(key)) => {
                key.to_file(&self.key).map_err(unusable_store_error)?;
                say(&format!("copied the token encryption key to {}", paths::display_path(&self.key)));
                Ok((key, KeyLocation::File))
            }
            Ok(None) if purpose == KeyPurpose::Repair => self.new_file(),
            Ok(None) => Err(self.key_lost_error()),
            Err(error) => Err(self.key_unreachable_error(&error)),
        }
    }

    fn in_keyring(
        &self,
        purpose: KeyPurpose,
        wanted: CredentialsStore,
        say: &dyn Fn(&str),
    ) -> CliResult<(StoreKey, KeyLocation)> {
        // Existing data can only be decrypted with the key that encrypted it.
        let is_new = !self.sealed.exists();
        let made = match self.keyring.key() {
            Ok(Some(key)) => return Ok((key, KeyLocation::Keyring)),
            Ok(None) if !is_new && purpose != KeyPurpose::Repair => return Err(self.key_lost_error()),
            Ok(None) => StoreKey::generate()
                .map_err(unusable_store_error)
                .map(|key| self.keyring.put(&key).map(|()| (key, KeyLocation::Keyring)))?,
            // A new key could not decrypt the existing data.
            Err(error) if !is_new => return Err(self.key_unreachable_error(&error)),
            Err(error) => Err(error),
        };
        match made {
            Ok(made) => Ok(made),
            Err(error) if wanted == CredentialsStore::Keyring => Err(keyring_required_error(&error)),
            Err(error) => {
                let made = self.new_file()?;
                say(&format!(
                    "{error}\n  the token encryption key is stored in {} instead",
                    paths::display_path(&self.key)
                ));
                Ok(made)
            }
        }
    }

    fn new_file(&self) -> CliResult<(StoreKey, KeyLocation)> {
        StoreKey::in_file(&self.key).map(|key| (key, KeyLocation::File)).map_err(unusable_store_error)
    }

    /// Waits until no other process reads or creates the key.
    fn lock_key(&self) -> CliResult<File> {
        // Not the token file itself, which is replaced at every write.
        let mut name = self.sealed.as_os_str().to_owned();
        name.push(".key.lock");
        // Never truncated or removed, because another process may hold the lock on it.
        let locked = hospes_fs::open_private(Path::new(&name)).and_then(|file| file.lock().map(|()| file));
        locked.map_err(|error| {
            CliError::usage(format!("cannot lock {}", paths::display_path(&self.sealed)))
                .with_cause(&error)
                .hint_if_unwritable(&error)
        })
    }

    fn gone(&self, why: &str) -> CliError {
        CliError::usage(format!("cannot read the key to {}: {why}", paths::display_path(&self.sealed))).hint(format!(
            "for a key in the keyring, use --credentials-store auto (or {KEPT_IN}); for a passphrase, set {PASSPHRASE_VARIABLE}"
        ))
    }

    /// Creates the error for a key that is neither in the keyring nor in its file.
    fn key_lost_error(&self) -> CliError {
        CliError::usage(format!(
            "the encryption key of {} was not found in the system keyring or in {}",
            paths::display_path(&self.sealed),
            paths::display_path(&self.key)
        ))
        .hint(format!(
            "for a passphrase, set {PASSPHRASE_VARIABLE}; otherwise `hospes auth repair URL` renames the file and signs in again"
        ))
    }

    fn key_unreachable_error(&self, error: &KeyringError) -> CliError {
        let failure = CliError::usage(format!(
            "the encryption key of {} is not in {}, and the keyring cannot be read",
            paths::display_path(&self.sealed),
            paths::display_path(&self.key)
        ))
        .with_cause(error);
        failure.hint(match error {
            KeyringError::Locked(_) | KeyringError::Silent => {
                "unlock the keyring and try again; nothing was changed".to_owned()
            }
            _ => format!(
                "run this in the desktop session in which you signed in (DBUS_SESSION_BUS_ADDRESS), or set \
                 {PASSPHRASE_VARIABLE} if the tokens are encrypted with a passphrase; nothing was changed"
            ),
        })
    }
}

/// Creates the error for an unavailable keyring that was required.
fn keyring_required_error(error: &KeyringError) -> CliError {
    CliError::usage("cannot store the token encryption key in the keyring")
        .with_cause(error)
        .hint("unlock or start the keyring, or use --credentials-store auto or file")
}

// By value, for use with `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unusable_store_error(error: StepError) -> CliError {
    CliError::usage(error_chain(&error)).hint_if_unwritable(&error)
}

fn make_folder(file: &Path) -> CliResult {
    let Some(folder) = file.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|error| {
        CliError::usage(format!("cannot create {}", folder.display()))
            .with_cause(&error)
            .hint_if_unwritable(&error)
    })
}
