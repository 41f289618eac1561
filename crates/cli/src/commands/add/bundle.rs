//! Servers in MCP bundles: files that are checked, unpacked, and started by their manifest.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hospes_bundle::signature::{BundleSigner, CertificateValidity};
use hospes_bundle::{
    Bundle, BundleError, BundleLaunch, BundlePlaces, BundlePlatform, SignatureVerdict, TrustRoots, UserValues,
};
use hospes_registry::ServerEntry;

use tempfile::TempDir;

use super::answers;
use super::asked_value::AskedValue;
use super::draft::{self, ServerDraft};
use super::plan::{PlanRequest, PlannedServer, ServerFolder};
use super::sandbox::ProposedSandbox;
use super::screen::Screen;
use super::view::{self, TextAuthor};
use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::packages::{FolderContents, removed};
use crate::paths;
use crate::server_record::LaunchRecipe;

/// Length of the part of the hash that distinguishes bundles of the same name and version.
const SHORT_HASH: usize = 12;

/// Folder of a bundle. It is removed on drop if [`BundleFolder::unpack`] made it and it was not kept.
pub(in crate::commands) struct BundleFolder {
    bundle: Bundle,
    /// Folder of the downloaded file, which is removed on drop.
    _download: Option<TempDir>,
    path: PathBuf,
    is_temporary: bool,
}

impl BundleFolder {
    /// Unpacks the bundle, unless the same one is there already with exactly its files. A folder with other files is set
    /// aside, with a notice.
    pub(in crate::commands) fn unpack(&mut self, notices: &mut Vec<String>) -> CliResult {
        let exists = self.path.exists();
        if exists && self.is_intact() {
            return Ok(());
        }
        if exists {
            let notice = removed::set_aside(&self.path).map_err(|error| {
                let folder = paths::display_path(&self.path);
                CliError::usage(format!("cannot replace the changed folder {folder}")).with_cause(&error)
            })?;
            notices.push(notice);
        }
        self.bundle.unpack(&self.path).map_err(|error| {
            CliError::usage("the bundle cannot be unpacked").with_cause(&error).hint("nothing was added")
        })?;
        // A folder that was there may be that of a configured server, for which it is repaired.
        self.is_temporary = !exists;
        Ok(())
    }

    /// Returns true if the folder has the files of the bundle, with their content, and no others.
    fn is_intact(&self) -> bool {
        let mut packed = FolderContents::default();
        for entry in self.bundle.entries().iter().filter(|entry| !entry.is_folder) {
            let Ok(content) = self.bundle.read_file(&entry.name, entry.size) else { return false };
            packed.add_file(&entry.name, &content);
        }
        FolderContents::read(&self.path, None).is_ok_and(|found| found.digest() == packed.digest())
    }

    /// Returns the folder.
    pub(in crate::commands) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder.
    pub(in crate::commands) fn keep(mut self) {
        self.is_temporary = false;
        removed::unmark(&self.path);
    }
}

impl Drop for BundleFolder {
    fn drop(&mut self) {
        if self.is_temporary
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(folder = %self.path.display(), %error, "the folder of the bundle was not removed");
        }
    }
}

/// Plans the start of the server in a bundle: checks the file and asks for values. `entry` is its entry in the
/// registry, if it is from there, and `head` writes the rows about its origin.
pub(in crate::commands) async fn plan(
    (file, download): (&Path, Option<TempDir>),
    entry: Option<&ServerEntry>,
    head: impl FnOnce(&mut Screen),
    named: &(impl Fn(&str) -> String + Sync),
    request: &PlanRequest<'_>,
) -> CliResult<PlannedServer> {
    let shown = paths::display_path(file);
    let failed = |error: &dyn std::error::Error| {
        CliError::usage(format!("{shown} is not a bundle that can be used"))
            .with_cause(error)
            .hint("`hospes bundle --check FILE` lists all that is wrong with it")
    };
    let bundle = Bundle::open(file).map_err(|error| match &error {
        // The file itself, not what is in it.
        BundleError::Io { source, .. } => CliError::usage(format!("cannot read {shown}"))
            .with_cause(source)
            .hint("nothing was added; correct the path, or make the file readable"),
        _ => failed(&error),
    })?;
    let manifest = bundle.manifest_loose().map_err(|error| failed(&error))?;
    let verdict =
        bundle.signature(&TrustRoots::system(), SystemTime::now()).map_err(|error| failed(&error))?;
    if let SignatureVerdict::Invalid { why } = &verdict {
        return Err(CliError::usage(format!("the signature of {shown} is invalid: {}", printable(why)))
            .hint("the file was changed after it was signed; get it again from its publisher"));
    }
    let sha256 = bundle.sha256().map_err(|error| failed(&error))?;
    if let Some(expected) = request.sha256.filter(|expected| !expected.eq_ignore_ascii_case(&sha256)) {
        return Err(CliError::usage(format!(
            "the SHA-256 of {shown} is {sha256}, and --sha256 demands {}",
            printable(expected)
        ))
        .hint("nothing was added; the file was changed or exchanged: get it again from its publisher"));
    }
    let platform =
        BundlePlatform::current().ok_or_else(|| CliError::usage("bundles do not run on this system"))?;

    let version = &manifest.version;
    let short = sha256.get(..SHORT_HASH).unwrap_or(&sha256);
    let name = match entry {
        Some(entry) => named(&entry.name),
        None => named(&format!("bundle/{}", manifest.name)),
    };
    let home = std::env::home_dir().unwrap_or_default();
    let folder = paths::bundle_folder(&name, &format!("{version}-{short}"))
        .ok_or_else(|| CliError::usage("no folder found in which to unpack the bundle").hint("set HOME"))?;
    let places = BundlePlaces::in_home(folder.to_string_lossy(), home.to_string_lossy(), platform);

    let defaults = manifest.default_values(&places, platform);
    let default = |key: &str| {
        let value = defaults.get(key).filter(|value| !value.is_blank());
        value.map(|value| value.to_text())
    };
    let asked: Vec<AskedValue<'_>> = manifest
        .user_config
        .iter()
        .map(|option| AskedValue::of_bundle(option, default(&option.key)))
        .collect();
    let title = manifest.display_name.as_deref().unwrap_or(&manifest.name);
    let mut screen = Screen::default();
    screen.title(&format!("{title} {version}"), "step 2 of 3");
    head(&mut screen);
    let answers = answers::collect(&asked, title, &screen, request).await?;
    let mut values = defaults.clone();
    for option in &manifest.user_config {
        let Some(texts) = answers.get(&option.key) else { continue };
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let value = option
            .parse(&texts)
            .map_err(|error| CliError::usage(format!("{}: {error}", printable(&option.key))))?;
        values.set(&*option.key, value);
    }
    let launch = launch(&manifest, &places, platform, &values)?;

    let mut draft = {
        let (name, launch, folder) = (name.clone(), launch.clone(), folder.clone());
        draft::in_thread(move || ServerDraft::of_bundle(&name, &launch, &folder)).await?
    };
    draft.origin.registry = entry.map(|entry| entry.name.clone());
    draft.origin.version = Some(version.clone());
    draft.origin.digest = Some(format!("sha256:{sha256}"));
    let server = draft.entry()?;
    screen.row("author", &format!("{} (as the bundle says)", manifest.author.name));
    let files = bundle.entries().iter().filter(|entry| !entry.is_folder).count();
    let size = bundle.unpacked_size().div_ceil(1024);
    screen.row("runs", &format!("bundle of {files} files, {size} KiB unpacked"));
    screen.row("hash", &format!("sha256:{sha256}"));
    let mut launch_warnings = Vec::new();
    match signature(&verdict) {
        (text, true) => launch_warnings.push(text),
        (text, false) => screen.row("signed", &text),
    }
    view::launch(&mut screen, None, &server, &[], TextAuthor::Publisher);
    let sandbox = Some(ProposedSandbox::of_bundle(&manifest, &values, &folder));
    view::permissions(&mut screen, None, &server, sandbox.as_ref());
    launch_warnings.extend(launch.exposed_secrets().map(|secret| {
        format!("{} becomes an argument, which other programs of this machine can see", secret.key)
    }));
    for warning in &launch_warnings {
        screen.warning(warning);
    }
    for policy in &manifest.privacy_policies {
        screen.row("privacy", policy);
    }

    let recipe = entry.map(|entry| LaunchRecipe {
        entry: serde_json::to_value(entry).unwrap_or_default(),
        kind: "mcpb".to_owned(),
        answers: answers
            .iter()
            .filter(|(id, _)| {
                !manifest.user_config.iter().any(|option| option.key == **id && option.sensitive)
            })
            .map(|(id, values)| (id.clone(), values.clone()))
            .collect(),
        secrets: draft.whole_secrets(&answers),
        permissions: Vec::new(),
        warnings: launch_warnings.clone(),
        publisher: None,
    });
    let folder = BundleFolder { bundle, _download: download, path: folder, is_temporary: false };
    let folder = Some(ServerFolder::Bundle(Box::new(folder)));
    Ok(PlannedServer {
        draft,
        screen,
        folder,
        sandbox,
        recipe,
        has_other_owner: false,
        warnings: launch_warnings.clone(),
        launch_warnings,
        permissions: Vec::new(),
        other_packages: Vec::new(),
    })
}

fn launch(
    manifest: &hospes_bundle::BundleManifest,
    places: &BundlePlaces,
    platform: BundlePlatform,
    values: &UserValues,
) -> CliResult<BundleLaunch> {
    let launch = manifest.launch(places, platform, values);
    let launch =
        launch.map_err(|error| CliError::usage("the bundle cannot be started").with_cause(&error))?;
    Ok(launch.without_unset())
}

/// Formats the judgement of a signature. The flag is true for a warning.
fn signature(verdict: &SignatureVerdict) -> (String, bool) {
    let validity = |signer: &BundleSigner| match signer.validity {
        CertificateValidity::Expired => "; its certificate has expired",
        CertificateValidity::NotYet => "; its certificate is not valid yet",
        _ => "",
    };
    match verdict {
        SignatureVerdict::Unsigned => ("no".to_owned(), false),
        SignatureVerdict::Invalid { why } => (format!("the signature is invalid: {why}"), true),
        SignatureVerdict::SelfSigned { signer } => (
            format!(
                "signed by itself, with the name {}, which anybody can write; certificate {}{}",
                signer.name,
                signer.fingerprint,
                validity(signer)
            ),
            true,
        ),
        SignatureVerdict::Signed { signer, issuer, trusted: true, .. } => {
            (format!("by {}, certified by {issuer}{}", signer.name, validity(signer)), false)
        }
        SignatureVerdict::Signed { signer, issuer, untrusted_why, .. } => (
            format!(
                "signed by {}, certified by {issuer}, which this machine does not trust{}{}",
                signer.name,
                untrusted_why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default(),
                validity(signer)
            ),
            true,
        ),
        _ => ("in a way that this version does not know".to_owned(), true),
    }
}
