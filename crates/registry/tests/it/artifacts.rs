//! Hashes of packages, and downloads of bundles.

use hospes_registry::{ArtifactClient, ArtifactError, PackageRegistries, RegistryPackage, ServerEntry};
use hospes_registry_testkit::{RegistryServer, sha256_hex};
use serde_json::{Value, json};

fn client(server: &RegistryServer) -> ArtifactClient {
    let mut registries = PackageRegistries::default();
    registries.npm = server.npm_url();
    registries.pypi = server.pypi_url();
    registries.cargo = server.url();
    registries.go = Some(server.url());
    registries.go_proxy = Some(server.url());
    registries.plain_image_hosts = vec![server.image_host()];
    registries.local_bundles = true;
    ArtifactClient::new(registries)
}

fn package(value: &Value) -> RegistryPackage {
    let entry = json!({ "name": "a.b/c", "description": "x", "version": "1", "packages": [value] });
    ServerEntry::from_value(entry).unwrap().packages.remove(0)
}

fn of(kind: &str, identifier: &str, version: &str) -> RegistryPackage {
    package(&json!({ "registryType": kind, "identifier": identifier, "version": version }))
}

#[tokio::test]
async fn packages_have_the_hash_of_their_registry() {
    let server = RegistryServer::start();
    let client = client(&server);
    let npm = client.resolve(&of("npm", "loopback-clock", "1.0.0")).await.unwrap();
    assert!(npm.digest.as_ref().unwrap().starts_with("sha512-"), "{npm:?}");
    assert!(npm.url.unwrap().ends_with("/loopback-clock/-/loopback-clock-1.0.0.tgz"));
    let pypi = client.resolve(&of("pypi", "loopback-clock", "1.1.0")).await.unwrap();
    assert!(pypi.digest.as_ref().unwrap().starts_with("sha256:"), "{pypi:?}");
    assert_eq!((pypi.files.len(), pypi.version.as_deref()), (1, Some("1.1.0")));
    let hash = "ab".repeat(32);
    let line = |version: &str, yanked| json!({ "name": "my-crate", "vers": version, "cksum": hash, "yanked": yanked });
    server.add_file("my/-c/my-crate", format!("{}\n{}\n", line("1.0.0", false), line("1.1.0", true)));
    let found = client.resolve(&of("cargo", "my-crate", "1.0.0")).await.unwrap();
    assert_eq!(found.digest, Some(format!("sha256:{hash}")));
    assert!(matches!(
        client.resolve(&of("cargo", "my-crate", "1.1.0")).await,
        Err(ArtifactError::NotFound { .. })
    ));
    server.add_file(
        "lookup/github.com/!up/mod@v1.2.3",
        "77\ngithub.com/Up/mod v1.2.3 h1:AAAA=\ngithub.com/Up/mod v1.2.3/go.mod h1:BBBB=\n",
    );
    let go = client.resolve(&of("go", "github.com/Up/mod", "1.2.3")).await.unwrap();
    assert_eq!(go.digest.as_deref(), Some("h1:AAAA="));
    // A package below the module, and the newest version of it.
    let command = client.resolve(&of("go", "github.com/Up/mod/cmd/server", "v1.2.3")).await.unwrap();
    assert_eq!(command.digest.as_deref(), Some("h1:AAAA="));
    server.add_file("github.com/!up/mod/@latest", r#"{"Version":"v1.2.3"}"#);
    let mut newest = of("go", "github.com/Up/mod/cmd/server", "1");
    newest.version = None;
    let newest = client.resolve(&newest).await.unwrap();
    assert_eq!((newest.version.as_deref(), newest.digest.as_deref()), (Some("v1.2.3"), Some("h1:AAAA=")));
    let nuget = client.resolve(&of("nuget", "X.Y", "1.0.0")).await.unwrap();
    assert!(nuget.digest.is_none() && nuget.without_digest.is_some());
    for (kind, identifier) in [("npm", "no-such"), ("pypi", "no-such"), ("cargo", "no-such"), ("go", "a.b/c")]
    {
        let error = client.resolve(&of(kind, identifier, "1.0.0")).await.unwrap_err();
        assert!(matches!(error, ArtifactError::NotFound { .. }), "{error}");
    }
}

#[tokio::test]
async fn an_image_is_resolved_to_its_digest_without_an_account() {
    let server = RegistryServer::start();
    let image = |tag: &str| {
        package(
            &json!({ "registryType": "oci", "identifier": format!("{}/loopback/clock:{tag}", server.image_host()) }),
        )
    };
    let found = client(&server).resolve(&image("1.0.0")).await.unwrap();
    assert_eq!(found.digest, Some(RegistryServer::image_digest()));
    let error = client(&server).resolve(&image("2.0.0")).await.unwrap_err();
    assert!(matches!(error, ArtifactError::NotFound { .. }), "{error}");
    let pinned = package(
        &json!({ "registryType": "oci", "identifier": format!("ghcr.io/a/b@sha256:{}", "ab".repeat(32)) }),
    );
    let found = client(&server).resolve(&pinned).await.unwrap();
    assert_eq!(found.digest, Some(format!("sha256:{}", "ab".repeat(32))), "a digest needs no request");
}

#[tokio::test]
async fn an_entry_cannot_name_a_registry_on_this_machine() {
    let server = RegistryServer::start();
    let other = RegistryServer::start();
    let mut named = of("npm", "loopback-clock", "1.0.0");
    named.registry_base_url = Some(other.npm_url());
    let error = client(&server).resolve(&named).await.unwrap_err().to_string();
    assert!(error.contains("not allowed"), "{error}");
    named.registry_base_url = Some(server.npm_url());
    assert!(client(&server).resolve(&named).await.is_ok(), "the configured one may be here");
    assert_eq!(other.requests(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_bundle_is_downloaded_and_checked() {
    let server = RegistryServer::start();
    let content = "x".repeat(3_000_000);
    let url = server.add_file("big.mcpb", content.clone());
    let bundle = |url: &str, hash: &str| {
        package(&json!({ "registryType": "mcpb", "identifier": url, "fileSha256": hash }))
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("big.mcpb");
    let mut seen = Vec::new();
    let right = bundle(&url, &sha256_hex(content.as_bytes()));
    let done = client(&server).download_bundle(&right, &file, |progress| seen.push(progress)).await.unwrap();
    assert_eq!((done.bytes, std::fs::read(&file).unwrap().len()), (3_000_000, 3_000_000));
    assert_eq!(
        seen.last().map(|progress| (progress.bytes, progress.total)),
        Some((3_000_000, Some(3_000_000)))
    );
    assert!(seen.windows(2).all(|pair| pair[0].bytes <= pair[1].bytes));
    std::fs::remove_file(&file).unwrap();

    let wrong = bundle(&url, &"ab".repeat(32));
    let error = client(&server).download_bundle(&wrong, &file, |_| {}).await.unwrap_err();
    assert!(matches!(error, ArtifactError::WrongHash { .. }), "{error}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "nothing stays: {left:?}");

    let mut unhashed = right.clone();
    unhashed.file_sha256 = None;
    let error = client(&server).download_bundle(&unhashed, &file, |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("no `fileSha256`"), "{error}");
    let missing = bundle(&server.file_url("none"), &"ab".repeat(32));
    let error = client(&server).download_bundle(&missing, &file, |_| {}).await.unwrap_err();
    assert!(matches!(error, ArtifactError::NotFound { .. }), "{error}");
    // Releases are stored elsewhere.
    let redirected = bundle(&format!("{}/redirect/big.mcpb", server.url()), &sha256_hex(content.as_bytes()));
    assert!(client(&server).download_bundle(&redirected, &file, |_| {}).await.is_ok());
    let nowhere = folder.path().join("no/such/folder/x.mcpb");
    let error = client(&server).download_bundle(&right, &nowhere, |_| {}).await.unwrap_err();
    assert!(matches!(error, ArtifactError::Write { .. }), "{error}");
}

#[tokio::test]
async fn bundles_of_this_machine_are_refused_by_default() {
    let server = RegistryServer::start();
    let url = server.add_file("x.mcpb", "x");
    let bundle =
        package(&json!({ "registryType": "mcpb", "identifier": url, "fileSha256": sha256_hex(b"x") }));
    let folder = tempfile::tempdir().unwrap();
    let client = ArtifactClient::new(PackageRegistries::default());
    let error =
        client.download_bundle(&bundle, &folder.path().join("x"), |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("not allowed"), "{error}");
    assert_eq!(server.requests(), [] as [&str; 0]);
}
