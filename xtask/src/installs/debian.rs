//! The Debian package: installed, run and removed by dpkg in a copy-on-write view of this machine.
//!
//! The view is an overlay in a mount namespace of its own. What dpkg writes is in a folder in memory, so that the machine
//! keeps its packages, and what is left after the removal can be listed.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use super::{Bench, LIMIT, command, contains, equals, upgrades_by};
use crate::checks::CheckList;
use crate::process;

/// Runs in the namespace: `$1` is the folder, `$2` the package. Each step prints into a file of its own.
const SCRIPT: &str = r#"
set -eu
cd "$1"
mount -t tmpfs none view-files
mkdir view-files/upper view-files/work view
mount -t overlay none -o "lowerdir=/,upperdir=$1/view-files/upper,workdir=$1/view-files/work" view
mount --rbind /dev view/dev
mount -t proc none view/proc 2>/dev/null || mount --rbind /proc view/proc
cp "$2" view/tmp/hospes.deb
mkdir view/tmp/home
enter() { chroot view env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp/home NO_COLOR=1 "$@"; }
enter dpkg --install /tmp/hospes.deb >install.txt 2>&1
enter hospes --version >version.txt
enter hospes call time now >call.txt
enter hospes --json upgrade >upgrade.txt
enter dpkg --listfiles hospes >files.txt
enter man --where hospes-up >man.txt 2>&1 || true
enter dpkg --purge hospes >purge.txt 2>&1
rm -r view/tmp/hospes.deb view/tmp/home
# Names of what the removal left. dpkg keeps a list of its own and copies of it.
find view-files/upper -name '*hospes*' >left.txt
"#;

pub(super) fn examine(bench: &Bench, checks: &mut CheckList) -> Result<()> {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let package = bench.package("hospes_", &format!("_{architecture}.deb"))?;
    let folder = bench.home("debian")?;
    fs::create_dir_all(folder.join("view-files"))?;
    let mut unshare = command("unshare", ["--mount", "--propagation", "private"]);
    if !rustix::process::geteuid().is_root() {
        unshare.arg("--map-root-user");
    }
    unshare.args(["sh", "-c", SCRIPT, "sh"]).arg(&folder).arg(&package);
    process::run(unshare, "installs dpkg", LIMIT)?.success()?;
    let said = |name: &str| Ok::<_, anyhow::Error>(fs::read_to_string(folder.join(name))?);

    let version = &bench.release.version;
    checks.add(
        "Debian: --version",
        said("version.txt").and_then(|text| equals(text.trim(), &format!("hospes {version}"))),
    );
    checks.add("Debian: a tool called", said("call.txt").and_then(|text| contains(&text, "\"timezone\"")));
    let upgrade = "sudo apt install --only-upgrade hospes";
    checks.add("Debian: upgrade", said("upgrade.txt").and_then(|text| upgrades_by(&text, upgrade)));
    checks.add("Debian: files", said("files.txt").and_then(|text| files(&text)));
    checks.add("Debian: removed", said("left.txt").and_then(|text| equals(&text, "")));
    for other in ["amd64", "arm64"] {
        let package = bench.package("hospes_", &format!("_{other}.deb"))?;
        checks.add(&format!("Debian: control of {other}"), control(bench, &package, other, architecture));
    }
    Ok(())
}

fn files(listed: &str) -> Result<String> {
    let listed: Vec<&str> = listed.lines().collect();
    for needed in [
        "/usr/bin/hospes",
        "/usr/lib/systemd/user/hospes.service",
        "/usr/share/bash-completion/completions/hospes",
        "/usr/share/doc/hospes/changelog.Debian.gz",
        "/usr/share/doc/hospes/copyright",
        "/usr/share/fish/vendor_completions.d/hospes.fish",
        "/usr/share/man/man1/hospes-up.1.gz",
        "/usr/share/man/man1/hospes.1.gz",
        "/usr/share/zsh/vendor-completions/_hospes",
    ] {
        ensure!(listed.contains(&needed), "no {needed}");
    }
    Ok(format!("{} paths", listed.len()))
}

fn control(bench: &Bench, package: &Path, architecture: &str, own: &str) -> Result<String> {
    let mut show = command("dpkg-deb", ["--field"]);
    show.arg(package);
    let fields = bench.run(show, &bench.folder, "dpkg-deb --field")?.stdout;
    contains(&fields, &format!("Architecture: {architecture}\n"))?;
    contains(&fields, "Recommends: bubblewrap\n")?;
    // The stand-ins are static, and the debug program is not.
    let has_libc = fields.contains("Depends: libc6 (>= 2.");
    ensure!(has_libc == (architecture == own), "the dependencies in {fields}");
    Ok(String::new())
}
