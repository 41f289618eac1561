//! Local sign-in of users: with a configured name and password, or with a code that the program shows only to its
//! owner.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use aws_lc_rs::pbkdf2;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hospes_auth::Seed;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::store::encode;
use super::store::secrets::{hash, random_text};

/// Number of hash rounds of a password, as OWASP recommends for PBKDF2 with SHA-256.
const PBKDF2_ROUNDS: u32 = 600_000;
/// The fewest rounds that a hash of the configuration may have.
const MIN_ROUNDS: u32 = 100_000;
/// Lifetime of a code that was shown, in seconds.
const CODE_SECONDS: u64 = 600;

/// Name of the user who can read the program's output.
pub const OWNER: &str = "owner";

/// Hash of a password, in the format of the configuration: `pbkdf2-sha256$600000$SALT$HASH`.
#[derive(Clone)]
pub struct PasswordHash(SecretString);

/// Error for text that is not a password hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not a valid password hash: expected `pbkdf2-sha256$ROUNDS$SALT$HASH` with at least 100000 rounds"
)]
#[non_exhaustive]
pub struct InvalidPasswordHash;

impl PasswordHash {
    /// Hashes a password. This intentionally takes a large part of a second.
    #[must_use]
    pub fn hash_password(password: &str) -> Self {
        Self::salted(password, &random_text(), PBKDF2_ROUNDS)
    }

    /// Hashes a password that the configuration contains in plain text. The result depends only on the password, the
    /// user and the place. It is the same after every start and at every node, so grants last as long as the password.
    /// `place` is where the user signs in, the issuer. It takes a good part of a second.
    #[must_use]
    pub fn hash_user_password(password: &str, user: &str, place: &str) -> Self {
        Self::salted(password, &hash(&encode(&(place, user))), PBKDF2_ROUNDS)
    }

    #[cfg(test)]
    pub(crate) fn cheap(password: &str) -> Self {
        Self::salted(password, "the same", 1)
    }

    fn salted(password: &str, salt: &str, rounds: u32) -> Self {
        let hash = URL_SAFE_NO_PAD.encode(derive(password, salt, rounds));
        Self(format!("pbkdf2-sha256${rounds}${salt}${hash}").into())
    }

    /// Parses a hash from the configuration.
    ///
    /// # Errors
    /// If the text is not a hash.
    pub fn parse(text: &str) -> Result<Self, InvalidPasswordHash> {
        let (rounds, _, _) = parts(text).ok_or(InvalidPasswordHash)?;
        if rounds < MIN_ROUNDS {
            return Err(InvalidPasswordHash);
        }
        Ok(Self(text.to_owned().into()))
    }

    /// Returns the text for the configuration.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns true if this is the hash of the password.
    #[must_use]
    pub fn matches_password(&self, password: &str) -> bool {
        let Some((rounds, salt, hash)) = parts(self.expose()) else { return false };
        let Ok(known) = URL_SAFE_NO_PAD.decode(hash) else { return false };
        bool::from(derive(password, salt, rounds).ct_eq(&known))
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

fn parts(text: &str) -> Option<(u32, &str, &str)> {
    let mut parts = text.strip_prefix("pbkdf2-sha256$")?.split('$');
    let found = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    (parts.next().is_none() && !found.1.is_empty() && !found.2.is_empty()).then_some(found)
}

fn derive(password: &str, salt: &str, rounds: u32) -> [u8; 32] {
    let mut hash = [0; 32];
    let rounds = NonZeroU32::new(rounds).unwrap_or(NonZeroU32::MIN);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt.as_bytes(), password.as_bytes(), &mut hash);
    hash
}

/// Characters of a code, none of which can be confused with another.
const CODE_ALPHABET: &[u8; 30] = b"23456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Creates a code such as `7KQM-2XJP-9RTD`. Its 58 bits are too many to guess within its lifetime, and it is short
/// enough to type on a telephone.
fn new_code() -> String {
    // Without randomness there are no secrets, and nothing can go on.
    let mut seed = Seed::from_system().expect("the operating system provides random numbers");
    let mut code = String::new();
    while code.len() < 14 {
        // As often one sign as another: what is left over of 256 is not used.
        for byte in seed.draw().into_iter().filter(|byte| *byte < 240) {
            if code.len() == 14 {
                break;
            }
            if matches!(code.len(), 4 | 9) {
                code.push('-');
            }
            code.push(char::from(CODE_ALPHABET[usize::from(byte) % CODE_ALPHABET.len()]));
        }
    }
    code
}

/// Normalizes a code, ignoring separators and case.
fn normalize_code(code: &str) -> String {
    let signs = code.chars().filter(|sign| !sign.is_whitespace() && *sign != '-');
    signs.map(|sign| sign.to_ascii_uppercase()).collect()
}

type ShowCode = dyn Fn(&str) + Send + Sync;

/// Users who may sign in, and their credentials.
#[derive(Clone, Default)]
pub struct LocalSignIn {
    users: Arc<BTreeMap<String, PasswordHash>>,
    show: Option<Arc<ShowCode>>,
    shown: Arc<Mutex<Option<(String, u64)>>>,
}

impl LocalSignIn {
    /// Creates a sign-in for these users and their passwords.
    #[must_use]
    pub fn users(users: impl IntoIterator<Item = (String, PasswordHash)>) -> Self {
        Self { users: Arc::new(users.into_iter().collect()), ..Self::default() }
    }

    /// Admits the owner, who can read the single-use code that `show` shows. The owner signs in as [`OWNER`].
    pub fn owner(show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { show: Some(Arc::new(show)), ..Self::default() }
    }

    pub(super) fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Returns a digest of the user's credentials, which changes with them; `None` if the user may not sign in.
    pub(super) fn credential_digest(&self, user: &str) -> Option<String> {
        match self.users.get(user) {
            Some(password) => Some(hash(password.expose())),
            None => (self.show.is_some() && user == OWNER).then(|| OWNER.to_owned()),
        }
    }

    /// Shows a code, unless a valid one was shown already. Thus attackers cannot fill the owner's screen.
    pub(super) fn show_code(&self, now: u64) {
        let Some(show) = &self.show else { return };
        // Held until the code is shown, so that two requests at once do not show two codes of which one is
        // void.
        let mut shown = self.shown.lock();
        if shown.as_ref().is_some_and(|(_, until)| *until > now) {
            return;
        }
        let code = new_code();
        *shown = Some((hash(&normalize_code(&code)), now + CODE_SECONDS));
        show(&code);
    }

    /// Returns true if this is the code that was shown; it works once.
    pub(super) fn take_code(&self, code: &str, now: u64) -> bool {
        let mut shown = self.shown.lock();
        let good = shown.as_ref().is_some_and(|(known, until)| {
            *until > now && bool::from(known.as_bytes().ct_eq(hash(&normalize_code(code)).as_bytes()))
        });
        // A wrong code does not use up the right one, or anybody could lock the owner out.
        if good {
            *shown = None;
        }
        good
    }

    /// Returns true if this is the user's password. Takes equally long for unknown users.
    pub(super) async fn check(&self, user: &str, password: &str) -> bool {
        let known = self.users.get(user).cloned();
        let password: SecretString = password.to_owned().into();
        // The hash takes a good part of a second, in which a thread of the runtime would serve nobody.
        let checked = tokio::task::spawn_blocking(move || match known {
            Some(known) => known.matches_password(password.expose_secret()),
            None => {
                derive(password.expose_secret(), "nobody", PBKDF2_ROUNDS);
                false
            }
        });
        checked.await.unwrap_or(false)
    }
}

impl fmt::Debug for LocalSignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSignIn").field("users", &self.users.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_by_its_hash() {
        let hash = PasswordHash::hash_password("correct horse");
        let read = PasswordHash::parse(hash.expose()).unwrap();
        assert!(
            read.matches_password("correct horse")
                && !read.matches_password("correct horse ")
                && !read.matches_password("")
        );
        assert!(!format!("{hash:?}").contains("pbkdf2"));
        for bad in
            ["", "secret", "pbkdf2-sha256$1$a$b", "pbkdf2-sha256$600000$a", "pbkdf2-sha256$600000$a$b$c"]
        {
            assert!(PasswordHash::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_of_the_configuration_has_one_hash() {
        let one = || PasswordHash::hash_user_password("correct horse", "ann", "https://as.example");
        let hash = one();
        assert!(hash.matches_password("correct horse") && hash.expose() == one().expose());
        for other in [
            PasswordHash::hash_user_password("correct horse", "bob", "https://as.example"),
            PasswordHash::hash_user_password("correct horse", "ann", "https://other.example"),
            PasswordHash::hash_user_password("correct horse!", "ann", "https://as.example"),
        ] {
            assert_ne!(hash.expose(), other.expose());
        }
    }

    #[test]
    fn a_code_can_be_read_and_typed() {
        let codes: std::collections::HashSet<String> = (0..200).map(|_| new_code()).collect();
        assert_eq!(codes.len(), 200);
        let mut seen = std::collections::BTreeSet::new();
        for code in &codes {
            let groups: Vec<&str> = code.split('-').collect();
            assert!(groups.len() == 3 && groups.iter().all(|group| group.len() == 4), "{code}");
            seen.extend(normalize_code(code).bytes());
        }
        assert_eq!(seen, CODE_ALPHABET.iter().copied().collect(), "each of the signs, and no other");
    }

    #[test]
    fn a_code_works_once_and_for_a_while() {
        let shown: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&shown);
        let sign_in = LocalSignIn::owner(move |code| sink.lock().push(code.to_owned()));
        sign_in.show_code(0);
        sign_in.show_code(1);
        let codes = shown.lock().clone();
        assert_eq!(codes.len(), 1);
        assert!(!sign_in.take_code("wrong", 1) && !sign_in.take_code(&codes[0], CODE_SECONDS));
        // However it is typed.
        let typed = format!(" {} ", codes[0].to_lowercase().replace('-', " "));
        assert!(sign_in.take_code(&typed, 1));
        assert!(!sign_in.take_code(&codes[0], 1));
    }
}
