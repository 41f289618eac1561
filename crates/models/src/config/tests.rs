//! Tests of the tables, and of the messages about mistakes in them.

use super::*;

fn read(text: &str) -> ModelConfig {
    toml::from_str(text).unwrap()
}

fn mistake(text: &str) -> String {
    match toml::from_str::<ModelConfig>(text) {
        Ok(config) => config.build("m").unwrap_err().to_string(),
        Err(error) => error.message().to_owned(),
    }
}

#[test]
fn a_short_table_is_enough() {
    for (text, provider, model) in [
        ("provider = 'openai'\napi_key = 'k-123'", "OpenAI", "m"),
        ("provider = 'openai'\nbase_url = 'http://127.0.0.1:1/v1'", "OpenAI", "m"),
        ("provider = 'anthropic'\nmodel = 'claude-x'\napi_key = 'k-123'", "Anthropic", "claude-x"),
        ("provider = 'gemini'\nmodel = 'models/gemini-x'\napi_key = 'k-123'", "Gemini", "gemini-x"),
        ("provider = 'ollama'\nmodel = 'llama3.2:1b'", "Ollama", "llama3.2:1b"),
        ("provider = 'scripted'\nreplies = ['Hello.']", "a script", "m"),
    ] {
        let built = read(text).build("m").unwrap();
        assert_eq!((built.provider.name(), built.provider.model()), (provider, model), "{text}");
        assert_eq!(
            (built.abilities, built.scores),
            (ModelAbilities::default(), ModelScores::default()),
            "{text}"
        );
    }
}

#[test]
fn everything_that_is_said_is_heard() {
    let built = read(
        r#"
        provider = "openai-compatible"
        base_url = "http://localhost:1/v1/"
        headers = { X-Title = "hospes" }
        aliases = ["a"]
        scores = { cost = 1, speed = 0.25 }
        prices = { input = "0.25", output = 2 }
        modalities = ["text", "image", "audio"]
        tools = false
        context = 4_096
        max_output = 512
        max_tokens_field = "max_completion_tokens"
        stream_usage = false
        connect_timeout = "1s"
        first_byte_timeout = "2s"
        idle_timeout = "3s"
        timeout = "4m"
        max_retry_wait = "5s"
        retries = 6
        max_answer_bytes = 7
    "#,
    );
    let limits = built.access().limits;
    let seconds = Duration::from_secs;
    let times = [limits.connect, limits.first_byte, limits.idle, limits.whole, limits.max_wait];
    assert_eq!(times, [seconds(1), seconds(2), seconds(3), seconds(240), seconds(5)]);
    assert_eq!((limits.retries, limits.max_answer_bytes), (6, 7));
    let model = built.build("x").unwrap();
    assert_eq!(model.scores, ModelScores::new(1.0, 0.25, 0.5));
    assert_eq!(model.prices.unwrap().input.to_string(), "0.25");
    let abilities = ModelAbilities {
        images: true,
        audio: true,
        tools: false,
        context: Some(4_096),
        max_output: Some(512),
    };
    assert_eq!((model.abilities, model.aliases), (abilities, vec!["a".to_owned()]));
}

#[test]
fn mistakes_name_the_setting_and_what_it_should_be() {
    for (text, said) in [
        (
            "provider = 'opena1'",
            "unknown variant `opena1`, expected one of `openai`, `openai-compatible`, `anthropic`",
        ),
        ("provider = 'openai'\nkey = 'x'", "unknown field `key`, expected one of"),
        ("provider = 'openai'", "models.m.api_key: https://api.openai.com/v1 requires an API key"),
        ("provider = 'openai'\napi_key = \"a\\nb\"", "models.m.api_key: it is empty or has characters"),
        (
            "provider = 'openai'\nbase_url = 'localhost:1'",
            "models.m.base_url: it must be an http or https URL",
        ),
        ("provider = 'openai'\nbase_url = 'https://u:s3cret@h/'", "models.m.base_url: it holds credentials"),
        ("provider = 'openai'\nbase_url = 'https://h/?key=s3cret'", "models.m.base_url: it has a query"),
        (
            "provider = 'openai'\napi_key = 's3cret'\nbase_url = 'http://example.org/v1'",
            "models.m.base_url: a key would be sent unencrypted over the network",
        ),
        (
            "provider = 'ollama'\nheaders = { 'a b' = 's3cret' }",
            "models.m.headers.a b: it is not a valid header name",
        ),
        (
            "provider = 'gemini'\nmodel = 'x/../y'\napi_key = 's3cret'",
            "models.m.model: it is not a valid name of a Gemini model",
        ),
        ("provider = 'ollama'\nscores = { cost = 2.0 }", "models.m.scores.cost: 2 is not between 0 and 1"),
        ("provider = 'ollama'\naliases = ['a', ' ']", "models.m.aliases: an alias must not be empty"),
        ("provider = 'ollama'\ncontext = 0", "models.m.context: it must be greater than 0"),
        (
            "provider = 'ollama'\nstream_usage = true",
            "models.m.stream_usage: it is a setting of the provider openai",
        ),
        (
            "provider = 'openai'\napi_key = 's3cret'\nnum_ctx = 1",
            "models.m.num_ctx: it is a setting of the provider ollama",
        ),
        (
            "provider = 'ollama'\nprices = { input = -1.0, output = 1.0 }",
            "it must be an amount of 0 or more, such as 1.5",
        ),
        (
            "provider = 'ollama'\ntimeout = 'soon'",
            "it must be a positive duration, such as \"30s\" or \"2m\"",
        ),
        ("provider = 'ollama'\ntimeout = '0s'", "it must be a positive duration"),
        ("provider = 'ollama'\ntimeout = 5", "it must be a positive duration"),
        ("provider = 'scripted'\nreplies = [5]", "a reply is a string, or a table with `tool`"),
        ("provider = 'scripted'\nreplies = [{ tool = 'a', args = {} }]", "a reply is a string, or a table"),
        ("provider = 'scripted'", "models.m.replies: a scripted model requires replies"),
    ] {
        let error = mistake(text);
        assert!(error.contains(said), "{text}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn keys_are_expanded_by_whoever_reads_the_file_and_never_shown() {
    let mut config = read(
        "provider = 'openai'\napi_key = '${KEY}'\nheaders = { X-Other = '${OTHER}' }\nbase_url = 'https://${HOST}/v1'",
    );
    let mut seen = Vec::new();
    config
        .expand(|setting, text| {
            seen.push(format!("{setting}={text}"));
            match text {
                "${KEY}" | "${OTHER}" => Ok(" s3cret-key \n".to_owned()),
                other => Ok::<_, ()>(other.replace("${HOST}", "example.org")),
            }
        })
        .unwrap();
    assert_eq!(seen, ["base_url=https://${HOST}/v1", "api_key=${KEY}", "headers.X-Other=${OTHER}"]);
    let model = config.build("m").unwrap();
    let shown = format!("{config:?} {model:?} {}", config.api_key.as_ref().unwrap());
    assert!(shown.contains("example.org") && !shown.contains("s3cret"), "{shown}");
    assert_eq!(config.api_key.as_ref().unwrap().reveal(), "s3cret-key", "blanks of a file are cut off");
    assert_eq!(config.expand(|_, _| Err("unset")), Err("unset"));
}

#[test]
fn an_allowance_says_what_it_limits() {
    let read = |text: &str| toml::from_str::<AllowanceConfig>(text).unwrap().build("t");
    let day = Duration::from_secs(86_400);
    let all = read("tokens = 5\nmoney = '0.5'\nwindow = '1h'\ncalls = 3\nper = '2m'").unwrap();
    let rate = RequestRate::new(3, Duration::from_secs(120));
    let wanted = Allowance::money(Money::units(0.5).unwrap())
        .and_tokens(5)
        .every(Duration::from_secs(3_600))
        .rate(rate);
    assert_eq!(all, wanted);
    assert_eq!(read("unlimited = true").unwrap(), Allowance::unlimited());
    assert_eq!(read("tokens = 0").unwrap(), Allowance::tokens(0).every(day));
    for (text, said) in [
        ("", "t: set `tokens`, `money` or both, or only `unlimited = true"),
        ("calls = 3", "t: set `tokens`, `money` or both"),
        ("tokens = 1\nunlimited = true", "t: set `tokens`, `money` or both, or only `unlimited = true`"),
        ("tokens = 1\nper = '1m'", "t.per: it applies only together with `calls`"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with(said), "{text}: {error}");
    }
    assert!(toml::from_str::<AllowanceConfig>("money = -1").is_err());
}

#[test]
fn a_local_model_has_a_file_and_nothing_of_a_network() {
    assert!(
        mistake("provider = 'openai'\napi_key = 'k'\npath = 'x.gguf'")
            .starts_with("models.m.path: it is a setting")
    );
    for (setting, text) in [
        ("model", "model = 'x'"),
        ("base_url", "base_url = 'http://127.0.0.1:1'"),
        ("api_key", "api_key = 'k-123'"),
        ("retries", "retries = 1"),
        ("tools and modalities", "tools = true"),
        ("tools and modalities", "modalities = ['image']"),
    ] {
        let said = mistake(&format!("provider = 'local'\npath = 'x.gguf'\n{text}"));
        assert!(said.starts_with(&format!("models.m.{setting}: ")) && said.contains("local model"), "{said}");
    }
}

#[cfg(not(feature = "local-model"))]
#[test]
fn a_program_without_models_of_its_own_says_so() {
    let said = mistake("provider = 'local'\npath = 'x.gguf'");
    assert!(said.starts_with("models.m.provider: this program was built without"), "{said}");
}

#[cfg(feature = "local-model")]
#[test]
fn a_file_that_holds_no_model_is_named() {
    assert!(mistake("provider = 'local'").starts_with("models.m.path: a local model requires a path"));
    let said = mistake("provider = 'local'\npath = 'Cargo.toml'");
    assert_eq!(said, "models.m.path: Cargo.toml is not a GGUF file");
    let said = mistake("provider = 'local'\npath = 'nowhere.gguf'");
    assert!(said.starts_with("models.m.path: nowhere.gguf cannot be read"), "{said}");
}
