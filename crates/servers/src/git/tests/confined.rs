//! Repositories of which a part lies elsewhere.

use std::os::unix::fs::symlink;

use super::*;

async fn is_refused(house: &House, repository: &str) {
    let server = house.reading();
    for tool in ["status", "diff", "log", "show", "branches"] {
        let why = refusal(&server, tool, json!({ "repository": repository })).await;
        let is_outside = why.contains("outside the served folders") || why.contains("not a git repository");
        assert!(is_outside, "{tool} {repository}: {why}");
        assert!(!why.contains("the key"), "{why}");
    }
}

/// covers: RES-27
#[tokio::test]
async fn what_lies_elsewhere_is_not_served() {
    let house = House::new();
    symlink(house.at("elsewhere"), house.at("served/link")).unwrap();
    for repository in [
        "../elsewhere".to_owned(),
        "link".to_owned(),
        house.at("elsewhere"),
        house.at("served/../elsewhere"),
        format!("file://{}", house.at("served/%2e%2e/elsewhere")),
        "/".to_owned(),
    ] {
        is_refused(&house, &repository).await;
    }
    // `.git` elsewhere, by a file and by a link.
    fs::create_dir_all(house.at("served/by-file")).unwrap();
    house.write("served/by-file/.git", &format!("gitdir: {}\n", house.at("elsewhere/.git")));
    fs::create_dir_all(house.at("served/by-link")).unwrap();
    symlink(house.at("elsewhere/.git"), house.at("served/by-link/.git")).unwrap();
    // A working tree whose repository is elsewhere.
    let tree = house.at("served/tree");
    house.git("elsewhere", &["worktree", "add", "--quiet", &tree, "-b", "tree"]);
    for repository in ["by-file", "by-link", "tree"] {
        is_refused(&house, repository).await;
    }
}

#[tokio::test]
async fn a_repository_that_reaches_elsewhere_is_not_served() {
    let house = House::new();
    let again = |name: &str| {
        house.git("served", &["clone", "--quiet", "--no-hardlinks", &house.at("served/code"), name]);
    };
    again("worktree");
    house.git("served/worktree", &["config", "core.worktree", &house.at("elsewhere")]);
    again("alternates");
    house.write(
        "served/alternates/.git/objects/info/alternates",
        &format!("{}\n", house.at("elsewhere/.git/objects")),
    );
    again("by-two");
    house.write("served/by-two/.git/objects/info/alternates", "../../../alternates/.git/objects\n");
    again("objects");
    fs::remove_dir_all(house.at("served/objects/.git/objects")).unwrap();
    symlink(house.at("elsewhere/.git/objects"), house.at("served/objects/.git/objects")).unwrap();
    again("head");
    fs::remove_file(house.at("served/head/.git/HEAD")).unwrap();
    symlink(house.at("elsewhere/.git/HEAD"), house.at("served/head/.git/HEAD")).unwrap();
    for repository in ["worktree", "alternates", "by-two", "objects", "head"] {
        is_refused(&house, repository).await;
    }
    // Among themselves they may borrow.
    again("inside");
    house.write("served/inside/.git/objects/info/alternates", "../../../code/.git/objects\n");
    done(&house.reading(), "status", json!({ "repository": "inside" })).await;
    let tree = house.at("served/tree");
    house.git("served/code", &["worktree", "add", "--quiet", &tree, "-b", "tree"]);
    assert_eq!(done(&house.reading(), "status", json!({ "repository": "tree" })).await["branch"], "tree");
}

/// A folder in a repository that is above what is served.
#[tokio::test]
async fn a_repository_above_is_not_found() {
    let house = House::new();
    let server = git(GitConfig::new([house.at("served/code/docs")])).unwrap();
    let why = refusal(&server, "status", json!({})).await;
    assert!(why.contains("not a git repository"), "{why}");
}

/// A folder in a repository that looks like a bare repository and has its own configuration.
#[tokio::test]
async fn a_bare_repository_is_not_taken_for_one() {
    let house = House::new();
    house.git("served/code", &["clone", "--quiet", "--bare", &house.at("elsewhere"), "bare"]);
    let why = refusal(&house.reading(), "log", json!({ "repository": "code/bare" })).await;
    assert!(why.contains("bare repository"), "{why}");
}

/// Git does not trust repositories of another owner, and neither does this server.
#[tokio::test]
async fn somebody_elses_repository_is_refused() {
    let house = House::new();
    let folder = house.at("served/code");
    if !rustix::process::geteuid().is_root() {
        eprintln!("not run: only the administrator can give a repository away");
        return;
    }
    for path in [folder.clone(), format!("{folder}/.git")] {
        std::os::unix::fs::chown(path, Some(12345), None).unwrap();
    }
    let why = refusal(&house.reading(), "status", code(json!({}))).await;
    assert!(why.contains("dubious ownership"), "{why}");
}

/// covers: ROOT-12 ROOT-13
#[tokio::test]
async fn without_folders_the_clients_roots_are_served() {
    let house = House::new();
    let server = git(GitConfig::of_client()).unwrap();
    let why = refusal(&server, "status", json!({})).await;
    assert!(why.contains("the client provides no roots"), "{why}");
    let status = async |root: &str, repository: &str| {
        let arguments = json!({ "repository": repository });
        let params = json!({ "name": "status", "arguments": arguments });
        crate::testing::within(&server, &params, &[format!("file://{root}")]).await
    };
    let inside = status(&house.at("served"), "code").await;
    assert_eq!(inside["structuredContent"]["branch"], "main", "{inside}");
    let outside = status(&house.at("served"), &house.at("elsewhere")).await;
    assert_eq!(outside["isError"], true, "{outside}");
    assert_eq!(status(&house.at("absent"), "code").await["isError"], true);
}
