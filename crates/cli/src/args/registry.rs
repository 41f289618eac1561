//! Arguments of the commands that use an MCP registry.

use clap::Args;

/// Options of `hospes search`.
#[derive(Debug, Args)]
#[command(after_help = SEARCH_HELP)]
pub(crate) struct SearchArgs {
    /// Words that must all be in the name, the title or the description
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) registry: RegistryOptions,
    /// Maximum number of results: the best ones
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 10, value_parser = result_count)]
    pub(crate) limit: usize,
    /// Read the list of the registry first: the changes, or the first time all of it. Later searches need no connection
    #[arg(long)]
    pub(crate) refresh: bool,
}

/// The registry that a command uses.
#[derive(Clone, Debug, Args)]
pub(crate) struct RegistryOptions {
    // Not read from the variable, which is only a default: `registry::base_url` does that.
    /// Base URL of the MCP registry [env: HOSPES_REGISTRY] [default: https://registry.modelcontextprotocol.io]
    #[arg(long, value_name = "URL")]
    pub(crate) registry: Option<String>,
}

const SEARCH_HELP: &str = "\
Results are ordered by how well the name fits; deprecated servers come later. The registry counts neither users nor \
reviews. It has checked who publishes a server; nobody has audited the server.

  hospes search calendar                                 the ten best results
  hospes search google calendar -n 30                    more results
  hospes search --refresh calendar                       with a new list
  hospes search calendar --registry https://mcp.example  another registry";

fn result_count(text: &str) -> Result<usize, &'static str> {
    const MAX_RESULTS: usize = 1000;

    let count = text.parse().ok().filter(|count| (1..=MAX_RESULTS).contains(count));
    count.ok_or("expected a whole number from 1 to 1000")
}
