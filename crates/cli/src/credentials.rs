//! Storage of tokens, and of the key that seals them.
//!
//! Tokens are in a sealed file. Its key is a passphrase, or a random key in the system's keyring or in a file of its
//! own. The key is used from where it is. Only signing in and repairing move it to the wanted location, so an
//! unattended job never depends on a keyring that was missing at sign-in.

mod lazy_store;

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use hospes_auth::client::{
    CredentialStore, FileCredentialStore, KeyringError, StepError, StoreKey, SystemKeyring,
};

pub(crate) use self::lazy_store::LazyStore;
use crate::exit::{CliError, CliResult, chain};
use crate::output::CliOutput;
use crate::paths;

/// The variable with the passphrase that the tokens are sealed with.
const PASSPHRASE: &str = "HOSPES_PASSPHRASE";
/// The variable that says where the key to the tokens is kept.
pub(crate) const KEPT_IN: &str = "HOSPES_CREDENTIALS_STORE";

/// Wanted location of the key that seals the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CredentialsStore {
    /// In the system's keyring where there is one, else in a file
    #[default]
    Auto,
    /// In the system's keyring or nowhere
    Keyring,
    /// In a file that only its owner can read
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
    /// To use what is kept.
    Use,
    /// To keep something: the key is made, or moved to where it is wanted.
    Keep,
    /// To keep something, and to start a new store if the present one cannot be opened any more.
    Repair,
}

struct CredentialFiles {
    sealed: PathBuf,
    key: PathBuf,
    keyring: SystemKeyring,
}

/// Opens the store if it exists. Nothing is created before the first sign-in.
pub(crate) fn kept() -> CliResult<Option<(Arc<FileCredentialStore>, KeyLocation)>> {
    match paths::credentials() {
        Some((sealed, _)) if sealed.exists() => open(KeyPurpose::Use, configured()?, None).map(Some),
        _ => Ok(None),
    }
}

/// Returns the store if it exists, to be opened on first use.
pub(crate) fn later() -> CliResult<Option<Arc<LazyStore>>> {
    configured()?;
    let is_there = paths::credentials().is_some_and(|(sealed, _)| sealed.exists());
    let later = || open(KeyPurpose::Use, configured()?, None).map(|(store, _)| store);
    Ok(is_there.then(|| Arc::new(LazyStore::new(later))))
}

/// The store of a host that runs. One that will be written to is there from the beginning.
pub(crate) fn of_host(will_be: bool, output: CliOutput) -> CliResult<Option<Arc<dyn CredentialStore>>> {
    match later()? {
        Some(later) => Ok(Some(later)),
        None if will_be => store(configured()?, output).map(|store| Some(store as _)),
        None => Ok(None),
    }
}

/// The store, which is made if need be.
pub(crate) fn store(wanted: CredentialsStore, output: CliOutput) -> CliResult<Arc<FileCredentialStore>> {
    open(KeyPurpose::Keep, wanted, Some(output)).map(|(store, _)| store)
}

/// Opens the store; a store that can no longer be opened is put aside.
pub(crate) fn repaired(wanted: CredentialsStore, output: CliOutput) -> CliResult<Arc<FileCredentialStore>> {
    open(KeyPurpose::Repair, wanted, Some(output)).map(|(store, _)| store)
}

/// Returns the location of the key that the environment asks for.
pub(crate) fn configured() -> CliResult<CredentialsStore> {
    match std::env::var(KEPT_IN) {
        Ok(text) if !text.is_empty() => CredentialsStore::from_str(&text, true)
            .map_err(|_| CliError::usage(format!("{KEPT_IN}: expected auto, keyring or file"))),
        _ => Ok(CredentialsStore::default()),
    }
}

/// Describes the location of the tokens.
pub(crate) fn shown() -> String {
    match paths::credentials() {
        Some((sealed, _)) => format!("the sealed file {}", paths::short(&sealed)),
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
            Self::Passphrase => format!("the passphrase in {PASSPHRASE}"),
            Self::Keyring => "in the system's keyring".to_owned(),
            Self::File => {
                paths::credentials().map(|(_, key)| format!("in {}", paths::short(&key))).unwrap_or_default()
            }
        }
    }
}

fn open(
    purpose: KeyPurpose,
    wanted: CredentialsStore,
    output: Option<CliOutput>,
) -> CliResult<(Arc<FileCredentialStore>, KeyLocation)> {
    let (sealed, key) = paths::credentials()
        .ok_or_else(|| CliError::usage("there is no home folder to keep tokens in").hint("set HOME"))?;
    let places = CredentialFiles { sealed, key, keyring: SystemKeyring::new("hospes", "credentials") };
    make_folder(&places.sealed)?;
    if let Some(text) = std::env::var(PASSPHRASE).ok().filter(|text| !text.is_empty()) {
        let store = FileCredentialStore::new(&places.sealed, StoreKey::passphrase(text));
        return Ok((Arc::new(store), KeyLocation::Passphrase));
    }
    make_folder(&places.key)?;
    if purpose == KeyPurpose::Use {
        let (key, place) = places.found(wanted)?;
        return Ok((Arc::new(FileCredentialStore::new(&places.sealed, key)), place));
    }
    let say = |text: &str| {
        if let Some(output) = output {
            output.say(text);
        }
    };
    // Two that sign in at once would make two keys.
    let _alone = places.alone()?;
    let (key, place) = places.settled(purpose, wanted, &say)?;
    let store = FileCredentialStore::new(&places.sealed, key);
    if purpose == KeyPurpose::Repair && !store.opens().map_err(unusable)? {
        let aside = store.set_aside().map_err(unusable)?;
        say(&format!(
            "{} could not be opened by its key: it is {} now; sign in anew wherever you were",
            paths::short(&places.sealed),
            paths::short(&aside)
        ));
    }
    Ok((Arc::new(store), place))
}

impl CredentialFiles {
    /// The key, from where it is.
    fn found(&self, wanted: CredentialsStore) -> CliResult<(StoreKey, KeyLocation)> {
        if let Some(key) = StoreKey::from_file(&self.key).map_err(unusable)? {
            return Ok((key, KeyLocation::File));
        }
        if wanted == CredentialsStore::File {
            return Err(self.gone(&format!("{} is not there", paths::short(&self.key))));
        }
        match self.keyring.key() {
            Ok(Some(key)) => Ok((key, KeyLocation::Keyring)),
            Ok(None) => Err(self.lost()),
            Err(error) => Err(self.out_of_reach(&error)),
        }
    }

    /// The key, put where it is wanted.
    fn settled(
        &self,
        purpose: KeyPurpose,
        wanted: CredentialsStore,
        say: &dyn Fn(&str),
    ) -> CliResult<(StoreKey, KeyLocation)> {
        let in_file = StoreKey::from_file(&self.key).map_err(unusable)?;
        match (in_file, wanted) {
            (Some(key), CredentialsStore::File) => Ok((key, KeyLocation::File)),
            (Some(key), wanted) => self.moved(key, wanted, say),
            (None, CredentialsStore::File) if self.sealed.exists() => self.taken_out(purpose, say),
            (None, CredentialsStore::File) => self.new_file(),
            (None, wanted) => self.in_keyring(purpose, wanted, say),
        }
    }

    /// From its file into the keyring. There is no moment at which it is nowhere.
    fn moved(
        &self,
        key: StoreKey,
        wanted: CredentialsStore,
        say: &dyn Fn(&str),
    ) -> CliResult<(StoreKey, KeyLocation)> {
        let put = self.keyring.key().and_then(|known| match known {
            // What opens somebody's tokens is not written over.
            Some(known) => Ok(known.is_same(&key)),
            None => self.keyring.put(&key).map(|()| true),
        });
        match put {
            Ok(true) => {
                let gone = fs::remove_file(&self.key);
                gone.map_err(|error| {
                    CliError::usage(format!("{} cannot be taken away", paths::short(&self.key)))
                        .because(&error)
                })?;
                say(&format!(
                    "the key to the tokens is now in the system's keyring, no longer in {}",
                    paths::short(&self.key)
                ));
                Ok((key, KeyLocation::Keyring))
            }
            Ok(false) if wanted == CredentialsStore::Keyring => {
                Err(CliError::usage("the keyring has another key for Hospes already").hint(
                    "take its entry `hospes` / `credentials` away if nothing needs it, or stay with \
                     --credentials-store file",
                ))
            }
            Err(error) if wanted == CredentialsStore::Keyring => Err(unkept(&error)),
            Ok(false) => Ok((key, KeyLocation::File)),
            Err(error) => {
                tracing::info!(%error, "the key to the tokens stays in its file");
                Ok((key, KeyLocation::File))
            }
        }
    }

    /// From the keyring into its file; the keyring has it still, for whatever else it opens.
    fn taken_out(&self, purpose: KeyPurpose, say: &dyn Fn(&str)) -> CliResult<(StoreKey, KeyLocation)> {
        match self.keyring.key() {
            Ok(Some(key)) => {
                key.to_file(&self.key).map_err(unusable)?;
                say(&format!("the key to the tokens is now in {} too", paths::short(&self.key)));
                Ok((key, KeyLocation::File))
            }
            Ok(None) if purpose == KeyPurpose::Repair => self.new_file(),
            Ok(None) => Err(self.lost()),
            Err(error) => Err(self.out_of_reach(&error)),
        }
    }

    fn in_keyring(
        &self,
        purpose: KeyPurpose,
        wanted: CredentialsStore,
        say: &dyn Fn(&str),
    ) -> CliResult<(StoreKey, KeyLocation)> {
        // What is sealed already can only be opened by the key that sealed it.
        let is_new = !self.sealed.exists();
        let made = match self.keyring.key() {
            Ok(Some(key)) => return Ok((key, KeyLocation::Keyring)),
            Ok(None) if !is_new && purpose != KeyPurpose::Repair => return Err(self.lost()),
            Ok(None) => StoreKey::generate()
                .map_err(unusable)
                .map(|key| self.keyring.put(&key).map(|()| (key, KeyLocation::Keyring)))?,
            Err(error) if !is_new => return Err(self.out_of_reach(&error)),
            Err(error) => Err(error),
        };
        match made {
            Ok(made) => Ok(made),
            Err(error) if wanted == CredentialsStore::Keyring => Err(unkept(&error)),
            Err(error) => {
                let made = self.new_file()?;
                say(&format!("{error}\n  so the key to the tokens is kept in {}", paths::short(&self.key)));
                Ok(made)
            }
        }
    }

    fn new_file(&self) -> CliResult<(StoreKey, KeyLocation)> {
        StoreKey::in_file(&self.key).map(|key| (key, KeyLocation::File)).map_err(unusable)
    }

    /// Waits until no other process looks for the key or makes one.
    fn alone(&self) -> CliResult<File> {
        let mut name = self.sealed.as_os_str().to_owned();
        name.push(".key.lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let locked = options.open(name).and_then(|file| file.lock().map(|()| file));
        locked.map_err(|error| {
            CliError::usage(format!("{} cannot be locked", paths::short(&self.sealed))).because(&error)
        })
    }

    fn gone(&self, why: &str) -> CliError {
        CliError::usage(format!("the key to {} cannot be had: {why}", paths::short(&self.sealed))).hint(format!(
            "if it is in the keyring, --credentials-store auto (or {KEPT_IN}); if it was a passphrase, set {PASSPHRASE}"
        ))
    }

    /// Creates the error for a key that is neither in the keyring nor in its file.
    fn lost(&self) -> CliError {
        CliError::usage(format!(
            "the key to {} is gone: neither the system's keyring nor {} has it",
            paths::short(&self.sealed),
            paths::short(&self.key)
        ))
        .hint(format!(
            "if it was a passphrase, set {PASSPHRASE}; else `hospes auth repair URL` puts the file aside and signs in anew"
        ))
    }

    fn out_of_reach(&self, error: &KeyringError) -> CliError {
        let failure = CliError::usage(format!(
            "the key to {} is not in {}, and the keyring cannot be asked",
            paths::short(&self.sealed),
            paths::short(&self.key)
        ))
        .because(error);
        failure.hint(match error {
            KeyringError::Locked(_) | KeyringError::Silent => {
                "unlock it and try again; nothing was changed".to_owned()
            }
            _ => format!(
                "try it in the desktop session in which you signed in (DBUS_SESSION_BUS_ADDRESS), or set {PASSPHRASE} if it \
                 was sealed with a passphrase; nothing was changed"
            ),
        })
    }
}

/// The keyring was wanted, and nothing else.
fn unkept(error: &KeyringError) -> CliError {
    CliError::usage("the key to the tokens cannot be kept in the keyring")
        .because(error)
        .hint("unlock or start it, or take --credentials-store auto or file")
}

// By value, as the errors come.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unusable(error: StepError) -> CliError {
    CliError::usage(chain(&error))
}

fn make_folder(file: &Path) -> CliResult {
    let Some(folder) = file.parent() else { return Ok(()) };
    fs::create_dir_all(folder)
        .map_err(|error| CliError::usage(format!("{} cannot be made", folder.display())).because(&error))
}
