//! Variables of the host that launchers of packages get: where packages come from, and the way through the network.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Variables of the network, which every launcher gets, in upper or in lower case.
const NETWORK: [&str; 4] = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"];
/// Trusted certificate authorities.
const AUTHORITIES: [&str; 2] = ["SSL_CERT_DIR", "SSL_CERT_FILE"];

/// Settings of npm (`npm_config_…`) about where packages come from and how they are fetched. Others, such as `script-shell`
/// or `package`, would also come from an `npm` that has started the host, and would change what is run.
const NPM_SETTINGS: [&str; 19] = [
    "ca",
    "cache",
    "cafile",
    "fetch_retries",
    "fetch_retry_maxtimeout",
    "fetch_retry_mintimeout",
    "fetch_timeout",
    "globalconfig",
    "https_proxy",
    "ignore_scripts",
    "maxsockets",
    "noproxy",
    "offline",
    "prefer_offline",
    "proxy",
    "registry",
    "strict_ssl",
    "update_notifier",
    "userconfig",
];

/// Launchers of one kind, and the variables of that kind.
struct LauncherKind {
    programs: &'static [&'static str],
    variables: &'static [&'static str],
    /// True if the settings of npm are theirs, too.
    uses_npm: bool,
}

const KINDS: [LauncherKind; 5] = [
    LauncherKind {
        programs: &["npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno"],
        variables: &["BUN_CONFIG_REGISTRY", "DENO_CERT", "NODE_EXTRA_CA_CERTS", "NPM_REGISTRY"],
        uses_npm: true,
    },
    LauncherKind {
        programs: &["uv", "uvx"],
        variables: &[
            "UV_CACHE_DIR",
            "UV_CONFIG_FILE",
            "UV_DEFAULT_INDEX",
            "UV_EXTRA_INDEX_URL",
            "UV_FIND_LINKS",
            "UV_HTTP_TIMEOUT",
            "UV_INDEX",
            "UV_INDEX_STRATEGY",
            "UV_INDEX_URL",
            "UV_INSECURE_HOST",
            "UV_NATIVE_TLS",
            "UV_NO_INDEX",
            "UV_OFFLINE",
            "UV_PYTHON_DOWNLOADS",
            "UV_PYTHON_INSTALL_MIRROR",
            "UV_SYSTEM_CERTS",
        ],
        uses_npm: false,
    },
    LauncherKind {
        programs: &["pip", "pip3", "pipx"],
        variables: &[
            "CURL_CA_BUNDLE",
            "PIP_CERT",
            "PIP_CONFIG_FILE",
            "PIP_EXTRA_INDEX_URL",
            "PIP_FIND_LINKS",
            "PIP_INDEX_URL",
            "PIP_NO_INDEX",
            "PIP_PROXY",
            "PIP_TRUSTED_HOST",
            "REQUESTS_CA_BUNDLE",
        ],
        uses_npm: false,
    },
    LauncherKind {
        programs: &["docker", "podman", "nerdctl"],
        variables: &[
            "CONTAINER_HOST",
            "DOCKER_CERT_PATH",
            "DOCKER_CONFIG",
            "DOCKER_CONTEXT",
            "DOCKER_DEFAULT_PLATFORM",
            "DOCKER_HOST",
            "DOCKER_TLS_VERIFY",
        ],
        uses_npm: false,
    },
    LauncherKind { programs: &["dnx"], variables: &[], uses_npm: false },
];

impl LauncherKind {
    fn of(program: &OsStr) -> Option<&'static Self> {
        // On Windows they are scripts, such as `npx.cmd`.
        let stem = Path::new(program).file_stem()?.to_str()?;
        KINDS.iter().find(|kind| kind.programs.contains(&stem))
    }

    /// Returns true if launchers of this kind get the variable.
    fn has(&self, name: &str) -> bool {
        let upper = name.to_ascii_uppercase();
        let is_network =
            NETWORK.contains(&upper.as_str()) && (name == upper || name == upper.to_ascii_lowercase());
        is_network
            || AUTHORITIES.contains(&name)
            || self.variables.contains(&name)
            || self.uses_npm && is_npm_setting(name)
    }
}

/// Returns true for `npm_config_NAME` of a setting that is handed on. npm ignores the case, and takes `-` for `_`.
fn is_npm_setting(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let Some(setting) = name.strip_prefix("npm_config_") else { return false };
    NPM_SETTINGS.contains(&setting) || setting.starts_with('@') && setting.ends_with(":registry")
}

/// Returns the variables of this process that a launcher of packages (`npx`, `uvx`, `docker` …) gets besides those of every
/// server. Another program gets none.
///
/// A value with a user name, a password or a query in a URL is left out: the server would get it, too. An entry that wants it
/// names it in `env`.
#[must_use]
pub fn launcher_variables(program: &OsStr) -> Vec<(OsString, OsString)> {
    variables_for(program, std::env::vars_os())
}

fn variables_for(
    program: &OsStr,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let Some(kind) = LauncherKind::of(program) else { return Vec::new() };
    let mut found: Vec<(OsString, OsString)> = variables
        .filter(|(name, value)| {
            let Some(name) = name.to_str().filter(|name| kind.has(name)) else { return false };
            let is_secret = may_hold_secret(name, &value.to_string_lossy());
            if is_secret {
                tracing::info!(
                    variable = name,
                    "not given to the launcher: its value has a user name, a password or a query; `env` of the entry can name it"
                );
            }
            !is_secret
        })
        .collect();
    // The order of the environment is that of chance.
    found.sort();
    found
}

/// Returns true if a URL in the value has user information or a query. The user name of `ssh://` is no secret.
fn may_hold_secret(name: &str, value: &str) -> bool {
    let is_proxy = name.to_ascii_uppercase().ends_with("PROXY");
    value.split([' ', ',', '\n', '\t']).any(|word| {
        let rest = match word.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("ssh") => return false,
            Some((_, rest)) => rest,
            // A proxy may be written without its scheme: `user:password@host:3128`.
            None if is_proxy => word,
            None => return false,
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.contains('@') || rest.contains('?')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(program: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let found = variables_for(OsStr::new(program), variables);
        found.into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_launcher_gets_the_variables_of_its_kind() {
        let all = [
            ("API_KEY", "1"),
            ("DOCKER_HOST", "ssh://me@build.example"),
            ("HTTPS_PROXY", "http://proxy.example:3128"),
            ("NODE_EXTRA_CA_CERTS", "/etc/ca.pem"),
            ("NODE_OPTIONS", "--require=/tmp/x.js"),
            ("NPM_CONFIG_@ACME:REGISTRY", "https://npm.acme.example"),
            ("NPM_CONFIG_STRICT_SSL", "false"),
            ("NPM_CONFIG__AUTHTOKEN", "secret"),
            ("PIP_INDEX_URL", "https://pypi.example/simple"),
            ("SSL_CERT_FILE", "/etc/ca.pem"),
            ("UV_DEFAULT_INDEX", "https://pypi.example/simple"),
            ("no_proxy", "localhost"),
            ("npm_config_package", "hospes"),
            ("npm_config_registry", "http://127.0.0.1:4873"),
            ("npm_config_script_shell", "/tmp/x"),
        ];
        let network = ["HTTPS_PROXY", "SSL_CERT_FILE", "no_proxy"];
        for (program, own) in [
            (
                "npx",
                &[
                    "NODE_EXTRA_CA_CERTS",
                    "NPM_CONFIG_@ACME:REGISTRY",
                    "NPM_CONFIG_STRICT_SSL",
                    "npm_config_registry",
                ][..],
            ),
            (
                "/usr/bin/npx.cmd",
                &[
                    "NODE_EXTRA_CA_CERTS",
                    "NPM_CONFIG_@ACME:REGISTRY",
                    "NPM_CONFIG_STRICT_SSL",
                    "npm_config_registry",
                ],
            ),
            ("uvx", &["UV_DEFAULT_INDEX"]),
            ("pipx", &["PIP_INDEX_URL"]),
            ("docker", &["DOCKER_HOST"]),
            ("dnx", &[]),
        ] {
            let mut expected: Vec<&str> = network.into_iter().chain(own.iter().copied()).collect();
            expected.sort_unstable();
            assert_eq!(names(program, &all), expected, "{program}");
        }
        for program in ["node", "python3", "my-server", "npx-of-mine"] {
            assert_eq!(names(program, &all), [""; 0], "{program}");
        }
    }

    #[test]
    fn a_value_that_may_have_a_secret_is_left_out() {
        for (name, value, is_given) in [
            ("npm_config_registry", "https://npm.example/a@b", true),
            ("npm_config_registry", "https://me:s3cret@npm.example/", false),
            ("npm_config_registry", "https://s3cret@npm.example", false),
            ("npm_config_registry", "https://npm.example/?key=s3cret", false),
            ("npm_config_cache", "/home/me@work/.npm", true),
            ("HTTPS_PROXY", "me:s3cret@proxy.example:3128", false),
            ("https_proxy", "proxy.example:3128", true),
            ("npm_config_https_proxy", "me:s3cret@proxy.example:3128", false),
        ] {
            assert_eq!(!names("npx", &[(name, value)]).is_empty(), is_given, "{name}={value}");
        }
        assert_eq!(
            names("uvx", &[("UV_INDEX", "a=https://a.example b=https://me:s3cret@b.example")]),
            [""; 0]
        );
    }
}
