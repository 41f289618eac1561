//! One turn of a conversation: a message of the person, the model's answer, and the tool calls in between.

use std::pin::Pin;

use hospes::client::Client;
use hospes::model::{
    CallToolResult, ContentBlock, CreateMessageParams, RawJson, Role, SamplingMessage,
    SamplingMessageContentBlock as Block, StopReason, Tool, ToolResultContent, ToolUseContent,
};
use hospes_models::{AnswerDelta, GenerationFailure, ModelAnswer, ModelError, ModelProvider, TokenUsage};

/// Model, client and limits of a turn.
pub(super) struct TurnContext<'a> {
    pub(super) provider: &'a dyn ModelProvider,
    pub(super) client: &'a Client,
    pub(super) tools: Vec<Tool>,
    /// Instructions of the servers.
    pub(super) system: Option<String>,
    /// Maximum number of tokens of an answer.
    pub(super) max_tokens: u64,
    /// Maximum number of rounds of tool calls in one turn.
    pub(super) max_rounds: u32,
    /// True if the model accepts images.
    pub(super) images: bool,
}

/// Progress of a turn, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnEvent<'a> {
    /// A further piece of the answer.
    Text(&'a str),
    /// The model is asked again, for this time (2 or more).
    Again(u32),
    /// A tool is called.
    Call { tool: &'a str, arguments: &'a str },
    /// The tool returned a result.
    Result { failed: bool, text: &'a str },
    /// The answer was cut off.
    CutOff,
}

/// Observer of a turn's progress.
pub(super) type TurnObserver<'a> = dyn FnMut(TurnEvent<'_>) + Send + 'a;

/// Resolves when the person stops the turn.
pub(super) type StopFuture<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;

/// Reason why a turn ended.
#[derive(Debug)]
pub(super) enum TurnEnd {
    Answered,
    /// The person stopped the turn.
    Stopped,
    /// The model asked for more rounds of tool calls than allowed.
    TooManyRounds,
    /// The model returned an error. The conversation contains nothing of this turn.
    Failed(GenerationFailure),
}

/// Result of a turn.
#[derive(Debug)]
pub(super) struct TurnResult {
    pub(super) ended: TurnEnd,
    /// Tokens of all requests of the turn, as far as the provider counted them.
    pub(super) spent: TokenUsage,
    /// True if the provider did not count some requests.
    pub(super) is_more: bool,
}

/// Takes a turn. The conversation can continue afterwards, however the turn ends.
pub(super) async fn turn(
    table: &TurnContext<'_>,
    history: &mut Vec<SamplingMessage>,
    text: &str,
    show: &mut TurnObserver<'_>,
    mut stop: StopFuture<'_>,
) -> TurnResult {
    let begun = history.len();
    history.push(SamplingMessage::user(text));
    let mut turn = TurnResult { ended: TurnEnd::Answered, spent: TokenUsage::default(), is_more: false };
    let mut rounds = 0;
    loop {
        let mut partial = String::new();
        // `stop` first, so that an answer that arrives in many pieces cannot delay it.
        let asked = tokio::select! {
            biased;
            () = &mut stop => None,
            asked = ask(table, history, &mut partial, show) => Some(asked),
        };
        let answer = match asked {
            None => {
                // A provider that is cut off does not report the tokens generated until then.
                turn.is_more = true;
                close(history, &partial, "stopped by the user");
                turn.ended = TurnEnd::Stopped;
                return turn;
            }
            Some(Err(failure)) => {
                turn.count(failure.usage, failure.may_have_cost);
                history.truncate(begun);
                turn.ended = TurnEnd::Failed(failure);
                return turn;
            }
            Some(Ok(answer)) => answer,
        };
        turn.count(answer.usage, true);
        if answer.result.stop_reason == Some(StopReason::MaxTokens) {
            show(TurnEvent::CutOff);
        }
        let wanted: Vec<ToolUseContent> = answer.result.tool_uses().cloned().collect();
        let mut content = answer.result.content;
        // Providers refuse a conversation with a message that has no content.
        if content.is_empty() {
            content.push(Block::text("[nothing]"));
        }
        history.push(SamplingMessage::of(Role::Assistant, content));
        if wanted.is_empty() {
            return turn;
        }
        if rounds == table.max_rounds {
            // Each tool use needs a result, or providers refuse the rest of the conversation.
            let why =
                format!("not called: the limit of {rounds} rounds of tool calls in one turn was reached");
            let results = wanted.iter().map(|tool_use| failed(tool_use, &why).into()).collect();
            history.push(SamplingMessage::of(Role::User, results));
            close(history, "", "ended by the limit on rounds of tool calls");
            turn.ended = TurnEnd::TooManyRounds;
            return turn;
        }
        rounds += 1;
        let (results, is_stopped) = call_all(table, &wanted, show, stop.as_mut()).await;
        history.push(SamplingMessage::of(Role::User, results));
        if is_stopped {
            close(history, "", "stopped by the user");
            turn.ended = TurnEnd::Stopped;
            return turn;
        }
    }
}

impl TurnResult {
    fn count(&mut self, usage: Option<TokenUsage>, was_asked: bool) {
        match usage {
            Some(usage) => {
                let input = self.spent.input_tokens.saturating_add(usage.input_tokens);
                let output = self.spent.output_tokens.saturating_add(usage.output_tokens);
                self.spent = TokenUsage::new(input, output);
            }
            None => self.is_more |= was_asked,
        }
    }
}

/// Ends a turn that has no answer, so that two messages of the person do not follow each other.
fn close(history: &mut Vec<SamplingMessage>, partial: &str, why: &str) {
    let space = if partial.is_empty() { "" } else { " " };
    history.push(SamplingMessage::assistant(format!("{partial}{space}[{why}]")));
}

async fn ask(
    table: &TurnContext<'_>,
    history: &[SamplingMessage],
    partial: &mut String,
    show: &mut TurnObserver<'_>,
) -> Result<ModelAnswer, GenerationFailure> {
    let mut params = CreateMessageParams::new(history.to_vec(), table.max_tokens);
    params.tools.clone_from(&table.tools);
    params.system_prompt.clone_from(&table.system);
    let mut heard = |delta: AnswerDelta<'_>| match delta {
        AnswerDelta::Text(text) => {
            partial.push_str(text);
            show(TurnEvent::Text(text));
        }
        AnswerDelta::Again(time) => show(TurnEvent::Again(time)),
        _ => {}
    };
    let answer = table.provider.generate(&params, &mut heard).await?;
    // An answer whose tool uses cannot be answered must not become part of the conversation.
    let mut ids: Vec<&str> = answer.result.tool_uses().map(|tool_use| tool_use.id.as_str()).collect();
    ids.sort_unstable();
    let is_twice = ids.windows(2).any(|pair| pair[0] == pair[1]);
    if is_twice || answer.result.tool_uses().any(|tool_use| !tool_use.input.is_object()) {
        let why = "the model returned invalid tool calls: duplicate ids or non-object arguments".to_owned();
        // The tokens were spent, although the answer cannot be used.
        let mut failure = GenerationFailure::new(ModelError::Invalid(why));
        (failure.usage, failure.may_have_cost) = (answer.usage, true);
        return Err(failure);
    }
    // Not every provider streams its answer.
    if partial.is_empty() && !answer.result.text().is_empty() {
        show(TurnEvent::Text(&answer.result.text()));
    }
    Ok(answer)
}

/// Calls the tools one at a time, because each call may need the person's approval. Every tool use gets a result, even
/// if it is no longer called.
async fn call_all(
    table: &TurnContext<'_>,
    wanted: &[ToolUseContent],
    show: &mut TurnObserver<'_>,
    mut stop: StopFuture<'_>,
) -> (Vec<Block>, bool) {
    let mut results = Vec::new();
    let mut is_stopped = false;
    for tool_use in wanted {
        if is_stopped {
            results.push(failed(tool_use, "not called: stopped by the user").into());
            continue;
        }
        show(TurnEvent::Call { tool: &tool_use.name, arguments: tool_use.input.as_str() });
        let result = tokio::select! {
            biased;
            () = &mut stop => {
                is_stopped = true;
                failed(tool_use, "stopped by the user; the call may have been carried out in part")
            }
            result = call(table, tool_use) => result,
        };
        show(TurnEvent::Result { failed: result.is_error == Some(true), text: &text(&result) });
        results.push(result.into());
    }
    (results, is_stopped)
}

async fn call(table: &TurnContext<'_>, tool_use: &ToolUseContent) -> ToolResultContent {
    match table.client.call(&tool_use.name, &tool_use.input).await {
        Ok(result) => taken(tool_use, result, table.images),
        Err(error) => failed(tool_use, &crate::exit::error_chain(&error)),
    }
}

/// Converts a tool result to the content that the model accepts.
fn taken(tool_use: &ToolUseContent, result: CallToolResult, images: bool) -> ToolResultContent {
    let is_error = result.has_failed();
    let note = |what: &str, kind: &str| format!("[{what}, {kind}; not shown to this model]").into();
    let content: Vec<ContentBlock> = result
        .content
        .into_iter()
        .map(|block| match block {
            ContentBlock::Image(image) if !images => note("image", &image.mime_type),
            ContentBlock::Audio(audio) => note("audio", &audio.mime_type),
            other => other,
        })
        .collect();
    let mut taken = ToolResultContent::new(&tool_use.id, content).with_is_error(is_error);
    taken.structured_content = result.structured_content.filter(RawJson::is_object);
    taken
}

fn failed(tool_use: &ToolUseContent, why: &str) -> ToolResultContent {
    ToolResultContent::new(&tool_use.id, vec![why.into()]).with_is_error(true)
}

/// Formats a result as text.
fn text(result: &ToolResultContent) -> String {
    let texts: Vec<&str> = result
        .content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    match (&result.structured_content, texts.as_slice()) {
        (Some(structured), []) => structured.as_str().to_owned(),
        (None, []) if result.content.is_empty() => "empty result".to_owned(),
        (None, []) => "non-text result".to_owned(),
        (_, texts) => texts.join("\n"),
    }
}
