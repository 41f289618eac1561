//! The application: tries every behaviour with every server, and says what came of it.

mod expected;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hospes::client::{CallError, Client, Subscription};
use hospes::model::{
    CompleteArgument, CompleteParams, CompletionReference, ContentBlock, CreateMessageParams,
    CreateMessageResult, ElicitAction, ElicitParams, ElicitResult, Implementation, LoggingLevel,
    Notification, Revision, SamplingMessageContentBlock, StopReason, SubscriptionFilter, ToolUseContent,
};
use hospes::prelude::{RawJson, Target, json};
use tokio::time::timeout;

use expected::{BridgeBehaviour, BridgeLoss};

/// Maximum time for one behaviour. Only a loaded machine comes near it.
const BEHAVIOUR_TIMEOUT: Duration = Duration::from_secs(60);

/// One server as the application sees it.
struct BridgedServer {
    client: Client,
    server: String,
    /// Revisions of the application and of the server.
    revisions: (Revision, Revision),
    logs: Arc<Mutex<Vec<String>>>,
}

type TrialFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Connects, tries everything, and prints one line of JSON for each server and behaviour.
pub(crate) async fn run(revision: Revision, servers: &[(Revision, &str)], target: &str) -> Result<()> {
    let logs = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&logs);
    let client = Client::builder()
        .revision(revision)
        .info(Implementation::new("bridge application", "1"))
        .elicitation(async |asked| Ok(answer_elicitation(&asked)))
        .elicitation_urls()
        .sampling(async |asked| Ok(answer_sampling(&asked)))
        .sampling_tools()
        .roots(["file:///home/guest"])
        .on_log(move |message| {
            if let Ok(mut heard) = heard.lock() {
                heard.push(message.data.as_str().to_owned());
            }
        })
        .connect(Target::parse(target))
        .await?;
    ensure!(client.revision() == revision, "it is {} that is spoken", client.revision());
    client.set_log_level(LoggingLevel::Info).await?;
    for (theirs, server) in servers {
        let guest = BridgedServer {
            client: client.clone(),
            server: (*server).to_owned(),
            revisions: (revision, *theirs),
            logs: Arc::clone(&logs),
        };
        for behaviour in BridgeBehaviour::ALL {
            let tried = timeout(BEHAVIOUR_TIMEOUT, guest.try_out(behaviour)).await;
            let failure = match tried {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(format!("{error:#}")),
                Err(_) => Some(format!("nothing came of it within {BEHAVIOUR_TIMEOUT:?}")),
            };
            let lossy = behaviour.loss(revision, *theirs).is_some();
            let line = json!({ "server": server, "behaviour": behaviour.name(), "lossy": lossy, "failure": failure });
            #[expect(clippy::print_stdout, reason = "it is what this program is for")]
            {
                println!("{line}");
            }
        }
    }
    client.close().await;
    Ok(())
}

fn answer_elicitation(asked: &ElicitParams) -> ElicitResult {
    match asked {
        ElicitParams::Form(form) if form.message.contains("decline") => ElicitResult::decline(),
        ElicitParams::Form(_) => ElicitResult::accept(json!({ "value": "window" }).into()),
        _ => ElicitResult::new(ElicitAction::Accept),
    }
}

fn answer_sampling(asked: &CreateMessageParams) -> CreateMessageResult {
    if let Some(tool) = asked.tools.first() {
        let used = ToolUseContent::new("use-1", tool.name.clone(), RawJson::empty_object());
        let mut result = CreateMessageResult::new("scripted", SamplingMessageContentBlock::from(used));
        result.stop_reason = Some(StopReason::ToolUse);
        return result;
    }
    let said = asked.messages.iter().flat_map(|message| &message.content);
    let said: String = said.filter_map(SamplingMessageContentBlock::as_text).collect();
    let answer = said.strip_prefix("repeat ").unwrap_or("forty-two").to_owned();
    CreateMessageResult::new("scripted", SamplingMessageContentBlock::text(answer))
}

impl BridgedServer {
    fn try_out(&self, behaviour: BridgeBehaviour) -> TrialFuture<'_> {
        let loss = behaviour.loss(self.revisions.0, self.revisions.1);
        match behaviour {
            BridgeBehaviour::Lists => Box::pin(self.lists()),
            BridgeBehaviour::Calls => Box::pin(self.expect_text("echo", json!({ "text": "ave" }), "ave")),
            BridgeBehaviour::Structured => Box::pin(self.structured(loss)),
            BridgeBehaviour::Contents => Box::pin(self.contents()),
            BridgeBehaviour::ToolErrors => Box::pin(self.tool_errors()),
            BridgeBehaviour::Errors => Box::pin(self.errors()),
            BridgeBehaviour::Progress => Box::pin(self.progress(loss)),
            BridgeBehaviour::Logging => Box::pin(self.logging()),
            BridgeBehaviour::Cancellation => Box::pin(self.cancellation()),
            BridgeBehaviour::Completion => Box::pin(self.completion()),
            BridgeBehaviour::Prompts => Box::pin(self.prompts()),
            BridgeBehaviour::Resources => Box::pin(self.resources()),
            BridgeBehaviour::Form => Box::pin(self.expect_question("form", "window", loss)),
            BridgeBehaviour::Declined => Box::pin(self.expect_question("declined", "decline", loss)),
            BridgeBehaviour::Url => Box::pin(self.expect_question("url", "signed in", loss)),
            BridgeBehaviour::Rounds => Box::pin(self.expect_question("rounds", "window, window", loss)),
            BridgeBehaviour::Sampling => Box::pin(self.expect_question("sample", "forty-two", loss)),
            BridgeBehaviour::SamplingTools => Box::pin(self.expect_question("sample_tools", "look_up", loss)),
            BridgeBehaviour::Roots => Box::pin(self.expect_question("roots", "file:///home/guest", loss)),
            BridgeBehaviour::Several => Box::pin(self.expect_question("several", "forty-two, 1 root", loss)),
            BridgeBehaviour::AtOnce => Box::pin(self.at_once()),
            BridgeBehaviour::ListChanges => Box::pin(self.list_changes()),
            BridgeBehaviour::Subscriptions => Box::pin(self.subscriptions()),
        }
    }

    fn tool(&self, name: &str) -> String {
        format!("{}__{name}", self.server)
    }

    async fn expect_text(&self, tool: &str, arguments: serde_json::Value, expected: &str) -> Result<()> {
        let result = self.client.call(&self.tool(tool), arguments).await?;
        ensure!(!result.has_failed() && result.all_text() == expected, "{result:?}");
        Ok(())
    }

    /// A question that can be asked is answered; one that cannot fails the call, and says what it was.
    async fn expect_question(&self, tool: &str, expected: &str, loss: Option<BridgeLoss>) -> Result<()> {
        let Some(loss) = loss else { return self.expect_text(tool, json!({}), expected).await };
        let (failed, text) = match self.client.call(&self.tool(tool), json!({})).await {
            Ok(result) => (result.has_failed(), result.all_text()),
            Err(CallError::Rpc(error)) => (true, format!("{} {:?}", error.message, error.data)),
            Err(error) => bail!("{error}"),
        };
        ensure!(failed, "it should have failed, and said {text}");
        let named = loss.named_by.iter().any(|word| text.to_lowercase().contains(word));
        ensure!(named, "it does not say what is missing: {text}");
        Ok(())
    }

    async fn lists(&self) -> Result<()> {
        let tools = self.client.tools().all().await?;
        ensure!(tools.iter().any(|tool| tool.name == self.tool("echo")), "tools: {tools:?}");
        let prompts = self.client.prompts().all().await?;
        ensure!(prompts.iter().any(|prompt| prompt.name == self.tool("greet")), "prompts: {prompts:?}");
        let resources = self.client.resources().all().await?;
        ensure!(resources.iter().any(|resource| resource.uri == self.note()), "resources: {resources:?}");
        let templates = self.client.resource_templates().all().await?;
        let own = templates.iter().any(|template| template.uri_template.contains(&self.server));
        ensure!(own, "templates: {templates:?}");
        Ok(())
    }

    fn note(&self) -> String {
        format!("bridge://{}/note", self.server)
    }

    async fn structured(&self, loss: Option<BridgeLoss>) -> Result<()> {
        let result = self.client.call(&self.tool("sum"), json!({})).await?;
        ensure!(result.structured_content.is_some() == loss.is_none(), "{result:?}");
        ensure!(result.all_text().contains("42"), "{result:?}");
        Ok(())
    }

    async fn contents(&self) -> Result<()> {
        let oldest = self.revisions.0.min(self.revisions.1);
        let result = self.client.call(&self.tool("contents"), json!({})).await?;
        let [text, image, audio, link, embedded] = &result.content[..] else { bail!("{result:?}") };
        ensure!(text.as_text() == Some("text"), "{text:?}");
        ensure!(matches!(image, ContentBlock::Image(image) if image.data == "AQID"), "{image:?}");
        let sounds = oldest >= Revision::V2025_03_26;
        ensure!(matches!(audio, ContentBlock::Audio(_)) == sounds, "{audio:?}");
        ensure!(sounds || format!("{audio:?}").contains("AQID"), "the sound is gone: {audio:?}");
        let links = oldest >= Revision::V2025_06_18;
        ensure!(matches!(link, ContentBlock::ResourceLink(_)) == links, "{link:?}");
        ensure!(format!("{link:?}").contains(&self.note()), "the link is gone: {link:?}");
        ensure!(matches!(embedded, ContentBlock::Resource(_)), "{embedded:?}");
        Ok(())
    }

    async fn tool_errors(&self) -> Result<()> {
        let result = self.client.call(&self.tool("fail"), json!({})).await?;
        ensure!(result.has_failed() && result.all_text() == "on purpose", "{result:?}");
        Ok(())
    }

    async fn errors(&self) -> Result<()> {
        let outcome = self.client.call(&self.tool("no_such_tool"), json!({})).await;
        let Err(CallError::Rpc(error)) = outcome else { bail!("{outcome:?}") };
        ensure!(error.code == -32602, "{error}");
        let uri = format!("bridge://{}/none", self.server);
        let outcome = self.client.read(&uri).await;
        let Err(CallError::Rpc(error)) = outcome else { bail!("{outcome:?}") };
        // Whatever the number is in the older revisions, the client reads it as the newest one's.
        ensure!(error.code == -32602, "{error}");
        Ok(())
    }

    async fn progress(&self, loss: Option<BridgeLoss>) -> Result<()> {
        let mut seen = Vec::new();
        let tool = self.tool("steps");
        let call = self.client.call(&tool, json!({ "text": "quiet" })).on_progress(|progress| {
            seen.push((progress.progress, progress.total, progress.message.clone()));
        });
        ensure!(call.await?.all_text() == "done");
        let message = loss.is_none().then(|| "on it".to_owned());
        let expected = [1.0, 2.0, 3.0].map(|step| (step, Some(3.0), message.clone()));
        ensure!(seen == expected, "{seen:?}");
        Ok(())
    }

    async fn logging(&self) -> Result<()> {
        let label = format!("log of {}", self.server);
        self.expect_text("steps", json!({ "text": label }), "done").await?;
        let expected: Vec<String> = (1..=3).map(|step| format!("\"{label} {step}\"")).collect();
        loop {
            // Over HTTP what belongs to a session may come on another stream than the answer.
            let logs = self.logs.lock().map(|logs| logs.clone()).unwrap_or_default();
            let heard: Vec<String> = logs.into_iter().filter(|log| log.contains(&label)).collect();
            if heard == expected {
                return Ok(());
            }
            ensure!(expected.starts_with(&heard), "{heard:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn cancellation(&self) -> Result<()> {
        let before = self.count_waiting_calls().await?;
        let (client, tool) = (self.client.clone(), self.tool("wait"));
        let waiting = tokio::spawn(async move { client.call(&tool, json!({})).await });
        while self.count_waiting_calls().await?.0 == before.0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        waiting.abort();
        while self.count_waiting_calls().await?.1 == before.1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Returns the number of calls that have begun to wait, and the number of these that were dropped.
    async fn count_waiting_calls(&self) -> Result<(u32, u32)> {
        let text = self.client.call(&self.tool("waiting"), json!({})).await?.all_text();
        let (begun, dropped) = text.split_once(' ').with_context(|| text.clone())?;
        Ok((begun.parse()?, dropped.parse()?))
    }

    async fn completion(&self) -> Result<()> {
        let reference = CompletionReference::Prompt { name: self.tool("greet"), title: None };
        let params = CompleteParams::new(reference, CompleteArgument::new("day", "mo"));
        let completed = self.client.complete(&params).await?;
        ensure!(completed.completion.values == ["monday"], "{completed:?}");
        Ok(())
    }

    async fn prompts(&self) -> Result<()> {
        let name = self.tool("greet");
        let prompt = self.client.prompt(&name, [("day", "friday")]).await?;
        ensure!(format!("{prompt:?}").contains("Greet on friday"), "{prompt:?}");
        Ok(())
    }

    async fn resources(&self) -> Result<()> {
        for (uri, text) in
            [(self.note(), "a note"), (format!("bridge://{}/days/monday", self.server), "the monday")]
        {
            let read = self.client.read(&uri).await?;
            let first = read.contents.first().context("it is empty")?;
            ensure!(first.as_text() == Some(text) && first.uri == uri, "{read:?}");
        }
        Ok(())
    }

    /// Checks that two concurrent calls that ask a question each get the answer to their own question.
    async fn at_once(&self) -> Result<()> {
        let tool = self.tool("who");
        let ask = |who: &'static str| {
            let call = self.client.call(&tool, json!({ "text": who }));
            async move { Ok::<_, CallError>((who, call.await?.all_text())) }
        };
        let (one, two) = tokio::join!(ask("one"), ask("two"));
        for (who, answer) in [one?, two?] {
            ensure!(who == answer, "{who} got {answer}");
        }
        Ok(())
    }

    async fn list_changes(&self) -> Result<()> {
        let filter = SubscriptionFilter::new()
            .with_tools_list_changed(true)
            .with_prompts_list_changed(true)
            .with_resources_list_changed(true);
        let mut stream = self.client.listen(filter).await?;
        self.expect_text("grow", json!({}), "grown").await?;
        let (mut tools, mut prompts, mut resources) = (false, false, false);
        while !(tools && prompts && resources) {
            match next(&mut stream).await? {
                Notification::ToolsListChanged => tools = true,
                Notification::PromptsListChanged => prompts = true,
                Notification::ResourcesListChanged => resources = true,
                _ => {}
            }
        }
        let more = self.tool("more");
        let tools = self.client.tools().all().await?;
        ensure!(tools.iter().any(|tool| tool.name.starts_with(&more)), "{tools:?}");
        Ok(())
    }

    async fn subscriptions(&self) -> Result<()> {
        let mut stream = self.client.subscribe(self.note()).await?;
        self.expect_text("touch", json!({}), "touched").await?;
        loop {
            if let Notification::ResourceUpdated(updated) = next(&mut stream).await? {
                ensure!(updated.uri == self.note(), "{updated:?}");
                return Ok(());
            }
        }
    }
}

async fn next(stream: &mut Subscription) -> Result<Notification> {
    stream.next().await.context("the stream of changes has ended")
}
