//! A model that runs in this process, loaded from a file.

mod model_file;
mod prompt;
mod stop_sequences;
mod worker;

use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use hospes_model::{CreateMessageParams, CreateMessageResult, TextContent};
use tokio::sync::mpsc;

use self::model_file::ModelFileHeader;
use self::worker::{WorkerEvent, WorkerRequest, WorkerResult};
use super::omit_metadata;
use crate::provider::DeltaListener;
use crate::{
    AnswerDelta, GenerationFailure, GenerationFuture, ModelAnswer, ModelError, ModelLimits, ModelProvider,
    OmittedPart, SettingError, TimeoutStage, TokenUsage,
};

const NAME: &str = "a local model";

/// Maximum number of requests that wait for the model, besides the one being answered.
const MAX_QUEUED_REQUESTS: usize = 8;
/// Maximum number of pieces of an answer that are queued for the listener.
const MAX_QUEUED_PIECES: usize = 64;

/// A model that runs in this process on the CPU, loaded from a GGUF file (feature `local-model`). The file needs the
/// architecture `llama` (such as SmolLM2), a byte-level BPE tokenizer and a chat template. Only text is supported, no
/// tools.
///
/// The file's header is read by [`LocalModel::open`]. The first request loads the weights on a separate thread; they
/// stay in memory until the last clone is dropped. One request is answered at a time, and eight may wait.
///
/// Text of messages never becomes control tokens: only the template can start or end a turn for the model.
///
/// ```no_run
/// use hospes_models::{ModelLimits, LocalModel, ModelProvider};
///
/// let model = LocalModel::open("models/smollm2.gguf", ModelLimits::default())?;
/// assert!(model.context().is_some_and(|tokens| tokens <= 4096));
/// # Ok::<(), hospes_models::SettingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LocalModel {
    header: Arc<ModelFileHeader>,
    limits: ModelLimits,
    /// Queue of the thread that has the weights. `None` before the first request.
    thread: Arc<Mutex<Option<SyncSender<WorkerRequest>>>>,
}

impl LocalModel {
    /// Opens the model in this file. Of the limits, only [`whole`](ModelLimits::whole) and
    /// [`max_answer_bytes`](ModelLimits::max_answer_bytes) apply.
    ///
    /// # Errors
    /// An error for the setting `path`, if the file cannot be read, is not in GGUF format, or has an unsupported kind
    /// of model.
    pub fn open(path: impl AsRef<Path>, limits: ModelLimits) -> Result<Self, SettingError> {
        let header = ModelFileHeader::read(path.as_ref()).map_err(|why| SettingError::new("path", why))?;
        Ok(Self { header: Arc::new(header), limits, thread: Arc::default() })
    }

    /// Sends a request to the model's thread. The thread is started if there is none: before the first request, and
    /// after a panic in the library.
    fn submit_request(&self, request: WorkerRequest) -> Result<(), ModelError> {
        let crowded = || ModelError::Crowded { model: self.header.name.clone(), limit: MAX_QUEUED_REQUESTS };
        // Held until the new thread is stored here, so that two requests never load the weights twice.
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let mut request = request;
        if let Some(queue) = thread.as_ref() {
            // Never waits, because this runs in an async task; the queue has capacity for all requests that may wait.
            match queue.try_send(request) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => return Err(crowded()),
                Err(TrySendError::Disconnected(back)) => request = back,
            }
        }
        let (queue, requests) = sync_channel(MAX_QUEUED_REQUESTS);
        let header = Arc::clone(&self.header);
        std::thread::Builder::new()
            .name("local-model".to_owned())
            .spawn(move || worker::run(&header, &requests))
            .map_err(|error| self.unusable(format!("its thread could not be started ({error})")))?;
        let taken = queue.try_send(request).map_err(|_| crowded());
        *thread = Some(queue);
        taken
    }

    fn unusable(&self, why: String) -> ModelError {
        ModelError::Unusable { model: self.header.name.clone(), why }
    }

    async fn generate_answer(
        &self,
        params: &CreateMessageParams,
        heard: &mut DeltaListener<'_>,
    ) -> Result<ModelAnswer, GenerationFailure> {
        let left_out = self.check(params)?;
        // When this future is dropped, so is the receiver, and the thread stops at its next piece.
        let (told, mut said) = mpsc::channel(MAX_QUEUED_PIECES);
        self.submit_request(WorkerRequest {
            turns: prompt::turns(params)?,
            max_tokens: params.max_tokens,
            temperature: params.temperature,
            stops: params.stop_sequences.clone(),
            told,
        })?;
        // One limit for the whole answer, including the wait in the queue.
        let begun = tokio::time::sleep(self.limits.whole);
        tokio::pin!(begun);
        let mut partial = String::new();
        let failure = loop {
            // Biased to received events, so that a complete answer takes precedence over the limit. Nothing is lost
            // when `recv` is dropped.
            let said = tokio::select! {
                biased;
                said = said.recv() => said,
                () = &mut begun => {
                    let (at, limit) = (self.header.name.clone(), self.limits.whole);
                    break ModelError::TimedOut { at, stage: TimeoutStage::Whole, limit };
                }
            };
            match said {
                Some(WorkerEvent::Piece(piece))
                    if partial.len() + piece.len() > self.limits.max_answer_bytes =>
                {
                    let (at, limit) = (self.header.name.clone(), self.limits.max_answer_bytes);
                    break ModelError::TooLong { at, limit };
                }
                Some(WorkerEvent::Piece(piece)) => {
                    heard(AnswerDelta::Text(&piece));
                    partial.push_str(&piece);
                }
                Some(WorkerEvent::Ended(WorkerResult { stop, input_tokens, output_tokens })) => {
                    let result = CreateMessageResult::new(&self.header.name, TextContent::new(partial))
                        .with_stop_reason(stop);
                    let answer = ModelAnswer::new(result, Some(TokenUsage::new(input_tokens, output_tokens)));
                    return Ok(ModelAnswer { left_out, ..answer });
                }
                Some(WorkerEvent::Failed(error)) => break error,
                None => break self.unusable("its thread ended before the answer was complete".to_owned()),
            }
        };
        // A local model costs nothing, but its computed tokens count.
        let may_have_cost = !failure.is_before_sending();
        Err(GenerationFailure { error: failure, tries: 1, may_have_cost, usage: None, partial })
    }
}

impl ModelProvider for LocalModel {
    fn name(&self) -> &str {
        NAME
    }

    fn model(&self) -> &str {
        &self.header.name
    }

    /// Returns the file's own limit, at most 4,096 tokens.
    fn context(&self) -> Option<u64> {
        Some(self.header.context as u64)
    }

    fn check(&self, params: &CreateMessageParams) -> Result<Vec<OmittedPart>, ModelError> {
        prompt::turns(params)?;
        let mut left_out = Vec::new();
        omit_metadata(params, NAME, &mut left_out);
        Ok(left_out)
    }

    fn generate<'a>(
        &'a self,
        params: &'a CreateMessageParams,
        heard: &'a mut DeltaListener<'_>,
    ) -> GenerationFuture<'a> {
        Box::pin(self.generate_answer(params, heard))
    }
}
