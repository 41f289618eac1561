//! Certificates of signers.

use std::time::SystemTime;

use der::asn1::{ObjectIdentifier, Utf8StringRef};
use der::{Decode as _, Tag};
use x509_cert::ext::pkix::{ExtendedKeyUsage, SubjectKeyIdentifier};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use super::cms::{Parts, unreadable};
use super::keys::certificate_scheme;

/// Use of a certificate for code signing (RFC 5280 §4.2.1.12).
const CODE_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3");
/// Longest name that is shown, in characters.
const MAX_NAME: usize = 200;

/// Decoded certificate.
#[derive(Debug)]
pub(super) struct Certificate<'d> {
    der: &'d [u8],
    /// The part that is signed.
    body: &'d [u8],
    decoded: x509_cert::Certificate,
}

impl<'d> Certificate<'d> {
    pub(super) fn parse(der: &'d [u8]) -> Result<Self, String> {
        let decoded = x509_cert::Certificate::from_der(der).map_err(unreadable)?;
        let whole = Parts::of(der)?.tagged(Tag::Sequence, "certificate")?;
        let body = Parts::of(whole.value)?.tagged(Tag::Sequence, "certificate's body")?.whole;
        let tbs = decoded.tbs_certificate();
        for attribute in tbs.subject().iter().chain(tbs.issuer().iter()) {
            // The text of an attribute is not looked at when the name is decoded.
            match attribute.value.header().tag() {
                Tag::Utf8String => {
                    let _text = attribute.value.decode_as::<Utf8StringRef<'_>>().map_err(unreadable)?;
                }
                Tag::PrintableString | Tag::Ia5String | Tag::TeletexString | Tag::BmpString => {}
                other => return Err(unreadable(format!("a name has a part of the type {other}"))),
            }
        }
        Ok(Self { der, body, decoded })
    }

    pub(super) fn der(&self) -> &'d [u8] {
        self.der
    }

    pub(super) fn key(&self) -> &SubjectPublicKeyInfoOwned {
        self.decoded.tbs_certificate().subject_public_key_info()
    }

    pub(super) fn is_named(&self, issuer: &Name, serial: &SerialNumber) -> bool {
        let body = self.decoded.tbs_certificate();
        body.issuer() == issuer && body.serial_number() == serial
    }

    pub(super) fn has_key_identifier(&self, identifier: &[u8]) -> bool {
        let found = self.decoded.tbs_certificate().get_extension::<SubjectKeyIdentifier>();
        matches!(found, Ok(Some((_, found))) if found.0.as_bytes() == identifier)
    }

    /// Returns true if the certificate itself names code signing among its uses.
    pub(super) fn is_for_code_signing(&self) -> bool {
        let found = self.decoded.tbs_certificate().get_extension::<ExtendedKeyUsage>();
        matches!(found, Ok(Some((_, uses))) if uses.0.contains(&CODE_SIGNING))
    }

    pub(super) fn is_self_issued(&self) -> bool {
        let body = self.decoded.tbs_certificate();
        body.issuer() == body.subject()
    }

    /// Returns true if the key of another certificate has signed this one. `None` if the algorithm is not accepted.
    pub(super) fn is_signed_by(&self, other: &Certificate<'_>) -> Option<bool> {
        let scheme = certificate_scheme(&self.decoded.signature_algorithm().oid, other.key())?;
        Some(scheme.verifies(self.body, self.decoded.signature().as_bytes()?))
    }

    pub(super) fn validity(&self) -> (SystemTime, SystemTime) {
        let validity = self.decoded.tbs_certificate().validity();
        (validity.not_before.to_system_time(), validity.not_after.to_system_time())
    }

    pub(super) fn subject_name(&self) -> String {
        shown(self.decoded.tbs_certificate().subject())
    }

    pub(super) fn issuer_name(&self) -> String {
        shown(self.decoded.tbs_certificate().issuer())
    }
}

/// Returns the common name, or else the whole name.
fn shown(name: &Name) -> String {
    let common = name.common_name().ok().flatten().map(|text| text.value().into_owned());
    let text = common.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| name.to_string());
    text.chars().take(MAX_NAME).collect()
}
