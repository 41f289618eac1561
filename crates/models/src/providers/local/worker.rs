//! The thread that runs the model.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::mpsc::Receiver;

use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use hospes_model::StopReason;
use tokio::sync::mpsc;

use super::model_file::{LoadedModel, ModelFileHeader};
use super::prompt::{self, PromptTurn};
use super::stop_sequences::{CheckedText, StopSequences};
use crate::ModelError;

/// Number of prompt tokens that are read between two checks for a listener.
const PROMPT_CHUNK_TOKENS: usize = 64;
/// Default temperature of a request, and the share of likely tokens that are sampled.
const TEMPERATURE: f64 = 0.8;
const TOP_P: f64 = 0.95;

/// Request to the model's thread.
pub(super) struct WorkerRequest {
    pub(super) turns: Vec<PromptTurn>,
    pub(super) max_tokens: u64,
    pub(super) temperature: Option<f64>,
    pub(super) stops: Vec<String>,
    /// Channel for the answer. The work ends when the receiver is dropped.
    pub(super) told: mpsc::Sender<WorkerEvent>,
}

/// Event of a request: a piece of the answer, its end, or a failure.
#[derive(Debug)]
pub(super) enum WorkerEvent {
    Piece(String),
    Ended(WorkerResult),
    Failed(ModelError),
}

#[derive(Debug)]
pub(super) struct WorkerResult {
    pub(super) stop: StopReason,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

/// Reasons a request ends early: the listener is gone, or an error occurred.
enum WorkerError {
    Gone,
    Failed(ModelError),
}

/// Answers requests one at a time until all senders are dropped.
pub(super) fn run(header: &ModelFileHeader, requests: &Receiver<WorkerRequest>) {
    let mut loaded = None;
    while let Ok(request) = requests.recv() {
        if request.told.is_closed() {
            continue;
        }
        let model = match loaded.take().map_or_else(|| header.load(), Ok) {
            Ok(model) => model,
            // The next request tries again, because the file may have become readable.
            Err(why) => {
                let failed = ModelError::Unusable { model: header.name.clone(), why };
                let _gone = request.told.blocking_send(WorkerEvent::Failed(failed));
                continue;
            }
        };
        match answer(header, &model, &request) {
            Ok(ended) => drop(request.told.blocking_send(WorkerEvent::Ended(ended))),
            Err(WorkerError::Failed(error)) => drop(request.told.blocking_send(WorkerEvent::Failed(error))),
            Err(WorkerError::Gone) => {}
        }
        loaded = Some(model);
    }
}

fn answer(
    header: &ModelFileHeader,
    model: &LoadedModel,
    request: &WorkerRequest,
) -> Result<WorkerResult, WorkerError> {
    let failed = |error: &dyn std::fmt::Display| {
        let why = format!("inference failed ({error})");
        WorkerError::Failed(ModelError::Unusable { model: header.name.clone(), why })
    };
    let prompt = prompt::encode(header, model, &request.turns).map_err(WorkerError::Failed)?;
    // At least one token of the context is left for the answer.
    if prompt.len() >= header.context {
        let what = format!("a prompt of {} tokens (its context is {})", prompt.len(), header.context);
        return Err(WorkerError::Failed(ModelError::Unsupported { provider: super::NAME, what }));
    }
    let room = header.context - prompt.len();
    let most = usize::try_from(request.max_tokens).map_or(room, |most| most.min(room));
    let mut weights = model.weights.clone();
    let mut forward = |tokens: &[u32], at: usize| -> candle_core::Result<Tensor> {
        let input = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        weights.forward(&input, at)?.squeeze(0)
    };
    let mut logits = None;
    for (index, stride) in prompt.chunks(PROMPT_CHUNK_TOKENS).enumerate() {
        if request.told.is_closed() {
            return Err(WorkerError::Gone);
        }
        logits = Some(forward(stride, index * PROMPT_CHUNK_TOKENS).map_err(|error| failed(&error))?);
    }
    // A different seed for each answer; hash keys are random enough for that.
    let mut choice =
        LogitsProcessor::from_sampling(RandomState::new().hash_one(()), sampling(request.temperature));
    let mut words = model.marks.decode_stream(true);
    let mut stops = StopSequences::new(request.stops.clone());
    let (mut output_tokens, mut stop) = (0, StopReason::MaxTokens);
    let say = |text: String| {
        // Held-back text is not sent, so a dropped listener has to be noticed here.
        if text.is_empty() {
            return if request.told.is_closed() { Err(WorkerError::Gone) } else { Ok(()) };
        }
        request.told.blocking_send(WorkerEvent::Piece(text)).map_err(|_| WorkerError::Gone)
    };
    while let Some(known) = logits.take() {
        let token = choice.sample(&known).map_err(|error| failed(&error))?;
        output_tokens += 1;
        if header.ends.contains(&token) {
            stop = StopReason::EndTurn;
            break;
        }
        if let Some(piece) = words.step(token).map_err(|error| failed(&error))? {
            let CheckedText { text, ended } = stops.push(&piece);
            say(text)?;
            if ended {
                stop = StopReason::StopSequence;
                break;
            }
        } else {
            say(String::new())?;
        }
        if output_tokens < most {
            logits =
                Some(forward(&[token], prompt.len() + output_tokens - 1).map_err(|error| failed(&error))?);
        }
    }
    if stop != StopReason::StopSequence {
        say(stops.rest())?;
    }
    Ok(WorkerResult { stop, input_tokens: prompt.len() as u64, output_tokens: output_tokens as u64 })
}

fn sampling(temperature: Option<f64>) -> Sampling {
    match temperature.unwrap_or(TEMPERATURE) {
        // Scores are divided by the temperature, which overflows near zero.
        cold if cold < 1e-3 => Sampling::ArgMax,
        temperature => Sampling::TopP { p: TOP_P, temperature },
    }
}
