//! The conversation with a model: its history, and taking the next turn.

use std::pin::pin;

use hospes::model::{SamplingMessage, Tool};
use hospes_models::{ModelCatalogue, TokenUsage};

use super::display::{self, DisplayText, TurnDisplay};
use super::turn::{TurnContext, TurnEnd, TurnEvent, TurnResult, turn};
use super::{ChatSession, names};
use crate::exit::CliError;
use crate::output::{BOLD, CliOutput, DIM, first_line, paint, print_result_part, printable};

/// Maximum number of tokens of an answer, unless the model allows fewer.
const MAX_TOKENS: u64 = 8192;
/// Maximum size of a conversation, in bytes.
const MAX_CONVERSATION: usize = 16 * 1024 * 1024;
/// Maximum length of a tool's description in the list, in characters.
const MAX_DESCRIPTION: usize = 72;

/// A conversation with a model and the tokens it has used so far.
pub(super) struct ChatConversation<'a> {
    seat: &'a ChatSession,
    catalogue: &'a ModelCatalogue,
    model: String,
    max_rounds: u32,
    history: Vec<SamplingMessage>,
    spent: TokenUsage,
    output: CliOutput,
}

impl<'a> ChatConversation<'a> {
    pub(super) fn new(
        seat: &'a ChatSession,
        catalogue: &'a ModelCatalogue,
        model: String,
        max_rounds: u32,
        output: CliOutput,
    ) -> Self {
        let (history, spent) = (Vec::new(), TokenUsage::default());
        Self { seat, catalogue, model, max_rounds, history, spent, output }
    }

    /// Deletes the history.
    pub(super) fn clear(&mut self) {
        self.history.clear();
        self.spent = TokenUsage::default();
    }

    /// Takes a turn. Returns true if it ended with an answer.
    pub(super) async fn say(&mut self, text: &str, stop: impl Future<Output = ()> + Send) -> bool {
        let output = self.output;
        let Some(model) = self.catalogue.get(&self.model) else { return false };
        let bytes = serde_json::to_vec(&self.history).map_or(0, |json| json.len());
        if bytes > MAX_CONVERSATION {
            output.warn(format_args!(
                "the conversation is longer than {MAX_CONVERSATION} bytes; /clear starts a new one"
            ));
            return false;
        }
        // Listed for each turn, because servers start, stop and change their tools.
        let tools = if model.abilities.tools { self.tools().await } else { Vec::new() };
        let table = TurnContext {
            provider: &*model.provider,
            client: &self.seat.client,
            tools,
            system: self.seat.client.instructions().map(str::to_owned),
            max_tokens: model.abilities.max_output.unwrap_or(MAX_TOKENS).min(MAX_TOKENS),
            max_rounds: self.max_rounds,
            images: model.abilities.images,
        };
        let mut page = TurnDisplay::default();
        let mut show = |said: TurnEvent<'_>| print(&page.of(said), output);
        let stop = pin!(stop);
        // `attend` never ends by itself: it asks about approvals during the turn and is dropped with it.
        let taken = tokio::select! {
            taken = turn(&table, &mut self.history, text, &mut show, stop) => taken,
            never = self.seat.attend() => match never {},
        };
        print(&page.end(), output);
        let TurnResult { ended, spent, is_more } = taken;
        let all = self.spent;
        self.spent = TokenUsage::new(
            all.input_tokens.saturating_add(spent.input_tokens),
            all.output_tokens.saturating_add(spent.output_tokens),
        );
        let is_answered = matches!(ended, TurnEnd::Answered);
        match ended {
            TurnEnd::Answered => {}
            TurnEnd::Stopped => output.say(paint(DIM, "  stopped")),
            TurnEnd::TooManyRounds => output.warn(format_args!(
                "turn ended after {} rounds of tool calls; --max-rounds raises the limit",
                self.max_rounds
            )),
            TurnEnd::Failed(failure) => {
                let why = visible_error(&failure.error);
                output.failure(
                    &CliError::usage(format!("the model did not answer: {why}"))
                        .hint("this turn was removed from the conversation"),
                );
            }
        }
        output.say(paint(DIM, display::spent(spent, is_more, self.spent)));
        is_answered
    }

    pub(super) fn describe_model(&self) -> String {
        let Some(model) = self.catalogue.get(&self.model) else { return String::new() };
        let (name, provider) = (printable(model.provider.model()), printable(model.provider.name()));
        format!("`{}`: {name} of {provider}", printable(&model.name))
    }

    async fn tools(&self) -> Vec<Tool> {
        let tools = self.seat.client.tools().all().await;
        tools.unwrap_or_else(|error| {
            self.output.warn(format_args!(
                "cannot list the tools: {}",
                printable(&crate::exit::error_chain(&error))
            ));
            Vec::new()
        })
    }

    pub(super) async fn show_tools(&self) {
        let tools = self.tools().await;
        for tool in &tools {
            let about = first_line(tool.description.as_deref().unwrap_or_default(), MAX_DESCRIPTION);
            self.output.say(format_args!("  {}  {}", paint(BOLD, printable(&tool.name)), paint(DIM, about)));
        }
        self.output.say(paint(DIM, format!("  {} tools", tools.len())));
    }

    pub(super) fn change_model(&mut self, name: Option<&str>) {
        match name {
            None => self.output.say(format_args!(
                "  {}\n  {}",
                self.describe_model(),
                paint(DIM, format!("available: {}", names(self.catalogue.iter())))
            )),
            Some(name) if self.catalogue.get(name).is_some() => {
                name.clone_into(&mut self.model);
                self.output.say(format_args!("  {}", self.describe_model()));
            }
            Some(name) => self.output.warn(format_args!(
                "unknown model `{}`; available: {}",
                printable(name),
                names(self.catalogue.iter())
            )),
        }
    }
}

/// Formats a provider's error, with control characters made visible.
fn visible_error(error: &hospes_models::ModelError) -> String {
    hospes_policy::visible(&crate::exit::error_chain(error))
}

fn print(written: &DisplayText, output: CliOutput) {
    print_result_part(&written.out);
    if !written.err.is_empty() {
        output.say(written.err.trim_end_matches('\n'));
    }
}
