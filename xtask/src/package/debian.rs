//! The Debian package, packed by `dpkg-deb`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use minijinja::context;

use crate::package::archive::{Extras, unit};
use crate::package::program::{CLibrary, ProgramFile};
use crate::package::release::Release;
use crate::package::tar_gz::FileTree;
use crate::{paths, process};

const PACK_LIMIT: Duration = Duration::from_secs(300);
/// Folders of completions, with the name of the file in ours and in theirs.
const COMPLETIONS: [(&str, &str); 3] = [
    ("hospes.bash", "usr/share/bash-completion/completions/hospes"),
    ("_hospes", "usr/share/zsh/vendor-completions/_hospes"),
    ("hospes.fish", "usr/share/fish/vendor_completions.d/hospes.fish"),
];

/// Makes the package of a program.
pub(crate) fn make(release: &Release, program: &ProgramFile, extras: &Extras, work: &Path) -> Result<()> {
    let architecture = program.platform.debian.context("no architecture of Debian")?;
    let root = work.join(format!("debian-{architecture}"));
    let files = files(release, program, extras)?;
    files.write_folder(&root)?;
    compress(&root.join("usr/share/man/man1"))?;
    compress_file(&root.join("usr/share/doc/hospes/changelog.Debian"))?;

    let version = debian_version(&release.version);
    let depends = match program.library {
        CLibrary::Glibc(minor) if program.needs_libgcc => format!("libc6 (>= 2.{minor}), libgcc-s1 (>= 3.0)"),
        CLibrary::Glibc(minor) => format!("libc6 (>= 2.{minor})"),
        CLibrary::Static | CLibrary::System => String::new(),
    };
    let control = context! {
        debian_version => version, architecture, depends,
        maintainer => maintainer(),
        installed_kib => size_of(&root)?.div_ceil(1024),
    };
    let mut meta = FileTree::default();
    meta.add_text("control", release.templates.render("debian/control", &control)?);
    meta.add_text("md5sums", md5sums(&root)?);
    meta.write_folder(&root.join("DEBIAN"))?;

    let mut pack = Command::new("dpkg-deb");
    // zstd packages are unknown to the dpkg of Debian 11.
    pack.args(["--root-owner-group", "-Zxz", &format!("-z{}", release.compression.min(6)), "--build"]);
    pack.arg(&root).arg(release.folder.join(format!("hospes_{version}_{architecture}.deb")));
    pack.env("SOURCE_DATE_EPOCH", release.time.to_string());
    process::run(pack, "dpkg-deb", PACK_LIMIT)?.success().context("dpkg-deb")?;
    fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))
}

fn files(release: &Release, program: &ProgramFile, extras: &Extras) -> Result<FileTree> {
    let mut tree = FileTree::default();
    tree.add_file("usr/bin/hospes", &program.path, true);
    tree.add_folder("usr/share/man/man1/", &extras.man)?;
    for (file, path) in COMPLETIONS {
        tree.add_file(path, &extras.completions.join(file), false);
    }
    tree.add_text("usr/lib/systemd/user/hospes.service", unit(release, "/usr/bin/hospes")?);
    let license = fs::read_to_string(paths::root().join("LICENSE-MIT")).context("reading LICENSE-MIT")?;
    let holder = license.lines().find_map(|line| line.strip_prefix("Copyright (c) "));
    let values = context! {
        copyright => holder.context("LICENSE-MIT names no holder of the copyright")?,
        mit => deb822(&license),
    };
    tree.add_text("usr/share/doc/hospes/copyright", release.templates.render("debian/copyright", &values)?);
    let time = jiff::Timestamp::from_second(i64::try_from(release.time)?)?;
    let values = context! {
        debian_version => debian_version(&release.version), version => release.version,
        maintainer => maintainer(), date => time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string(),
    };
    tree.add_text(
        "usr/share/doc/hospes/changelog.Debian",
        release.templates.render("debian/changelog", &values)?,
    );
    if program.library == CLibrary::Static {
        // The same program is in all packages for Linux, whatever the C library there.
        tree.add_text("usr/share/lintian/overrides/hospes", "hospes: statically-linked-binary *\n");
    }
    Ok(tree)
}

/// The version with a revision; a pre-release sorts before its release.
fn debian_version(version: &str) -> String {
    format!("{}-1", version.replacen('-', "~", 1))
}

/// `NAME <ADDRESS>` in `HOSPES_MAINTAINER`, which the release workflow sets.
fn maintainer() -> String {
    std::env::var("HOSPES_MAINTAINER")
        .unwrap_or_else(|_| "The Hospes authors <maintainers@hospes.invalid>".to_owned())
}

/// A text as the continuation of a field: each line indented, empty lines as dots.
fn deb822(text: &str) -> String {
    let lines =
        text.trim().lines().map(|line| if line.is_empty() { " .".to_owned() } else { format!(" {line}") });
    lines.collect::<Vec<_>>().join("\n")
}

fn compress(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        compress_file(&entry?.path())?;
    }
    Ok(())
}

/// Compresses as Debian demands: at the best level, without a name and a time.
fn compress_file(path: &Path) -> Result<()> {
    use std::io::Write as _;

    let mut compressed = path.as_os_str().to_owned();
    compressed.push(".gz");
    let mut gzip =
        flate2::GzBuilder::new().write(fs::File::create(&compressed)?, flate2::Compression::best());
    gzip.write_all(&fs::read(path)?)?;
    gzip.finish()?;
    fs::remove_file(path).with_context(|| format!("removing {}", path.display()))
}

fn md5sums(root: &Path) -> Result<String> {
    let script = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    let output = Command::new("sh").args(["-c", script]).current_dir(root).output()?;
    anyhow::ensure!(output.status.success(), "md5sum: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

fn size_of(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        size += if data.is_dir() { size_of(&entry.path())? } else { data.len() };
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pre_release_sorts_before_its_release() {
        assert_eq!(debian_version("0.2.0"), "0.2.0-1");
        assert_eq!(debian_version("0.2.0-rc.1"), "0.2.0~rc.1-1");
    }

    #[test]
    fn a_text_of_several_paragraphs_stays_one_field() {
        assert_eq!(deb822("a\n\nb\n"), " a\n .\n b");
    }
}
