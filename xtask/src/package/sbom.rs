//! The software bill of materials of a program, in CycloneDX: the crates that cargo builds into it, with their licences and hashes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, ensure};
use cyclonedx_bom::external_models::uri::Purl;
use cyclonedx_bom::models::component::{Classification, Component, Components};
use cyclonedx_bom::models::dependency::{Dependencies, Dependency};
use cyclonedx_bom::models::hash::{Hash, HashAlgorithm, HashValue, Hashes};
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::metadata::Metadata;
use cyclonedx_bom::prelude::{Bom, SpdxExpression, SpecVersion, Validate as _};
use serde_json::Value;

use crate::cargo;
use crate::package::program::ProgramFile;
use crate::package::release::Release;
use crate::paths;

/// The package that the program is built from.
const PROGRAM: &str = "hospes-cli";

/// Name and version of a crate.
type CrateId = (String, String);

/// Writes the bill of materials of a program.
pub(crate) fn make(release: &Release, program: &ProgramFile) -> Result<()> {
    let target = program.target();
    let bom = bom(&target)?;
    let checked = bom.validate_version(SpecVersion::V1_5);
    ensure!(checked.passed(), "the bill of materials is invalid: {checked:?}");
    let mut json = Vec::new();
    bom.output_as_json_v1_5(&mut json)?;
    json.push(b'\n');
    let path = release.folder.join(format!("{}.cdx.json", release.archive_folder(&target)));
    fs::write(&path, json).with_context(|| format!("writing {}", path.display()))
}

fn bom(target: &str) -> Result<Bom> {
    let built = built_crates(target)?;
    let metadata: Value =
        read_cargo(&["metadata", "--format-version", "1", "--locked", "--filter-platform", target])
            .and_then(|json| serde_json::from_str(&json).context("reading the output of cargo metadata"))?;
    let hashes = lock_hashes()?;
    let mut components = BTreeMap::new();
    let mut ids = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let id = (text("name").to_owned(), text("version").to_owned());
        if built.contains(&id) {
            ids.insert(text("id").to_owned(), id.clone());
            components.insert(id.clone(), component(&id, package, hashes.get(&id))?);
        }
    }
    ensure!(
        built.len() == components.len(),
        "cargo tree names {} crates, and cargo metadata {} of them",
        built.len(),
        components.len()
    );
    let mut dependencies = Vec::new();
    for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
        let Some(id) = node["id"].as_str().and_then(|id| ids.get(id)) else { continue };
        let needed: BTreeSet<String> = node["deps"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|dependency| {
                let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
                kinds.into_iter().any(|kind| kind["kind"] != "dev")
            })
            .filter_map(|dependency| ids.get(dependency["pkg"].as_str()?))
            .map(reference)
            .collect();
        dependencies
            .push(Dependency { dependency_ref: reference(id), dependencies: needed.into_iter().collect() });
    }
    dependencies.sort_by(|one, other| one.dependency_ref.cmp(&other.dependency_ref));
    let own = components.keys().find(|(name, _)| name == PROGRAM).cloned();
    let mut own =
        components.remove(&own.context("the program is not among its crates")?).context("no program")?;
    own.component_type = Classification::Application;
    // Without a time and a serial number, so that equal sources give equal files.
    let metadata = Metadata {
        timestamp: None,
        tools: None,
        authors: None,
        component: Some(own),
        manufacture: None,
        supplier: None,
        licenses: None,
        properties: None,
        lifecycles: None,
    };
    Ok(Bom {
        serial_number: None,
        metadata: Some(metadata),
        components: Some(Components(components.into_values().collect())),
        dependencies: Some(Dependencies(dependencies)),
        ..Bom::default()
    })
}

/// The crates that are built for the program. `cargo tree` knows the features that this package alone switches on.
fn built_crates(target: &str) -> Result<BTreeSet<CrateId>> {
    let tree = read_cargo(&[
        "tree",
        "--locked",
        "--package",
        PROGRAM,
        "--target",
        target,
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--no-dedupe",
    ])?;
    let mut crates = BTreeSet::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let version = version.strip_prefix('v').with_context(|| format!("no version in `{line}`"))?;
        crates.insert((name.to_owned(), version.to_owned()));
    }
    Ok(crates)
}

fn component(id: &CrateId, package: &Value, hash: Option<&String>) -> Result<Component> {
    let (name, version) = id;
    let mut component = Component::new(Classification::Library, name, version, Some(reference(id)));
    component.purl = Some(Purl::new("cargo", name, version)?);
    if let Some(license) = package["license"].as_str() {
        // Older manifests separate licences with a slash.
        let expression = license.replace('/', " OR ");
        component.licenses =
            Some(Licenses(vec![LicenseChoice::Expression(SpdxExpression::new(&expression))]));
    }
    component.hashes =
        hash.map(|hash| Hashes(vec![Hash { alg: HashAlgorithm::SHA_256, content: HashValue(hash.clone()) }]));
    Ok(component)
}

fn reference((name, version): &CrateId) -> String {
    format!("{name}@{version}")
}

/// Hashes of the crates that come from a registry.
fn lock_hashes() -> Result<BTreeMap<CrateId, String>> {
    let lock: toml::Table =
        fs::read_to_string(paths::root().join("Cargo.lock")).context("reading Cargo.lock")?.parse()?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("no packages in Cargo.lock")?;
    let text = |package: &toml::Value, key: &str| package.get(key)?.as_str().map(str::to_owned);
    let hashes = packages.iter().filter_map(|package| {
        Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?))
    });
    Ok(hashes.collect())
}

fn read_cargo(arguments: &[&str]) -> Result<String> {
    let output = cargo::command(arguments).stderr(std::process::Stdio::inherit()).output()?;
    ensure!(output.status.success(), "cargo {}: {}", arguments[0], output.status);
    Ok(String::from_utf8(output.stdout)?)
}
