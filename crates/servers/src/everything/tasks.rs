//! Tools that take long, and so run as tasks where the client takes those.

use std::time::Duration;

use hospes::prelude::*;
use tokio::time::sleep;

/// The longest that a tool here works: longer than anybody waits for a test.
const MAX_SECONDS: f64 = 3600.0;
/// Time after which the failing jobs fail.
const FAILURE_DELAY: Duration = Duration::from_secs(1);

pub(super) struct TaskExampleTools;

#[hospes::server]
impl TaskExampleTools {
    /// Greets at once.
    #[tool(read_only)]
    fn greet(
        /// Whom.
        name: &str,
    ) -> String {
        format!("Hello, {name}!")
    }

    /// Works for some seconds; reports its progress each second.
    #[tool(read_only, task)]
    async fn slow_compute(
        ctx: &Context,
        /// How long.
        seconds: f64,
        /// What the work is called.
        #[arg(default)]
        label: String,
    ) -> Result<String> {
        // A NaN is in no range, so it is refused too; `from_secs_f64` would panic for it.
        if !(0.0..=MAX_SECONDS).contains(&seconds) {
            return Err(Error::msg(format!("seconds must be between 0 and {MAX_SECONDS}")));
        }
        let mut done = 0.0;
        while done < seconds {
            let step = f64::min(1.0, seconds - done);
            sleep(Duration::from_secs_f64(step)).await;
            done += step;
            ctx.progress(done, Some(seconds), Some(&format!("{done:.0} of {seconds} seconds")));
        }
        Ok(format!("Computed {label} for {seconds} seconds"))
    }

    /// Works for a second and fails.
    #[tool(task = "required")]
    async fn failing_job() -> Result<String> {
        sleep(FAILURE_DELAY).await;
        Err(Error::msg("The job failed, as it always does."))
    }

    /// Works for a second and ends with an error of the protocol.
    #[tool(task = "required")]
    async fn protocol_error_job() -> Result<String, RpcError> {
        sleep(FAILURE_DELAY).await;
        Err(RpcError::internal("The job broke, as it always does."))
    }

    /// Deletes nothing, after the person has agreed to it.
    #[tool(task = "required")]
    async fn confirm_delete(
        ctx: &Context,
        /// What would be deleted.
        filename: String,
    ) -> Result<String> {
        let yes: bool = ctx.elicit(format!("Delete {filename}?")).key("confirm").field("confirm").await?;
        Ok(if yes { format!("Deleted {filename}.") } else { format!("Kept {filename}.") })
    }

    /// Asks two things at once.
    #[tool(task = "required")]
    async fn multi_input(ctx: &Context) -> Result<String> {
        let (name, yes) = ctx
            .ask((
                ctx.elicit::<String>("What is your name?").key("name").field("name"),
                ctx.elicit::<bool>("Shall it be done?").key("confirm").field("confirm"),
            ))
            .await?;
        Ok(format!("{name} said {yes}."))
    }

    /// Asks for a name in the call, and greets in a task.
    #[tool(task = "required", ask_first)]
    async fn test_tool_with_task(ctx: &Context) -> Result<String> {
        let name: String = ctx.elicit("What is your name?").key("user_name").field("name").await?;
        ctx.begin_task().await;
        sleep(FAILURE_DELAY).await;
        Ok(format!("Hello, {name}!"))
    }
}
