//! Sources of the programs that start and install servers.

/// Programs, and how to get each.
const SOURCES: [(&str, &str); 9] = [
    ("npx", "install Node.js: https://nodejs.org"),
    ("npm", "install Node.js, which has npm: https://nodejs.org"),
    ("node", "install Node.js: https://nodejs.org"),
    ("uvx", "install uv: https://docs.astral.sh/uv"),
    ("uv", "install uv: https://docs.astral.sh/uv"),
    ("docker", "install Docker: https://docs.docker.com/get-docker"),
    ("python", "install Python: https://www.python.org"),
    ("cargo", "install Rust, which has cargo: https://rustup.rs"),
    ("go", "install Go: https://go.dev/dl"),
];

/// Returns how to get a program, such as `npx`, `python3.12` or `node.exe`. `None` if it is no known one.
pub(crate) fn program_source(name: &str) -> Option<&'static str> {
    // A version, an ending, or another program of the same distribution, such as `docker-compose`.
    let is_ending = |rest: &str| {
        rest.is_empty() || rest.starts_with(|sign: char| matches!(sign, '.' | '-') || sign.is_ascii_digit())
    };
    SOURCES
        .iter()
        .find(|(known, _)| name.strip_prefix(known).is_some_and(is_ending))
        .map(|(_, source)| *source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_with_its_version_and_ending_and_others_are_not() {
        for (name, part) in [
            ("npx", "Node.js"),
            ("node.exe", "Node.js"),
            ("python3.12", "Python"),
            ("docker-compose", "Docker"),
            ("uv", "uv"),
        ] {
            assert!(program_source(name).is_some_and(|source| source.contains(part)), "{name}");
        }
        for name in ["uvicorn", "gopls", "dockerize", ""] {
            assert_eq!(program_source(name), None, "{name}");
        }
    }
}
