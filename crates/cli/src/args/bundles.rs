//! Arguments of `hospes bundle`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Options of `hospes bundle`.
#[derive(Debug, Args)]
#[command(after_help = BUNDLE_HELP)]
pub(crate) struct BundleArgs {
    /// Folder to pack. With --check, a folder or a bundle to judge [default: the current folder]
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub(crate) path: Option<PathBuf>,
    /// File to write; an older bundle of this name is replaced [default: NAME-VERSION.mcpb in the current folder]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "check")]
    pub(crate) output: Option<PathBuf>,
    /// Judge a bundle or a folder, and write nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// Pack files that look like secrets, for example private keys
    #[arg(long, conflicts_with = "check")]
    pub(crate) allow_secrets: bool,
}

const BUNDLE_HELP: &str = "\
A bundle (.mcpb) is a ZIP archive with an MCP server and a manifest.json, which says how the server is started. \
Version control, lock files, source maps and what .mcpbignore names are left out.

  hospes bundle                              pack the current folder
  hospes bundle server --output demo.mcpb    pack another folder
  hospes bundle --check                      judge the current folder
  hospes bundle --check demo.mcpb            judge a bundle

Exit status of --check: 0 if there are no errors, 1 if there are, or if the signature is wrong.";
