//! Wheels for PyPI, packed by the Python package `wheel`, which also writes their record.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use minijinja::context;

use crate::package::archive::add_licenses;
use crate::package::program::{CLibrary, ProgramFile};
use crate::package::release::Release;
use crate::package::tar_gz::FileTree;
use crate::process;
use crate::tools::PythonTools;

const PACK_LIMIT: Duration = Duration::from_secs(120);
/// Oldest versions of macOS, which the release workflow compiles for.
const MACOS: [(&str, &str); 2] = [("x86_64", "10_12"), ("arm64", "11_0")];

/// Makes the wheel of a program.
pub(crate) fn make(release: &Release, program: &ProgramFile, work: &Path) -> Result<()> {
    let version = &release.version;
    let values = context! {
        version, description => release.description, license => release.license, tags => tags(program)
    };
    let mut tree = FileTree::default();
    let info = format!("hospes-{version}.dist-info");
    for file in ["METADATA", "WHEEL"] {
        tree.add_text(
            format!("{info}/{file}"),
            release.templates.render(&format!("python/{file}"), &values)?,
        );
    }
    add_licenses(&mut tree, &format!("{info}/licenses/"));
    tree.add_file(
        format!("hospes-{version}.data/scripts/{}", program.platform.program()),
        &program.path,
        true,
    );
    let folder = work.join(format!("wheel-{}", program.platform.npm));
    tree.write_folder(&folder)?;
    let mut pack = PythonTools::packaging()?.module("wheel");
    pack.args(["pack", "--dest-dir"]).arg(&release.folder).arg(&folder);
    pack.env("SOURCE_DATE_EPOCH", release.time.to_string());
    process::run(pack, "wheel pack", PACK_LIMIT)?.success().context("wheel pack")?;
    fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))
}

/// Platform tags: what a program requires, so that no installer takes it where it cannot run.
fn tags(program: &ProgramFile) -> Vec<String> {
    let arch = program.platform.wheel_arch;
    match program.library {
        CLibrary::Static => {
            ["manylinux_2_17", "manylinux2014", "musllinux_1_1"].map(|tag| format!("{tag}_{arch}")).to_vec()
        }
        CLibrary::Glibc(minor) if minor <= 17 => {
            ["manylinux_2_17", "manylinux2014"].map(|tag| format!("{tag}_{arch}")).to_vec()
        }
        CLibrary::Glibc(minor) => vec![format!("manylinux_2_{minor}_{arch}")],
        CLibrary::System if program.platform.is_windows() => vec![format!("win_{arch}")],
        CLibrary::System => {
            let version =
                MACOS.iter().find(|(known, _)| *known == arch).map_or("11_0", |(_, version)| version);
            vec![format!("macosx_{version}_{arch}")]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::release::PLATFORMS;

    #[test]
    fn tags_say_what_the_program_requires() {
        let tags = |platform: usize, library| {
            tags(&ProgramFile {
                path: "p".into(),
                platform: &PLATFORMS[platform],
                library,
                needs_libgcc: false,
            })
            .join(".")
        };
        assert_eq!(
            tags(0, CLibrary::Static),
            "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"
        );
        assert_eq!(tags(1, CLibrary::Glibc(17)), "manylinux_2_17_aarch64.manylinux2014_aarch64");
        assert_eq!(tags(0, CLibrary::Glibc(34)), "manylinux_2_34_x86_64");
        assert_eq!(tags(2, CLibrary::System), "macosx_10_12_x86_64");
        assert_eq!(tags(3, CLibrary::System), "macosx_11_0_arm64");
        assert_eq!(tags(4, CLibrary::System), "win_amd64");
    }
}
