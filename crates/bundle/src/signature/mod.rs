//! Signatures of bundles: a block behind the ZIP with a detached CMS signature (RFC 5652, PKCS #7).
//!
//! # What a verdict means
//! A valid signature says that the owner of a key has signed these bytes. Who that is, only a certificate authority can
//! say. A self-signed certificate proves nothing about its name; its fingerprint shows whether two bundles have the same
//! signer.
//!
//! [`SignatureVerdict::Signed`] is trusted if the certificate is valid now, is made for code signing, and its chain ends
//! at one of the given roots. The roots of a system ([`TrustRoots::system`]) were chosen by its maker, on Linux mostly
//! for web servers. So a trusted verdict says that an authority has checked the name for code signing. It does not say
//! that anybody has looked at the code. Revocation is not checked, and there is no proof of the time of signing:
//! therefore the certificate must be valid at the time of the check.
//!
//! # Differences from `openssl cms -verify -noverify`
//! Refused here, although OpenSSL accepts them:
//! - digests other than SHA-256, SHA-384 and SHA-512, RSA keys below 2048 bits, RSA-PSS, and curves other than P-256,
//!   P-384 and P-521;
//! - signatures without authenticated attributes, whose bytes could also be read as attributes;
//! - several signers, several blocks, content inside of the signature, and bytes behind it;
//! - BER that is not DER;
//! - a self-signed certificate whose own signature is wrong.

mod block;
mod certificate;
mod cms;
mod keys;
mod trust;

use std::io;
use std::time::SystemTime;

use aws_lc_rs::digest;

use self::block::BlockState;
pub use self::block::MAX_SIGNATURE_BYTES;
pub(crate) use self::block::{BLOCK_HEADER, MAX_BLOCK_BYTES, SignatureBlock};
use self::certificate::Certificate;
use self::cms::SignedData;
pub use self::trust::TrustRoots;
use crate::archive::hex;

/// Judgement of a bundle's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignatureVerdict {
    /// There is no signature.
    Unsigned,
    /// There is a signature, and it is wrong, damaged or of a kind that is refused.
    Invalid {
        /// Reason.
        why: String,
    },
    /// The signature fits, and its certificate is signed by itself. Anybody can make one with any name.
    SelfSigned {
        /// Signer as stated.
        signer: BundleSigner,
    },
    /// The signature fits, and its certificate is issued by another.
    Signed {
        /// Signer as stated by the certificate.
        signer: BundleSigner,
        /// Name of the issuer as stated by the certificate.
        issuer: String,
        /// True if the name is certified for code signing by a trusted root.
        trusted: bool,
        /// Reason why it is not trusted.
        untrusted_why: Option<String>,
    },
}

/// Signer of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleSigner {
    /// Common name, or else the whole name of the certificate. Foreign text.
    pub name: String,
    /// SHA-256 of the certificate, in lower-case hexadecimal digits.
    pub fingerprint: String,
    /// Begin of the certificate's validity.
    pub not_before: SystemTime,
    /// End of the certificate's validity.
    pub not_after: SystemTime,
    /// Validity at the time of the check.
    pub validity: CertificateValidity,
}

/// Validity of a certificate at the time of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateValidity {
    /// Valid.
    Valid,
    /// Not valid yet.
    NotYet,
    /// Valid no longer.
    Expired,
}

/// Computes the digest of the signed content.
pub(crate) type DigestContent<'c> = dyn Fn(&'static digest::Algorithm) -> io::Result<digest::Digest> + 'c;

/// Judges a signature block.
pub(crate) fn judge(
    block: &SignatureBlock,
    content: &DigestContent<'_>,
    roots: &TrustRoots,
    now: SystemTime,
) -> io::Result<SignatureVerdict> {
    let invalid = |why: String| Ok(SignatureVerdict::Invalid { why });
    let signature = match &block.state {
        BlockState::None => return Ok(SignatureVerdict::Unsigned),
        BlockState::Damaged(why) => return invalid(why.clone()),
        BlockState::Intact(der) => der,
    };
    let signed = match SignedData::parse(signature) {
        Ok(signed) => signed,
        Err(why) => return invalid(why),
    };
    let digest = content(signed.digest.algorithm())?;
    match check(&signed, digest.as_ref()) {
        Ok(signer) => Ok(verdict(&signer, &signed, roots, now)),
        Err(why) => invalid(why),
    }
}

/// Checks the mathematics: the content against the attributes, and the attributes against the signer's key.
fn check<'s>(signed: &'s SignedData<'_>, digest: &[u8]) -> Result<Certificate<'s>, String> {
    if signed.message_digest != digest {
        return Err("the content is not the one that was signed".to_owned());
    }
    let signer = signed.signer()?;
    let scheme = keys::scheme(&signed.signature_algorithm, signed.digest, signer.key())?;
    if !scheme.verifies(&signed.attributes, signed.signature) {
        return Err("the signature does not fit the key of the certificate".to_owned());
    }
    if signer.is_self_issued() && signer.is_signed_by(&signer) == Some(false) {
        return Err("the certificate is not signed by its own key, as it claims".to_owned());
    }
    Ok(signer)
}

fn verdict(
    certificate: &Certificate<'_>,
    signed: &SignedData<'_>,
    roots: &TrustRoots,
    now: SystemTime,
) -> SignatureVerdict {
    let (not_before, not_after) = certificate.validity();
    let signer = BundleSigner {
        name: certificate.subject_name(),
        fingerprint: hex(digest::digest(&digest::SHA256, certificate.der()).as_ref()),
        not_before,
        not_after,
        validity: match (now < not_before, now > not_after) {
            (true, _) => CertificateValidity::NotYet,
            (_, true) => CertificateValidity::Expired,
            _ => CertificateValidity::Valid,
        },
    };
    if certificate.is_self_issued() {
        return SignatureVerdict::SelfSigned { signer };
    }
    let traced = roots.check(certificate.der(), &signed.certificates, now);
    let is_for_code = certificate.is_for_code_signing().then_some(());
    let untrusted_why = traced.and_then(|()| is_for_code.ok_or_else(trust::not_for_code)).err();
    SignatureVerdict::Signed {
        signer,
        issuer: certificate.issuer_name(),
        trusted: untrusted_why.is_none(),
        untrusted_why,
    }
}
