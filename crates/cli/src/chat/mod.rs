//! `hospes chat`: a conversation with a model of the configuration that has the tools of all servers. It is an application
//! like any other: its calls go through the gateway, by the rules, as what was accepted, and into the record.

mod lines;
mod show;
#[cfg(test)]
mod tests;
mod turn;

use std::pin::pin;
use std::sync::Arc;

use hospes::client::Client;
use hospes::model::{ElicitParams, ElicitResult, Implementation, SamplingMessage, Tool};
use hospes_host::{Accounts, Host};
use hospes_models::{Catalogue, Model, Usage};
use tokio::sync::oneshot;

use self::lines::{Asked, Lines, Signals};
use self::show::{Page, Written};
use self::turn::{Ended, Said, Table, Turn, turn};
use crate::args::Chat;
use crate::commands::Ending;
use crate::commands::stdio::warn_of_unserved;
use crate::commands::up::{require, start, stop};
use crate::exit::{Code, Failure, Outcome};
use crate::output::{
    BOLD, CYAN, DIM, Output, announce, headline, is_interactive, murmur, paint, piece, printable,
};
use crate::settings::load;
use crate::{credentials, place, prompt};

/// The most tokens of an answer, where the model gives so many.
const MAX_TOKENS: u64 = 8192;
/// The most bytes of a conversation.
const MAX_CONVERSATION: usize = 16 * 1024 * 1024;
/// How much of a tool's description is shown.
const MAX_ABOUT: usize = 72;

pub(crate) async fn run(args: Chat, output: Output) -> Outcome {
    if output.json {
        return Err(Failure::usage("--json: a chat is lines of text"));
    }
    let loaded = load(&args.host.files)?;
    let model = chosen(&loaded.config.models.models, args.model.as_deref())?.name.clone();
    warn_of_unserved(&loaded.config, "nobody signs in to a chat", output);
    let quiet = Output { quiet: true, ..output };
    let mut ending = Ending::new()?;
    let accounts = credentials::of_host(false, output)?.map(Accounts::new);
    let host = start(&args.host, loaded.config, accounts, output).await?;
    let ended = match ending.unless(Box::pin(ready(&host, output))).await {
        Some(Ok(client)) => {
            let ended = Box::pin(converse(&host, &client, model, &args, output)).await;
            ending = Ending::new()?;
            ending.unless(client.client.close()).await;
            ended
        }
        Some(Err(failure)) => Err(failure),
        None => Ok(()),
    };
    stop(host, &mut ending, quiet).await;
    ended
}

/// The model that is meant: the first where none is named.
fn chosen<'a>(models: &'a [Model], name: Option<&str>) -> Outcome<&'a Model> {
    let found = match name {
        Some(name) => models.iter().find(|model| model.name == name),
        None => models.first(),
    };
    found.ok_or_else(|| match models {
        [] => {
            let file = place::config_to_be().map_or_else(|| "the configuration".to_owned(), |file| place::short(&file));
            Failure::usage("there is no model to talk with").hint(format!(
                "write one into {file}, or into the file of --config:\n\n  [models.fast]\n  provider = \"openai\"    \
                 # or anthropic, gemini, ollama\n  model = \"gpt-5-mini\"\n  api_key = \"${{OPENAI_API_KEY}}\""
            ))
        }
        models => Failure::usage(format!("there is no model `{}`", printable(name.unwrap_or_default())))
            .hint(format!("the configuration has {}", names(models.iter()))),
    })
}

fn names<'a>(models: impl Iterator<Item = &'a Model>) -> String {
    let names: Vec<String> = models.map(|model| format!("`{}`", printable(&model.name))).collect();
    names.join(", ")
}

/// The application in front of the host, and the lines of the person.
struct Seat {
    client: Client,
    lines: Arc<Lines>,
}

async fn ready(host: &Host, output: Output) -> Outcome<Seat> {
    require(host).await?;
    let lines = Arc::new(Lines::new());
    let info = Implementation::new("hospes-chat", env!("CARGO_PKG_VERSION"));
    let mut builder = Client::builder().info(info);
    // Where nobody can be asked the host refuses, and says why.
    if is_interactive() {
        let lines = Arc::clone(&lines);
        let asked = move |params| elicit(params, Arc::clone(&lines), output);
        builder = builder.elicitation(asked).elicitation_urls();
    }
    let client = builder.in_memory(host.gateway()).await?;
    Ok(Seat { client, lines })
}

/// Asks the person, until they have answered or the call is given up.
async fn elicit(params: ElicitParams, lines: Arc<Lines>, output: Output) -> hospes::Result<ElicitResult> {
    let (held, mut given_up) = oneshot::channel::<()>();
    let mut turns = lines.turns();
    let runtime = tokio::runtime::Handle::current();
    let asked = tokio::task::spawn_blocking(move || {
        let mut ask = |question: &str| {
            murmur(question);
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = turns.changed() => None,
                    _ = &mut given_up => None,
                    line = lines.next() => line?.ok(),
                }
            })
        };
        prompt::answer(&params, output, &mut ask)
    });
    let answer = asked.await;
    drop(held);
    Ok(answer?)
}

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wish<'a> {
    Nothing,
    Say(&'a str),
    Tools,
    Model(Option<&'a str>),
    Clear,
    Help,
    Quit,
    Unknown(&'a str),
}

impl<'a> Wish<'a> {
    fn of(line: &'a str) -> Self {
        let line = line.trim();
        if !line.starts_with('/') {
            return if line.is_empty() { Self::Nothing } else { Self::Say(line) };
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (word, rest.trim()) {
            ("/tools", "") => Self::Tools,
            ("/model", "") => Self::Model(None),
            ("/model", name) => Self::Model(Some(name)),
            ("/clear", "") => Self::Clear,
            ("/help", "") => Self::Help,
            ("/quit", "") => Self::Quit,
            _ => Self::Unknown(word),
        }
    }
}

const HELP: &str = "\
  /tools         what the model may call
  /model [NAME]  which model it is, or another one
  /clear         forget the conversation
  /quit          leave; so do Ctrl-D, and Ctrl-C twice
  Ctrl-C         stop the turn
A call that the rules want approved: d denies (d REASON says why, and the model is told), o allows once, s for as long as
this runs.";

struct Conversation<'a> {
    seat: &'a Seat,
    catalogue: &'a Catalogue,
    model: String,
    max_rounds: u32,
    history: Vec<SamplingMessage>,
    spent: Usage,
    output: Output,
}

/// Talks until the person leaves.
async fn converse(host: &Host, seat: &Seat, model: String, args: &Chat, output: Output) -> Outcome {
    let sampler = host.sampler().ok_or_else(|| Failure::usage("there is no model to talk with"))?;
    let mut signals = Signals::new()?;
    let (catalogue, max_rounds) = (sampler.catalogue(), args.max_rounds);
    let (history, spent) = (Vec::new(), Usage::default());
    let mut conversation = Conversation { seat, catalogue, model, max_rounds, history, spent, output };
    let is_person = is_interactive();
    if is_person {
        output.say(paint(DIM, format!("  {}; /help says what else there is", conversation.which())));
    } else {
        output.say("no terminal: calls that need your approval are refused");
    }
    let (mut is_leaving, mut has_failed) = (false, false);
    loop {
        if is_person {
            murmur(&paint(CYAN, "> "));
        }
        let line = tokio::select! {
            biased;
            asked = signals.next() => match asked {
                Asked::Stop if is_person && !is_leaving => {
                    is_leaving = true;
                    announce(paint(DIM, "\n  Ctrl-C again leaves"));
                    continue;
                }
                _ => break,
            },
            line = seat.lines.next() => match line {
                None => break,
                Some(Ok(line)) => line,
                Some(Err(error)) => {
                    output.warn(error);
                    has_failed = true;
                    continue;
                }
            },
        };
        is_leaving = false;
        match Wish::of(&line) {
            Wish::Nothing => {}
            Wish::Say(text) => {
                let mut asked = None;
                let stop = async { asked = Some(signals.next().await) };
                let said = Box::pin(conversation.say(text, stop)).await;
                has_failed |= !said;
                match asked {
                    Some(Asked::End) => break,
                    Some(Asked::Stop) if !is_person => break,
                    asked => is_leaving = asked.is_some(),
                }
            }
            Wish::Tools => conversation.show_tools().await,
            Wish::Model(name) => conversation.change_model(name),
            Wish::Clear => {
                conversation.history.clear();
                conversation.spent = Usage::default();
                output.say(paint(DIM, "  forgotten"));
            }
            Wish::Help => output.say(HELP),
            Wish::Quit => break,
            Wish::Unknown(word) => {
                output.warn(format_args!("there is no {}; /help says what there is", printable(word)))
            }
        }
    }
    // A script has to learn of it.
    if has_failed && !is_person { Err(Failure::silent(Code::Tool)) } else { Ok(()) }
}

impl Conversation<'_> {
    /// Takes a turn; whether it ended with an answer.
    async fn say(&mut self, text: &str, stop: impl Future<Output = ()> + Send) -> bool {
        let output = self.output;
        let Some(model) = self.catalogue.get(&self.model) else { return false };
        let bytes = serde_json::to_vec(&self.history).map_or(0, |json| json.len());
        if bytes > MAX_CONVERSATION {
            output.warn(format_args!(
                "the conversation is longer than {MAX_CONVERSATION} bytes; /clear begins another one"
            ));
            return false;
        }
        let tools = if model.abilities.tools { self.tools().await } else { Vec::new() };
        let table = Table {
            provider: &*model.provider,
            client: &self.seat.client,
            tools,
            system: self.seat.client.instructions().map(str::to_owned),
            max_tokens: model.abilities.max_output.unwrap_or(MAX_TOKENS).min(MAX_TOKENS),
            max_rounds: self.max_rounds,
            images: model.abilities.images,
        };
        let mut page = Page::default();
        let mut show = |said: Said<'_>| print(&page.of(said), output);
        let taken = turn(&table, &mut self.history, text, &mut show, pin!(stop)).await;
        self.seat.lines.end_turn();
        print(&page.end(), output);
        let Turn { ended, spent, is_more } = taken;
        let all = self.spent;
        self.spent = Usage::new(
            all.input_tokens.saturating_add(spent.input_tokens),
            all.output_tokens.saturating_add(spent.output_tokens),
        );
        let is_answered = matches!(ended, Ended::Answered);
        match ended {
            Ended::Answered => {}
            Ended::Stopped => output.say(paint(DIM, "  stopped")),
            Ended::TooManyRounds => output.warn(format_args!(
                "the model asked for tools more than {} times; --max-rounds allows more",
                self.max_rounds
            )),
            Ended::Failed(failure) => {
                let why = visible_error(&failure.error);
                output.failure(
                    &Failure::usage(format!("no answer: {why}"))
                        .hint("nothing of this turn is in the conversation"),
                );
            }
        }
        output.say(paint(DIM, show::spent(spent, is_more, self.spent)));
        is_answered
    }

    fn which(&self) -> String {
        let Some(model) = self.catalogue.get(&self.model) else { return String::new() };
        let (name, provider) = (printable(model.provider.model()), printable(model.provider.name()));
        format!("`{}`: {name} of {provider}", printable(&model.name))
    }

    async fn tools(&self) -> Vec<Tool> {
        let tools = self.seat.client.tools().all().await;
        tools.unwrap_or_else(|error| {
            self.output
                .warn(format_args!("the tools cannot be listed: {}", printable(&crate::exit::chain(&error))));
            Vec::new()
        })
    }

    async fn show_tools(&self) {
        let tools = self.tools().await;
        for tool in &tools {
            let about = headline(tool.description.as_deref().unwrap_or_default(), MAX_ABOUT);
            self.output.say(format_args!("  {}  {}", paint(BOLD, printable(&tool.name)), paint(DIM, about)));
        }
        self.output.say(paint(DIM, format!("  {} tools", tools.len())));
    }

    fn change_model(&mut self, name: Option<&str>) {
        match name {
            None => self.output.say(format_args!(
                "  {}\n  {}",
                self.which(),
                paint(DIM, format!("there are {}", names(self.catalogue.iter())))
            )),
            Some(name) if self.catalogue.get(name).is_some() => {
                name.clone_into(&mut self.model);
                self.output.say(format_args!("  {}", self.which()));
            }
            Some(name) => self.output.warn(format_args!(
                "there is no model `{}`; there are {}",
                printable(name),
                names(self.catalogue.iter())
            )),
        }
    }
}

/// What a provider said of its failure, made harmless.
fn visible_error(error: &hospes_models::ModelError) -> String {
    hospes_policy::visible(&crate::exit::chain(error))
}

fn print(written: &Written, output: Output) {
    piece(&written.out);
    if !written.err.is_empty() {
        output.say(written.err.trim_end_matches('\n'));
    }
}
