//! Archives whose bytes depend on their content alone: sorted, of one time, of no owner.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::package::release::Release;

/// Files of an archive, by their path in it.
#[derive(Debug, Default)]
pub(crate) struct FileTree(BTreeMap<String, (Content, bool)>);

#[derive(Debug)]
enum Content {
    File(PathBuf),
    Text(String),
}

impl FileTree {
    /// Adds a file.
    pub(crate) fn add_file(&mut self, path: impl Into<String>, file: &Path, is_executable: bool) {
        self.0.insert(path.into(), (Content::File(file.to_path_buf()), is_executable));
    }

    /// Adds a text.
    pub(crate) fn add_text(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.insert(path.into(), (Content::Text(text.into()), false));
    }

    /// Adds a text that can be executed.
    pub(crate) fn add_script(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.insert(path.into(), (Content::Text(text.into()), true));
    }

    /// Adds all files of a folder and of those below it.
    pub(crate) fn add_folder(&mut self, prefix: &str, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.add_folder(&format!("{path}/"), &entry.path())?;
            } else {
                self.add_file(path, &entry.path(), false);
            }
        }
        Ok(())
    }

    /// Writes a `.tar.gz`, with all paths below a folder.
    pub(crate) fn write_tar_gz(&self, release: &Release, folder: &str, output: &Path) -> Result<()> {
        let file = File::create(output).with_context(|| format!("creating {}", output.display()))?;
        // The header of gzip has no time and no name.
        let level = flate2::Compression::new(release.compression);
        let gzip = flate2::GzBuilder::new().write(BufWriter::new(file), level);
        let mut tar = tar::Builder::new(gzip);
        for (path, (content, is_executable)) in &self.0 {
            let data = content.read()?;
            let mut header = tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            header.set_mode(mode(*is_executable));
            header.set_mtime(release.time);
            tar.append_data(&mut header, format!("{folder}/{path}"), &*data)?;
        }
        tar.into_inner()?.finish()?.flush().with_context(|| format!("writing {}", output.display()))
    }

    /// Writes a `.zip`, with all paths below a folder.
    pub(crate) fn write_zip(&self, release: &Release, folder: &str, output: &Path) -> Result<()> {
        let file = File::create(output).with_context(|| format!("creating {}", output.display()))?;
        let mut zip = zip::ZipWriter::new(BufWriter::new(file));
        for (path, (content, is_executable)) in &self.0 {
            let options = zip::write::SimpleFileOptions::default()
                .compression_level(Some(release.compression.into()))
                .unix_permissions(mode(*is_executable))
                .last_modified_time(zip::DateTime::default());
            zip.start_file(format!("{folder}/{path}"), options)?;
            zip.write_all(&content.read()?)?;
        }
        zip.finish()?.flush().with_context(|| format!("writing {}", output.display()))
    }

    /// Writes the files into a folder.
    pub(crate) fn write_folder(&self, folder: &Path) -> Result<()> {
        for (path, (content, is_executable)) in &self.0 {
            let file = folder.join(path);
            if let Some(parent) = file.parent() {
                fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
            }
            fs::write(&file, content.read()?).with_context(|| format!("writing {}", file.display()))?;
            set_mode(&file, mode(*is_executable))?;
        }
        Ok(())
    }
}

impl Content {
    fn read(&self) -> Result<Vec<u8>> {
        match self {
            Self::File(path) => fs::read(path).with_context(|| format!("reading {}", path.display())),
            Self::Text(text) => Ok(text.clone().into_bytes()),
        }
    }
}

const fn mode(is_executable: bool) -> u32 {
    if is_executable { 0o755 } else { 0o644 }
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("setting the mode of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_gives_equal_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let release = Release::new(folder.path(), 6).unwrap();
        let write = |name: &str, paths: [&str; 2]| {
            let mut tree = FileTree::default();
            for path in paths {
                tree.add_text(path, path);
            }
            tree.add_script("run", "#!/bin/sh\n");
            tree.write_tar_gz(&release, "x", &folder.path().join(name)).unwrap();
            tree.write_zip(&release, "x", &folder.path().join(format!("{name}.zip"))).unwrap();
            let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
            (read(name), read(&format!("{name}.zip")))
        };
        assert_eq!(write("one", ["a", "b"]), write("two", ["b", "a"]));
        assert_ne!(write("one", ["a", "b"]), write("two", ["a", "c"]));
    }
}
