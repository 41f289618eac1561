//! Algorithms that are accepted.

use aws_lc_rs::signature::{UnparsedPublicKey, VerificationAlgorithm};
use aws_lc_rs::{digest, signature as algorithms};
use der::asn1::ObjectIdentifier;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const RSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const RSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");
const EC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const ECDSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");

/// Digest of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DigestKind {
    Sha256,
    Sha384,
    Sha512,
}

impl DigestKind {
    pub(super) fn of(oid: ObjectIdentifier) -> Result<Self, String> {
        match oid {
            SHA256 => Ok(Self::Sha256),
            SHA384 => Ok(Self::Sha384),
            SHA512 => Ok(Self::Sha512),
            other => Err(format!("it uses the digest {other}; SHA-256, SHA-384 and SHA-512 are accepted")),
        }
    }

    pub(super) fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

/// Algorithm with a key.
pub(super) struct Scheme<'k> {
    key: UnparsedPublicKey<&'k [u8]>,
}

impl Scheme<'_> {
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key.verify(message, signature).is_ok()
    }
}

/// Selects the algorithm of a CMS signature.
pub(super) fn scheme<'k>(
    algorithm: &ObjectIdentifier,
    digest: DigestKind,
    key: &'k SubjectPublicKeyInfoOwned,
) -> Result<Scheme<'k>, String> {
    let stated = match *algorithm {
        // These name no digest.
        RSA | EC_KEY => Some(digest),
        ref other => digest_of(other),
    };
    let family = match *algorithm {
        RSA | RSA_SHA256 | RSA_SHA384 | RSA_SHA512 => RSA,
        EC_KEY | ECDSA_SHA256 | ECDSA_SHA384 | ECDSA_SHA512 => EC_KEY,
        other => {
            return Err(format!("it uses the algorithm {other}; RSA PKCS #1 and ECDSA are accepted"));
        }
    };
    if stated != Some(digest) {
        return Err("its algorithm and its digest contradict each other".to_owned());
    }
    with_key(family, digest, key)
}

/// Selects the algorithm with which a certificate is signed. `None` if it is not accepted.
pub(super) fn certificate_scheme<'k>(
    algorithm: &ObjectIdentifier,
    key: &'k SubjectPublicKeyInfoOwned,
) -> Option<Scheme<'k>> {
    scheme(algorithm, digest_of(algorithm)?, key).ok()
}

fn digest_of(algorithm: &ObjectIdentifier) -> Option<DigestKind> {
    match *algorithm {
        RSA_SHA256 | ECDSA_SHA256 => Some(DigestKind::Sha256),
        RSA_SHA384 | ECDSA_SHA384 => Some(DigestKind::Sha384),
        RSA_SHA512 | ECDSA_SHA512 => Some(DigestKind::Sha512),
        _ => None,
    }
}

fn with_key(
    family: ObjectIdentifier,
    digest: DigestKind,
    key: &SubjectPublicKeyInfoOwned,
) -> Result<Scheme<'_>, String> {
    use DigestKind::{Sha256, Sha384, Sha512};

    if key.algorithm.oid != family {
        return Err("its algorithm is not that of the certificate's key".to_owned());
    }
    let curve = key.algorithm.parameters.as_ref().and_then(|any| any.decode_as::<ObjectIdentifier>().ok());
    let verification: &'static dyn VerificationAlgorithm = match (family, curve, digest) {
        // Keys below 2048 bits are refused by these.
        (RSA, _, Sha256) => &algorithms::RSA_PKCS1_2048_8192_SHA256,
        (RSA, _, Sha384) => &algorithms::RSA_PKCS1_2048_8192_SHA384,
        (RSA, _, Sha512) => &algorithms::RSA_PKCS1_2048_8192_SHA512,
        (_, Some(P256), Sha256) => &algorithms::ECDSA_P256_SHA256_ASN1,
        (_, Some(P256), Sha384) => &algorithms::ECDSA_P256_SHA384_ASN1,
        (_, Some(P256), Sha512) => &algorithms::ECDSA_P256_SHA512_ASN1,
        (_, Some(P384), Sha256) => &algorithms::ECDSA_P384_SHA256_ASN1,
        (_, Some(P384), Sha384) => &algorithms::ECDSA_P384_SHA384_ASN1,
        (_, Some(P384), Sha512) => &algorithms::ECDSA_P384_SHA512_ASN1,
        (_, Some(P521), Sha256) => &algorithms::ECDSA_P521_SHA256_ASN1,
        (_, Some(P521), Sha384) => &algorithms::ECDSA_P521_SHA384_ASN1,
        (_, Some(P521), Sha512) => &algorithms::ECDSA_P521_SHA512_ASN1,
        _ => {
            return Err(
                "the curve of the certificate's key is not accepted: P-256, P-384 and P-521 are".to_owned()
            );
        }
    };
    let bytes = key.subject_public_key.as_bytes().ok_or("the key of the certificate cannot be read")?;
    Ok(Scheme { key: UnparsedPublicKey::new(verification, bytes) })
}
