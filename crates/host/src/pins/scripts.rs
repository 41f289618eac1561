//! Detection of the scripts that an interpreter runs.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::packages::PackageRun;
use crate::config::StdioTransport;

/// Maximum number of files of a command line that are looked at.
const MAX_FILES: usize = 16;

/// Endings of files that are run and not worked on.
const CODE_EXTENSIONS: [&str; 24] = [
    "bash", "cjs", "cts", "dll", "exs", "jar", "js", "jsx", "lua", "mjs", "mts", "php", "phar", "pl", "ps1",
    "py", "pyc", "pyz", "rb", "sh", "ts", "tsx", "wasm", "zsh",
];

/// Programs that run their first argument if it is a file, regardless of its name.
const INTERPRETERS: [&str; 20] = [
    "bash", "bun", "dash", "deno", "dotnet", "fish", "java", "ksh", "lua", "luajit", "node", "nodejs",
    "perl", "php", "pwsh", "pypy", "python", "ruby", "sh", "zsh",
];

/// Files that are run where a folder is named.
const FOLDER_ENTRY_FILES: [&str; 5] = ["__main__.py", "package.json", "index.js", "index.mjs", "index.ts"];

/// Finds the code files among the arguments, in their order. Files with a script's extension, files that begin with
/// `#!`, and the script of an interpreter count. So does the module of `python -m` in the server's folder.
///
/// Files that they load in turn are not included, nor packages that runners such as `npx` and `uvx` fetch by name. A
/// package installed in the server's folder, from where `npx` runs it, is included.
pub(super) fn find_scripts(stdio: &StdioTransport, program: &Path) -> Vec<PathBuf> {
    let Some(folder) = stdio.cwd.clone().or_else(|| std::env::current_dir().ok()) else { return Vec::new() };
    let mut is_next = is_interpreter(program);
    let args = stdio.args.iter().map(|arg| arg.reveal()).take(MAX_FILES * 16);
    let package = PackageRun::of(&program.to_string_lossy(), args);
    let mut found = package.map_or_else(Vec::new, |package| package.installed_files(&folder));
    // Each argument may cost a look at the disk, so their number is bounded as well.
    let mut args = stdio.args.iter().map(|arg| arg.reveal()).take(MAX_FILES * 16);
    while let Some(arg) = args.next() {
        if found.len() >= MAX_FILES {
            break;
        }
        if is_next && arg == "-m" {
            let module = args.next().unwrap_or_default().replace('.', "/");
            let candidates = [format!("{module}.py"), format!("{module}/__main__.py")];
            found.extend(candidates.map(|name| folder.join(name)).into_iter().filter(|file| file.is_file()));
            is_next = false;
            continue;
        }
        // `--import=./hook.mjs` as well as `./hook.mjs`.
        let path =
            arg.strip_prefix('-').and_then(|flag| flag.split_once('=')).map_or(arg, |(_, value)| value);
        let path = path.strip_prefix("file://").unwrap_or(path);
        let path = folder.join(path);
        if path.is_dir() && is_next {
            found.extend(
                FOLDER_ENTRY_FILES.map(|name| path.join(name)).into_iter().filter(|file| file.is_file()),
            );
            is_next = false;
        } else if path.is_file() {
            if is_next && !arg.starts_with('-') || is_code(&path) {
                found.push(path);
            }
            // A file that an option names is not yet the script itself.
            is_next &= arg.starts_with('-');
        }
    }
    found
}

fn is_interpreter(program: &Path) -> bool {
    let Some(name) = program.file_stem().and_then(|name| name.to_str()) else { return false };
    // `python3.12` is `python3` with an ending.
    let name =
        name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.' || letter == '-');
    INTERPRETERS.contains(&name.to_ascii_lowercase().as_str())
}

fn is_code(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if CODE_EXTENSIONS.contains(&ending.to_ascii_lowercase().as_str()) {
        return true;
    }
    let mut begin = [0; 2];
    File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *b"#!"
}
