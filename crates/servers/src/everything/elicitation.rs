//! Tools that ask the person, the model or the client in the middle of the call.
//!
//! Nothing here says how: whether the question travels as a request of the server or ends the round with
//! `input_required` is decided by the revision that the client speaks.

use hospes::model::{ElicitResult, Root};
use hospes::prelude::*;

/// What the specification's examples call an account.
#[derive(Deserialize, JsonSchema)]
struct Account {
    /// The name to sign in with.
    #[expect(dead_code, reason = "the tool shows the content as it came")]
    username: String,
    /// Where to write to.
    #[expect(dead_code, reason = "the tool shows the content as it came")]
    #[schemars(email)]
    email: String,
}

/// A form whose every field is filled in already.
#[derive(Deserialize, JsonSchema)]
#[serde(default)]
struct Profile {
    /// The person's name.
    name: String,
    /// Their age in years.
    age: i64,
    /// Their score in the game.
    score: f64,
    /// Whether they play.
    status: Status,
    /// Whether somebody has seen their passport.
    verified: bool,
}

impl Default for Profile {
    fn default() -> Self {
        Self { name: "John Doe".to_owned(), age: 30, score: 95.5, status: Status::Active, verified: true }
    }
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Active,
    Inactive,
    Pending,
}

pub(super) struct ElicitationTools;

#[hospes::server]
impl ElicitationTools {
    /// Has the client's model answer a prompt.
    #[tool]
    async fn test_sampling(
        ctx: &Context,
        /// What to say to the model.
        prompt: String,
    ) -> Result<String> {
        let answer = ctx.sample(prompt).max_tokens(100).await?;
        Ok(format!("LLM response: {}", answer.text()))
    }

    /// Asks the person for an account.
    #[tool]
    async fn test_elicitation(
        ctx: &Context,
        /// What to say to the person.
        message: String,
    ) -> Result<String> {
        let answer = ctx.elicit::<Account>(message).raw().await?;
        Ok(format!("User response: {}", shown(&answer)))
    }

    /// Asks the person to look over a form that is filled in already.
    #[tool]
    async fn test_elicitation_sep1034_defaults(ctx: &Context) -> Result<String> {
        let answer =
            ctx.elicit::<Profile>("Please review and update the form fields with defaults").raw().await?;
        Ok(format!("Elicitation completed: {}", shown(&answer)))
    }

    /// Asks the person to choose, in each of the ways that a form can offer values.
    #[tool]
    async fn test_elicitation_sep1330_enums(ctx: &Context) -> Result<String> {
        let titled = json!([
            { "const": "value1", "title": "First Option" },
            { "const": "value2", "title": "Second Option" },
            { "const": "value3", "title": "Third Option" },
        ]);
        let values = json!(["option1", "option2", "option3"]);
        // Types make the first and the fourth of these; the schema by hand shows all five beside each other.
        let schema = json!({
            "type": "object",
            "properties": {
                "untitledSingle": { "type": "string", "enum": values },
                "titledSingle": { "type": "string", "oneOf": titled },
                "legacyEnum": {
                    "type": "string",
                    "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"],
                },
                "untitledMulti": { "type": "array", "items": { "type": "string", "enum": values } },
                "titledMulti": { "type": "array", "items": { "anyOf": titled } },
            },
        });
        let answer = ctx.elicit::<()>("Please select from the options").schema(schema).raw().await?;
        Ok(format!("Elicitation completed: {}", shown(&answer)))
    }

    /// Asks the model; a client that has none is told which capability it lacks.
    #[tool]
    async fn test_missing_capability(ctx: &Context) -> Result<String> {
        Ok(ctx.sample("Say hello.").max_tokens(100).await?.text())
    }

    /// Asks the person, over a stream if the client's revision asks that way.
    #[tool]
    async fn test_streaming_elicitation(ctx: &Context) -> Result<String> {
        ctx.elicit::<()>("Go on?").key("go_on").await?;
        Ok("The person agreed.".to_owned())
    }

    /// Asks the person for their name.
    #[tool]
    async fn test_input_required_result_elicitation(ctx: &Context) -> Result<String> {
        let name = name(ctx).await?;
        Ok(format!("Hello, {name}!"))
    }

    /// Asks the model a question.
    #[tool]
    async fn test_input_required_result_sampling(ctx: &Context) -> Result<String> {
        let question = ctx.sample("What is the capital of France?").max_tokens(100);
        Ok(question.key("capital_question").await?.text())
    }

    /// Asks the client what the server may look at.
    #[tool]
    async fn test_input_required_result_list_roots(ctx: &Context) -> Result<String> {
        let roots = ctx.roots().key("client_roots").await?;
        Ok(format!("The roots are {}", listed(&roots)))
    }

    /// Asks the person to confirm; what the call knows travels in the request's state.
    #[tool]
    async fn test_input_required_result_request_state(ctx: &Context) -> Result<String> {
        // A state that was not ours would have been refused before this runs again.
        let ok: bool = ctx.elicit("Please confirm").key("confirm").field("ok").await?;
        Ok(format!("state-ok, and the person said {ok}"))
    }

    /// Asks the person, the model and the client at once.
    #[tool]
    async fn test_input_required_result_multiple_inputs(ctx: &Context) -> Result<String> {
        let (name, greeting, roots) = ctx
            .ask((
                ctx.elicit::<String>("What is your name?").key("user_name").field("name"),
                ctx.sample("Generate a greeting").max_tokens(50).key("greeting"),
                ctx.roots().key("client_roots"),
            ))
            .await?;
        Ok(format!("{name}: {} The roots are {}", greeting.text(), listed(&roots)))
    }

    /// Asks the person one thing after the other.
    #[tool]
    async fn test_input_required_result_multi_round(ctx: &Context) -> Result<String> {
        let name: String = ctx.elicit("Step 1: What is your name?").key("step1").field("name").await?;
        let color: String =
            ctx.elicit("Step 2: What is your favorite color?").key("step2").field("color").await?;
        Ok(format!("{name} likes {color}"))
    }

    /// Asks the person to confirm; a state that was tampered with is refused.
    #[tool]
    async fn test_input_required_result_tampered_state(ctx: &Context) -> Result<String> {
        let ok: bool = ctx.elicit("Please confirm").key("confirm").field("ok").await?;
        Ok(format!("The person said {ok}"))
    }

    /// Asks for whatever the client declared that it can be asked.
    #[tool]
    async fn test_input_required_result_capabilities(ctx: &Context) -> Result<String> {
        // A server never asks for what the client did not declare (CAP-12).
        let can = &ctx.peer().capabilities;
        let (name, greeting, roots) = ctx
            .ask((
                can.elicitation.is_some().then(|| ctx.elicit::<String>("What is your name?").field("name")),
                can.sampling.is_some().then(|| ctx.sample("Generate a greeting").max_tokens(50)),
                can.roots.is_some().then(|| ctx.roots()),
            ))
            .await?;
        let name = name.unwrap_or_else(|| "somebody".to_owned());
        let greeting = greeting.map_or_else(|| "Hello!".to_owned(), |greeting| greeting.text());
        Ok(format!("{name}: {greeting} The roots are {}", listed(&roots.unwrap_or_default())))
    }

    /// A prompt that asks the person before it can be filled in.
    #[prompt]
    async fn test_input_required_result_prompt(ctx: &Context) -> Result<String> {
        let context: String =
            ctx.elicit("What context should the prompt use?").key("user_context").field("context").await?;
        Ok(format!("Use this context: {context}"))
    }
}

/// Asks for a name, under the one key for all tools that do.
async fn name(ctx: &Context) -> Result<String, AskError> {
    ctx.elicit("What is your name?").key("user_name").field("name").await
}

/// Formats the person's answer as the results of the fixture show it.
fn shown(answer: &ElicitResult) -> String {
    let content = answer.content.as_ref().map_or("{}", RawJson::as_str);
    format!("action={}, content={content}", answer.action)
}

fn listed(roots: &[Root]) -> String {
    let uris: Vec<_> = roots.iter().map(|root| root.uri.as_str()).collect();
    if uris.is_empty() { "none".to_owned() } else { uris.join(", ") }
}
