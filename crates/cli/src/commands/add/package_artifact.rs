//! The file of a package: its hash at the package registry, and its download.

use std::path::Path;

use hospes_registry::{
    ArtifactClient, DownloadProgress, LaunchChoice, LaunchOption, PackageRegistries, RegistryPackage,
    RegistryType, ResolvedArtifact, ServerEntry, is_same_version,
};

use super::plan::PlanRequest;
use crate::exit::{CliError, CliResult};
use crate::output::{one_line, printable};
use crate::packages::{cargo, go};
use crate::progress::StepBar;
use crate::registry::launcher_registries;

/// Asks the package registry for the hash of the package. `None` for a remote server.
pub(super) async fn resolve(
    entry: &ServerEntry,
    option: &LaunchOption,
    request: &PlanRequest<'_>,
) -> CliResult<Option<ResolvedArtifact>> {
    let LaunchChoice::Package(index) = option.choice else { return Ok(None) };
    let Some(package) = entry.packages.get(index) else { return Ok(None) };
    if package.registry_type == RegistryType::Cargo && cargo::replaces_registry() {
        return Ok(None);
    }
    let text = format!("asking for the hash of {}", printable(&package.identifier));
    let _bar = StepBar::spinner(&text, request.output);
    let mut registries = package_registries(package, request);
    if package.registry_type == RegistryType::Go {
        go::apply_settings(&mut registries).await;
    }
    let resolved = ArtifactClient::new(registries).resolve(package).await?;
    check_version(package, resolved.version.as_deref())?;
    Ok(Some(resolved))
}

/// Checks that the package registry has answered with the version of the entry, whose hash is recorded.
fn check_version(package: &RegistryPackage, found: Option<&str>) -> CliResult {
    let (Some(wanted), Some(found)) = (&package.version, found) else { return Ok(()) };
    if is_same_version(&package.registry_type, wanted, found) {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "the package registry has answered with version {} of {}, and the entry names {}",
        one_line(found),
        one_line(&package.identifier),
        one_line(wanted)
    ))
    .hint("nothing was changed; name an exact version, or ask the publisher of the entry to correct it"))
}

/// Downloads a bundle, and checks its hash.
pub(super) async fn download(package: &RegistryPackage, file: &Path, request: &PlanRequest<'_>) -> CliResult {
    let mut bar: Option<StepBar> = None;
    let progress = |progress: DownloadProgress| {
        let bar = bar
            .get_or_insert_with(|| StepBar::bytes("downloading the bundle", progress.total, request.output));
        bar.set_bytes(progress.bytes);
    };
    let client = ArtifactClient::new(package_registries(package, request));
    let downloaded = client.download_bundle(package, file, progress).await;
    downloaded.map(drop).map_err(CliError::from)
}

/// Returns the package registries that the launchers use, too: a mirror is named by their own variables.
fn package_registries(package: &RegistryPackage, request: &PlanRequest<'_>) -> PackageRegistries {
    let mut registries = launcher_registries(&package.identifier, |name| std::env::var(name).ok());
    // A registry on this machine may list files of this machine.
    registries.local_bundles = request.is_registry_local;
    registries
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use crate::packages::name::package_entry;

    #[test]
    fn a_package_of_another_version_is_refused() {
        let entry = package_entry(&RegistryType::Npm, "clock", Some("1.0.0")).unwrap();
        let package = &entry.packages[0];
        assert!(check_version(package, Some("1.0.0")).is_ok());
        assert!(check_version(package, Some("1.0.1-beta.1")).is_err());
    }
}
