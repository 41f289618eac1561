//! Hashes of passwords: Argon2id as PHC strings, and the PBKDF2 hashes of older configurations.

use std::fmt;
use std::num::NonZeroU32;

use argon2::password_hash::phc::{self, Output, Salt};
use argon2::password_hash::{self, CustomizedPasswordHasher as _, PasswordVerifier as _};
use argon2::{ARGON2ID_IDENT, Argon2, Params, Version};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::pbkdf2;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::Seed;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use crate::store::encode;

/// Memory of a new hash in KiB. With the two others, a recommendation of the OWASP Password Storage Cheat Sheet.
const MEMORY_KIB: u32 = 19_456;
/// Number of passes over the memory for a new hash.
const PASSES: u32 = 2;
/// Number of lanes of a new hash.
const LANES: u32 = 1;

/// Maximum memory of a hash in KiB. It is the second recommendation of RFC 9106, section 4.
const MAX_MEMORY_KIB: u32 = 65_536;
const MAX_PASSES: u32 = 10;
const MAX_LANES: u32 = 16;
/// Minimum memory of a hash in KiB: the smallest among the recommendations of OWASP, which takes 5 passes.
const MIN_MEMORY_KIB: u32 = 7_168;
/// Minimum product of memory and passes, for the same recommendation.
const MIN_WORK: u32 = MIN_MEMORY_KIB * 5;
/// Minimum length of the hash value in bytes.
const MIN_OUTPUT_BYTES: usize = 16;

const MIN_ROUNDS: u32 = 100_000;
const MAX_ROUNDS: u32 = 10_000_000;
const PBKDF2_PREFIX: &str = "pbkdf2-sha256$";

/// Beginnings of the hashes of this crate and of other programs.
const HASH_PREFIXES: [&str; 7] = ["$argon2", "pbkdf2-", "$pbkdf2", "$scrypt$", "$2a$", "$2b$", "$2y$"];

/// Hash of a password, in the format of the configuration.
///
/// New hashes are PHC strings of Argon2id with the parameters that OWASP recommends: 19456 KiB of memory, 2 passes and
/// 1 lane, `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`. The format of older configurations,
/// `pbkdf2-sha256$600000$SALT$HASH`, is still verified.
#[derive(Clone)]
pub struct PasswordHash(SecretString);

/// Error for text that cannot be used as a password hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPasswordHash {
    /// The text has the format of no supported hash.
    #[error(
        "invalid password hash: expected Argon2id as a PHC string, `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`, \
         or `pbkdf2-sha256$ROUNDS$SALT$HASH`"
    )]
    Format,
    /// The hash is of another algorithm.
    #[error(
        "unsupported algorithm of a password hash: only Argon2id of version 19 is supported; hash the password again \
         as `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`"
    )]
    Algorithm,
    /// Verifying a password would take too much memory or time.
    #[error(
        "password hash is too expensive: {parameter} is {value}, and at most {max} is allowed, because each sign-in \
         takes as much memory and time; hash the password again with `m=19456,t=2,p=1`"
    )]
    #[non_exhaustive]
    TooExpensive {
        /// Name of the parameter: `m` (memory in KiB), `t` (passes) or `p` (lanes) of Argon2id, `rounds` of PBKDF2.
        parameter: &'static str,
        /// Its value.
        value: u32,
        /// The maximum.
        max: u32,
    },
    /// Passwords could be guessed too fast from the hash.
    #[error(
        "password hash is too weak, because the password could be guessed quickly from it: expected Argon2id with m of \
         at least 7168 (KiB), m × t of at least 35840 and 16 bytes of hash, or PBKDF2 with at least 100000 rounds; \
         hash the password again with `m=19456,t=2,p=1`"
    )]
    TooWeak,
}

impl PasswordHash {
    /// Hashes a password with a random salt. This intentionally takes 19 MiB of memory and some tens of milliseconds.
    #[must_use]
    pub fn hash_password(password: &str) -> Self {
        // Without randomness there are no secrets, and nothing can go on.
        let salt = Seed::from_system().expect("the operating system provides random numbers").draw();
        Self::salted(password, &salt[..Salt::RECOMMENDED_LENGTH], recommended_params())
    }

    /// Hashes a password that the configuration contains in plain text. The result depends only on the password, the
    /// user and the place. It is the same after every start and at every node, so grants last as long as the password.
    /// `place` is where the user signs in, the issuer. Memory and time are those of [`Self::hash_password`].
    #[must_use]
    pub fn hash_user_password(password: &str, user: &str, place: &str) -> Self {
        let salt = digest(&SHA256, encode(&(place, user)).as_bytes());
        Self::salted(password, salt.as_ref(), recommended_params())
    }

    /// Hashes a password for a test, with as little memory and time as possible.
    #[cfg(test)]
    pub(crate) fn cheap(password: &str) -> Self {
        let params = Params::new(Params::MIN_M_COST, 1, 1, None).expect("the minimum is allowed");
        Self::salted(password, b"always the same", params)
    }

    fn salted(password: &str, salt: &[u8], params: Params) -> Self {
        let hash: password_hash::Result<phc::PasswordHash> = Argon2::default().hash_password_customized(
            password.as_bytes(),
            salt,
            Some(ARGON2ID_IDENT.as_str()),
            Some(Version::V0x13.into()),
            params,
        );
        // The parameters are valid. Without memory, an allocation would end the program as well.
        Self(hash.expect("there is memory for one hash").to_string().into())
    }

    /// Parses a hash from the configuration. Its parameters are limited: at most 65536 KiB of memory, 10 passes and 16
    /// lanes, or 10,000,000 rounds of PBKDF2; at least as much work as the weakest recommendation of OWASP, or 100,000
    /// rounds.
    ///
    /// # Errors
    /// If the text is not a hash of a supported algorithm, or its parameters are out of these limits.
    pub fn parse(text: &str) -> Result<Self, InvalidPasswordHash> {
        DecodedHash::decode(text)?.check_cost()?;
        Ok(Self(text.to_owned().into()))
    }

    /// Returns true if the text is meant as a hash, by its beginning, and not as a password in plain text. A hash of
    /// another program counts, so that it is reported and does not itself become the password.
    #[must_use]
    pub fn looks_like_hash(text: &str) -> bool {
        HASH_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
    }

    /// Returns the text for the configuration.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns true if this is the hash of the password. Blocks for as long as hashing does.
    #[must_use]
    pub fn matches_password(&self, password: &str) -> bool {
        DecodedHash::decode(self.expose()).is_ok_and(|hash| hash.verify(password))
    }

    /// Returns a hash with the same algorithm and parameters, and thus the same time of verification, for a user who
    /// does not exist. No password is known to have it.
    pub(super) fn decoy(&self) -> Self {
        let decoded = DecodedHash::decode(self.expose()).expect("every constructor makes or checks a hash");
        let text = match decoded {
            DecodedHash::Argon2id(mut hash) => {
                hash.salt = hash.salt.and_then(|salt| Salt::new(&vec![0; salt.len()]).ok());
                hash.hash = hash.hash.and_then(|output| Output::new(&vec![0; output.len()]).ok());
                hash.to_string()
            }
            DecodedHash::Pbkdf2 { rounds, .. } => {
                format!("{PBKDF2_PREFIX}{rounds}$nobody${}", URL_SAFE_NO_PAD.encode([0; 32]))
            }
        };
        Self(text.into())
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

fn recommended_params() -> Params {
    Params::new(MEMORY_KIB, PASSES, LANES, None).expect("the recommended parameters are valid")
}

/// A hash whose text has been read.
enum DecodedHash<'a> {
    Argon2id(Box<phc::PasswordHash>),
    Pbkdf2 { rounds: NonZeroU32, salt: &'a str, hash: [u8; 32] },
}

impl<'a> DecodedHash<'a> {
    fn decode(text: &'a str) -> Result<Self, InvalidPasswordHash> {
        match text.strip_prefix(PBKDF2_PREFIX) {
            Some(rest) => Self::decode_pbkdf2(rest).ok_or(InvalidPasswordHash::Format),
            None => Self::decode_phc(text),
        }
    }

    fn decode_phc(text: &str) -> Result<Self, InvalidPasswordHash> {
        if PasswordHash::looks_like_hash(text) && !text.starts_with("$argon2id$") {
            return Err(InvalidPasswordHash::Algorithm);
        }
        let hash = phc::PasswordHash::new(text).map_err(|_| InvalidPasswordHash::Format)?;
        if hash.algorithm != ARGON2ID_IDENT || hash.version != Some(Version::V0x13.into()) {
            return Err(InvalidPasswordHash::Algorithm);
        }
        // Without one of the three, the defaults of the library would decide. Further ones (`keyid`, `data`) are no
        // longer part of the algorithm.
        let has_all = ["m", "t", "p"].iter().all(|name| hash.params.get_decimal(*name).is_some());
        if !has_all || hash.params.iter().count() != 3 || hash.salt.is_none() || hash.hash.is_none() {
            return Err(InvalidPasswordHash::Format);
        }
        Ok(Self::Argon2id(Box::new(hash)))
    }

    fn decode_pbkdf2(rest: &'a str) -> Option<Self> {
        let mut parts = rest.split('$');
        let (rounds, salt, hash) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || salt.is_empty() {
            return None;
        }
        let hash = URL_SAFE_NO_PAD.decode(hash).ok()?.try_into().ok()?;
        Some(Self::Pbkdf2 { rounds: rounds.parse().ok()?, salt, hash })
    }

    fn check_cost(&self) -> Result<(), InvalidPasswordHash> {
        let at_most = |parameter, value, max| match value > max {
            true => Err(InvalidPasswordHash::TooExpensive { parameter, value, max }),
            false => Ok(()),
        };
        let is_enough = match self {
            Self::Argon2id(hash) => {
                let parameter = |name: &str| hash.params.get_decimal(name).unwrap_or_default();
                let (memory, passes, lanes) = (parameter("m"), parameter("t"), parameter("p"));
                at_most("m", memory, MAX_MEMORY_KIB)?;
                at_most("t", passes, MAX_PASSES)?;
                at_most("p", lanes, MAX_LANES)?;
                let bytes = hash.hash.as_ref().map_or(0, Output::len);
                let is_hard = memory >= MIN_MEMORY_KIB && memory * passes >= MIN_WORK;
                is_hard && lanes >= 1 && bytes >= MIN_OUTPUT_BYTES
            }
            Self::Pbkdf2 { rounds, .. } => {
                at_most("rounds", rounds.get(), MAX_ROUNDS)?;
                rounds.get() >= MIN_ROUNDS
            }
        };
        if is_enough { Ok(()) } else { Err(InvalidPasswordHash::TooWeak) }
    }

    fn verify(&self, password: &str) -> bool {
        match self {
            Self::Argon2id(hash) => match Argon2::default().verify_password(password.as_bytes(), &**hash) {
                Ok(()) => true,
                Err(password_hash::Error::PasswordInvalid) => false,
                Err(error) => {
                    tracing::error!(%error, "cannot verify a password");
                    false
                }
            },
            Self::Pbkdf2 { rounds, salt, hash } => {
                let mut found = [0; 32];
                let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
                pbkdf2::derive(algorithm, *rounds, salt.as_bytes(), password.as_bytes(), &mut found);
                bool::from(found.ct_eq(hash))
            }
        }
    }
}

#[cfg(test)]
mod tests;
