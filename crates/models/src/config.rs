//! Configuration of models: the tables `[models.NAME]`.

mod script;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer};

use crate::{
    Allowance, Anthropic, ApiKey, Gemini, MaxTokensField, Model, ModelAbilities, ModelLimits, ModelProvider,
    ModelScores, Money, Ollama, OpenAi, ProviderAccess, RequestRate, ScriptedProvider, SettingError,
    TokenPrices,
};

pub use script::{ScriptedCall, ScriptedReply};

/// A table `[models.NAME]`.
///
/// ```
/// let fast: hospes_models::ModelConfig = toml::from_str(r#"
///     provider = "openai"                 # or anthropic, gemini, ollama, local, scripted
///     model = "gpt-5-mini"                # its name there; the table's name if it is left out
///     api_key = "sk-…"                    # a reference in the file: "${OPENAI_API_KEY}"
///     # base_url = "http://127.0.0.1:8080/v1"
///     # headers = { X-Title = "hospes" }  # kept secret, like the key
///     aliases = ["claude-3-haiku"]        # hints that find it, besides its own names
///     scores = { cost = 0.9, speed = 0.8, intelligence = 0.5 }
///     prices = { input = 0.25, output = 2.00 }   # for a million tokens
///     modalities = ["text", "image"]      # and "audio"; text alone by default
///     tools = true
///     context = 400_000                   # tokens, prompt and answer together
///     max_output = 128_000
///     timeout = "5m"                      # and connect_timeout, first_byte_timeout, idle_timeout
///     retries = 2                         # and max_retry_wait, max_answer_bytes
/// "#)?;
/// let model = fast.build("fast")?;
/// assert_eq!((model.name.as_str(), model.provider.name(), model.provider.model()), ("fast", "OpenAI", "gpt-5-mini"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The reader of the file replaces references to variables with [`expand`](Self::expand).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelConfig {
    /// Provider of the model.
    pub provider: ProviderKind,
    /// Name of the model at the provider. The default is the name of the table.
    pub model: Option<String>,
    /// `local`: path of the GGUF file.
    pub path: Option<String>,
    /// Base URL of the provider. The default is the provider's public address, for Ollama this machine.
    pub base_url: Option<String>,
    /// API key.
    pub api_key: Option<ApiKey>,
    /// Additional headers, whose values are secret.
    #[serde(default)]
    pub headers: BTreeMap<String, ApiKey>,
    /// Names of other models that this one replaces.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Scores of the model.
    #[serde(default)]
    pub scores: ModelScores,
    /// Prices of the model.
    pub prices: Option<TokenPrices>,
    /// Kinds of input that the model takes. Text is the default, and always included.
    #[serde(default)]
    pub modalities: Vec<InputModality>,
    /// True if the model takes tools (default).
    pub tools: Option<bool>,
    /// Maximum number of tokens of prompt and answer together.
    pub context: Option<u64>,
    /// Maximum number of tokens of an answer.
    pub max_output: Option<u64>,
    /// True if the model is used (default).
    pub enabled: Option<bool>,
    /// OpenAI format: name of the field for the maximum number of tokens.
    pub max_tokens_field: Option<MaxTokensField>,
    /// OpenAI format: true if token counts are requested (default).
    pub stream_usage: Option<bool>,
    /// Ollama: context size with which the model is loaded, in tokens.
    pub num_ctx: Option<u64>,
    /// `scripted`: replies, repeated in a cycle.
    #[serde(default)]
    pub replies: Vec<ScriptedReply>,
    #[serde(default, deserialize_with = "time")]
    connect_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    first_byte_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    idle_timeout: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    timeout: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    max_retry_wait: Option<Duration>,
    retries: Option<u32>,
    max_answer_bytes: Option<usize>,
}

/// Provider whose API a model is reached through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProviderKind {
    /// OpenAI's chat completions, at OpenAI or a compatible server.
    #[serde(alias = "openai-compatible")]
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's Gemini API.
    #[serde(alias = "google")]
    Gemini,
    /// Ollama's chat API.
    Ollama,
    /// A GGUF file run in this process, in programs built with the feature `local-model`.
    Local,
    /// A script, for tests and demonstrations.
    Scripted,
}

/// Kind of input that a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum InputModality {
    /// Text, which every model takes.
    Text,
    /// Images.
    Image,
    /// Audio.
    Audio,
}

impl ModelConfig {
    /// Replaces references to variables in the settings that may contain them: `model`, `path`, `base_url`, `api_key`
    /// and the headers. `replace` receives the setting's name and the text as written.
    ///
    /// # Errors
    /// The first error of `replace`.
    pub fn expand<E>(&mut self, mut replace: impl FnMut(&str, &str) -> Result<String, E>) -> Result<(), E> {
        for (setting, text) in
            [("model", &mut self.model), ("path", &mut self.path), ("base_url", &mut self.base_url)]
        {
            if let Some(text) = text {
                *text = replace(setting, text)?;
            }
        }
        if let Some(key) = &mut self.api_key {
            *key = ApiKey::new(replace("api_key", key.reveal())?);
        }
        for (name, value) in &mut self.headers {
            *value = ApiKey::new(replace(&format!("headers.{name}"), value.reveal())?);
        }
        Ok(())
    }

    /// Builds the model with this name.
    ///
    /// # Errors
    /// The invalid setting, with its full name, and the reason.
    pub fn build(&self, name: &str) -> Result<Model, SettingError> {
        self.build_unqualified(name)
            .map_err(|error| SettingError::new(format!("models.{name}.{}", error.setting), error.why))
    }

    fn build_unqualified(&self, name: &str) -> Result<Model, SettingError> {
        self.check()?;
        let mut model = Model::shared(name, self.provider(name)?);
        model.aliases.clone_from(&self.aliases);
        (model.scores, model.prices) = (self.scores, self.prices);
        model.abilities = ModelAbilities {
            images: self.modalities.contains(&InputModality::Image),
            audio: self.modalities.contains(&InputModality::Audio),
            tools: self.tools.unwrap_or(self.provider != ProviderKind::Local),
            // A configured context larger than the known one is ignored.
            context: self.context.into_iter().chain(model.provider.context()).min(),
            max_output: self.max_output,
        };
        Ok(model)
    }

    /// Checks for mistakes that need no request: numbers out of range, settings of another provider.
    fn check(&self) -> Result<(), SettingError> {
        let ModelScores { cost, speed, intelligence } = self.scores;
        for (setting, score) in [("cost", cost), ("speed", speed), ("intelligence", intelligence)] {
            if !(0.0..=1.0).contains(&score) {
                return Err(SettingError::new(
                    format!("scores.{setting}"),
                    format!("{score} is not between 0 and 1"),
                ));
            }
        }
        if self.aliases.iter().any(|alias| alias.trim().is_empty()) {
            return Err(SettingError::new(
                "aliases",
                "an alias must not be empty: it would match every hint",
            ));
        }
        for (setting, zero) in [
            ("context", self.context == Some(0)),
            ("max_output", self.max_output == Some(0)),
            ("max_answer_bytes", self.max_answer_bytes == Some(0)),
        ] {
            if zero {
                return Err(SettingError::new(setting, "it must be greater than 0"));
            }
        }
        let of = |kind, setting: &str, set: bool| {
            if set && self.provider != kind {
                let why = format!("it is a setting of the provider {kind:?}");
                return Err(SettingError::new(setting, why.to_lowercase()));
            }
            Ok(())
        };
        of(ProviderKind::OpenAi, "max_tokens_field", self.max_tokens_field.is_some())?;
        of(ProviderKind::OpenAi, "stream_usage", self.stream_usage.is_some())?;
        of(ProviderKind::Ollama, "num_ctx", self.num_ctx.is_some())?;
        of(ProviderKind::Scripted, "replies", !self.replies.is_empty())?;
        of(ProviderKind::Local, "path", self.path.is_some())?;
        if self.provider == ProviderKind::Local {
            self.check_local()?;
        }
        if self.provider == ProviderKind::Scripted && self.replies.is_empty() {
            return Err(SettingError::new("replies", "a scripted model requires replies"));
        }
        Ok(())
    }

    /// Checks for settings that do not apply to a model in this process.
    fn check_local(&self) -> Result<(), SettingError> {
        for (setting, set) in [
            ("model", self.model.is_some()),
            ("base_url", self.base_url.is_some()),
            ("api_key", self.api_key.is_some()),
            ("headers", !self.headers.is_empty()),
            ("connect_timeout", self.connect_timeout.is_some()),
            ("first_byte_timeout", self.first_byte_timeout.is_some()),
            ("idle_timeout", self.idle_timeout.is_some()),
            ("retries", self.retries.is_some()),
            ("max_retry_wait", self.max_retry_wait.is_some()),
        ] {
            if set {
                return Err(SettingError::new(
                    setting,
                    "it does not apply to a local model, which uses no network",
                ));
            }
        }
        if self.tools == Some(true) || self.modalities.iter().any(|kind| *kind != InputModality::Text) {
            return Err(SettingError::new(
                "tools and modalities",
                "a local model supports only text and no tools",
            ));
        }
        Ok(())
    }

    #[cfg(feature = "local-model")]
    fn local(&self) -> Result<std::sync::Arc<dyn ModelProvider>, SettingError> {
        let missing = || SettingError::new("path", "a local model requires a path: its GGUF file");
        let path = self.path.as_deref().ok_or_else(missing)?;
        Ok(std::sync::Arc::new(crate::LocalModel::open(path, self.access().limits)?))
    }

    #[cfg(not(feature = "local-model"))]
    fn local(&self) -> Result<std::sync::Arc<dyn ModelProvider>, SettingError> {
        let why = "this program was built without local models (Cargo feature `local-model`); serve the file with \
                   Ollama, or build the program with this feature";
        Err(SettingError::new("provider", why))
    }

    fn provider(&self, name: &str) -> Result<std::sync::Arc<dyn ModelProvider>, SettingError> {
        let model = self.model.as_deref().unwrap_or(name);
        let access = self.access();
        Ok(match self.provider {
            ProviderKind::OpenAi => {
                let mut openai = OpenAi::new(model, access)?;
                if let Some(field) = self.max_tokens_field {
                    openai = openai.max_tokens_field(field);
                }
                std::sync::Arc::new(openai.stream_usage(self.stream_usage.unwrap_or(true)))
            }
            ProviderKind::Anthropic => std::sync::Arc::new(Anthropic::new(model, access)?),
            ProviderKind::Gemini => std::sync::Arc::new(Gemini::new(model, access)?),
            ProviderKind::Ollama => {
                let ollama = Ollama::new(model, access)?;
                std::sync::Arc::new(self.num_ctx.into_iter().fold(ollama, Ollama::num_ctx))
            }
            ProviderKind::Local => self.local()?,
            ProviderKind::Scripted => {
                std::sync::Arc::new(ScriptedProvider::repeating(&self.replies).named(model))
            }
        })
    }

    fn access(&self) -> ProviderAccess {
        let usual = ModelLimits::default();
        let limits = ModelLimits {
            connect: self.connect_timeout.unwrap_or(usual.connect),
            first_byte: self.first_byte_timeout.unwrap_or(usual.first_byte),
            idle: self.idle_timeout.unwrap_or(usual.idle),
            whole: self.timeout.unwrap_or(usual.whole),
            max_answer_bytes: self.max_answer_bytes.unwrap_or(usual.max_answer_bytes),
            retries: self.retries.unwrap_or(usual.retries),
            max_wait: self.max_retry_wait.unwrap_or(usual.max_wait),
            ..usual
        };
        ProviderAccess {
            base_url: self.base_url.clone(),
            api_key: self.api_key.clone(),
            headers: self.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            limits,
        }
    }
}

/// Spending limits of an account or of all accounts of a kind, as a table of a configuration.
///
/// ```
/// let table: hospes_models::AllowanceConfig = toml::from_str(r#"
///     tokens = 100_000            # in and out, within the window
///     money = 1.50                # likewise; models without prices cannot be used then
///     window = "24h"              # the default
///     calls = 10                  # no more often than this
///     per = "1m"                  # the default
/// "#)?;
/// assert_eq!(table.build("sampling.servers.files")?.tokens, Some(100_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AllowanceConfig {
    /// Maximum number of tokens, input and output, within the window.
    pub tokens: Option<u64>,
    /// Maximum amount of money within the window.
    #[serde(deserialize_with = "money")]
    pub money: Option<Money>,
    /// Time for which spending counts. The default is one day.
    #[serde(deserialize_with = "time")]
    pub window: Option<Duration>,
    /// Maximum number of requests in the time `per`.
    pub calls: Option<u32>,
    /// Period of `calls`. The default is one minute.
    #[serde(deserialize_with = "time")]
    pub per: Option<Duration>,
    /// Allows unlimited spending, which must be set explicitly.
    pub unlimited: bool,
}

impl AllowanceConfig {
    /// Builds the allowance. `table` is the name of the table, for messages.
    ///
    /// # Errors
    /// The invalid setting, with its full name, and the reason.
    pub fn build(&self, table: &str) -> Result<Allowance, SettingError> {
        let limited = self.tokens.is_some() || self.money.is_some();
        if limited == self.unlimited {
            let why = "set `tokens`, `money` or both, or only `unlimited = true`";
            return Err(SettingError::new(table, why));
        }
        if self.per.is_some() && self.calls.is_none() {
            return Err(SettingError::new(
                format!("{table}.per"),
                "it applies only together with `calls`, which is not set",
            ));
        }
        let per = self.per.unwrap_or(Duration::from_secs(60));
        let mut allowance = Allowance::unlimited().every(self.window.unwrap_or(Allowance::WINDOW));
        (allowance.tokens, allowance.money) = (self.tokens, self.money);
        allowance.rate = self.calls.map(|calls| RequestRate::new(calls, per));
        Ok(allowance)
    }
}

fn money<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Money>, D::Error> {
    crate::money::from_units(deserializer).map(Some)
}

/// Parses a positive duration such as `"30s"`, `"2m"` or `"1h 30m"`.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let expected = "it must be a positive duration, such as \"30s\" or \"2m\"";
    let text = Option::<String>::deserialize(deserializer).map_err(|_| de::Error::custom(expected))?;
    let Some(text) = text else { return Ok(None) };
    let time = text.parse::<jiff::SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
    let time = time.filter(|time| !time.is_zero());
    time.map(Some).ok_or_else(|| de::Error::custom(expected))
}
