//! The container image: built without a daemon, and run in a chroot.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Bench, LIMIT, command, contains, equals, upgrades_by};
use crate::checks::CheckList;
use crate::process;

/// Folders with the libraries of this machine. They stand in for those of the base image.
const LIBRARIES: [&str; 3] = ["/lib", "/lib64", "/usr/lib"];

pub(super) fn examine(bench: &Bench, checks: &mut CheckList) -> Result<()> {
    let home = bench.home("container")?;
    let buildah = |arguments: &[&str]| {
        let mut buildah = command("buildah", ["--storage-driver", "vfs"]);
        buildah
            .arg("--root")
            .arg(home.join("storage"))
            .arg("--runroot")
            .arg(home.join("run"))
            .args(arguments);
        buildah
    };
    let run = |arguments: &[&str]| {
        let mut command = buildah(arguments);
        bench.isolate(&mut command, &home);
        process::run(command, "installs buildah", LIMIT)?.success().with_context(|| arguments.join(" "))
    };
    let context = bench.release.folder.join("container");
    let file = context.join("Containerfile");
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    run(&[
        "bud",
        "--isolation",
        "chroot",
        "--build-arg",
        &format!("TARGETARCH={architecture}"),
        // The base of a release cannot be fetched everywhere.
        "--build-arg",
        "BASE=scratch",
        "--tag",
        "hospes",
        "--file",
        &file.to_string_lossy(),
        &context.to_string_lossy(),
    ])?;
    let shown: Value = serde_json::from_str(&run(&["inspect", "--type", "image", "hospes"])?.stdout)?;
    checks.add("container: settings of the image", settings(&shown["OCIv1"]["config"]));

    let container = run(&["from", "--pull-never", "hospes"])?.stdout.trim().to_owned();
    let inside = |arguments: &[&str]| {
        let volumes = LIBRARIES.map(|folder| format!("{folder}:{folder}:ro"));
        let mut all = vec!["run", "--isolation", "chroot"];
        for volume in volumes
            .iter()
            .filter(|volume| std::path::Path::new(volume.split(':').next().unwrap_or_default()).exists())
        {
            all.extend(["--volume", volume]);
        }
        all.extend([container.as_str(), "--", "/usr/bin/hospes"]);
        all.extend(arguments);
        Ok::<_, anyhow::Error>(run(&all)?.stdout)
    };
    let version = format!("hospes {}", bench.release.version);
    checks.add("container: --version", inside(&["--version"]).and_then(|said| equals(said.trim(), &version)));
    checks.add(
        "container: a tool called",
        inside(&["call", "time", "now"]).and_then(|said| contains(&said, "\"timezone\"")),
    );
    let advice = "pull the newest image and create the container again; its volume keeps the state";
    checks.add(
        "container: upgrade",
        inside(&["--json", "upgrade"]).and_then(|said| upgrades_by(&said, advice)),
    );
    Ok(())
}

fn settings(config: &Value) -> Result<String> {
    ensure!(config["User"] == "65532:65532", "the user is {}", config["User"]);
    ensure!(
        config["ExposedPorts"].get("7337").or_else(|| config["ExposedPorts"].get("7337/tcp")).is_some(),
        "{}",
        config["ExposedPorts"]
    );
    ensure!(config["Volumes"].get("/data").is_some(), "the volumes are {}", config["Volumes"]);
    let name = &config["Labels"]["io.modelcontextprotocol.server.name"];
    ensure!(name.as_str().is_some_and(|name| name.contains('/')), "the label is {name}");
    Ok(name.to_string())
}
