//! Key of a state that several nodes share: random, and stored in the database, sealed with the secret of the nodes.
//!
//! So the secret can change while the state stays readable: whoever opens the key with a former secret seals it with the
//! present one.

use std::sync::Arc;

use aws_lc_rs::rand;
use hospes_sql::{ChangeScope, SqlEngine, SqlError, SqlResult, SqlTransaction, sql_values};
use zeroize::Zeroizing;

use crate::error::StoreError;
use crate::key::{SealCipher, derive_key};

/// Name of the part.
pub(super) const PART: &str = "key";

/// Migration steps. Never change a step; add one.
pub(super) const POSTGRES: &[&str] =
    &["CREATE TABLE state_key (id bigint PRIMARY KEY, sealed bytea NOT NULL)"];

/// Context with which the key is sealed.
const CONTEXT: &[u8] = b"key of the state";

/// Replaces the key of a state that has no sealed values yet.
pub(super) fn replace_shared_key(
    change: &mut dyn SqlTransaction,
    secrets: &[Zeroizing<[u8; 32]>],
    key: &[u8; 32],
) -> SqlResult<()> {
    let secret = secrets.first().ok_or(SqlError::Missing)?;
    let sealed = SealCipher::new(&derive_key("hospes state", secret, "seal of the key")).seal(key, CONTEXT);
    let replaced = change.execute("UPDATE state_key SET sealed = ?1 WHERE id = 1", sql_values![sealed])?;
    if replaced == 1 { Ok(()) } else { Err(SqlError::Missing) }
}

/// Reads the key, which the first node makes. `secrets` are those of the nodes, the present one first.
pub(super) async fn shared_key(
    engine: &SqlEngine,
    secrets: &[Zeroizing<[u8; 32]>],
) -> Result<Zeroizing<[u8; 32]>, StoreError> {
    let ciphers =
        secrets.iter().map(|secret| SealCipher::new(&derive_key("hospes state", secret, "seal of the key")));
    let ciphers: Arc<[SealCipher]> = ciphers.collect();
    let Some(first) = ciphers.first() else { return Err(StoreError::Sealed) };
    let mut made = Zeroizing::new([0; 32]);
    rand::fill(&mut *made).map_err(|_| StoreError::NoRandomBytes)?;
    let sealed_new = first.seal(&*made, CONTEXT);
    let (all, insert) = (Arc::clone(&ciphers), sealed_new);
    let sealed: Vec<u8> = engine
        .write(ChangeScope::Named("key of the state".to_owned()), move |change| {
            let stored = change.query_first("SELECT sealed FROM state_key WHERE id = 1", sql_values![])?;
            let Some(row) = stored else {
                let text = "INSERT INTO state_key (id, sealed) VALUES (1, ?1)";
                change.execute(text, sql_values![insert])?;
                return Ok(insert.clone());
            };
            let sealed: Vec<u8> = row.get(0)?;
            let is_former = |cipher: &SealCipher| cipher.open(&sealed, CONTEXT).ok().map(Zeroizing::new);
            if let [first, former @ ..] = &*all
                && is_former(first).is_none()
                && let Some(key) = former.iter().find_map(is_former)
            {
                let again = first.seal(&key, CONTEXT);
                change.execute("UPDATE state_key SET sealed = ?1 WHERE id = 1", sql_values![again])?;
                return Ok(again);
            }
            Ok(sealed)
        })
        .await?;
    let key = Zeroizing::new(first.open(&sealed, CONTEXT)?);
    Ok(Zeroizing::new(key.as_slice().try_into().map_err(|_| StoreError::Sealed)?))
}
