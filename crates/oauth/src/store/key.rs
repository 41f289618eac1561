//! Key of the encrypted file store, and its storage.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::num::NonZeroU32;
use std::path::Path;

use aws_lc_rs::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use aws_lc_rs::{hmac, pbkdf2};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::file::read_private;
use crate::error::StepError;

/// Number of hash rounds that derive a key from a passphrase.
const PBKDF2_ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("600000 is not zero");

/// Key of a file store.
#[derive(Clone)]
#[non_exhaustive]
pub enum StoreKey {
    /// A passphrase. Deriving the key takes a moment, once.
    Passphrase(SecretString),
    /// 32 random bytes that are kept elsewhere, for example in a keyring.
    Random(Zeroizing<[u8; 32]>),
}

impl StoreKey {
    /// Creates a key from a passphrase.
    pub fn passphrase(text: impl Into<SecretString>) -> Self {
        Self::Passphrase(text.into())
    }

    /// Generates a random key.
    ///
    /// # Errors
    /// If the operating system provides no random bytes.
    pub fn generate() -> Result<Self, StepError> {
        let mut random = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *random)
            .map_err(|_| StepError::new("the operating system provides no random numbers"))?;
        Ok(Self::Random(random))
    }

    /// Returns the random key in this file, which is created if it is missing. A user who can read both files can read
    /// the tokens, so store them in different places. A file that others can read is rejected. Its folder must exist.
    ///
    /// # Errors
    /// If it cannot be created, or contains no key.
    pub fn in_file(path: &Path) -> Result<Self, StepError> {
        if let Some(known) = Self::from_file(path)? {
            return Ok(known);
        }
        let made = Self::generate()?;
        match made.write_new(path) {
            Ok(()) => Ok(made),
            // Somebody was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Self::from_file(path)?
                .ok_or_else(|| StepError::new(format!("cannot create {}", path.display())).because(error)),
            Err(error) => Err(StepError::new(format!("cannot create {}", path.display())).because(error)),
        }
    }

    /// Returns the random key in this file, if the file exists. A file that others can read is rejected.
    ///
    /// # Errors
    /// If it cannot be read, or contains no key.
    pub fn from_file(path: &Path) -> Result<Option<Self>, StepError> {
        let Some(text) = read_private(path)?.map(Zeroizing::new) else { return Ok(None) };
        let known = <[u8; 32]>::try_from(&**text);
        let known =
            known.map_err(|_| StepError::new(format!("{} is not a 32-byte key file", path.display())))?;
        Ok(Some(Self::Random(Zeroizing::new(known))))
    }

    /// Writes it to a file of its owner's that is not there yet. Its folder must exist.
    ///
    /// # Errors
    /// When there is such a file, when it cannot be written, and for a passphrase, which is written nowhere.
    pub fn to_file(&self, path: &Path) -> Result<(), StepError> {
        self.write_new(path)
            .map_err(|error| StepError::new(format!("cannot create {}", path.display())).because(error))
    }

    fn write_new(&self, path: &Path) -> std::io::Result<()> {
        let Self::Random(random) = self else { return Err(ErrorKind::InvalidInput.into()) };
        let mut file = hospes_fs::create_private(path)?;
        file.write_all(&**random)?;
        // Whatever is sealed with the key is lost with it, so it has to survive a crash.
        file.sync_all()
    }

    /// Returns true if both are the same random key.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Random(one), Self::Random(other)) => one.ct_eq(&**other).into(),
            _ => false,
        }
    }

    /// Derives a key for another purpose. It is always the same for one purpose, and reveals nothing about this key or
    /// other derived keys.
    #[must_use]
    pub fn for_purpose(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let own = hmac::Key::new(hmac::HMAC_SHA256, &*self.bytes(purpose.as_bytes()));
        let tag = hmac::sign(&own, purpose.as_bytes());
        let mut bytes = Zeroizing::new([0; 32]);
        bytes.iter_mut().zip(tag.as_ref()).for_each(|(byte, tag)| *byte = *tag);
        bytes
    }

    fn bytes(&self, salt: &[u8]) -> Zeroizing<[u8; 32]> {
        let mut bytes = Zeroizing::new([0; 32]);
        match self {
            Self::Passphrase(text) => {
                let text = text.expose_secret().as_bytes();
                pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, PBKDF2_ROUNDS, salt, text, &mut *bytes);
            }
            // Uniformly random already: neither salt nor rounds would add anything.
            Self::Random(random) => bytes.copy_from_slice(&**random),
        }
        bytes
    }

    pub(super) fn derive(&self, salt: &[u8]) -> Result<LessSafeKey, StepError> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &*self.bytes(salt));
        key.map(LessSafeKey::new).map_err(|_| StepError::new("cannot derive the encryption key"))
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreKey(…)")
    }
}
