//! Command lines of containers.

use super::LaunchWarning;
use super::permission::permissions;
use super::text::PlannedText;
use super::words::{is_registry_host, split_image};
use super::{LaunchPlan, LaunchSettings};
use crate::entry::RegistryPackage;

/// Completes a plan whose `env` has the variables of the entry: `docker run -i --rm … -e NAME IMAGE args`. Values stay in
/// the environment of the container program, because other programs of this machine can read arguments.
pub(super) fn complete(
    plan: &mut LaunchPlan,
    package: &RegistryPackage,
    runtime: Vec<PlannedText>,
    arguments: Vec<PlannedText>,
    settings: &LaunchSettings,
) {
    let runtime = move_values(runtime, &mut plan.env);
    plan.command = Some(settings.container_program.clone().unwrap_or_else(|| "docker".to_owned()));
    let mut args: Vec<PlannedText> = ["run", "-i", "--rm"].map(PlannedText::from).into();
    plan.permissions = permissions(&runtime);
    args.extend(runtime);
    for (name, _) in &plan.env {
        args.extend(["-e", name].map(PlannedText::from));
    }
    let (image, digest) = image(package, settings);
    if digest.is_none() {
        plan.warnings.push(LaunchWarning::TagNotDigest);
    }
    plan.digest = digest;
    args.push(image.into());
    args.extend(arguments);
    plan.args = args;
}

/// Moves the values of `-e NAME=VALUE` into the environment. `-e NAME` is added later for all names.
fn move_values(runtime: Vec<PlannedText>, env: &mut Vec<(String, PlannedText)>) -> Vec<PlannedText> {
    let mut rest = Vec::new();
    let mut items = runtime.into_iter().peekable();
    let mut set = |assignment: &PlannedText| match assignment.split_assignment() {
        Some((name, value)) if super::words::is_variable_name(&name) => {
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
            true
        }
        _ => false,
    };
    while let Some(item) = items.next() {
        let is_flag =
            matches!(item.parts(), [super::TextPart::Plain(flag)] if flag == "-e" || flag == "--env");
        if is_flag && items.peek().is_some_and(&mut set) {
            items.next();
            continue;
        }
        let joined = ["--env=", "-e"].into_iter().find_map(|flag| item.without_prefix(flag));
        if joined.is_some_and(|assignment| set(&assignment)) {
            continue;
        }
        rest.push(item);
    }
    rest
}

/// Returns the reference of the image, pinned to its digest if one is known, and the digest.
fn image(package: &RegistryPackage, settings: &LaunchSettings) -> (String, Option<String>) {
    let reference = full_reference(package);
    let resolved = settings.digest.as_deref().filter(|digest| digest.starts_with("sha256:"));
    let Some(parts) = split_image(&reference) else { return (reference, None) };
    match (parts.digest, resolved) {
        (Some(digest), _) => (format!("{}@{digest}", parts.path), Some(digest.to_owned())),
        (None, Some(digest)) => (format!("{}@{digest}", parts.path), Some(digest.to_owned())),
        (None, None) => (reference, None),
    }
}

/// Returns the reference of the image with the version and the registry of older entries.
pub(crate) fn full_reference(package: &RegistryPackage) -> String {
    let mut reference = package.identifier.clone();
    let has_tag = split_image(&reference).is_some_and(|image| image.tag.is_some() || image.digest.is_some());
    if let (false, Some(version)) = (has_tag, &package.version) {
        reference = format!("{reference}:{version}");
    }
    let first = reference.split('/').next().unwrap_or_default();
    let has_host = reference.contains('/') && is_registry_host(first);
    let base = package.registry_base_url.as_deref().and_then(|base| url::Url::parse(base).ok());
    if let (false, Some(host)) = (has_host, base.as_ref().and_then(url::Url::host_str))
        && !matches!(host, "docker.io" | "index.docker.io" | "hub.docker.com" | "registry-1.docker.io")
    {
        let port = base.as_ref().and_then(url::Url::port).map(|port| format!(":{port}")).unwrap_or_default();
        reference = format!("{host}{port}/{reference}");
    }
    reference
}
