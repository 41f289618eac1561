//! Options of the commands that use a server: `list`, `call` and `chat`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::host::{ConfigFileArgs, HostOptions};
use super::values::some_seconds;
use crate::completion;

/// Options for reaching a server.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    #[command(flatten)]
    pub(crate) files: ConfigFileArgs,
    /// Header for every request to a URL: 'Name: value'. May be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub(crate) headers: Vec<String>,
    /// Environment variable for a command: NAME=value. May be repeated
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Working directory of a command
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    /// Protocol era to use
    #[arg(long, value_enum, default_value_t = EraArg::Auto)]
    pub(crate) era: EraArg,
    /// Maximum time to connect, in seconds [default: 30; 120 for programs that download first, such as npx, uvx and docker]
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Folder that the server may work in. May be repeated
    #[arg(long = "root", value_name = "FOLDER")]
    pub(crate) roots: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraArg {
    /// Detect automatically
    Auto,
    /// Revisions up to 2025-11-25
    Legacy,
    /// Revision 2026-07-28
    Modern,
}

#[derive(Debug, Args)]
#[command(after_help = TARGET_HELP)]
pub(crate) struct ListArgs {
    /// The server: a URL, a command line in quotes, an entry of the configuration, or a built-in server
    #[arg(required_unless_present = "program", add = completion::targets())]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) reach: ConnectArgs,
    /// The server as a command with its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "target")]
    pub(crate) program: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = CALL_HELP, override_usage = "hospes call [OPTIONS] TARGET TOOL [NAME=VALUE]...\n       hospes call [OPTIONS] TOOL [NAME=VALUE]... -- COMMAND [ARGS]...")]
pub(crate) struct CallArgs {
    /// The server (see below), the tool, and its arguments
    #[arg(required = true, value_name = "TARGET TOOL NAME=VALUE", add = completion::call_words())]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) reach: ConnectArgs,
    /// All arguments as one JSON object, or @FILE; NAME=VALUE then override its members
    #[arg(long, value_name = "JSON")]
    pub(crate) input_json: Option<String>,
    /// Maximum time that the call may take without a response or progress, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = some_seconds, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// The server as a command with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) program: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = CHAT_HELP)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) host: HostOptions,
    /// Name of a configured model [default: the first]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Maximum number of rounds of tool calls in one turn
    #[arg(long, value_name = "COUNT", default_value = "16")]
    pub(crate) max_rounds: u32,
}

const TARGET_HELP: &str = "\
TARGET is one of
  https://example.com/mcp  a URL
  notes                    an entry of the configuration
  everything               a built-in server; `hospes serve --help` lists them
  'npx -y some-server'     a command line, run without a shell
  -- npx -y some-server    the same, already split into arguments

Any other value is an error.";

const CHAT_HELP: &str = "\
A model is a table of the configuration:

  [models.fast]
  provider = \"openai\"
  model = \"gpt-5-mini\"
  api_key = \"${OPENAI_API_KEY}\"

Ctrl-C stops a turn, twice quits; /help lists the commands. Answers go to standard output, the rest to standard \
error. Without a terminal each line is a turn, and calls that need your approval are denied.";

const CALL_HELP: &str = "\
Arguments are converted to the types of the tool's schema:
  name=text        text, number, true or false; once for each item of a list
  name:=json       a JSON value
  name=@file       the content of a file; @- is standard input, @@ a literal @
  outer.inner=x    a member of an object

TARGET is a URL, an entry of the configuration, a built-in server (`hospes serve \
--help` lists them), or a command line in quotes; or the command follows after --.

Exit codes: 0 done, 1 wrong usage, 3 sign-in required, 4 unreachable, 5 the tool failed.";
