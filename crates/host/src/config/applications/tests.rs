//! Places of all applications on all systems, as the applications document them.

use std::path::{Path, PathBuf};

use super::SystemKind::{Linux, MacOs, Windows};
use super::*;

/// Paths of an application: those of the user on Linux, macOS and Windows, and those of a project. `*` before a path means
/// that it is only read. Paths of the user begin in the home folder, those of a project in its folder.
struct DocumentedPaths {
    id: &'static str,
    user: [&'static [&'static str]; 3],
    project: &'static [&'static str],
}

const fn row(
    id: &'static str,
    user: [&'static [&'static str]; 3],
    project: &'static [&'static str],
) -> DocumentedPaths {
    DocumentedPaths { id, user, project }
}

/// Paths that are the same on all systems.
const fn same(paths: &'static [&'static str]) -> [&'static [&'static str]; 3] {
    [paths; 3]
}

/// Paths below the folder of settings of VS Code and its relatives.
macro_rules! code {
    ($base:literal) => {
        &[
            concat!($base, "Code/User/mcp.json"),
            concat!("*", $base, "Code/User/profiles/1f/mcp.json"),
            concat!("*", $base, "Code/User/settings.json"),
            concat!($base, "Code - Insiders/User/mcp.json"),
            concat!("*", $base, "Code - Insiders/User/profiles/1f/mcp.json"),
            concat!("*", $base, "Code - Insiders/User/settings.json"),
            concat!($base, "VSCodium/User/mcp.json"),
            concat!("*", $base, "VSCodium/User/profiles/1f/mcp.json"),
            concat!("*", $base, "VSCodium/User/settings.json"),
        ]
    };
}

macro_rules! cline {
    ($base:literal) => {
        &[
            ".cline/data/settings/cline_mcp_settings.json",
            concat!($base, "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
        ]
    };
}

fn documented() -> Vec<DocumentedPaths> {
    let opencode: &[&str] = &[".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"];
    let opencode_project: &[&str] =
        &["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"];
    vec![
        row(
            "claude-desktop",
            [
                &[".config/Claude/claude_desktop_config.json"],
                &["Library/Application Support/Claude/claude_desktop_config.json"],
                &[
                    "AppData/Local/Packages/Claude_x1/LocalCache/Roaming/Claude/claude_desktop_config.json",
                    "AppData/Roaming/Claude/claude_desktop_config.json",
                ],
            ],
            &[],
        ),
        row("claude-code", same(&[".claude.json"]), &[".mcp.json"]),
        row(
            "vscode",
            [code!(".config/"), code!("Library/Application Support/"), code!("AppData/Roaming/")],
            &[".vscode/mcp.json", "*.vscode/settings.json"],
        ),
        row("copilot-cli", same(&[".copilot/mcp-config.json"]), &[".github/mcp.json"]),
        row("cursor", same(&[".cursor/mcp.json"]), &[".cursor/mcp.json"]),
        row("codex", same(&[".codex/config.toml"]), &[".codex/config.toml"]),
        row("gemini", same(&[".gemini/settings.json"]), &[".gemini/settings.json"]),
        row(
            "antigravity",
            same(&[
                ".gemini/config/mcp_config.json",
                ".gemini/antigravity-cli/mcp_config.json",
                ".gemini/antigravity/mcp_config.json",
            ]),
            &[".agents/mcp_config.json"],
        ),
        row("windsurf", same(&[".codeium/windsurf/mcp_config.json"]), &[]),
        row(
            "devin",
            [
                &[".config/devin/config.json"],
                &[".config/devin/config.json"],
                &["AppData/Roaming/devin/config.json"],
            ],
            &[".devin/config.json", ".devin/config.local.json"],
        ),
        row(
            "zed",
            [
                &[".config/zed/settings.json"],
                &[".config/zed/settings.json"],
                &["AppData/Roaming/Zed/settings.json"],
            ],
            &[".zed/settings.json"],
        ),
        row(
            "goose",
            [
                &[".config/goose/config.yaml"],
                &[".config/goose/config.yaml"],
                &["AppData/Roaming/Block/goose/config/config.yaml"],
            ],
            &[],
        ),
        row("opencode", same(opencode), opencode_project),
        row("opencode2", same(opencode), opencode_project),
        row(
            "continue",
            same(&[".continue/config.yaml"]),
            &[
                ".continue/mcpServers/hospes.yaml",
                "*.continue/mcpServers/a.yaml",
                "*.continue/mcpServers/b.json",
            ],
        ),
        row("kiro", same(&[".kiro/settings/mcp.json"]), &[".kiro/settings/mcp.json"]),
        row(
            "cline",
            [cline!(".config/"), cline!("Library/Application Support/"), cline!("AppData/Roaming/")],
            &[],
        ),
        row(
            "lmstudio",
            [
                &[".lmstudio/mcp.json"],
                &[".lmstudio/mcp.json", ".cache/lm-studio/mcp.json"],
                &[".lmstudio/mcp.json"],
            ],
            &[],
        ),
        row("crush", same(&[".config/crush/crush.json"]), &["crush.json", ".crush.json"]),
        row("warp", same(&[".warp/.mcp.json"]), &[".warp/.mcp.json"]),
    ]
}

/// A home folder and a project with what patterns are matched against.
fn folders_with_matches() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let create = |path: &str| std::fs::create_dir_all(root.path().join(path)).unwrap();
    for base in [".config", "Library/Application Support", "AppData/Roaming"] {
        for product in ["Code", "Code - Insiders", "VSCodium"] {
            create(&format!("home/{base}/{product}/User/profiles/1f"));
        }
    }
    create("home/AppData/Local/Packages/Claude_x1");
    create("home/AppData/Local/Packages/Other_x1");
    create("work/.continue/mcpServers");
    for file in ["a.yaml", "b.json", "c.txt"] {
        std::fs::write(root.path().join("work/.continue/mcpServers").join(file), "").unwrap();
    }
    root
}

#[test]
fn all_applications_have_the_places_that_they_document() {
    let root = folders_with_matches();
    let (home, project) = (root.path().join("home"), root.path().join("work"));
    let documented = documented();
    let ids: Vec<&str> = APPLICATIONS.iter().map(|application| application.id).collect();
    assert_eq!(documented.iter().map(|row| row.id).collect::<Vec<_>>(), ids);
    for (index, system) in [Linux, MacOs, Windows].into_iter().enumerate() {
        let folders = ApplicationFolders::new(system, &home, |_| None).project(&project);
        for DocumentedPaths { id, user, project: of_project } in &documented {
            let application = Application::find(id).unwrap();
            let found = folders.paths(application);
            for (scope, base, expected) in
                [(PlaceScope::User, &home, user[index]), (PlaceScope::Project, &project, *of_project)]
            {
                let of_scope = found.iter().filter(|file| file.scope == scope);
                let paths: Vec<&Path> = of_scope.map(|file| file.path.strip_prefix(base).unwrap()).collect();
                let all: Vec<&Path> =
                    expected.iter().map(|path| Path::new(path.trim_start_matches('*'))).collect();
                assert_eq!(paths, all, "{id} on {system:?}, {scope:?}");
                check_edited(&folders, application, scope, base, expected);
            }
        }
    }
}

/// Checks that servers are added to each place, if it is the only one that exists, unless it is only read.
fn check_edited(
    folders: &ApplicationFolders<'_>,
    application: &'static Application,
    scope: PlaceScope,
    base: &Path,
    expected: &[&str],
) {
    let edited = || folders.file_to_edit(application, scope).map(|file| file.path);
    let first = expected.iter().find(|path| !path.starts_with('*'));
    assert_eq!(edited().is_some(), first.is_some(), "{}", application.id);
    for place in expected {
        let file = base.join(place.trim_start_matches('*'));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let is_there = file.exists();
        std::fs::write(&file, "").unwrap();
        let is_chosen = edited() == Some(file.clone());
        assert_eq!(is_chosen, !place.starts_with('*'), "{}: {}", application.id, file.display());
        if !is_there {
            std::fs::remove_file(&file).unwrap();
        }
    }
}

#[test]
fn variables_name_files_and_folders_of_applications() {
    let profile = "C:/Users/me";
    for (system, home, name, value, id, expected) in [
        (Linux, "/home/me", "CODEX_HOME", "/x", "codex", "/x/config.toml"),
        (MacOs, "/Users/me", "COPILOT_HOME", "/x", "copilot-cli", "/x/mcp-config.json"),
        (Linux, "/home/me", "OPENCODE_CONFIG", "/x/my.jsonc", "opencode", "/x/my.jsonc"),
        (Linux, "/home/me", "OPENCODE_CONFIG", "/x/my.jsonc", "opencode2", "/x/my.jsonc"),
        (Linux, "/home/me", "CLINE_MCP_SETTINGS_PATH", "/x/cline.json", "cline", "/x/cline.json"),
        (
            Linux,
            "/home/me",
            "XDG_CONFIG_HOME",
            "/x",
            "claude-desktop",
            "/x/Claude/claude_desktop_config.json",
        ),
        (Linux, "/home/me", "XDG_CONFIG_HOME", "/x", "vscode", "/x/Code/User/mcp.json"),
        (Linux, "/home/me", "XDG_CONFIG_HOME", "/x", "devin", "/x/devin/config.json"),
        (Linux, "/home/me", "XDG_CONFIG_HOME", "/x", "zed", "/x/zed/settings.json"),
        (Linux, "/home/me", "XDG_CONFIG_HOME", "/x", "goose", "/x/goose/config.yaml"),
        (Linux, "/home/me", "XDG_CONFIG_HOME", "/x", "opencode", "/x/opencode/opencode.json"),
        (Linux, "/home/me", "XDG_CONFIG_HOME", "/x", "crush", "/x/crush/crush.json"),
        (Windows, profile, "CODEX_HOME", "D:\\x", "codex", "D:\\x/config.toml"),
        (Windows, profile, "APPDATA", "D:/x", "claude-desktop", "D:/x/Claude/claude_desktop_config.json"),
        (Windows, profile, "APPDATA", "\\\\host\\x", "vscode", "\\\\host\\x/Code/User/mcp.json"),
        (Windows, profile, "APPDATA", "D:/x", "goose", "D:/x/Block/goose/config/config.yaml"),
    ] {
        let paths = |value: &'static str| {
            let variable = move |asked: &str| (asked == name).then(|| value.to_owned());
            let folders = ApplicationFolders::new(system, home, variable);
            let files = folders.paths(Application::find(id).unwrap()).into_iter();
            files.map(|file| file.path).collect::<Vec<PathBuf>>()
        };
        assert_eq!(paths(value)[0], Path::new(expected), "{id}");
        // A relative value would depend on the folder in which a command runs.
        for path in paths("x") {
            assert!(path.starts_with(home), "{id}: {}", path.display());
        }
    }
    // The usual folder is found, too.
    let folders = ApplicationFolders::new(Linux, "/home/me", |_| Some("/x".to_owned()));
    let files = folders.paths(Application::find("codex").unwrap());
    assert_eq!(files[1].path, Path::new("/home/me/.codex/config.toml"));
}
