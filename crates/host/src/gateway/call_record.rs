//! Audit layer: records how a call ended, when it comes back from its server.

use hospes::{Context, Outcome};
use hospes_model::{Method, RpcError};

use super::account_login;
use super::handle::Gateway;
use crate::guard::AdmittedCall;

impl Gateway {
    /// Records how a call ended, or that it waits for its user to sign in.
    pub(super) async fn record_outcome(
        &self,
        passage: Option<Box<AdmittedCall>>,
        context: &Context,
        method: &Method,
        outcome: Result<Outcome, RpcError>,
    ) -> Result<Outcome, RpcError> {
        let Some(passage) = passage else { return outcome };
        if let (Some(accounts), Err(error)) = (&self.shared.accounts, &outcome)
            && account_login::is_sign_in_elicitation(accounts, context, method, error).await
        {
            passage.suspend_for_account(context).await;
            return outcome;
        }
        passage.finish(outcome).await
    }
}
