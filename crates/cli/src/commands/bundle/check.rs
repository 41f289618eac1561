//! `hospes bundle --check`: what others see of a bundle.

use std::path::Path;
use std::time::SystemTime;

use hospes_bundle::launch::LaunchPart;
use hospes_bundle::manifest::{OptionKind, ServerKind, UserOption};
use hospes_bundle::signature::{BundleSigner, CertificateValidity};
use hospes_bundle::{
    Bundle, BundleError, BundleLaunch, BundleManifest, BundlePlatform, BundleReview, SignatureVerdict,
    TrustRoots, review_bundle, review_folder,
};
use serde_json::{Map, Value, json};

use super::{BundleReport, counted, describe, finding_json, shown, size_text};
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{CliOutput, DIM, GREEN, RED, YELLOW, printable};

/// Facts about a bundle file that a folder does not have.
struct FileFacts {
    size: u64,
    unpacked_size: u64,
    files: usize,
    sha256: String,
    signature: SignatureVerdict,
}

pub(super) fn run(path: &Path, output: CliOutput) -> CliResult {
    let (review, facts) = if path.is_dir() {
        (review_folder(path).map_err(|error| describe(&error, path))?, None)
    } else {
        let (review, facts) = judge(path).map_err(|error| refused(&error, path))?;
        (review, Some(facts))
    };
    let signature = facts.as_ref().map(|facts| &facts.signature);
    let is_right = !review.has_errors() && !matches!(signature, Some(SignatureVerdict::Invalid { .. }));
    if output.json {
        output.value(&to_json(path, &review, facts.as_ref(), is_right));
    } else {
        output.result(to_text(path, &review, facts.as_ref(), is_right));
    }
    if is_right { Ok(()) } else { Err(CliError::silent(FailureCode::Usage)) }
}

fn judge(path: &Path) -> Result<(BundleReview, FileFacts), BundleError> {
    let bundle = Bundle::open(path)?;
    let facts = FileFacts {
        size: bundle.size(),
        unpacked_size: bundle.unpacked_size(),
        files: bundle.entries().iter().filter(|entry| !entry.is_folder).count(),
        sha256: bundle.sha256()?,
        signature: bundle.signature(&TrustRoots::system(), SystemTime::now())?,
    };
    Ok((review_bundle(&bundle)?, facts))
}

fn refused(error: &BundleError, path: &Path) -> CliError {
    let failure = CliError::usage(format!("{}: {}", shown(path), printable(&error.to_string())));
    match std::error::Error::source(error) {
        Some(cause) => failure.with_cause(cause),
        None => failure.hint("such a bundle is not installed, and its files are not unpacked"),
    }
}

/// Use of options in the command.
struct Uses {
    launch: BundleLaunch,
}

impl Uses {
    fn of(manifest: &BundleManifest) -> Self {
        let others = [BundlePlatform::Linux, BundlePlatform::MacOs, BundlePlatform::Windows];
        let mut platforms = BundlePlatform::current().into_iter().chain(others);
        let platform = platforms.find(|one| manifest.compatibility.supports(*one));
        Self { launch: manifest.preview(platform.unwrap_or(BundlePlatform::Linux)) }
    }

    fn of_option(&self, key: &str) -> impl Iterator<Item = &LaunchPart> {
        self.launch.secrets.iter().filter(move |secret| secret.key == key).map(|secret| &secret.part)
    }
}

fn to_text(path: &Path, review: &BundleReview, facts: Option<&FileFacts>, is_right: bool) -> String {
    let title = match &review.manifest {
        Some(manifest) => format!("{} {}", manifest.title(), manifest.version),
        None => shown(path),
    };
    let mut report = BundleReport::new(&title);
    match facts {
        Some(facts) => {
            let files = format!("{}, {}", counted(facts.files, "file"), size_text(facts.unpacked_size));
            report.row("bundle", &format!("{} · {} · {files}", shown(path), size_text(facts.size)));
            report.row("sha256", &facts.sha256);
            let (style, text) = signature_text(&facts.signature);
            report.styled_row(style, "signature", &printable(&text));
        }
        None => report.row("folder", &format!("{} (not packed yet)", shown(path))),
    }
    if let Some(manifest) = &review.manifest {
        describe_manifest(manifest, &mut report);
    }
    report.findings(&review.findings);
    let (style, verdict) = match (is_right, review.findings.is_empty()) {
        (true, true) => (GREEN, "no fault was found".to_owned()),
        (true, false) => (YELLOW, "it can be used".to_owned()),
        (false, _) if review.has_errors() => (RED, "it has errors".to_owned()),
        (false, _) => (RED, "its signature is wrong: it was changed, or is not from its signer".to_owned()),
    };
    report.styled_row(style, "verdict", &verdict);
    report.text
}

fn describe_manifest(manifest: &BundleManifest, report: &mut BundleReport) {
    report.row("name", &format!("{} (manifest {})", manifest.name, manifest.manifest_version));
    report.row("author", &format!("{} (nothing proves it)", manifest.author.name));
    let uses = Uses::of(manifest);
    let words = std::iter::once(&uses.launch.command).chain(&uses.launch.args);
    report.row("runs", &words.map(|word| quoted(word.as_str())).collect::<Vec<_>>().join(" "));
    let names: Vec<&str> = uses.launch.env.iter().map(|(name, _)| name.as_str()).collect();
    if !names.is_empty() {
        report.row("variables", &names.join(", "));
    }
    report.row("needs", needs(manifest));
    let options: Vec<String> = manifest.user_config.iter().map(|option| option_text(option, &uses)).collect();
    if !options.is_empty() {
        report.row("asks for", &options.join("\n"));
    }
    if let Some(platforms) = &manifest.compatibility.platforms {
        let names: Vec<&str> = platforms.iter().map(|platform| platform.as_str()).collect();
        report.row("platforms", &names.join(", "));
    }
    let ranges = [("node", &manifest.compatibility.node), ("python", &manifest.compatibility.python)];
    let ranges = ranges.into_iter().filter_map(|(name, range)| Some(format!("{name} {}", range.as_ref()?)));
    let ranges: Vec<String> = ranges.collect();
    if !ranges.is_empty() {
        report.row("versions", &ranges.join(", "));
    }
    if !manifest.privacy_policies.is_empty() {
        report.row("privacy", &manifest.privacy_policies.join("\n"));
    }
    if !manifest.tools.is_empty() {
        let more = if manifest.tools_generated { ", and more at run time" } else { "" };
        report.row("tools", &format!("{} are named{more}", counted(manifest.tools.len(), "tool")));
    }
}

/// Access of the server that the manifest does not declare.
fn needs(manifest: &BundleManifest) -> &'static str {
    match manifest.server.kind {
        ServerKind::Node => "Node.js; it runs as you, with your files and the network, unless it is confined",
        ServerKind::Python => {
            "Python; it runs as you, with your files and the network, unless it is confined"
        }
        ServerKind::Uv => "uv, which fetches packages; it runs as you, unless it is confined",
        _ => "nothing else; its program runs as you, with your files and the network, unless it is confined",
    }
}

fn option_text(option: &UserOption, uses: &Uses) -> String {
    let mut text = format!("{}: ", option.key);
    let kind = match (option.kind, option.multiple) {
        _ if option.sensitive => "a secret",
        (OptionKind::Number, _) => "a number",
        (OptionKind::Boolean, _) => "yes or no",
        (OptionKind::Directory, false) => "a folder",
        (OptionKind::Directory, true) => "folders",
        (OptionKind::File, false) => "a file",
        (OptionKind::File, true) => "files",
        (_, true) => "texts",
        (_, false) => "a text",
    };
    text.push_str(kind);
    let goes_to: Vec<String> = uses.of_option(&option.key).map(ToString::to_string).collect();
    if !goes_to.is_empty() {
        text.push_str(&format!(" in {}", goes_to.join(" and ")));
    }
    if uses.of_option(&option.key).any(LaunchPart::is_public) {
        text.push_str(", visible to other programs");
    }
    if !option.required {
        text.push_str(" (optional)");
    }
    text
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) { format!("{word:?}") } else { word.to_owned() }
}

fn signature_text(verdict: &SignatureVerdict) -> (&'static str, String) {
    match verdict {
        SignatureVerdict::Unsigned => (DIM, "none: nothing says who made it".to_owned()),
        SignatureVerdict::Invalid { why } => (RED, format!("invalid: {why}")),
        SignatureVerdict::SelfSigned { signer } => (
            YELLOW,
            format!("self-signed as {:?}, which proves no name\n{}", signer.name, certificate_text(signer)),
        ),
        SignatureVerdict::Signed { signer, issuer, trusted: true, .. } => (
            GREEN,
            format!("signed by {:?}, certified by {issuer:?}\n{}", signer.name, certificate_text(signer)),
        ),
        SignatureVerdict::Signed { signer, issuer, untrusted_why, .. } => (
            YELLOW,
            format!(
                "signed as {:?} by {issuer:?}, not trusted: {}\n{}",
                signer.name,
                untrusted_why.as_deref().unwrap_or_default(),
                certificate_text(signer)
            ),
        ),
        _ => (RED, "unknown".to_owned()),
    }
}

fn certificate_text(signer: &BundleSigner) -> String {
    let validity = match signer.validity {
        CertificateValidity::Valid => format!("valid until {}", day(signer.not_after)),
        CertificateValidity::NotYet => format!("not valid before {}", day(signer.not_before)),
        _ => format!("expired on {}", day(signer.not_after)),
    };
    format!("certificate {validity}\nSHA-256 {}", signer.fingerprint)
}

fn day(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .map_or_else(|_| "a day out of range".to_owned(), |time| time.strftime("%Y-%m-%d").to_string())
}

fn to_json(path: &Path, review: &BundleReview, facts: Option<&FileFacts>, is_right: bool) -> Value {
    let mut value = json!({
        "path": path,
        "ok": is_right,
        "findings": review.findings.iter().map(finding_json).collect::<Vec<_>>(),
    });
    let mut add = |key: &str, member: Value| {
        if let Some(members) = value.as_object_mut() {
            members.insert(key.to_owned(), member);
        }
    };
    if let Some(facts) = facts {
        add("size", json!(facts.size));
        add("unpackedSize", json!(facts.unpacked_size));
        add("files", json!(facts.files));
        add("sha256", json!(facts.sha256));
        add("signature", signature_json(&facts.signature));
    }
    if let Some(manifest) = &review.manifest {
        add("manifest", manifest_json(manifest));
    }
    value
}

fn manifest_json(manifest: &BundleManifest) -> Value {
    let uses = Uses::of(manifest);
    let options = manifest.user_config.iter().map(|option| {
        let part = |part: &LaunchPart| match part {
            LaunchPart::Environment(name) => json!({ "env": name }),
            LaunchPart::Argument(index) => json!({ "arg": index }),
            _ => json!("command"),
        };
        let parts: Vec<Value> = uses.of_option(&option.key).map(part).collect();
        json!({
            "key": option.key,
            "type": option.kind.as_str(),
            "title": option.title,
            "required": option.required,
            "multiple": option.multiple,
            "sensitive": option.sensitive,
            "secretIn": parts,
        })
    });
    let launch = &uses.launch;
    let env: Map<String, Value> =
        launch.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "manifestVersion": manifest.manifest_version.as_str(),
        "name": manifest.name,
        "title": manifest.title(),
        "version": manifest.version,
        "description": manifest.description,
        "author": manifest.author.name,
        "server": manifest.server.kind.as_str(),
        "launch": { "command": launch.command, "args": launch.args, "env": env },
        "options": options.collect::<Vec<_>>(),
        "platforms": manifest.compatibility.platforms.as_ref()
            .map(|platforms| platforms.iter().map(|platform| platform.as_str()).collect::<Vec<_>>()),
        "node": manifest.compatibility.node,
        "python": manifest.compatibility.python,
        "privacyPolicies": manifest.privacy_policies,
        "unknownKeys": manifest.unknown_keys,
    })
}

fn signature_json(verdict: &SignatureVerdict) -> Value {
    let certificate = |signer: &BundleSigner| {
        let validity = match signer.validity {
            CertificateValidity::Valid => "valid",
            CertificateValidity::NotYet => "notYetValid",
            _ => "expired",
        };
        json!({
            "name": signer.name,
            "fingerprint": signer.fingerprint,
            "notBefore": day(signer.not_before),
            "notAfter": day(signer.not_after),
            "validity": validity,
        })
    };
    match verdict {
        SignatureVerdict::Unsigned => json!({ "status": "unsigned" }),
        SignatureVerdict::Invalid { why } => json!({ "status": "invalid", "why": why }),
        SignatureVerdict::SelfSigned { signer } => {
            json!({ "status": "selfSigned", "signer": certificate(signer) })
        }
        SignatureVerdict::Signed { signer, issuer, trusted, untrusted_why } => json!({
            "status": "signed",
            "signer": certificate(signer),
            "issuer": issuer,
            "trusted": trusted,
            "untrustedWhy": untrusted_why,
        }),
        _ => json!({ "status": "unknown" }),
    }
}
