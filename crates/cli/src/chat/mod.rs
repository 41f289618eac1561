//! `hospes chat`: a conversation with a configured model that can use the tools of all servers. The chat is an ordinary
//! application of the host: its calls pass through the gateway, the policy, the pins and the audit log.

mod approval_prompt;
mod chat_loop;
mod conversation;
mod display;
mod input;
#[cfg(test)]
mod tests;
mod turn;

use std::sync::Arc;

use hospes::client::Client;
use hospes::model::Implementation;
use hospes_host::approvals::ViewerRegistration;
use hospes_host::{Host, UpstreamAccounts};
use hospes_models::Model;

use self::approval_prompt::ChatApprover;
use self::chat_loop::run_chat;
use self::input::InputLines;
use crate::args::ChatArgs;
use crate::commands::InterruptListener;
use crate::commands::stdio::warn_of_unserved;
use crate::commands::up::{require, start, stop};
use crate::exit::{CliError, CliResult};
use crate::fleet::HostFleet;
use crate::output::{CliOutput, is_interactive, printable};
use crate::settings::load;
use crate::{credentials, paths};

pub(crate) async fn run(args: ChatArgs, output: CliOutput) -> CliResult {
    if output.json {
        return Err(CliError::usage("--json: not supported by `hospes chat`"));
    }
    let mut loaded = load(&args.host.files)?;
    // Questions to the person are asked in this chat.
    loaded.config.console_questions = Some(is_interactive());
    let model = choose_model(&loaded.config.models.models, args.model.as_deref())?.name.clone();
    warn_of_unserved(&loaded.config, "the chat has no sign-in", output);
    let quiet = CliOutput { quiet: true, ..output };
    let mut ending = InterruptListener::new()?;
    let shared = HostFleet::beside(&loaded.config).await?;
    let accounts = match &shared {
        Some(shared) => shared.accounts()?,
        None => UpstreamAccounts::new(credentials::open_when_created()?),
    };
    let host = Box::pin(start(&args.host, loaded.config, Some(accounts), shared, output)).await?;
    let ended = match ending.unless(Box::pin(ready(&host, output))).await {
        Some(Ok(client)) => {
            let ended = Box::pin(run_chat(&host, &client, model, &args, output)).await;
            // The old listener has received the signals of the chat, which must not end the shutdown.
            ending = InterruptListener::new()?;
            ending.unless(client.client.close()).await;
            ended
        }
        Some(Err(failure)) => Err(failure),
        None => Ok(()),
    };
    stop(host, &mut ending, quiet).await;
    ended
}

/// Returns the named model, or the first one if no name is given.
fn choose_model<'a>(models: &'a [Model], name: Option<&str>) -> CliResult<&'a Model> {
    let found = match name {
        Some(name) => models.iter().find(|model| model.name == name),
        None => models.first(),
    };
    found.ok_or_else(|| match models {
        [] => {
            let file = paths::new_config_path().map_or_else(|| "the configuration".to_owned(), |file| paths::display_path(&file));
            CliError::usage("no model is configured").hint(format!(
                "add one to {file}, or to the file given by --config:\n\n  [models.fast]\n  provider = \"openai\"    \
                 # or anthropic, gemini, ollama\n  model = \"gpt-5-mini\"\n  api_key = \"${{OPENAI_API_KEY}}\""
            ))
        }
        models => CliError::usage(format!("unknown model `{}`", printable(name.unwrap_or_default())))
            .hint(format!("configured models: {}", names(models.iter()))),
    })
}

fn names<'a>(models: impl Iterator<Item = &'a Model>) -> String {
    let names: Vec<String> = models.map(|model| format!("`{}`", printable(&model.name))).collect();
    names.join(", ")
}

/// A chat as an application of the host, with the person at its approval queue if there is one.
struct ChatSession {
    client: Client,
    lines: Arc<InputLines>,
    person: Option<(ChatApprover, ViewerRegistration)>,
}

async fn ready(host: &Host, output: CliOutput) -> CliResult<ChatSession> {
    require(host).await?;
    let lines = Arc::new(InputLines::new());
    let info = Implementation::new("hospes-chat", env!("CARGO_PKG_VERSION"));
    // Questions to the person arrive through the approval queue, from any source. If nobody can answer, the host
    // refuses and gives the reason.
    let client = Client::builder().info(info).in_memory(host.gateway()).await?;
    let queue = host.guard().filter(|_| is_interactive()).map(|guard| guard.approvals().clone());
    let person = queue.map(|queue| {
        // Held for the whole chat: without a viewer, calls would be refused instead of waiting.
        let attendance = queue.register_viewer(None);
        (ChatApprover { queue, lines: Arc::clone(&lines), output }, attendance)
    });
    Ok(ChatSession { client, lines, person })
}

impl ChatSession {
    /// Asks the person about each pending approval. Never returns.
    async fn attend(&self) -> std::convert::Infallible {
        match &self.person {
            Some((person, _)) => person.attend().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until an approval is pending.
    async fn wait_for_approval(&self) {
        match &self.person {
            Some((person, _)) => person.wait_for_approval().await,
            None => std::future::pending().await,
        }
    }

    /// Asks about the oldest pending approval.
    async fn ask_next(&self) {
        if let Some((person, _)) = &self.person {
            person.ask_next().await;
        }
    }

    /// Denies the oldest pending approval.
    async fn refuse_next(&self) {
        if let Some((person, _)) = &self.person {
            person.refuse_next().await;
        }
    }
}
