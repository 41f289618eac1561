//! The parts of a CMS signature (RFC 5652 §5) that are needed, borrowed from its bytes.
//!
//! The attributes are kept as the bytes that came: they are what was signed, whatever their order.

use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode as _, Reader as _, SliceReader, Tag, TagNumber};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;

use super::certificate::Certificate;
use super::keys::DigestKind;

const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");

/// Maximum number of parts of one structure: certificates, attributes.
const MAX_PARTS: usize = 64;

/// Detached signature of one signer.
#[derive(Debug)]
pub(super) struct SignedData<'d> {
    pub(super) certificates: Vec<&'d [u8]>,
    pub(super) digest: DigestKind,
    /// Attributes as the SET that is signed.
    pub(super) attributes: Vec<u8>,
    pub(super) message_digest: &'d [u8],
    pub(super) signature_algorithm: ObjectIdentifier,
    pub(super) signature: &'d [u8],
    signer: SignerName<'d>,
}

/// How a signature names the certificate of its signer.
#[derive(Debug)]
enum SignerName<'d> {
    IssuerAndSerial { issuer: Name, serial: SerialNumber },
    KeyIdentifier(&'d [u8]),
}

/// Part of a structure: its tag, its content, and all of its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'d> {
    pub(super) tag: Tag,
    pub(super) value: &'d [u8],
    pub(super) whole: &'d [u8],
}

impl<'d> SignedData<'d> {
    /// Reads a signature. The error is a sentence without a full stop.
    pub(super) fn parse(der: &'d [u8]) -> Result<Self, String> {
        let mut content_info = Parts::of_whole(der)?;
        if content_info.oid()? != SIGNED_DATA {
            return Err("it is no signature: its type is not signed data".to_owned());
        }
        let signed_data = content_info.context(0, true).ok_or_else(|| unreadable("there is no content"))?;
        content_info.end()?;
        let mut fields = Parts::of_whole(signed_data.value)?;
        fields.tagged(Tag::Integer, "version")?;
        let digests = Parts::of(fields.tagged(Tag::Set, "list of digests")?.value)?.rest();
        let digests = digests.into_iter().map(algorithm).collect::<Result<Vec<_>, _>>()?;
        check_content(fields.tagged(Tag::Sequence, "content")?)?;
        let certificates = match fields.context(0, true) {
            Some(set) => Parts::of(set.value)?.rest(),
            None => Vec::new(),
        };
        if fields.context(1, true).is_some() {
            return Err("it has revocation lists, which are not read".to_owned());
        }
        let signers = Parts::of(fields.tagged(Tag::Set, "list of signers")?.value)?.rest();
        fields.end()?;
        let [signer] = signers.as_slice() else {
            return Err(format!("it has {} signers; exactly one is accepted", signers.len()));
        };
        let is_certificate = |part: &Part<'d>| part.tag == Tag::Sequence;
        let certificates = certificates.into_iter().filter(is_certificate).map(|part| part.whole).collect();
        Self::of_signer(signer, certificates, &digests)
    }

    fn of_signer(
        signer: &Part<'d>,
        certificates: Vec<&'d [u8]>,
        digests: &[ObjectIdentifier],
    ) -> Result<Self, String> {
        let mut fields = signer.sequence()?;
        fields.tagged(Tag::Integer, "version of the signer")?;
        let signer = match fields.context(0, false) {
            Some(identifier) => SignerName::KeyIdentifier(identifier.value),
            None => {
                let name = fields.tagged(Tag::Sequence, "name of the signer")?;
                let mut parts = Parts::of(name.value)?;
                let issuer = parts.tagged(Tag::Sequence, "issuer")?.whole;
                let serial = parts.tagged(Tag::Integer, "serial number")?.whole;
                SignerName::IssuerAndSerial {
                    issuer: Name::from_der(issuer).map_err(unreadable)?,
                    serial: SerialNumber::from_der(serial).map_err(unreadable)?,
                }
            }
        };
        let digest = algorithm(fields.tagged(Tag::Sequence, "digest")?)?;
        if !digests.contains(&digest) {
            return Err("it does not list the digest that its signer uses".to_owned());
        }
        let digest = DigestKind::of(digest)?;
        let Some(signed_attributes) = fields.context(0, true) else {
            return Err("it has no authenticated attributes, which say what was signed".to_owned());
        };
        let signature_algorithm = algorithm(fields.tagged(Tag::Sequence, "algorithm")?)?;
        let signature = fields.tagged(Tag::OctetString, "signature")?.value;
        if let Some(unsigned) = fields.context(1, true) {
            attributes(unsigned)?;
        }
        fields.end()?;
        let message_digest = message_digest(&attributes(signed_attributes)?)?;
        // They are signed as a SET, and stored with another tag (RFC 5652 §5.4).
        let mut attributes = signed_attributes.whole.to_vec();
        if let Some(tag) = attributes.first_mut() {
            *tag = 0x31;
        }
        Ok(Self { certificates, digest, attributes, message_digest, signature_algorithm, signature, signer })
    }

    /// Returns the certificate of the signer.
    pub(super) fn signer(&self) -> Result<Certificate<'_>, String> {
        if self.certificates.is_empty() {
            return Err("it has no certificate".to_owned());
        }
        for der in &self.certificates {
            // A certificate that cannot be read may be another's.
            let Ok(certificate) = Certificate::parse(der) else { continue };
            let is_named = match &self.signer {
                SignerName::IssuerAndSerial { issuer, serial } => certificate.is_named(issuer, serial),
                SignerName::KeyIdentifier(identifier) => certificate.has_key_identifier(identifier),
            };
            if is_named {
                return Ok(certificate);
            }
        }
        Err("it has no readable certificate of its signer".to_owned())
    }
}

/// The signature must be detached, and of plain data.
fn check_content(content: Part<'_>) -> Result<(), String> {
    let mut fields = Parts::of(content.value)?;
    if fields.oid()? != DATA {
        return Err("it signs something else than data".to_owned());
    }
    match fields.next() {
        None => Ok(()),
        Some(_) => Err("it has a content of its own, instead of the bundle's".to_owned()),
    }
}

/// Type of an attribute, and its values.
type Attribute<'d> = (ObjectIdentifier, Vec<Part<'d>>);

fn attributes(set: Part<'_>) -> Result<Vec<Attribute<'_>>, String> {
    let mut attributes = Vec::new();
    for part in Parts::of(set.value)?.rest() {
        let mut fields = part.sequence()?;
        let kind = fields.oid()?;
        let values = Parts::of(fields.tagged(Tag::Set, "list of an attribute's values")?.value)?.rest();
        fields.end()?;
        attributes.push((kind, values));
    }
    Ok(attributes)
}

/// Returns the digest of the content. The attributes must have it once, and the type of the content once.
fn message_digest<'d>(attributes: &[Attribute<'d>]) -> Result<&'d [u8], String> {
    let (mut digest, mut content_type) = (None, None);
    for (kind, values) in attributes {
        let slot = match *kind {
            MESSAGE_DIGEST => &mut digest,
            CONTENT_TYPE => &mut content_type,
            _ => continue,
        };
        let ([value], None) = (values.as_slice(), &slot) else {
            return Err("an authenticated attribute is there twice".to_owned());
        };
        *slot = Some(*value);
    }
    let content_type =
        content_type.ok_or("the authenticated attributes do not say what type the content has")?;
    if ObjectIdentifier::from_der(content_type.whole).ok() != Some(DATA) {
        return Err("the authenticated attributes say that it signs something else than data".to_owned());
    }
    match digest {
        Some(Part { tag: Tag::OctetString, value, .. }) => Ok(value),
        _ => Err("the authenticated attributes have no digest of the content".to_owned()),
    }
}

fn algorithm(identifier: Part<'_>) -> Result<ObjectIdentifier, String> {
    let mut fields = identifier.sequence()?;
    let oid = fields.oid()?;
    // Parameters: none, or whatever the algorithm has.
    fields.next();
    fields.end()?;
    Ok(oid)
}

pub(super) fn unreadable(why: impl std::fmt::Display) -> String {
    format!("it cannot be read: {why}")
}

impl<'d> Part<'d> {
    fn sequence(self) -> Result<Parts<'d>, String> {
        if self.tag != Tag::Sequence {
            return Err(unreadable("a sequence is missing"));
        }
        Parts::of(self.value)
    }
}

/// Parts of a structure, in their order.
#[derive(Debug)]
pub(super) struct Parts<'d>(std::iter::Peekable<std::vec::IntoIter<Part<'d>>>);

impl<'d> Parts<'d> {
    /// Reads the content of a structure.
    pub(super) fn of(value: &'d [u8]) -> Result<Self, String> {
        let mut reader = SliceReader::new(value).map_err(unreadable)?;
        let mut parts = Vec::new();
        while !reader.is_finished() {
            if parts.len() == MAX_PARTS {
                return Err(format!("it has a structure with more than {MAX_PARTS} parts"));
            }
            let whole = reader.tlv_bytes().map_err(unreadable)?;
            let any = AnyRef::from_der(whole).map_err(unreadable)?;
            parts.push(Part { tag: der::Tagged::tag(&any), value: any.value(), whole });
        }
        Ok(Self(parts.into_iter().peekable()))
    }

    /// Reads a sequence that is all of the bytes.
    fn of_whole(der: &'d [u8]) -> Result<Self, String> {
        let mut parts = Self::of(der)?;
        let sequence = parts.tagged(Tag::Sequence, "structure")?;
        parts.end()?;
        Self::of(sequence.value)
    }

    fn next(&mut self) -> Option<Part<'d>> {
        self.0.next()
    }

    pub(super) fn tagged(&mut self, tag: Tag, what: &str) -> Result<Part<'d>, String> {
        self.0.next_if(|part| part.tag == tag).ok_or_else(|| unreadable(format!("the {what} is missing")))
    }

    fn oid(&mut self) -> Result<ObjectIdentifier, String> {
        ObjectIdentifier::from_der(self.tagged(Tag::ObjectIdentifier, "identifier")?.whole)
            .map_err(unreadable)
    }

    /// Takes the next part if it has this context-specific tag, which is that of a structure or of plain bytes.
    fn context(&mut self, number: u32, is_structure: bool) -> Option<Part<'d>> {
        let tag = Tag::ContextSpecific { constructed: is_structure, number: TagNumber(number) };
        self.0.next_if(|part| part.tag == tag)
    }

    pub(super) fn rest(self) -> Vec<Part<'d>> {
        self.0.collect()
    }

    fn end(&mut self) -> Result<(), String> {
        match self.0.next() {
            None => Ok(()),
            Some(_) => Err(unreadable("there is more than expected")),
        }
    }
}
