//! Environment variables that determine which code a program loads.

/// Environment variables that decide which code runs, regardless of the command line. In upper case.
const NAMES: [&str; 33] = [
    "BASH_ENV",
    "CLASSPATH",
    "ENV",
    "GCONV_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NPM_CONFIG_REGISTRY",
    "NPM_CONFIG_SCRIPT_SHELL",
    "NPM_CONFIG_USERCONFIG",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "RUSTC_WRAPPER",
    "SHELLOPTS",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
];

/// Returns true if a variable of this name decides which code a program loads (`LD_PRELOAD`, `NODE_OPTIONS`), or where
/// it gets code from (`UV_INDEX_URL`).
#[must_use]
pub fn is_loader_variable(name: &str) -> bool {
    // npm ignores the case of its variables.
    let name = name.to_ascii_uppercase();
    name.starts_with("LD_") || name.starts_with("DYLD_") || NAMES.binary_search(&name.as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_about_code_is_known_in_any_case() {
        assert!(NAMES.is_sorted());
        let loads = ["LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH"];
        assert!(
            loads.into_iter().chain(["npm_config_registry", "ENV", "_JAVA_OPTIONS"]).all(is_loader_variable)
        );
        assert!(
            !["PATH", "HOME", "API_KEY", "OLD_LD_PATH", "NODE_ENV", ""].into_iter().any(is_loader_variable)
        );
    }
}
