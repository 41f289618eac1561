//! Storage of tokens, and of the key that seals them.
//!
//! Tokens are in a sealed file. Its key is a passphrase, or a random key in the system's keyring or in a file of its
//! own. The key is used from where it is. Only signing in and repairing move it to the wanted location, so an
//! unattended job never depends on a keyring that was missing at sign-in.

mod later;

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use hospes_auth::client::{FileStore, Keyring, KeyringError, StepError, Store, StoreKey};

pub(crate) use self::later::Later;
use crate::exit::{Failure, Outcome, chain};
use crate::output::Output;
use crate::place;

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
pub(crate) enum KeyPlace {
    Passphrase,
    Keyring,
    File,
}

/// Purpose for which the key is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To use what is kept.
    Use,
    /// To keep something: the key is made, or moved to where it is wanted.
    Keep,
    /// To keep something, and to start a new store if the present one cannot be opened any more.
    Repair,
}

struct Places {
    sealed: PathBuf,
    key: PathBuf,
    keyring: Keyring,
}

/// Opens the store if it exists. Nothing is created before the first sign-in.
pub(crate) fn kept() -> Outcome<Option<(Arc<FileStore>, KeyPlace)>> {
    match place::credentials() {
        Some((sealed, _)) if sealed.exists() => open(Purpose::Use, configured()?, None).map(Some),
        _ => Ok(None),
    }
}

/// Returns the store if it exists, to be opened on first use.
pub(crate) fn later() -> Outcome<Option<Arc<Later>>> {
    configured()?;
    let is_there = place::credentials().is_some_and(|(sealed, _)| sealed.exists());
    let later = || open(Purpose::Use, configured()?, None).map(|(store, _)| store);
    Ok(is_there.then(|| Arc::new(Later::new(later))))
}

/// The store of a host that runs. One that will be written to is there from the beginning.
pub(crate) fn of_host(will_be: bool, output: Output) -> Outcome<Option<Arc<dyn Store>>> {
    match later()? {
        Some(later) => Ok(Some(later)),
        None if will_be => store(configured()?, output).map(|store| Some(store as _)),
        None => Ok(None),
    }
}

/// The store, which is made if need be.
pub(crate) fn store(wanted: CredentialsStore, output: Output) -> Outcome<Arc<FileStore>> {
    open(Purpose::Keep, wanted, Some(output)).map(|(store, _)| store)
}

/// Opens the store; a store that can no longer be opened is put aside.
pub(crate) fn repaired(wanted: CredentialsStore, output: Output) -> Outcome<Arc<FileStore>> {
    open(Purpose::Repair, wanted, Some(output)).map(|(store, _)| store)
}

/// Returns the location of the key that the environment asks for.
pub(crate) fn configured() -> Outcome<CredentialsStore> {
    match std::env::var(KEPT_IN) {
        Ok(text) if !text.is_empty() => CredentialsStore::from_str(&text, true)
            .map_err(|_| Failure::usage(format!("{KEPT_IN}: expected auto, keyring or file"))),
        _ => Ok(CredentialsStore::default()),
    }
}

/// Describes the location of the tokens.
pub(crate) fn shown() -> String {
    match place::credentials() {
        Some((sealed, _)) => format!("the sealed file {}", place::short(&sealed)),
        None => "memory".to_owned(),
    }
}

impl KeyPlace {
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
                place::credentials().map(|(_, key)| format!("in {}", place::short(&key))).unwrap_or_default()
            }
        }
    }
}

fn open(
    purpose: Purpose,
    wanted: CredentialsStore,
    output: Option<Output>,
) -> Outcome<(Arc<FileStore>, KeyPlace)> {
    let (sealed, key) = place::credentials()
        .ok_or_else(|| Failure::usage("there is no home folder to keep tokens in").hint("set HOME"))?;
    let places = Places { sealed, key, keyring: Keyring::new("hospes", "credentials") };
    make_folder(&places.sealed)?;
    if let Some(text) = std::env::var(PASSPHRASE).ok().filter(|text| !text.is_empty()) {
        let store = FileStore::new(&places.sealed, StoreKey::passphrase(text));
        return Ok((Arc::new(store), KeyPlace::Passphrase));
    }
    make_folder(&places.key)?;
    if purpose == Purpose::Use {
        let (key, place) = places.found(wanted)?;
        return Ok((Arc::new(FileStore::new(&places.sealed, key)), place));
    }
    let say = |text: &str| {
        if let Some(output) = output {
            output.say(text);
        }
    };
    // Two that sign in at once would make two keys.
    let _alone = places.alone()?;
    let (key, place) = places.settled(purpose, wanted, &say)?;
    let store = FileStore::new(&places.sealed, key);
    if purpose == Purpose::Repair && !store.opens().map_err(unusable)? {
        let aside = store.set_aside().map_err(unusable)?;
        say(&format!(
            "{} could not be opened by its key: it is {} now; sign in anew wherever you were",
            place::short(&places.sealed),
            place::short(&aside)
        ));
    }
    Ok((Arc::new(store), place))
}

impl Places {
    /// The key, from where it is.
    fn found(&self, wanted: CredentialsStore) -> Outcome<(StoreKey, KeyPlace)> {
        if let Some(key) = StoreKey::from_file(&self.key).map_err(unusable)? {
            return Ok((key, KeyPlace::File));
        }
        if wanted == CredentialsStore::File {
            return Err(self.gone(&format!("{} is not there", place::short(&self.key))));
        }
        match self.keyring.key() {
            Ok(Some(key)) => Ok((key, KeyPlace::Keyring)),
            Ok(None) => Err(self.lost()),
            Err(error) => Err(self.out_of_reach(&error)),
        }
    }

    /// The key, put where it is wanted.
    fn settled(
        &self,
        purpose: Purpose,
        wanted: CredentialsStore,
        say: &dyn Fn(&str),
    ) -> Outcome<(StoreKey, KeyPlace)> {
        let in_file = StoreKey::from_file(&self.key).map_err(unusable)?;
        match (in_file, wanted) {
            (Some(key), CredentialsStore::File) => Ok((key, KeyPlace::File)),
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
    ) -> Outcome<(StoreKey, KeyPlace)> {
        let put = self.keyring.key().and_then(|known| match known {
            // What opens somebody's tokens is not written over.
            Some(known) => Ok(known.is_same(&key)),
            None => self.keyring.put(&key).map(|()| true),
        });
        match put {
            Ok(true) => {
                let gone = fs::remove_file(&self.key);
                gone.map_err(|error| {
                    Failure::usage(format!("{} cannot be taken away", place::short(&self.key)))
                        .because(&error)
                })?;
                say(&format!(
                    "the key to the tokens is now in the system's keyring, no longer in {}",
                    place::short(&self.key)
                ));
                Ok((key, KeyPlace::Keyring))
            }
            Ok(false) if wanted == CredentialsStore::Keyring => {
                Err(Failure::usage("the keyring has another key for Hospes already").hint(
                    "take its entry `hospes` / `credentials` away if nothing needs it, or stay with \
                     --credentials-store file",
                ))
            }
            Err(error) if wanted == CredentialsStore::Keyring => Err(unkept(&error)),
            Ok(false) => Ok((key, KeyPlace::File)),
            Err(error) => {
                tracing::info!(%error, "the key to the tokens stays in its file");
                Ok((key, KeyPlace::File))
            }
        }
    }

    /// From the keyring into its file; the keyring has it still, for whatever else it opens.
    fn taken_out(&self, purpose: Purpose, say: &dyn Fn(&str)) -> Outcome<(StoreKey, KeyPlace)> {
        match self.keyring.key() {
            Ok(Some(key)) => {
                key.to_file(&self.key).map_err(unusable)?;
                say(&format!("the key to the tokens is now in {} too", place::short(&self.key)));
                Ok((key, KeyPlace::File))
            }
            Ok(None) if purpose == Purpose::Repair => self.new_file(),
            Ok(None) => Err(self.lost()),
            Err(error) => Err(self.out_of_reach(&error)),
        }
    }

    fn in_keyring(
        &self,
        purpose: Purpose,
        wanted: CredentialsStore,
        say: &dyn Fn(&str),
    ) -> Outcome<(StoreKey, KeyPlace)> {
        // What is sealed already can only be opened by the key that sealed it.
        let is_new = !self.sealed.exists();
        let made = match self.keyring.key() {
            Ok(Some(key)) => return Ok((key, KeyPlace::Keyring)),
            Ok(None) if !is_new && purpose != Purpose::Repair => return Err(self.lost()),
            Ok(None) => StoreKey::generate()
                .map_err(unusable)
                .map(|key| self.keyring.put(&key).map(|()| (key, KeyPlace::Keyring)))?,
            Err(error) if !is_new => return Err(self.out_of_reach(&error)),
            Err(error) => Err(error),
        };
        match made {
            Ok(made) => Ok(made),
            Err(error) if wanted == CredentialsStore::Keyring => Err(unkept(&error)),
            Err(error) => {
                let made = self.new_file()?;
                say(&format!("{error}\n  so the key to the tokens is kept in {}", place::short(&self.key)));
                Ok(made)
            }
        }
    }

    fn new_file(&self) -> Outcome<(StoreKey, KeyPlace)> {
        StoreKey::in_file(&self.key).map(|key| (key, KeyPlace::File)).map_err(unusable)
    }

    /// Waits until no other process looks for the key or makes one.
    fn alone(&self) -> Outcome<File> {
        let mut name = self.sealed.as_os_str().to_owned();
        name.push(".key.lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let locked = options.open(name).and_then(|file| file.lock().map(|()| file));
        locked.map_err(|error| {
            Failure::usage(format!("{} cannot be locked", place::short(&self.sealed))).because(&error)
        })
    }

    fn gone(&self, why: &str) -> Failure {
        Failure::usage(format!("the key to {} cannot be had: {why}", place::short(&self.sealed))).hint(format!(
            "if it is in the keyring, --credentials-store auto (or {KEPT_IN}); if it was a passphrase, set {PASSPHRASE}"
        ))
    }

    /// Creates the error for a key that is neither in the keyring nor in its file.
    fn lost(&self) -> Failure {
        Failure::usage(format!(
            "the key to {} is gone: neither the system's keyring nor {} has it",
            place::short(&self.sealed),
            place::short(&self.key)
        ))
        .hint(format!(
            "if it was a passphrase, set {PASSPHRASE}; else `hospes auth repair URL` puts the file aside and signs in anew"
        ))
    }

    fn out_of_reach(&self, error: &KeyringError) -> Failure {
        let failure = Failure::usage(format!(
            "the key to {} is not in {}, and the keyring cannot be asked",
            place::short(&self.sealed),
            place::short(&self.key)
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
fn unkept(error: &KeyringError) -> Failure {
    Failure::usage("the key to the tokens cannot be kept in the keyring")
        .because(error)
        .hint("unlock or start it, or take --credentials-store auto or file")
}

// By value, as the errors come.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unusable(error: StepError) -> Failure {
    Failure::usage(chain(&error))
}

fn make_folder(file: &Path) -> Outcome {
    let Some(folder) = file.parent() else { return Ok(()) };
    fs::create_dir_all(folder)
        .map_err(|error| Failure::usage(format!("{} cannot be made", folder.display())).because(&error))
}
