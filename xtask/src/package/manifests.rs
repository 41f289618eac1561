//! Manifests of Homebrew, Scoop and winget: the URLs and hashes of archives.

use std::fs;

use anyhow::{Context as _, Result};
use minijinja::{Value, context};

use crate::package::program::ProgramFile;
use crate::package::release::{Release, hash_file};
use crate::report::say;

/// winget's names of the three files of a manifest.
const WINGET: [(&str, &str); 3] = [
    ("version", "Hospes.Hospes.yaml"),
    ("locale", "Hospes.Hospes.locale.en-US.yaml"),
    ("installer", "Hospes.Hospes.installer.yaml"),
];

/// Makes the manifests for which there are archives.
pub(crate) fn make(release: &Release, programs: &[ProgramFile], url: &str, homepage: &str) -> Result<()> {
    let shared = context! {
        version => release.version, description => release.description, license => release.license, homepage
    };
    let (mut unix, mut windows) = (Vec::new(), None);
    for program in programs {
        let (name, target) = (release.archive_name(&program.target()), program.target());
        let archive = context! {
            url => format!("{}/{name}", url.trim_end_matches('/')),
            sha256 => hash_file(&release.folder.join(&name))?,
            folder => release.archive_folder(&target),
            system => if target.contains("darwin") { "macos" } else { "linux" },
            brew_arch => if target.starts_with("aarch64") { "arm" } else { "intel" },
        };
        if program.platform.is_windows() {
            windows = Some(archive);
        } else {
            unix.push(archive);
        }
    }
    if !unix.is_empty() {
        let values = context! { archives => unix, ..shared.clone() };
        write(release, "homebrew/hospes.rb", "homebrew/hospes.rb", &values)?;
    }
    let Some(archive) = windows else {
        say!("no program for Windows: no manifests for Scoop and winget");
        return Ok(());
    };
    let values = context! { archive, ..shared };
    write(release, "scoop/hospes.json", "scoop/hospes.json", &values)?;
    for (template, file) in WINGET {
        write(release, &format!("winget/{template}.yaml"), &format!("winget/{file}"), &values)?;
    }
    Ok(())
}

fn write(release: &Release, template: &str, file: &str, values: &Value) -> Result<()> {
    let path = release.folder.join(file);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, release.templates.render(template, values)?)
        .with_context(|| format!("writing {}", path.display()))
}
