//! The folder from which container images are built.

use std::fs;

use anyhow::{Context as _, Result};
use minijinja::context;

use crate::package::archive::{MARKER, add_licenses, marker};
use crate::package::program::ProgramFile;
use crate::package::release::Release;
use crate::package::tar_gz::FileTree;
use crate::tools::ToolVersions;

/// Name of the server in the registry of MCP servers. It must be that of the published entry.
const SERVER_NAME: &str = "dev.hospes/hospes";

/// Writes the folder: `podman build target/packages/container` builds the image.
pub(crate) fn make(release: &Release, programs: &[ProgramFile]) -> Result<()> {
    let folder = release.folder.join("container");
    let mut tree = FileTree::default();
    // The versions that are tested.
    let versions = ToolVersions::read()?;
    let uv = versions.pypi_packaging.get("uv").context("[pypi-packaging] has no uv")?;
    let values = context! {
        version => release.version, license => release.license, server_name => SERVER_NAME,
        node_version => versions.node_version, uv_version => uv
    };
    for file in ["Containerfile", "Containerfile.full"] {
        tree.add_text(file, release.templates.render(&format!("container/{file}"), &values)?);
    }
    tree.add_text(MARKER, marker("container", release));
    add_licenses(&mut tree, "");
    for program in programs {
        if let Some(architecture) = program.platform.container {
            tree.add_file(format!("{architecture}/hospes"), &program.path, true);
        }
    }
    tree.write_folder(&folder)?;
    fs::create_dir(folder.join("data")).context("creating the folder of the volume")
}
