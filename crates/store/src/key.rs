//! Keys in separate files, which bind and encrypt entries.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::{hkdf, hmac, rand};
use zeroize::Zeroizing;

use crate::error::StoreError;
use crate::hex::{KEY_BYTES, from_hex, to_hex};

/// Length of a nonce, in bytes. It precedes the encrypted data.
const NONCE: usize = 12;

/// Keys derived from the key of an audit log, one for each use.
pub(crate) struct AuditKeys {
    chain: hmac::Key,
    seal: SealCipher,
    /// Key from which the others are derived; other nodes need it to verify the log.
    #[cfg(feature = "postgres")]
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl AuditKeys {
    /// Reads the key from this file. A missing file is created if `may_make` is set.
    pub(crate) fn open(file: &Path, may_make: bool) -> Result<Self, StoreError> {
        read(file, may_make).map(|bytes| Self::from_bytes(&bytes))
    }

    pub(crate) fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Self {
        let derived = |purpose: &str| derive_key("hospes audit", bytes, purpose);
        let chain = hmac::Key::new(hmac::HMAC_SHA256, &*derived("chain"));
        Self {
            chain,
            seal: SealCipher::new(&derived("arguments")),
            #[cfg(feature = "postgres")]
            bytes: Zeroizing::new(*bytes),
        }
    }

    /// Returns the key in hexadecimal digits.
    #[cfg(feature = "postgres")]
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(to_hex(&*self.bytes))
    }

    /// Computes a keyed hash over the parts. Each is preceded by its length, so that no bytes can be moved from one
    /// part to the next.
    pub(crate) fn bind(&self, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        let mut context = hmac::Context::with_key(&self.chain);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut bound = [0; KEY_BYTES];
        bound.copy_from_slice(context.sign().as_ref());
        bound
    }

    pub(crate) fn seal(&self, text: &[u8], about: &[u8]) -> Vec<u8> {
        self.seal.seal(text, about)
    }

    pub(crate) fn open_sealed(&self, sealed: &[u8], about: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.seal.open(sealed, about)
    }
}

/// Cipher for sealed data, which can only be opened with the context it was sealed with.
pub(crate) struct SealCipher(RandomizedNonceKey);

impl SealCipher {
    pub(crate) fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(
            RandomizedNonceKey::new(&AES_256_GCM, key)
                .expect("the key has the length that the algorithm requires"),
        )
    }

    pub(crate) fn seal(&self, text: &[u8], about: &[u8]) -> Vec<u8> {
        let mut sealed = text.to_vec();
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(about), &mut sealed)
            .expect("the text is shorter than the AES-GCM limit");
        let mut whole = nonce.as_ref().to_vec();
        whole.append(&mut sealed);
        whole
    }

    pub(crate) fn open(&self, sealed: &[u8], about: &[u8]) -> Result<Vec<u8>, StoreError> {
        let (nonce, rest) = sealed.split_at_checked(NONCE).ok_or(StoreError::Sealed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| StoreError::Sealed)?;
        let mut text = rest.to_vec();
        let length =
            self.0.open_in_place(nonce, Aad::from(about), &mut text).map_err(|_| StoreError::Sealed)?.len();
        text.truncate(length);
        Ok(text)
    }
}

/// Derives a key for one purpose from another key.
pub(crate) fn derive_key(whose: &str, key: &[u8; KEY_BYTES], purpose: &str) -> Zeroizing<[u8; KEY_BYTES]> {
    let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, whose.as_bytes()).extract(key);
    let mut derived = Zeroizing::new([0; KEY_BYTES]);
    secret
        .expand(&[purpose.as_bytes()], hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut *derived))
        .expect("HKDF can output one hash length");
    derived
}

/// Returns true if it is a file, not a link, that only its owner can read or write.
pub(crate) fn is_private(file: &Path) -> io::Result<bool> {
    Ok(fs::symlink_metadata(file)?.is_file() && !hospes_fs::is_open_to_others(file)?)
}

/// Reads the key from this file. A missing file is created if `may_make` is set.
pub(crate) fn read(file: &Path, may_make: bool) -> Result<Zeroizing<[u8; KEY_BYTES]>, StoreError> {
    let failed = |source| StoreError::File { file: file.to_owned(), source };
    // A link is not followed and counts as accessible to others: it could lead to a file that others can write.
    match is_private(file) {
        Ok(false) => return Err(StoreError::Exposed(file.to_owned())),
        Ok(true) => (),
        // Read back below even if it was just created: if another process was first, its key counts.
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_make => make(file).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::KeyGone(file.to_owned()));
        }
        Err(error) => return Err(failed(error)),
    }
    let text = Zeroizing::new(fs::read_to_string(file).map_err(failed)?);
    from_hex(text.trim()).ok_or_else(|| StoreError::NotAKey(file.to_owned()))
}

impl fmt::Debug for AuditKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditKeys")
    }
}

/// Creates a key file atomically: written under another name and then linked, unless another process was first.
fn make(file: &Path) -> io::Result<()> {
    let mut bytes = Zeroizing::new([0_u8; KEY_BYTES]);
    rand::fill(&mut *bytes).map_err(|_| io::Error::other("the operating system provides no random bytes"))?;
    let text = Zeroizing::new(to_hex(&*bytes) + "\n");
    // One name for each process, so that two processes do not write to the same file.
    let beside = file.with_extension(format!("{}.new", std::process::id()));
    // A process of the same id may have left one when it was killed.
    let _gone = fs::remove_file(&beside);
    let written = hospes_fs::create_private(&beside)
        .and_then(|mut made| made.write_all(text.as_bytes()).and_then(|()| made.sync_all()));
    // Unlike a rename, a link never replaces the key that another process has created.
    let linked = written.and_then(|()| match fs::hard_link(&beside, file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    // A file that cannot be removed is as private as the key file.
    let _ = fs::remove_file(&beside);
    linked
}
