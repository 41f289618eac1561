//! Local sign-in of users: with a configured name and password, or with a code that the program shows only to its
//! owner.

mod password_hash;
mod verification;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hospes_auth::Seed;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::store::secrets::hash;

pub use password_hash::{InvalidPasswordHash, PasswordHash};
use verification::PasswordVerifier;
pub(super) use verification::{MAX_PASSWORD_VERIFICATIONS, VerifyPasswordError};

/// Lifetime of a code that was shown, in seconds.
const CODE_SECONDS: u64 = 600;

/// Name of the user who can read the program's output.
pub const OWNER: &str = "owner";

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
    verifier: PasswordVerifier,
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
    ///
    /// # Errors
    /// If the password could not be verified, for example because too many others were.
    pub(super) async fn check(&self, user: &str, password: &str) -> Result<bool, VerifyPasswordError> {
        let known = self.users.get(user).cloned();
        let is_known = known.is_some();
        let Some(expected) = known.or_else(|| self.decoy(user)) else { return Ok(false) };
        let password: SecretString = password.to_owned().into();
        let verify = move || expected.matches_password(password.expose_secret());
        Ok(self.verifier.run(verify).await? && is_known)
    }

    /// Returns the hash that is verified for an unknown user; `None` if there are no users.
    fn decoy(&self, user: &str) -> Option<PasswordHash> {
        // Hashes may differ in cost. The name selects the cost, so that an unknown name takes the same time whenever it is
        // tried, as a known one does, and no cost belongs to known names alone.
        let choice = hash(user).bytes().map(usize::from).sum::<usize>().checked_rem(self.users.len())?;
        self.users.values().nth(choice).map(PasswordHash::decoy)
    }

    /// Takes all turns of the verification, until the result is dropped.
    #[cfg(test)]
    pub(super) async fn take_all_turns(&self) -> tokio::sync::OwnedSemaphorePermit {
        self.verifier.take_all_turns().await
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

    #[tokio::test]
    async fn the_password_of_a_user_is_accepted_and_no_other() {
        let sign_in = LocalSignIn::users([("ann".to_owned(), PasswordHash::cheap("correct horse"))]);
        assert_eq!(sign_in.check("ann", "correct horse").await, Ok(true));
        assert_eq!(sign_in.check("ann", "correct house").await, Ok(false));
        assert_eq!(sign_in.check("bob", "correct horse").await, Ok(false));
        assert_eq!(LocalSignIn::users([]).check("ann", "").await, Ok(false));
    }

    /// An unknown user takes a turn, too, and verifies a hash that costs what those of users cost.
    #[tokio::test(start_paused = true)]
    async fn an_unknown_user_costs_as_much_as_a_known_one() {
        const OLD: &str = "pbkdf2-sha256$600000$salt$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let users = [PasswordHash::cheap("correct horse"), PasswordHash::parse(OLD).unwrap()];
        let costs: Vec<PasswordHash> = users.iter().map(PasswordHash::decoy).collect();
        let sign_in = LocalSignIn::users(["ann", "bob"].map(str::to_owned).into_iter().zip(users));
        let mut chosen = std::collections::BTreeSet::new();
        for number in 0..64 {
            let name = format!("user {number}");
            let decoy = sign_in.decoy(&name).unwrap();
            assert_eq!(decoy.expose(), sign_in.decoy(&name).unwrap().expose(), "{name}");
            chosen.insert(costs.iter().position(|cost| cost.expose() == decoy.expose()).unwrap());
        }
        assert_eq!(chosen.len(), 2, "every cost belongs to unknown names as well");
        let _turns = sign_in.take_all_turns().await;
        for name in ["ann", "nobody"] {
            assert_eq!(sign_in.check(name, "x").await, Err(VerifyPasswordError::Busy), "{name}");
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
