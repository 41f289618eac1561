//! The keyring of the operating system: Keychain, Credential Manager, or an implementation of the Secret Service.
//!
//! It stores only the key of an encrypted file: tokens may exceed the size limit of a keyring, and a file can be locked
//! and replaced atomically.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::shown;
use keyring::{Entry, Error};
use zeroize::Zeroizing;

use super::StoreKey;

/// Maximum time to wait for the keyring. A user who is asked to unlock it has to find the window and type.
const PATIENCE: Duration = Duration::from_secs(60);

/// The place of one key in the operating system's keyring.
///
/// ```no_run
/// use hospes_oauth::{FileCredentialStore, StoreKey, SystemKeyring};
///
/// # fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let keyring = SystemKeyring::new("my-app", "credentials");
/// let key = match keyring.key()? {
///     Some(key) => key,
///     None => {
///         let key = StoreKey::generate()?;
///         keyring.put(&key)?;
///         key
///     }
/// };
/// let store = FileCredentialStore::new("credentials", key);
/// # Ok(())
/// # }
/// ```
///
/// Its methods block, for a minute at most: a locked keyring asks the person to unlock it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemKeyring {
    service: String,
    account: String,
}

/// Reasons a keyring operation failed. The error contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// There is no keyring, or it cannot be reached from this process.
    #[error("no system keyring is available: {0}")]
    Absent(String),
    /// It is locked and was not unlocked, or it has no storage.
    #[error("the keyring is locked: {0}")]
    Locked(String),
    /// It did not answer within a minute.
    #[error("the keyring did not answer within {} s (it may be waiting to be unlocked)", PATIENCE.as_secs())]
    Silent,
    /// The entry is not a key of this program.
    #[error("the keyring entry `{0}` is not a valid key")]
    Malformed(String),
    /// Any other error.
    #[error("the keyring failed: {0}")]
    Failed(String),
}

impl SystemKeyring {
    /// Creates a handle of the entry for this service and account.
    pub fn new(service: impl Into<String>, account: impl Into<String>) -> Self {
        Self { service: service.into(), account: account.into() }
    }

    /// Returns the stored key, if there is one.
    ///
    /// # Errors
    /// If the keyring cannot be read, or the entry is not a key.
    pub fn key(&self) -> Result<Option<StoreKey>, KeyringError> {
        let found = self.ask(|entry| match entry.get_password() {
            Ok(text) => Ok(Some(Zeroizing::new(text))),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        })?;
        let Some(text) = found else { return Ok(None) };
        let malformed = || KeyringError::Malformed(self.service.clone());
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(&*text).map_err(|_| malformed())?);
        let bytes = <[u8; 32]>::try_from(&**bytes).map_err(|_| malformed())?;
        Ok(Some(StoreKey::Random(Zeroizing::new(bytes))))
    }

    /// Stores a key, replacing an earlier one. The key is read back for verification.
    ///
    /// # Errors
    /// If the key could not be stored. A passphrase is never stored.
    pub fn put(&self, key: &StoreKey) -> Result<(), KeyringError> {
        let StoreKey::Random(bytes) = key else {
            return Err(KeyringError::Failed("passphrases cannot be stored".into()));
        };
        let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice()));
        self.ask(move |entry| entry.set_password(&text))?;
        match self.key()? {
            Some(kept) if kept.is_same(key) => Ok(()),
            _ => Err(KeyringError::Failed("the stored key could not be read back".into())),
        }
    }

    /// Removes the entry, if there is one.
    ///
    /// # Errors
    /// If the entry still exists.
    pub fn remove(&self) -> Result<(), KeyringError> {
        self.ask(|entry| match entry.delete_credential() {
            Ok(()) | Err(Error::NoEntry) => Ok(()),
            Err(error) => Err(error),
        })
    }

    /// Runs the operation on its own thread, because the caller may be asynchronous. The caller waits for at most a
    /// minute.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Entry) -> keyring::Result<T> + Send + 'static,
    ) -> Result<T, KeyringError> {
        let (service, account) = (self.service.clone(), self.account.clone());
        // Room for the one answer, so that the thread ends even if the caller has given up.
        let (answer, answered) = sync_channel(1);
        let asking = thread::Builder::new().name("keyring".into()).spawn(move || {
            let done = match Entry::store_status() {
                Err(error) => Err(KeyringError::Absent(error_text(error))),
                Ok(()) => {
                    Entry::new(&service, &account).and_then(|entry| work(&entry)).map_err(keyring_error)
                }
            };
            // Whoever waits no longer wants no answer.
            let _gone = answer.send(done);
        });
        asking.map_err(|error| KeyringError::Failed(error.to_string()))?;
        match answered.recv_timeout(PATIENCE) {
            Ok(done) => done,
            Err(RecvTimeoutError::Timeout) => Err(KeyringError::Silent),
            Err(RecvTimeoutError::Disconnected) => Err(KeyringError::Failed("no response".into())),
        }
    }
}

// By value: some errors carry what was found.
#[expect(clippy::needless_pass_by_value, reason = "what the error carries is dropped here")]
fn keyring_error(error: Error) -> KeyringError {
    match &error {
        Error::NoDefaultStore => KeyringError::Absent("no supported keyring service on this system".into()),
        Error::NoStorageAccess(_) => KeyringError::Locked(error_text(&error)),
        _ => KeyringError::Failed(error_text(&error)),
    }
}

/// Returns the text of an error, without any data that was found.
fn error_text(error: &Error) -> String {
    match error {
        Error::PlatformFailure(why) | Error::NoStorageAccess(why) => shown(&why.to_string()),
        Error::BadEncoding(_) | Error::BadDataFormat(..) => "the entry is not text".into(),
        Error::Ambiguous(_) => "several entries have this name".into(),
        other => shown(&other.to_string()),
    }
}
