//! Sealed request state, which a client returns in the next round of a request, so that the server stays stateless.
//!
//! The text is authenticated and encrypted (XChaCha20-Poly1305). It contains the principal, a digest of the method and
//! params, and an expiry time besides the payload. All three are checked when the state is returned, so it is valid
//! only for the retry of that call.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hospes_model::RpcError;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::number;
use crate::sealing::{self, SealingKey};

pub use crate::sealing::NONCE_LEN;

/// Maximum length of a state that is opened, in bytes: the setting `max_request_state_bytes`.
pub const MAX_REQUEST_STATE_BYTES: usize = 1024 * 1024;

const DIGEST_LEN: usize = 32;
const EXPIRY_LEN: usize = 8;

/// Secret key that seals request state. Nodes with the same key can open each other's state.
#[derive(Clone)]
pub struct StateKey(SealingKey);

/// Error for an invalid key or key ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateKeyError {
    /// The text is not valid Base64.
    #[error("a state key must be base64")]
    NotBase64,
    /// The key is not 32 bytes long.
    #[error("a state key must be 32 bytes long, not {0}")]
    Length(usize),
    /// The key ring has no key.
    #[error("at least one state key is needed")]
    Empty,
}

impl StateKey {
    /// Creates a key from 32 secret bytes that cannot be guessed.
    #[must_use]
    pub fn from_bytes(secret: [u8; 32]) -> Self {
        Self(SealingKey::from_bytes(secret))
    }

    /// Creates a key from 32 bytes in Base64, in either alphabet, with or without padding.
    ///
    /// # Errors
    /// If the text is not Base64 or not 32 bytes long.
    pub fn from_base64(text: &str) -> Result<Self, StateKeyError> {
        let text = text.trim();
        let bytes = STANDARD
            .decode(text)
            .or_else(|_| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')))
            .or_else(|_| base64::engine::general_purpose::STANDARD_NO_PAD.decode(text))
            .map_err(|_| StateKeyError::NotBase64)?;
        <[u8; 32]>::try_from(&bytes[..]).map(Self::from_bytes).map_err(|_| StateKeyError::Length(bytes.len()))
    }
}

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Ring of keys: the first one seals, all of them open. To rotate keys, insert a new one in front and remove the old
/// one once the state that it sealed has expired.
#[derive(Clone, Debug)]
pub struct StateKeyRing {
    keys: Vec<StateKey>,
    audience: Box<[u8]>,
}

/// Binding of sealed state to a principal and a request.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a call site that forgets a part must not compile")]
pub struct StateBinding<'a> {
    /// Principal of the request; `None` without sign-in.
    pub principal: Option<&'a str>,
    /// Digest of the request.
    pub request: RequestDigest,
}

/// Digest of a request's method and params. It ignores the parts that a retry may change: `_meta`, `inputResponses`,
/// `requestState`, the order of members and the spelling of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDigest([u8; DIGEST_LEN]);

/// Reasons a sealed state is rejected, for logs. The peer gets the same error for all of them:
/// [`OpenStateError::to_rpc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStateError {
    /// The state is longer than the setting `max_request_state_bytes`.
    #[error("request state is longer than max_request_state_bytes")]
    TooLong,
    /// The state was modified, or not sealed by a key of this ring, or sealed for another audience.
    #[error("request state was modified, or sealed with a key that is not in the key ring")]
    Tampered,
    /// The state has expired.
    #[error("request state has expired")]
    Expired,
    /// The state was issued to another principal.
    #[error("request state belongs to another principal")]
    OtherPrincipal,
    /// The state was issued for another request.
    #[error("request state belongs to another request")]
    OtherRequest,
}

impl OpenStateError {
    /// Returns the error for the peer, which is the same for every reason, so that it reveals nothing to an attacker.
    #[must_use]
    pub fn to_rpc(&self) -> RpcError {
        RpcError::invalid_params("requestState was refused; send the request again without it")
    }
}

impl StateKeyRing {
    /// Creates a ring whose first key seals.
    ///
    /// # Errors
    /// If there is no key.
    pub fn new(keys: Vec<StateKey>) -> Result<Self, StateKeyError> {
        if keys.is_empty() {
            return Err(StateKeyError::Empty);
        }
        Ok(Self { keys, audience: Box::default() })
    }

    /// Creates a ring of one key.
    #[must_use]
    pub fn single(key: StateKey) -> Self {
        Self { keys: vec![key], audience: Box::default() }
    }

    /// Sets the audience. Servers that share keys but must not open each other's state need different values of `name`.
    #[must_use]
    pub fn for_audience(mut self, name: &str) -> Self {
        self.audience = name.as_bytes().into();
        self
    }

    /// Seals `payload`. `nonce` must come from the operating system's random source and never be repeated.
    #[must_use]
    pub fn seal(
        &self,
        binding: &StateBinding<'_>,
        expires: SystemTime,
        nonce: [u8; NONCE_LEN],
        payload: &[u8],
    ) -> String {
        let key = &self.keys[0];
        let mut plain = Vec::with_capacity(EXPIRY_LEN + 2 * DIGEST_LEN + payload.len());
        // The fields of fixed length come first, so that no payload can be mistaken for one of them.
        plain.extend_from_slice(&unix_millis(expires).to_be_bytes());
        plain.extend_from_slice(&principal_digest(binding.principal));
        plain.extend_from_slice(&binding.request.0);
        plain.extend_from_slice(payload);
        URL_SAFE_NO_PAD.encode(sealing::seal(&key.0, &self.associated(), nonce, &plain))
    }

    /// Opens a state sealed by [`StateKeyRing::seal`] if it is bound to this principal and request and has not expired.
    ///
    /// # Errors
    /// [`OpenStateError`], for the log; respond with [`OpenStateError::to_rpc`].
    pub fn open(
        &self,
        sealed: &str,
        binding: &StateBinding<'_>,
        now: SystemTime,
    ) -> Result<Vec<u8>, OpenStateError> {
        if sealed.len() > MAX_REQUEST_STATE_BYTES {
            return Err(OpenStateError::TooLong);
        }
        let mut plain = self.decrypt(sealed).ok_or(OpenStateError::Tampered)?;
        let (head, _) =
            plain.split_at_checked(EXPIRY_LEN + 2 * DIGEST_LEN).ok_or(OpenStateError::Tampered)?;
        let (expiry, bound) = head.split_at(EXPIRY_LEN);
        let (principal, request) = bound.split_at(DIGEST_LEN);
        // The text is authenticated by now, so these comparisons reveal nothing to a forger.
        if principal != principal_digest(binding.principal) {
            return Err(OpenStateError::OtherPrincipal);
        }
        if request != binding.request.0 {
            return Err(OpenStateError::OtherRequest);
        }
        // Big-endian bytes compare like the numbers they encode.
        if unix_millis(now).to_be_bytes()[..] >= *expiry {
            return Err(OpenStateError::Expired);
        }
        plain.drain(..EXPIRY_LEN + 2 * DIGEST_LEN);
        Ok(plain)
    }

    fn decrypt(&self, sealed: &str) -> Option<Vec<u8>> {
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        sealing::open(self.keys.iter().map(|key| &key.0), &self.associated(), &sealed)
    }

    fn associated(&self) -> Vec<u8> {
        [&b"hospes request state v1\0"[..], &self.audience].concat()
    }
}

fn principal_digest(principal: Option<&str>) -> [u8; DIGEST_LEN] {
    // Tagged, because no principal and a principal with an empty name differ.
    let digest = Sha256::new().chain_update([u8::from(principal.is_some())]);
    digest.chain_update(principal.unwrap_or_default()).finalize().into()
}

fn unix_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl RequestDigest {
    /// Computes the digest of a request; `params` is its JSON text, empty or `null` if the request has no params.
    ///
    /// # Errors
    /// If `params` is not valid JSON or nested too deeply for serde_json.
    pub fn of(method: &str, params: &[u8]) -> Result<Self, serde_json::Error> {
        let mut hash = Sha256::new();
        hash.update((method.len() as u64).to_be_bytes());
        hash.update(method);
        let mut params =
            if params.trim_ascii().is_empty() { Value::Null } else { serde_json::from_slice(params)? };
        if let Value::Object(members) = &mut params {
            for blind in ["_meta", "inputResponses", "requestState"] {
                members.remove(blind);
            }
            // A call without params gets some in its retry (`inputResponses`), which must not change the digest.
            if members.is_empty() {
                params = Value::Null;
            }
        }
        digest_value(&params, &mut hash);
        Ok(Self(hash.finalize().into()))
    }
}

/// Hashes a value so that only equal values have the same hash: types are tagged, lengths come first, members are
/// sorted.
fn digest_value(value: &Value, hash: &mut Sha256) {
    let mut text = |tag: u8, text: &str| {
        hash.update([tag]);
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    match value {
        Value::Null => text(b'0', ""),
        Value::Bool(value) => text(b'b', if *value { "t" } else { "f" }),
        Value::String(value) => text(b's', value),
        Value::Number(number) => text(b'n', &number::canonical(number)),
        Value::Array(items) => {
            hash.update([b'a']);
            hash.update((items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| digest_value(item, hash));
        }
        Value::Object(members) => {
            hash.update([b'o']);
            hash.update((members.len() as u64).to_be_bytes());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in members {
                hash.update((name.len() as u64).to_be_bytes());
                hash.update(name);
                digest_value(value, hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const NONCE: [u8; NONCE_LEN] = [7; NONCE_LEN];

    fn at(seconds: u64) -> SystemTime {
        NOW + Duration::from_secs(seconds)
    }

    fn ring(keys: &[u8]) -> StateKeyRing {
        StateKeyRing::new(keys.iter().map(|byte| StateKey::from_bytes([*byte; 32])).collect()).unwrap()
    }

    fn call(params: &str) -> RequestDigest {
        RequestDigest::of("tools/call", params.as_bytes()).unwrap()
    }

    fn binding(principal: Option<&str>) -> StateBinding<'_> {
        StateBinding { principal, request: call(r#"{"name":"t"}"#) }
    }

    /// covers: MRTR-11 MRTR-12
    #[test]
    fn state_opens_for_its_own_request_only() {
        let ring = ring(&[1]);
        let sealed = ring.seal(&binding(Some("ann")), at(60), NONCE, b"payload");
        assert_eq!(ring.open(&sealed, &binding(Some("ann")), at(59)).unwrap(), b"payload");
        assert_eq!(ring.open(&sealed, &binding(Some("ann")), at(60)), Err(OpenStateError::Expired));
        assert_eq!(ring.open(&sealed, &binding(Some("bob")), at(1)), Err(OpenStateError::OtherPrincipal));
        assert_eq!(ring.open(&sealed, &binding(None), at(1)), Err(OpenStateError::OtherPrincipal));
        let other = StateBinding { principal: Some("ann"), request: call(r#"{"name":"u"}"#) };
        assert_eq!(ring.open(&sealed, &other, at(1)), Err(OpenStateError::OtherRequest));
        let other = ring.clone().for_audience("elsewhere");
        assert_eq!(other.open(&sealed, &binding(Some("ann")), at(1)), Err(OpenStateError::Tampered));
        assert!(!sealed.contains("payload") && sealed.is_ascii());
    }

    /// covers: MRTR-11
    #[test]
    fn changed_state_is_refused_with_one_error_on_the_wire() {
        let ring = ring(&[1]);
        let sealed = ring.seal(&binding(None), at(60), NONCE, b"payload");
        for position in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(
                ring.open(&changed, &binding(None), NOW),
                Err(OpenStateError::Tampered),
                "at {position}"
            );
        }
        for bad in [format!("{sealed}-TAMPERED"), sealed[..20].to_owned(), String::new(), "ä".to_owned()] {
            assert_eq!(ring.open(&bad, &binding(None), NOW), Err(OpenStateError::Tampered));
        }
        let longest = "A".repeat(MAX_REQUEST_STATE_BYTES);
        assert_eq!(ring.open(&longest, &binding(None), NOW), Err(OpenStateError::Tampered));
        let long = "A".repeat(MAX_REQUEST_STATE_BYTES + 1);
        assert_eq!(ring.open(&long, &binding(None), NOW), Err(OpenStateError::TooLong));
        assert_eq!(OpenStateError::Tampered.to_rpc(), OpenStateError::OtherPrincipal.to_rpc());
        assert_eq!(OpenStateError::Expired.to_rpc().code, hospes_model::code::INVALID_PARAMS);
    }

    #[test]
    fn keys_rotate() {
        let sealed = ring(&[1]).seal(&binding(None), at(60), NONCE, b"old");
        assert_eq!(ring(&[2, 1]).open(&sealed, &binding(None), NOW).unwrap(), b"old");
        assert_eq!(ring(&[2]).open(&sealed, &binding(None), NOW), Err(OpenStateError::Tampered));
        let sealed = ring(&[2, 1]).seal(&binding(None), at(60), NONCE, b"new");
        assert_eq!(ring(&[2]).open(&sealed, &binding(None), NOW).unwrap(), b"new");
    }

    #[test]
    fn keys_are_read_from_base64_and_never_shown() {
        let secret = [0xfb; 32];
        for text in [
            STANDARD.encode(secret),
            URL_SAFE_NO_PAD.encode(secret),
            format!(" {}\n", STANDARD.encode(secret)),
        ] {
            assert_eq!(
                StateKey::from_base64(&text).unwrap().0.id(),
                StateKey::from_bytes(secret).0.id(),
                "{text}"
            );
        }
        assert_eq!(StateKey::from_base64("AAAA").unwrap_err(), StateKeyError::Length(3));
        assert_eq!(StateKey::from_base64("?").unwrap_err(), StateKeyError::NotBase64);
        assert_eq!(StateKeyRing::new(Vec::new()).unwrap_err(), StateKeyError::Empty);
        assert_eq!(format!("{:?}", StateKey::from_bytes([1; 32])), "Key(…)");
    }

    #[test]
    fn the_digest_sees_what_matters_and_nothing_else() {
        let plain = call(r#"{"name":"t","arguments":{"a":1,"b":[2.0,"x"]}}"#);
        let retry = r#" {"inputResponses":{"k":1},"requestState":"s","_meta":{"progressToken":1},
                         "arguments":{"b":[2,"\u0078"],"a":1e0},"name":"t"}"#;
        assert_eq!(plain, call(retry));
        for other in [
            r#"{"name":"t","arguments":{"a":1,"b":["x",2]}}"#,
            r#"{"name":"t","arguments":{"a":"1","b":[2,"x"]}}"#,
            r#"{"name":"t","arguments":{"a":1,"b":[2,"x"],"_meta":{}}}"#,
            r#"{"name":"t","arguments":{"a":1.5,"b":[2,"x"]}}"#,
            r#"{"name":"t"}"#,
        ] {
            assert_ne!(plain, call(other), "{other}");
        }
        assert_ne!(plain, RequestDigest::of("prompts/get", retry.as_bytes()).unwrap());
        assert_eq!(call(""), call("{}"));
        assert_eq!(call("null"), call(r#"{"_meta":{}}"#));
        assert!(RequestDigest::of("m", &b"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn what_is_sealed_opens_again(payload: Vec<u8>, principal: Option<String>, nonce: [u8; NONCE_LEN]) {
            let ring = ring(&[9]);
            let sealed = ring.seal(&binding(principal.as_deref()), at(1), nonce, &payload);
            prop_assert_eq!(ring.open(&sealed, &binding(principal.as_deref()), NOW).unwrap(), payload);
        }

        #[test]
        fn no_text_opens_by_chance(text in "[A-Za-z0-9_-]{0,300}") {
            prop_assert_eq!(ring(&[9]).open(&text, &binding(None), NOW), Err(OpenStateError::Tampered));
        }
    }
}
