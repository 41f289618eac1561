//! Judges of packages that are not ours.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Bench, DOWNLOAD_URL, LIMIT, command, contains, npm};
use crate::checks::CheckList;
use crate::package::hash_file;
use crate::process;

/// Validates a bill of materials with the schemas of CycloneDX, strictly.
const CYCLONEDX: &str = "import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())
sys.exit(str(error) if error else 0)";

pub(super) fn examine(bench: &Bench, checks: &mut CheckList) -> Result<()> {
    let home = bench.home("validators")?;
    let judge = |command: Command, label: &str| {
        process::run(command, &format!("installs {label}"), LIMIT)?
            .success()
            .with_context(|| label.to_owned())
    };
    let files = bench.release.files()?;
    let of_kind = |end: &'static str| files.iter().filter(move |file| file.to_string_lossy().ends_with(end));
    for wheel in of_kind(".whl") {
        let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut twine = bench.python.module("twine");
        twine.args(["check", "--strict"]).arg(wheel);
        checks.add(&format!("twine check {name}"), judge(twine, "twine").map(|_| String::new()));
        let mut contents = bench.python.module("check_wheel_contents");
        // A wheel of a program alone has no library.
        contents.args(["--ignore", "W007"]).arg(wheel);
        checks.add(
            &format!("check-wheel-contents {name}"),
            judge(contents, "wheel contents").map(|_| String::new()),
        );
        if name.contains("manylinux") && name.contains(std::env::consts::ARCH) {
            let mut show = bench.python.module("auditwheel");
            show.arg("show").arg(wheel);
            let said = judge(show, "auditwheel").and_then(|done| {
                let tag = name.rsplit('-').next().unwrap_or_default().trim_end_matches(".whl").to_owned();
                contains(&done.stdout.replace('\n', " "), &format!("\"{tag}\""))?;
                Ok(tag)
            });
            checks.add("auditwheel: the tag is what the program requires", said);
        }
    }
    for package in of_kind(".tgz") {
        let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        checks.add(&format!("npm pack {name}"), npm::dry_run(bench, package));
    }
    let architecture = if cfg!(target_arch = "aarch64") { "_arm64.deb" } else { "_amd64.deb" };
    let mut lintian = command("lintian", ["--fail-on", "error", "--allow-root"]);
    lintian.arg(bench.package("hospes_", architecture)?);
    checks.add("lintian", judge(lintian, "lintian").map(|done| done.stdout.trim().replace('\n', "; ")));
    for file in ["Containerfile", "Containerfile.full"] {
        let mut hadolint = bench.python.program("hadolint");
        hadolint.arg(bench.release.folder.join("container").join(file));
        checks.add(&format!("hadolint {file}"), judge(hadolint, "hadolint").map(|_| String::new()));
    }
    for bom in of_kind(".cdx.json") {
        let script = home.join("bom.py");
        fs::write(&script, CYCLONEDX)?;
        let mut validate = bench.python.script(&script);
        validate.arg(bom);
        let name = bom.file_name().unwrap_or_default().to_string_lossy();
        checks.add(&format!("CycloneDX {name}"), judge(validate, "cyclonedx").map(|_| String::new()));
    }
    let mut ruby = command("ruby", ["-c"]);
    ruby.arg(bench.release.folder.join("homebrew/hospes.rb"));
    checks.add("ruby -c hospes.rb", judge(ruby, "ruby").map(|_| String::new()));
    checks.add("Homebrew: URLs and hashes", homebrew(bench));
    checks.add("Scoop: URL and hash", scoop(bench));
    checks.add("winget: URL and hash", winget(bench));
    Ok(())
}

/// Each archive for macOS and Linux is there with its hash.
fn homebrew(bench: &Bench) -> Result<String> {
    let formula = fs::read_to_string(bench.release.folder.join("homebrew/hospes.rb"))?;
    let mut count = 0;
    for file in bench.release.files()?.iter().filter(|file| file.to_string_lossy().ends_with(".tar.gz")) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let entry = format!("url \"{DOWNLOAD_URL}/{name}\"\n      sha256 \"{}\"\n", hash_file(file)?);
        contains(&formula, &entry)?;
        count += 1;
    }
    ensure!(count == 4, "{count} archives");
    Ok(format!("{count} archives"))
}

fn scoop(bench: &Bench) -> Result<String> {
    let manifest = fs::read_to_string(bench.release.folder.join("scoop/hospes.json"))?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    let zip = bench.package("hospes-", ".zip")?;
    let name = zip.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entry = &manifest["architecture"]["64bit"];
    ensure!(entry["hash"] == hash_file(&zip)?.as_str(), "{entry}");
    ensure!(entry["url"] == format!("{DOWNLOAD_URL}/{name}").as_str(), "{entry}");
    ensure!(manifest["version"] == bench.release.version.as_str(), "{manifest}");
    let folder = entry["extract_dir"].as_str().context("no extract_dir")?;
    let program = manifest["bin"].as_str().context("no bin")?;
    in_zip(&zip, &format!("{folder}/{program}"))
}

/// The three files, which the YAML reader of Ruby reads.
fn winget(bench: &Bench) -> Result<String> {
    let read = |file: &str| -> Result<Value> {
        let script = "require 'yaml'; require 'json'; puts JSON.generate(YAML.safe_load(File.read(ARGV[0])))";
        let mut ruby = command("ruby", ["-e", script]);
        ruby.arg(bench.release.folder.join("winget").join(file));
        let done = process::run(ruby, "installs yaml", LIMIT)?.success()?;
        Ok(serde_json::from_str(&done.stdout)?)
    };
    let (version, locale) = (read("Hospes.Hospes.yaml")?, read("Hospes.Hospes.locale.en-US.yaml")?);
    let installer = read("Hospes.Hospes.installer.yaml")?;
    for file in [&version, &locale, &installer] {
        ensure!(file["PackageIdentifier"] == "Hospes.Hospes", "{file}");
        ensure!(file["PackageVersion"] == bench.release.version.as_str(), "{file}");
        ensure!(file["ManifestVersion"] == version["ManifestVersion"], "{file}");
    }
    let zip = bench.package("hospes-", ".zip")?;
    let entry = &installer["Installers"][0];
    ensure!(entry["InstallerSha256"] == hash_file(&zip)?.to_uppercase().as_str(), "{entry}");
    let nested = &installer["NestedInstallerFiles"][0];
    ensure!(nested["PortableCommandAlias"] == "hospes", "{nested}");
    let path = nested["RelativeFilePath"].as_str().context("no RelativeFilePath")?;
    in_zip(&zip, &path.replace('\\', "/"))
}

fn in_zip(zip: &std::path::Path, path: &str) -> Result<String> {
    let mut archive = zip::ZipArchive::new(fs::File::open(zip)?)?;
    archive.by_name(path).with_context(|| format!("{path} in {}", zip.display()))?;
    Ok(path.to_owned())
}
