//! Tests of the providers' formats, with messages that were observed.

mod requests;
mod streams;

use std::sync::LazyLock;

use super::*;

fn at(url: &str) -> ProviderAccess {
    ProviderAccess::default().base_url(url)
}

fn openai() -> &'static OpenAi {
    static ONE: LazyLock<OpenAi> = LazyLock::new(|| OpenAi::new("m", at("http://127.0.0.1:1/v1")).unwrap());
    &ONE
}

fn anthropic() -> &'static Anthropic {
    static ONE: LazyLock<Anthropic> =
        LazyLock::new(|| Anthropic::new("m", at("http://127.0.0.1:1")).unwrap());
    &ONE
}

fn gemini() -> &'static Gemini {
    static ONE: LazyLock<Gemini> =
        LazyLock::new(|| Gemini::new("m", at("http://127.0.0.1:1/v1beta")).unwrap());
    &ONE
}

fn ollama() -> &'static Ollama {
    static ONE: LazyLock<Ollama> = LazyLock::new(|| Ollama::new("m", at("http://127.0.0.1:1")).unwrap());
    &ONE
}
