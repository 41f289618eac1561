//! Findings about a bundle, beyond what stops it from being opened.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::archive::{Bundle, BundleError};
use crate::launch::{BundlePlatform, LaunchPart, UnfilledReason};
use crate::manifest::{BundleManifest, ManifestError, OptionKind, ServerKind};
use crate::pack::{self, CollectedFiles, HEAD_BYTES, PackError, secret_sign};

/// Maximum number of findings that are listed.
pub const MAX_FINDINGS: usize = 100;

/// Something wrong with a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReviewFinding {
    /// How bad it is.
    pub level: FindingLevel,
    /// Part of the manifest, or name of a file.
    pub subject: String,
    /// Description of the problem, and its remedy.
    pub message: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingLevel {
    /// The bundle is not packed.
    Error,
    /// The bundle may work.
    Warning,
}

impl fmt::Display for ReviewFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.message)
    }
}

/// Judgement of a bundle or a folder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BundleReview {
    /// Manifest, if it can be decoded at least loosely.
    pub manifest: Option<BundleManifest>,
    /// Findings: errors first.
    pub findings: Vec<ReviewFinding>,
}

impl BundleReview {
    /// Returns true if there is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == FindingLevel::Error)
    }
}

/// Judges a bundle: manifest, icon, entry point, and the data of all files.
///
/// # Errors
/// If the file cannot be read.
pub fn review_bundle(bundle: &Bundle) -> Result<BundleReview, BundleError> {
    let mut notes = Notes::default();
    let json = bundle.read_file(crate::MANIFEST_NAME, crate::manifest::MAX_MANIFEST_BYTES);
    let manifest = match json {
        Ok(json) => decode(&json, &mut notes),
        Err(BundleError::Entry { name, why }) => {
            notes.error(&name, why.to_string());
            None
        }
        Err(error) => return Err(error),
    };
    let mut secrets: Vec<(String, &'static str)> = Vec::new();
    for entry in bundle.entries().iter().filter(|entry| !entry.is_folder) {
        let mut head = Head { bytes: Vec::new(), limit: HEAD_BYTES as usize, stops: false };
        match bundle.copy_entry_to(entry, &mut head) {
            Ok(()) => {}
            Err(BundleError::Entry { name, why }) if name != crate::MANIFEST_NAME => {
                notes.error(&name, why.to_string())
            }
            Err(BundleError::Entry { .. }) => {}
            Err(error) => return Err(error),
        }
        secrets.extend(secret_sign(&entry.name, &head.bytes).map(|why| (entry.name.clone(), why)));
    }
    if let Some(manifest) = &manifest {
        check(manifest, bundle, &mut notes);
    }
    for (name, why) in secrets {
        notes.warning(&name, format!("it {why}; everybody who has the bundle can read it"));
    }
    Ok(notes.review(manifest))
}

/// Judges a folder as if it were packed.
///
/// # Errors
/// If the folder or its manifest cannot be read.
pub fn review_folder(folder: &Path) -> Result<BundleReview, PackError> {
    let mut notes = Notes::default();
    let manifest = decode(&pack::read_manifest_bytes(folder)?, &mut notes);
    match pack::collect(folder) {
        Ok(files) => {
            if let Some(manifest) = &manifest {
                check(manifest, &files, &mut notes);
            }
            for (name, why) in files.secrets {
                notes.error(&name, format!("it {why}; leave it out in {}", pack::IGNORE_NAME));
            }
        }
        Err(error @ PackError::Io { .. }) => return Err(error),
        Err(PackError::Name { name, why }) => notes.error(&name, why.to_string()),
        Err(PackError::File { name, why }) => notes.error(&name, why),
        Err(error) => notes.error("files", error.to_string()),
    }
    Ok(notes.review(manifest))
}

/// Judges files that are packed.
pub(crate) fn review_files(manifest: &BundleManifest, files: &CollectedFiles) -> Vec<ReviewFinding> {
    let mut notes = Notes::default();
    check(manifest, files, &mut notes);
    notes.findings
}

/// Keeps the beginning of what is written, up to a number of bytes. With `stops`, more is an error.
struct Head {
    bytes: Vec<u8>,
    limit: usize,
    stops: bool,
}

impl Write for Head {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.limit.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
        if self.stops && room < bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decodes strictly, and loosely if that fails: a bundle with an unknown key may work all the same.
fn decode(json: &[u8], notes: &mut Notes) -> Option<BundleManifest> {
    let error = match BundleManifest::decode(json) {
        Ok(manifest) => return Some(manifest),
        Err(error) => error,
    };
    match error {
        ManifestError::Invalid { issues, more } => {
            for issue in issues {
                notes.error(if issue.path.is_empty() { "manifest" } else { &issue.path }, issue.message);
            }
            if more > 0 {
                notes.error("manifest", format!("there are {more} more mistakes"));
            }
        }
        error => notes.error("manifest", error.to_string()),
    }
    BundleManifest::decode_loose(json).ok()
}

/// Files of a bundle, or of a folder.
trait Files {
    fn has(&self, name: &str) -> bool;
    fn has_folder(&self, name: &str) -> bool;
    fn head(&self, name: &str) -> Vec<u8>;
    fn is_executable(&self, name: &str) -> bool;
}

impl Files for Bundle {
    fn has(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| !entry.is_folder)
    }

    fn has_folder(&self, name: &str) -> bool {
        self.entries()
            .iter()
            .any(|entry| entry.name.starts_with(name) && entry.name[name.len()..].starts_with('/'))
    }

    fn head(&self, name: &str) -> Vec<u8> {
        let mut head = Head { bytes: Vec::new(), limit: 64, stops: true };
        let _stopped = self.entry(name).map(|entry| self.copy_entry_to(entry, &mut head));
        head.bytes
    }

    fn is_executable(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| entry.is_executable)
    }
}

impl Files for CollectedFiles {
    fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn has_folder(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.name.starts_with(name) && file.name[name.len()..].starts_with('/'))
    }

    fn head(&self, name: &str) -> Vec<u8> {
        self.find(name).and_then(|file| pack::read_bounded(&file.path, 64).ok()).unwrap_or_default()
    }

    fn is_executable(&self, name: &str) -> bool {
        self.find(name).is_some_and(|file| file.mode & 0o111 != 0)
    }
}

fn check(manifest: &BundleManifest, files: &dyn Files, notes: &mut Notes) {
    if !files.has(crate::MANIFEST_NAME) {
        notes.error(crate::MANIFEST_NAME, format!("it is left out by {}", pack::IGNORE_NAME));
    }
    // The reference tool ignores an empty text.
    if let Some(icon) = manifest.icon.as_deref().filter(|icon| !icon.is_empty()) {
        check_icon(icon, "icon", files, notes);
    }
    for (index, icon) in manifest.icons.iter().enumerate() {
        check_icon(&icon.src, &format!("icons[{index}].src"), files, notes);
    }
    for (index, shot) in manifest.screenshots.iter().enumerate() {
        if !is_remote(shot) && !clean(shot).is_some_and(|name| files.has(&name)) {
            notes.warning(&format!("screenshots[{index}]"), format!("the bundle has no file {shot:?}"));
        }
    }
    check_entry_point(manifest, files, notes);
    check_options(manifest, notes);
    check_command(manifest, notes);
}

fn is_remote(path: &str) -> bool {
    path.starts_with("http://") || path.starts_with("https://")
}

/// Returns the name in the bundle that a path of the manifest means. `None` if it leads out of the bundle.
fn clean(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!path.starts_with('/')).then(|| parts.join("/"))
}

fn check_icon(path: &str, subject: &str, files: &dyn Files, notes: &mut Notes) {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

    if path.contains("${__dirname}") {
        return notes.error(subject, "variables have no meaning here; write the path in the bundle");
    }
    if is_remote(path) {
        return notes
            .warning(subject, "it is fetched from the web; applications may show only files of the bundle");
    }
    let Some(name) = clean(path) else {
        return notes
            .error(subject, format!("{path:?} leads out of the bundle; write the path in the bundle"));
    };
    if !files.has(&name) {
        notes.error(subject, format!("the bundle has no file {path:?}"));
    } else if !files.head(&name).starts_with(PNG) {
        notes.error(subject, format!("the file {path:?} is no PNG image"));
    }
}

fn check_entry_point(manifest: &BundleManifest, files: &dyn Files, notes: &mut Notes) {
    let server = &manifest.server;
    let subject = "server.entry_point";
    let path = server.entry_point.strip_prefix("${__dirname}/").unwrap_or(&server.entry_point);
    let name = clean(path).unwrap_or_default();
    let on_windows = format!("{name}.exe");
    let is_binary = server.kind == ServerKind::Binary;
    let is_there = files.has(&name) || is_binary && files.has(&on_windows);
    if name.is_empty() || !is_there {
        notes.error(subject, format!("the bundle has no file {:?}", server.entry_point));
    } else if is_binary && files.has(&name) && !files.is_executable(&name) && !name.ends_with(".exe") {
        notes.warning(subject, "the program is not executable; other applications may be unable to start it");
    }
    if server.kind == ServerKind::Uv {
        if !files.has("pyproject.toml") {
            notes.error("server.type", "a bundle for uv needs a pyproject.toml, which names its packages");
        }
        for folder in ["server/lib", "server/venv"].into_iter().filter(|folder| files.has_folder(folder)) {
            notes.warning(folder, "uv fetches the packages; those in the bundle are not used");
        }
    }
}

fn check_options(manifest: &BundleManifest, notes: &mut Notes) {
    for option in &manifest.user_config {
        let subject = crate::manifest::member_path("user_config", &option.key);
        if let Some(default) = &option.default {
            // A template with places is a text; what it becomes is not known here.
            if let Err(why) = option.check(default) {
                notes.warning(&subject, format!("the default does not fit: {why}"));
            }
            if option.sensitive && !default.is_blank() {
                notes.warning(&subject, "a secret has a default, which everybody can read");
            }
        }
        if option.sensitive && option.kind != OptionKind::String {
            notes.warning(&subject, "only texts can be sensitive");
        }
        if matches!((option.min, option.max), (Some(min), Some(max)) if min > max) {
            notes.warning(&subject, "the minimum is above the maximum");
        }
        if option.key.contains(['{', '}', '$']) || option.key.is_empty() {
            notes.warning(&subject, "a variable cannot name this key");
        }
    }
}

/// Makes the command on each platform of the bundle.
fn check_command(manifest: &BundleManifest, notes: &mut Notes) {
    for platform in
        BundlePlatform::ALL.into_iter().filter(|platform| manifest.compatibility.supports(*platform))
    {
        let launch = manifest.preview(platform);
        for secret in launch.exposed_secrets() {
            let subject = crate::manifest::member_path("user_config", &secret.key);
            let message = "a secret is part of the command, which other programs can read; pass it in `env`";
            notes.warning(&subject, message);
        }
        for unfilled in &launch.unfilled {
            let variable = &unfilled.variable;
            let part = match &unfilled.part {
                LaunchPart::Command => "command".to_owned(),
                LaunchPart::Argument(_) => "args".to_owned(),
                LaunchPart::Environment(name) => crate::manifest::member_path("env", name),
            };
            let why = match unfilled.why {
                UnfilledReason::List => "has several values, which replace only a whole argument",
                UnfilledReason::Unset => continue,
                UnfilledReason::Unknown => "is no variable of the format or option of the bundle",
            };
            notes.warning(
                &format!("server.mcp_config.{part}"),
                format!("`{variable}` {why}; it stays as it is"),
            );
        }
    }
}

#[derive(Default)]
struct Notes {
    findings: Vec<ReviewFinding>,
}

impl Notes {
    fn error(&mut self, subject: &str, message: impl Into<String>) {
        self.add(FindingLevel::Error, subject, message.into());
    }

    fn warning(&mut self, subject: &str, message: impl Into<String>) {
        self.add(FindingLevel::Warning, subject, message.into());
    }

    fn add(&mut self, level: FindingLevel, subject: &str, message: String) {
        let finding = ReviewFinding { level, subject: subject.to_owned(), message };
        if self.findings.contains(&finding) {
            return;
        }
        match self.findings.len() {
            ..MAX_FINDINGS => self.findings.push(finding),
            MAX_FINDINGS => {
                let message = "there are more, which are not listed".to_owned();
                self.findings.push(ReviewFinding { level, subject: "and so on".to_owned(), message });
            }
            // An error must not be lost behind many warnings.
            _ if level == FindingLevel::Error => self.findings[MAX_FINDINGS].level = level,
            _ => {}
        }
    }

    fn review(mut self, manifest: Option<BundleManifest>) -> BundleReview {
        self.findings.sort_by_key(|finding| finding.level);
        BundleReview { manifest, findings: self.findings }
    }
}
