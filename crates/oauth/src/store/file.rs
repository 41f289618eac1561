//! Encrypted file store of credentials.
//!
//! The file has a line that identifies its format, the salt of the key, a nonce, and an encrypted JSON object with all
//! documents. It is replaced atomically, so a crash leaves either the old or the new file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fmt, io};

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::{CredentialStore, StoreKey};
use crate::error::StepError;

const MAGIC: &[u8] = b"hospes credentials 1\n";
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Keeps everything in one sealed file, which several processes may use.
pub struct FileCredentialStore {
    path: PathBuf,
    key: StoreKey,
    /// Salt of the file, and the key derived with it.
    derived: Mutex<Option<([u8; SALT_BYTES], LessSafeKey)>>,
}

type StoredDocuments = BTreeMap<String, Zeroizing<String>>;

impl FileCredentialStore {
    /// Creates a store in this file, which is created on the first write. Its folder must exist.
    pub fn new(path: impl Into<PathBuf>, key: StoreKey) -> Self {
        Self { path: path.into(), key, derived: Mutex::new(None) }
    }

    /// Returns true if the key opens the file, or if there is no file yet.
    ///
    /// # Errors
    /// If it cannot be read, or is not a credential store.
    pub fn can_open(&self) -> Result<bool, StepError> {
        self.open().map(|opened| opened.is_some())
    }

    /// Moves a file that the key does not open aside and returns its new path. Later writes go to a new file. If the
    /// key is found again, the file can be moved back.
    ///
    /// # Errors
    /// If the file could not be moved.
    pub fn set_aside(&self) -> Result<PathBuf, StepError> {
        let _alone = self.lock_file(".write")?;
        // A dangling link counts as taken, because the rename would replace it.
        let taken = |number: &u32| fs::symlink_metadata(self.beside(&format!(".lost-{number}"))).is_ok();
        let number = (1..=u32::MAX).find(|number| !taken(number)).unwrap_or(u32::MAX);
        let aside = self.beside(&format!(".lost-{number}"));
        hospes_fs::rename(&self.path, &aside).map_err(|error| self.failed("move", error))?;
        // The salt belongs to the file that was moved away; the next one gets its own.
        *self.derived.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(aside)
    }

    fn load(&self) -> Result<StoredDocuments, StepError> {
        self.open()?.ok_or_else(|| {
            let other = match &self.key {
                StoreKey::Passphrase(_) => "wrong passphrase",
                StoreKey::Random(_) => "wrong key",
            };
            let shown = self.path.display();
            StepError::new(format!("cannot decrypt {shown}: {other}, or the file was modified"))
        })
    }

    /// Reads the documents in the file; `None` if the key does not open it.
    fn open(&self) -> Result<Option<StoredDocuments>, StepError> {
        let Some(text) = read_private(&self.path)? else { return Ok(Some(StoredDocuments::new())) };
        let not_ours = || StepError::new(format!("{} is not a hospes credential store", self.path.display()));
        let rest = text.strip_prefix(MAGIC).ok_or_else(not_ours)?;
        let (salt, rest) = rest.split_at_checked(SALT_BYTES).ok_or_else(not_ours)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_BYTES).ok_or_else(not_ours)?;
        let mut sealed = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| not_ours())?;
        let opened = self.with_key(salt, |key| {
            key.open_in_place(nonce, Aad::from(MAGIC), &mut sealed).map(|open| Zeroizing::new(open.to_vec()))
        })?;
        let Ok(opened) = opened else { return Ok(None) };
        let documents: BTreeMap<String, String> = serde_json::from_slice(&opened).map_err(|_| not_ours())?;
        Ok(Some(documents.into_iter().map(|(name, document)| (name, Zeroizing::new(document))).collect()))
    }

    fn with_key<T>(&self, salt: &[u8], work: impl FnOnce(&LessSafeKey) -> T) -> Result<T, StepError> {
        // Held over the derivation, so that two threads do not go through all the rounds for the same key.
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, key)) = &*derived
            && known == salt
        {
            return Ok(work(key));
        }
        let mut known = [0; SALT_BYTES];
        known.copy_from_slice(salt);
        let (_, key) = derived.insert((known, self.key.derive(salt)?));
        Ok(work(key))
    }

    fn change(&self, change: impl FnOnce(&mut StoredDocuments)) -> Result<(), StepError> {
        // Read under the lock, or what another process writes in between would be lost.
        let _alone = self.lock_file(".write")?;
        let mut documents = self.load()?;
        change(&mut documents);
        let plain: BTreeMap<&str, &str> =
            documents.iter().map(|(name, document)| (name.as_str(), document.as_str())).collect();
        let text =
            serde_json::to_vec(&plain).map_err(|_| StepError::new("cannot serialize the credentials"))?;
        let mut text = Zeroizing::new(text);
        // The nonce is random, because the processes that share the file share no counter.
        let mut random = [0; SALT_BYTES + NONCE_BYTES];
        getrandom::fill(&mut random)
            .map_err(|_| StepError::new("the operating system provides no random numbers"))?;
        let (fresh, nonce) = random.split_at(SALT_BYTES);
        // The salt is kept as long as the file: a new one would cost a key derivation for every write.
        let salt = {
            // The guard ends with the block, because `with_key` locks the same mutex.
            let derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
            derived.as_ref().map_or_else(|| fresh.to_vec(), |(salt, _)| salt.to_vec())
        };
        let unique =
            Nonce::try_assume_unique_for_key(nonce).map_err(|_| StepError::new("cannot create a nonce"))?;
        let sealed =
            self.with_key(&salt, |key| key.seal_in_place_append_tag(unique, Aad::from(MAGIC), &mut *text))?;
        sealed.map_err(|_| StepError::new("cannot encrypt the credentials"))?;
        let whole = [MAGIC, &salt, nonce, &text].concat();
        self.replace(&whole).map_err(|error| self.failed("write", error))
    }

    /// Writes a new file beside the old, then puts it in its place.
    fn replace(&self, whole: &[u8]) -> io::Result<()> {
        let new = self.beside(".new");
        // What a crash has left there.
        match hospes_fs::retry_while_in_use(|| fs::remove_file(&new)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // With `create_new` no link is followed that somebody else has put there.
        let mut file = hospes_fs::create_private(&new)?;
        file.write_all(whole)?;
        // Before the rename: after a crash the name must not stand for a file without its contents.
        file.sync_all()?;
        drop(file);
        hospes_fs::rename(&new, &self.path)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(ending);
        name.into()
    }

    /// Waits until no other process holds the lock of this ending.
    fn lock_file(&self, ending: &str) -> Result<File, StepError> {
        // A file of its own is locked, because every write replaces the store's file.
        let path = self.beside(&format!("{ending}.lock"));
        let open = || {
            let file = hospes_fs::open_private(&path)?;
            file.lock()?;
            Ok(file)
        };
        open().map_err(|error| self.failed("lock", error))
    }

    fn failed(&self, what: &str, error: io::Error) -> StepError {
        StepError::new(format!("cannot {what} {}", self.path.display())).because(error)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl CredentialStore for FileCredentialStore {
    fn read(&self, name: &str) -> Result<Option<SecretString>, StepError> {
        Ok(self.load()?.get(name).map(|document| SecretString::from(document.as_str())))
    }

    fn write(&self, name: &str, document: &SecretString) -> Result<(), StepError> {
        self.change(|documents| {
            documents.insert(name.to_owned(), Zeroizing::new(document.expose_secret().to_owned()));
        })
    }

    fn remove(&self, name: &str) -> Result<(), StepError> {
        // No write for a name that is not there: it would even create the file.
        if self.load()?.contains_key(name) {
            self.change(|documents| {
                documents.remove(name);
            })?;
        }
        Ok(())
    }

    fn names(&self, beginning: &str) -> Result<Vec<String>, StepError> {
        Ok(self.load()?.into_keys().filter(|name| name.starts_with(beginning)).collect())
    }

    fn lock(&self, _name: &str) -> Result<Option<Box<dyn Send>>, StepError> {
        // One for all documents. Not the lock of writes: whoever holds this one writes while holding it.
        Ok(Some(Box::new(self.lock_file(".renew")?)))
    }
}

impl fmt::Debug for FileCredentialStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileCredentialStore").field(&self.path).finish()
    }
}

/// Reads a file, if it exists. Fails if other users could have read or placed it.
pub(super) fn read_private(path: &Path) -> Result<Option<Vec<u8>>, StepError> {
    let failed = |error| StepError::new(format!("cannot read {}", path.display())).because(error);
    // A link is not followed: it could lead to a file of somebody else.
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let shown = path.display();
    if !about.is_file() {
        return Err(StepError::new(format!("{shown} is not a regular file")));
    }
    if hospes_fs::is_open_to_others(path).map_err(failed)? {
        let hint = hospes_fs::protection_hint(path);
        return Err(StepError::new(format!("{shown} is accessible by other users; run `{hint}`")));
    }
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut text));
    read.map_err(failed)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests;
