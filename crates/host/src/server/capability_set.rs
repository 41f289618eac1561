//! Client capabilities and extensions of an application, which select the connection to a server.

use std::fmt;

use hospes_model::{ClientCapabilities, ElicitationCapability, RawJson, RootsCapability, SamplingCapability};

use super::extension_sets::{ExtensionSetId, ExtensionSettings};

/// Input requests that an application supports, and the extensions that it declared.
///
/// Servers of the older era read the capabilities once, when the connection opens. Each set of abilities therefore has
/// its own connection, which declares only what the application declared. With further capabilities, a server would
/// send requests that cannot be answered, or offer features that the application does not understand. Extensions are
/// declared with their original settings.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CapabilitySet {
    bits: u8,
    extensions: ExtensionSetId,
}

const ROOTS: u8 = 1;
const SAMPLING: u8 = 1 << 1;
const SAMPLING_TOOLS: u8 = 1 << 2;
const SAMPLING_CONTEXT: u8 = 1 << 3;
const FORMS: u8 = 1 << 4;
const URLS: u8 = 1 << 5;

const NAMES: [(u8, &str); 6] = [
    (ROOTS, "roots"),
    (SAMPLING, "sampling"),
    (SAMPLING_TOOLS, "sampling.tools"),
    (SAMPLING_CONTEXT, "sampling.context"),
    (FORMS, "elicitation.form"),
    (URLS, "elicitation.url"),
];

impl CapabilitySet {
    /// No capabilities.
    pub const NONE: Self = Self { bits: 0, extensions: ExtensionSetId::NONE };

    /// Creates the set of these capabilities. Experimental ones are left out, because the host cannot relay their
    /// requests.
    #[must_use]
    pub fn of(capabilities: &ClientCapabilities) -> Self {
        let sampling = capabilities.sampling.as_ref();
        let bits = [
            (ROOTS, capabilities.roots.is_some()),
            (SAMPLING, sampling.is_some()),
            (SAMPLING_TOOLS, sampling.is_some_and(|sampling| sampling.tools.is_some())),
            (SAMPLING_CONTEXT, sampling.is_some_and(|sampling| sampling.context.is_some())),
            (FORMS, capabilities.elicits_forms()),
            (URLS, capabilities.elicits_urls()),
        ];
        let bits = bits.iter().filter(|(_, has)| *has).fold(0, |all, (bit, _)| all | bit);
        Self { bits, extensions: ExtensionSetId::of(&capabilities.extensions) }
    }

    /// Adds the capability to list roots.
    #[must_use]
    pub fn with_roots(self) -> Self {
        Self { bits: self.bits | ROOTS, ..self }
    }

    /// Adds the capability for sampling, optionally with tools.
    #[must_use]
    pub fn with_sampling(self, tools: bool) -> Self {
        Self { bits: self.bits | SAMPLING | if tools { SAMPLING_TOOLS } else { 0 }, ..self }
    }

    /// Adds the capability for elicitation by form and by URL.
    #[must_use]
    pub fn with_elicitation(self) -> Self {
        Self { bits: self.bits | FORMS | URLS, ..self }
    }

    /// Returns the union of both sets of capabilities, with the extensions of the first.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits, ..self }
    }

    /// Removes all extensions.
    #[must_use]
    pub fn without_extensions(self) -> Self {
        Self { extensions: ExtensionSetId::NONE, ..self }
    }

    /// Replaces the extensions.
    pub(crate) fn with_extensions(self, extensions: &ExtensionSettings) -> Self {
        Self { extensions: ExtensionSetId::of(extensions), ..self }
    }

    /// Returns the extensions with their settings.
    pub(crate) fn extensions(self) -> ExtensionSettings {
        self.extensions.settings()
    }

    /// Returns whether there are extensions.
    pub(crate) fn has_extensions(self) -> bool {
        self.extensions != ExtensionSetId::NONE
    }

    /// Returns true if the application supports no input requests.
    pub(crate) fn answers_nothing(self) -> bool {
        self.bits == 0
    }

    /// Returns true if roots can be listed.
    #[must_use]
    pub fn has_roots(self) -> bool {
        self.has(ROOTS)
    }

    fn has(self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    /// Returns the capabilities to declare to a server.
    #[must_use]
    pub fn capabilities(self) -> ClientCapabilities {
        let some = |bit| self.has(bit).then(RawJson::empty_object);
        let mut capabilities = ClientCapabilities::new();
        if self.has(ROOTS) {
            capabilities.roots = Some(RootsCapability::new());
        }
        if self.has(SAMPLING) {
            let mut sampling = SamplingCapability::new();
            sampling.tools = some(SAMPLING_TOOLS);
            sampling.context = some(SAMPLING_CONTEXT);
            capabilities.sampling = Some(sampling);
        }
        if self.has(FORMS) || self.has(URLS) {
            let mut elicitation = ElicitationCapability::new();
            elicitation.form = some(FORMS);
            elicitation.url = some(URLS);
            capabilities.elicitation = Some(elicitation);
        }
        capabilities.extensions = self.extensions();
        capabilities
    }

    /// Returns the supported input requests as a number, for storage.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// Restores a set from a stored number. Unknown bits are ignored.
    #[must_use]
    pub fn from_bits(bits: u8) -> Self {
        // The number may be from the file of a version that knew more of them.
        let known = NAMES.iter().fold(0, |all, (bit, _)| all | bit);
        Self { bits: bits & known, extensions: ExtensionSetId::NONE }
    }
}

impl fmt::Display for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extensions = self.extensions();
        let names = NAMES.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, name)| *name);
        let names: Vec<&str> = names.chain(extensions.keys().map(String::as_str)).collect();
        f.write_str(if names.is_empty() { "nothing" } else { "" })?;
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Abilities({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> CapabilitySet {
        CapabilitySet::of(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn what_is_declared_is_what_was_declared() {
        for json in [
            "{}",
            r#"{"roots":{}}"#,
            r#"{"sampling":{},"elicitation":{"form":{}}}"#,
            r#"{"sampling":{"tools":{},"context":{}},"roots":{},"elicitation":{"form":{},"url":{}}}"#,
            r#"{"elicitation":{"url":{}}}"#,
            r#"{"roots":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#,
        ] {
            let capabilities = read(json).capabilities();
            let declared: serde_json::Value = serde_json::to_value(&capabilities).unwrap();
            assert_eq!(declared, serde_json::from_str::<serde_json::Value>(json).unwrap());
            assert_eq!(CapabilitySet::of(&capabilities), read(json));
        }
    }

    #[test]
    fn what_is_no_question_makes_no_difference() {
        assert_eq!(
            read(r#"{"roots":{"listChanged":true},"experimental":{"x":{}}}"#),
            read(r#"{"roots":{}}"#)
        );
        assert_eq!(read(r#"{"elicitation":{}}"#), read(r#"{"elicitation":{"form":{}}}"#));
        assert_eq!(CapabilitySet::from_bits(0xff).bits(), 0x3f);
        assert_eq!(read("{}").to_string(), "nothing");
        let extended = read(r#"{"roots":{},"extensions":{"a/b":{"x":1}}}"#);
        assert_eq!(extended.to_string(), "roots, a/b");
        assert_ne!(extended, read(r#"{"roots":{},"extensions":{"a/b":{"x":2}}}"#), "settings count");
        assert_eq!(extended.without_extensions(), read(r#"{"roots":{}}"#));
    }
}
