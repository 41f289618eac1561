//! The header of a GGUF file, and the model in it.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::tokenizer::TokenizerFromGguf as _;
use candle_transformers::models::quantized_llama::{MAX_SEQ_LEN, ModelWeights};
use tokenizers::Tokenizer;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;

/// The only supported architecture.
const ARCHITECTURE: &str = "llama";

/// Metadata of the model, read before its weights are loaded.
#[derive(Debug)]
pub(super) struct ModelFileHeader {
    pub(super) path: PathBuf,
    /// Name of the model in the file, or the name of the file.
    pub(super) name: String,
    /// Context size in tokens, prompt and answer together.
    pub(super) context: usize,
    /// Chat template in Jinja syntax.
    pub(super) template: String,
    pub(super) bos: String,
    pub(super) eos: String,
    /// Tokens that end the model's turn.
    pub(super) ends: Vec<u32>,
}

/// A loaded model.
pub(super) struct LoadedModel {
    /// Loaded weights. Each request works on a clone, which shares the weights and has its own memory of the
    /// conversation.
    pub(super) weights: ModelWeights,
    /// Tokenizer that recognizes control tokens such as `<|im_end|>`, for the text of the template.
    pub(super) marks: Tokenizer,
    /// Tokenizer that treats them as ordinary text, for all other text.
    pub(super) plain: Tokenizer,
}

impl ModelFileHeader {
    /// Reads the header.
    ///
    /// # Errors
    /// A description of the problem with the file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let at = path.display();
        let (content, _) = open(path)?;
        let text = |key: &str| content.metadata.get(key).and_then(|value| value.to_string().ok());
        let architecture = text("general.architecture").map_or("none", String::as_str);
        if architecture != ARCHITECTURE {
            return Err(format!(
                "the model in {at} has the unsupported architecture {architecture:?}; only {ARCHITECTURE:?} can be run \
                 here"
            ));
        }
        // Created and dropped, so that errors show at the start and not in the first request.
        tokenizer(&content).map_err(|why| format!("the tokenizer in {at} cannot be used: {why}"))?;
        let template = text("tokenizer.chat_template").cloned().ok_or_else(|| {
            format!("{at} has no chat template (tokenizer.chat_template); use a model made for conversations")
        })?;
        super::prompt::check(&template)
            .map_err(|why| format!("the chat template in {at} is invalid: {why}"))?;
        let own = number(&content, &format!("{ARCHITECTURE}.context_length")).unwrap_or(MAX_SEQ_LEN);
        let id = |key: &str| number(&content, &format!("tokenizer.ggml.{key}_token_id"));
        let tokens = content.metadata.get("tokenizer.ggml.tokens").and_then(|value| value.to_vec().ok());
        let word = |key: &str| {
            let token = id(key).and_then(|id| tokens?.get(id)?.to_string().ok());
            token.cloned().unwrap_or_default()
        };
        let ends: Vec<u32> =
            ["eos", "eot", "eom"].iter().filter_map(|key| u32::try_from(id(key)?).ok()).collect();
        if ends.is_empty() {
            return Err(format!(
                "{at} does not define the end-of-sequence token (tokenizer.ggml.eos_token_id)"
            ));
        }
        let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self {
            name: text("general.name").filter(|name| !name.trim().is_empty()).cloned().unwrap_or_else(stem),
            // The library has tables only up to this length.
            context: own.clamp(1, MAX_SEQ_LEN),
            bos: word("bos"),
            eos: word("eos"),
            template,
            ends,
            path: path.to_owned(),
        })
    }

    /// Loads tokenizers and weights.
    pub(super) fn load(&self) -> Result<LoadedModel, String> {
        let (content, mut reader) = open(&self.path)?;
        let marks = tokenizer(&content)?;
        let mut plain = marks.clone();
        plain.set_encode_special_tokens(true);
        let weights = ModelWeights::from_gguf(content, &mut reader, &Device::Cpu)
            .map_err(|error| format!("its weights cannot be read ({error})"))?;
        Ok(LoadedModel { weights, marks, plain })
    }
}

fn open(path: &Path) -> Result<(Content, BufReader<File>), String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("{} cannot be read: {error}", path.display());
    let mut reader = BufReader::new(File::open(path).map_err(|error| unreadable(&error))?);
    let mut magic = [0; 4];
    if reader.read_exact(&mut magic).is_err() || &magic != b"GGUF" {
        return Err(format!("{} is not a GGUF file", path.display()));
    }
    reader.rewind().map_err(|error| unreadable(&error))?;
    let content = Content::read(&mut reader).map_err(|error| unreadable(&error))?;
    Ok((content, reader))
}

fn number(content: &Content, key: &str) -> Option<usize> {
    let value = match content.metadata.get(key)? {
        Value::U32(number) => u64::from(*number),
        Value::U64(number) => *number,
        Value::I32(number) => u64::try_from(*number).ok()?,
        Value::I64(number) => u64::try_from(*number).ok()?,
        _ => return None,
    };
    usize::try_from(value).ok()
}

fn tokenizer(content: &Content) -> Result<Tokenizer, String> {
    let mut tokenizer = Tokenizer::from_gguf(content).map_err(|error| error.to_string())?;
    let pre = content.metadata.get("tokenizer.ggml.pre").and_then(|value| value.to_string().ok());
    // The library knows the pre-tokenizers of three families. Its usual one, of GPT-2, adds a blank before each text,
    // which none of these models expects.
    let bytes = || ByteLevel::new(false, true, true);
    let cuts: Option<PreTokenizerWrapper> = match pre.map(String::as_str) {
        Some("qwen2" | "smaug-bpe" | "lfm2" | "llama3") => None,
        // Each digit is a token of its own.
        Some("smollm") => Some(Sequence::new(vec![Digits::new(true).into(), bytes().into()]).into()),
        // Newer files use the name "llama-bpe" for Llama 3's tokenizer, which the library does not know.
        Some("llama-bpe") => {
            return Err("its pre-tokenizer \"llama-bpe\" is not supported".to_owned());
        }
        _ => Some(bytes().into()),
    };
    if cuts.is_some() {
        tokenizer.with_pre_tokenizer(cuts);
    }
    Ok(tokenizer)
}
