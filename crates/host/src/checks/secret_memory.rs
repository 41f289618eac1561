//! Secrets that were delivered, and the servers they came from.
//!
//! Only keyed hashes are kept, in memory, for each person and application.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use hospes::Peer;
use hospes_inspect::secrets::find_secrets;
use parking_lot::Mutex;

/// Maximum number of secrets remembered for one person and application. The oldest make room.
const MAX_SECRETS: usize = 256;

/// Maximum number of persons and applications whose secrets are remembered.
const MAX_OWNERS: usize = 1024;

/// Maximum number of servers remembered for one secret.
const MAX_SERVERS: usize = 8;

/// Minimum length of a word of an argument that may be a secret, in bytes.
const MIN_SECRET: usize = 12;

/// Maximum number of words of one argument that are compared.
const MAX_WORDS: usize = 4096;

/// Secrets of all persons and applications.
#[derive(Debug, Default)]
pub(super) struct SecretMemory {
    owners: Mutex<HashMap<u64, OwnedSecrets>>,
    /// Two keys, so that no other text has the hash of a secret by chance.
    keys: [RandomState; 2],
}

type SecretHash = [u64; 2];

#[derive(Debug, Default)]
struct OwnedSecrets {
    servers: HashMap<SecretHash, Vec<Arc<str>>>,
    order: VecDeque<SecretHash>,
}

impl SecretMemory {
    /// Remembers that a result of this server with this secret is delivered.
    pub(super) fn note(&self, peer: &Peer, server: &str, secret: &str) {
        let (owner, hash) = (self.owner(peer), self.hash(secret));
        let mut owners = self.owners.lock();
        if owners.len() >= MAX_OWNERS && !owners.contains_key(&owner) {
            // Which one goes does not matter: that many applications at once are an attack or a mistake.
            if let Some(other) = owners.keys().next().copied() {
                owners.remove(&other);
            }
        }
        let owned = owners.entry(owner).or_default();
        if !owned.servers.contains_key(&hash) {
            if owned.order.len() >= MAX_SECRETS
                && let Some(oldest) = owned.order.pop_front()
            {
                owned.servers.remove(&oldest);
            }
            owned.order.push_back(hash);
        }
        let servers = owned.servers.entry(hash).or_default();
        if servers.len() < MAX_SERVERS && !servers.iter().any(|known| **known == *server) {
            servers.push(Arc::from(server));
        }
    }

    /// Returns the servers of the secrets in a text that did not come from `server`.
    pub(super) fn find_foreign(&self, peer: &Peer, server: &str, text: &str) -> Vec<Arc<str>> {
        let owners = self.owners.lock();
        let Some(owned) = owners.get(&self.owner(peer)) else { return Vec::new() };
        let mut found: Vec<Arc<str>> = Vec::new();
        let mut compared = HashSet::new();
        let mut compare = |part: &str| {
            if part.len() < MIN_SECRET
                || !compared.insert(part.as_ptr() as usize ^ part.len().rotate_left(32))
            {
                return;
            }
            let Some(servers) = owned.servers.get(&self.hash(part)) else { return };
            if let Some(first) = servers.first()
                && !servers.iter().any(|known| **known == *server)
                && !found.contains(first)
            {
                found.push(Arc::clone(first));
            }
        };
        find_secrets(text).into_iter().for_each(|secret| compare(&text[secret.range]));
        compare(text.trim());
        for word in text.split(|one: char| one.is_whitespace() || "\"'`<>".contains(one)).take(MAX_WORDS) {
            compare(word);
            let separators = "=:,;&|()[]{}?#@/\\";
            word.split(|one: char| separators.contains(one)).for_each(&mut compare);
            // A value may itself have such characters.
            if let Some(at) = word.find(['=', ':']) {
                compare(&word[at + 1..]);
            }
            compare(word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '&']));
        }
        found
    }

    fn owner(&self, peer: &Peer) -> u64 {
        let application = peer.info.as_ref().map(|info| info.name.as_str());
        self.keys[0].hash_one((peer.principal.as_deref(), application))
    }

    /// Hashes a secret without its blanks and line ends, which differ between JSON and text.
    fn hash(&self, secret: &str) -> SecretHash {
        let bare: String = match secret.contains(['\\', '\n', '\r', ' ']) {
            true => {
                let unescaped = secret.replace("\\n", "").replace("\\r", "").replace("\\/", "/");
                unescaped.chars().filter(|one| !one.is_whitespace()).collect()
            }
            false => secret.to_owned(),
        };
        [self.keys[0].hash_one(&bare), self.keys[1].hash_one(&bare)]
    }
}

#[cfg(test)]
mod tests {
    use hospes::model::{ClientCapabilities, Implementation, Revision};

    use super::*;

    fn peer(name: &str) -> Peer {
        Peer::new(Revision::LATEST, Some(Implementation::new(name, "1")), ClientCapabilities::default())
    }

    #[test]
    fn a_secret_is_known_by_its_server_in_every_surrounding() {
        let (secrets, app) = (SecretMemory::default(), peer("app"));
        secrets.note(&app, "vault", "q7Zr2WmX9cVb4NtY6kLp/8sHf+3GjT5aRe1==");
        secrets.note(
            &app,
            "vault",
            "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkq\\nhkiG\\n-----END PRIVATE KEY-----",
        );
        for text in [
            "q7Zr2WmX9cVb4NtY6kLp/8sHf+3GjT5aRe1==",
            "use q7Zr2WmX9cVb4NtY6kLp/8sHf+3GjT5aRe1== now",
            "key=q7Zr2WmX9cVb4NtY6kLp/8sHf+3GjT5aRe1==",
            "{\"k\":\"q7Zr2WmX9cVb4NtY6kLp/8sHf+3GjT5aRe1==\"}",
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG\n-----END PRIVATE KEY-----",
        ] {
            assert_eq!(
                secrets.find_foreign(&app, "mail", text),
                [std::sync::Arc::<str>::from("vault")],
                "{text}"
            );
            assert!(secrets.find_foreign(&app, "vault", text).is_empty());
            assert!(secrets.find_foreign(&peer("other"), "mail", text).is_empty());
        }
        assert!(secrets.find_foreign(&app, "mail", "an ordinary text with words").is_empty());
        secrets.note(&app, "mail", "q7Zr2WmX9cVb4NtY6kLp/8sHf+3GjT5aRe1==");
        let text = "q7Zr2WmX9cVb4NtY6kLp/8sHf+3GjT5aRe1==";
        assert!(secrets.find_foreign(&app, "mail", text).is_empty(), "the server has it already");
    }

    #[test]
    fn the_memory_is_bounded() {
        let (secrets, app) = (SecretMemory::default(), peer("app"));
        (0..2 * MAX_SECRETS).for_each(|n| secrets.note(&app, "vault", &format!("a-secret-{n:020}")));
        assert!(secrets.find_foreign(&app, "x", &format!("a-secret-{:020}", 0)).is_empty());
        assert!(
            !secrets.find_foreign(&app, "x", &format!("a-secret-{:020}", 2 * MAX_SECRETS - 1)).is_empty()
        );
        for n in 0..2 * MAX_OWNERS {
            secrets.note(&peer(&format!("app {n}")), "vault", "a-secret-of-them");
        }
        assert!(secrets.owners.lock().len() <= MAX_OWNERS);
    }
}
