//! Archives: the program, its licences, manual, completions and the unit of systemd.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use minijinja::context;

use crate::package::program::ProgramFile;
use crate::package::release::Release;
use crate::package::tar_gz::FileTree;
use crate::paths;

/// File beside the program by which `hospes upgrade` knows the channel; its first word names it.
pub(crate) const MARKER: &str = "INSTALLED_BY";

/// Files with the licences, at the top of the repository.
pub(crate) const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Shell and the file of its completions.
pub(crate) const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "hospes.bash"),
    ("zsh", "_hospes"),
    ("fish", "hospes.fish"),
    ("elvish", "hospes.elv"),
    ("powershell", "_hospes.ps1"),
];

/// Files that the program itself prints for packages.
#[derive(Debug)]
pub(crate) struct Extras {
    /// Folder with the manual pages.
    pub(crate) man: PathBuf,
    /// Folder with the completions.
    pub(crate) completions: PathBuf,
}

/// Has a program print its manual and its completions.
pub(crate) fn write_extras(work: &Path, program: &ProgramFile) -> Result<Extras> {
    let extras = Extras { man: work.join("man1"), completions: work.join("completions") };
    program.run(&["--quiet", "man", "--output", &extras.man.to_string_lossy()])?;
    fs::create_dir_all(&extras.completions)?;
    for (shell, file) in COMPLETIONS {
        fs::write(extras.completions.join(file), program.run(&["completions", shell])?)?;
    }
    Ok(extras)
}

/// The marker of a channel.
pub(crate) fn marker(channel: &str, release: &Release) -> String {
    format!("{channel} {}\n", release.version)
}

/// The unit for the user manager of systemd.
pub(crate) fn unit(release: &Release, program: &str) -> Result<String> {
    release.templates.render("hospes.service", &context! { program })
}

/// Adds the licences.
pub(crate) fn add_licenses(tree: &mut FileTree, prefix: &str) {
    for license in LICENSES {
        tree.add_file(format!("{prefix}{license}"), &paths::root().join(license), false);
    }
}

/// Makes the archive of a program.
pub(crate) fn make(release: &Release, program: &ProgramFile, extras: &Extras) -> Result<()> {
    let mut tree = FileTree::default();
    tree.add_file(program.platform.program(), &program.path, true);
    tree.add_text(MARKER, marker("archive", release));
    add_licenses(&mut tree, "");
    tree.add_folder("man/man1/", &extras.man)?;
    tree.add_folder("completions/", &extras.completions)?;
    if program.platform.rust.ends_with("linux") {
        tree.add_text("hospes.service", unit(release, "%h/.local/share/hospes/program/hospes")?);
    }
    let target = program.target();
    let (folder, output) =
        (release.archive_folder(&target), release.folder.join(release.archive_name(&target)));
    if program.platform.is_windows() {
        tree.write_zip(release, &folder, &output)
    } else {
        tree.write_tar_gz(release, &folder, &output)
    }
    .with_context(|| format!("making {}", output.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The unit of packages and that of `hospes service install` start the program in the same way.
    #[test]
    fn the_unit_has_the_settings_of_the_one_that_the_program_writes() {
        let release = Release::new(Path::new("out"), 9).unwrap();
        let unit = unit(&release, "/usr/bin/hospes").unwrap();
        let source = fs::read_to_string(paths::root().join("crates/cli/src/service_files.rs")).unwrap();
        let settings = unit.lines().filter(|line| line.contains('=') && !line.starts_with("ExecStart="));
        for setting in settings {
            assert!(source.contains(&format!("{setting}\\n")), "service_files.rs has no `{setting}`");
        }
        assert!(unit.contains("\nExecStart=/usr/bin/hospes --quiet up\n"), "{unit}");
    }

    /// `hospes upgrade` must know the words that packages write.
    #[test]
    fn the_program_knows_the_markers() {
        let source = fs::read_to_string(paths::root().join("crates/cli/src/installation.rs")).unwrap();
        assert!(source.contains(&format!("MARKER: &str = \"{MARKER}\"")));
        for channel in ["archive", "container"] {
            assert!(source.contains(&format!("\"{channel}\" => InstallChannel::")), "{channel}");
        }
    }
}
