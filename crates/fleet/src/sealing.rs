//! Fleet keys, with which records in a shared store are sealed.

use hospes_proto::sealing::{NONCE_LEN, SealingKey, open, seal};

use crate::keys::random;
use crate::relay::RelayError;

/// Keys of a fleet: the first one seals, all of them open. To rotate keys, give all nodes the new key behind the old
/// one, then in front of it, then remove the old one.
#[derive(Clone, Debug)]
pub struct FleetKeys(Vec<SealingKey>);

impl FleetKeys {
    /// Creates keys from secrets of 32 bytes; `None` if there is none.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = [u8; 32]>) -> Option<Self> {
        let keys: Vec<_> = secrets.into_iter().map(SealingKey::from_bytes).collect();
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// Seals a text for one place in the store, so that it does not open in another.
    pub(crate) fn seal(&self, place: &[&[u8]], plain: &[u8]) -> Vec<u8> {
        seal(&self.0[0], &context(place), random::<NONCE_LEN>(), plain)
    }

    pub(crate) fn open(&self, place: &[&[u8]], sealed: &[u8]) -> Result<Vec<u8>, RelayError> {
        open(&self.0, &context(place), sealed).ok_or(RelayError::Sealed)
    }
}

/// Encodes a place; each part is preceded by its length.
fn context(place: &[&[u8]]) -> Vec<u8> {
    let mut context = b"hospes relay v1\0".to_vec();
    for part in place {
        context.extend_from_slice(&(part.len() as u64).to_be_bytes());
        context.extend_from_slice(part);
    }
    context
}
