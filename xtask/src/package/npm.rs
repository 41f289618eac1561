//! npm packages: `hospes` with a script that starts the program, and one package for each platform with the program.

use anyhow::Result;
use minijinja::{Value, context};

use crate::package::archive::add_licenses;
use crate::package::program::{CLibrary, ProgramFile};
use crate::package::release::{PLATFORMS, Release};
use crate::package::tar_gz::FileTree;

/// The folder that npm expects in a package.
const FOLDER: &str = "package";

/// Makes the package of a platform.
pub(crate) fn make_platform(release: &Release, program: &ProgramFile) -> Result<()> {
    let platform = program.platform;
    let (os, cpu) = platform.npm.split_once('-').unwrap_or_default();
    let values = context! {
        package => format!("@hospes/{}", platform.npm), os, cpu, program => platform.program(),
        needs_glibc => matches!(program.library, CLibrary::Glibc(_)),
        ..shared(release)
    };
    let mut tree = FileTree::default();
    for file in ["package.json", "README.md"] {
        tree.add_text(file, release.templates.render(&format!("npm/platform/{file}"), &values)?);
    }
    add_licenses(&mut tree, "");
    tree.add_file(format!("bin/{}", platform.program()), &program.path, true);
    write(release, &tree, &format!("hospes-{}", platform.npm))
}

/// Makes the package `hospes`.
pub(crate) fn make_wrapper(release: &Release) -> Result<()> {
    let platforms = PLATFORMS.iter().map(|platform| platform.npm);
    let values = context! {
        packages => platforms.clone().map(|platform| format!("@hospes/{platform}")).collect::<Vec<_>>(),
        platforms => platforms.collect::<Vec<_>>(),
        ..shared(release)
    };
    let mut tree = FileTree::default();
    for file in ["package.json", "README.md"] {
        tree.add_text(file, release.templates.render(&format!("npm/hospes/{file}"), &values)?);
    }
    tree.add_script("bin/hospes.js", release.templates.render("npm/hospes/bin/hospes.js", &values)?);
    add_licenses(&mut tree, "");
    write(release, &tree, "hospes")
}

fn shared(release: &Release) -> Value {
    context! { version => release.version, description => release.description, license => release.license }
}

/// Writes a package under the name that `npm pack` gives it.
fn write(release: &Release, tree: &FileTree, name: &str) -> Result<()> {
    tree.write_tar_gz(release, FOLDER, &release.folder.join(format!("{name}-{}.tgz", release.version)))
}
