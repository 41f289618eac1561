//! Completion: what an argument's value may become.

use std::error::Error as StdError;

use hospes_model::Completion;

use crate::error::Error;
use crate::server::call_parts::{CallInput, DeclaredArguments};
use crate::server::entries::{Completer, ErasedHandler};
use crate::server::handler::{Handler, declared_arguments, erase_handler};

/// Return type of completion handlers: values, the best first. If there are more than a hundred, the first hundred and
/// the total number are sent.
#[diagnostic::on_unimplemented(
    message = "a completion cannot return `{Self}`",
    label = "not a list of completion values",
    note = "return `Vec<String>`, `Vec<&'static str>`, `Completion`, or a `Result` of one of them"
)]
pub trait IntoCompletion {
    /// The values.
    ///
    /// # Errors
    /// The handler's own.
    fn into_completion(self) -> Result<Completion, Error>;
}

impl IntoCompletion for Completion {
    fn into_completion(mut self) -> Result<Completion, Error> {
        if self.values.len() > Self::MAX_VALUES {
            let all = u64::try_from(self.values.len()).unwrap_or(u64::MAX);
            self.total = self.total.or(Some(all));
            self.has_more = Some(true);
            self.values.truncate(Self::MAX_VALUES);
        }
        Ok(self)
    }
}

impl IntoCompletion for Vec<String> {
    fn into_completion(self) -> Result<Completion, Error> {
        let total = u64::try_from(self.len()).unwrap_or(u64::MAX);
        Completion::new(self).with_total(total).with_has_more(false).into_completion()
    }
}

impl IntoCompletion for Vec<&str> {
    fn into_completion(self) -> Result<Completion, Error> {
        self.into_iter().map(str::to_owned).collect::<Vec<_>>().into_completion()
    }
}

impl<T, E> IntoCompletion for Result<T, E>
where
    T: IntoCompletion,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    fn into_completion(self) -> Result<Completion, Error> {
        self.map_err(Error::new)?.into_completion()
    }
}

/// Source of completions: a handler that takes [`Typed`](crate::server::Typed), or a list of all values. From a list
/// the values that match the typed text are offered, the likeliest first.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of completions",
    label = "neither a handler nor a list",
    note = "give a list of strings, or an async function that takes `Typed` and returns a list of strings"
)]
pub trait IntoCompleter<Marker>: Sized {
    /// Converts into a completer.
    #[doc(hidden)]
    fn into_completer(self) -> Completer;
}

/// Marks a list of all the values there are.
#[doc(hidden)]
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is no value of it")]
pub enum FixedValues {}

impl<H, P> IntoCompleter<(P,)> for H
where
    H: Handler<P>,
    H::Output: IntoCompletion,
{
    fn into_completer(self) -> Completer {
        Completer {
            declared: declared_arguments::<H, P>(),
            run: erase_handler(self, <H::Output as IntoCompletion>::into_completion),
        }
    }
}

impl IntoCompleter<FixedValues> for Vec<String> {
    fn into_completer(self) -> Completer {
        let run: ErasedHandler<Completion> = std::sync::Arc::new(move |parts| {
            let CallInput::Completion { typed, .. } = parts.input else {
                return Err(
                    hospes_model::RpcError::internal("this handler only serves completion requests").into()
                );
            };
            let fitting: Self = fitting(typed, &self).into_iter().map(str::to_owned).collect();
            Ok(Box::pin(std::future::ready(fitting.into_completion())))
        });
        Completer { run, declared: DeclaredArguments::Nothing }
    }
}

impl IntoCompleter<FixedValues> for Vec<&str> {
    fn into_completer(self) -> Completer {
        self.into_iter().map(str::to_owned).collect::<Vec<_>>().into_completer()
    }
}

impl<const N: usize> IntoCompleter<FixedValues> for [&str; N] {
    fn into_completer(self) -> Completer {
        Vec::from(self).into_completer()
    }
}

impl IntoCompleter<FixedValues> for &[&str] {
    fn into_completer(self) -> Completer {
        self.to_vec().into_completer()
    }
}

/// Those of `values` that fit what has been typed: first those that begin so, then those that hold it, then those
/// that hold its letters in their order; upper and lower case are one.
pub fn fitting<'v, V: AsRef<str>>(typed: &str, values: &'v [V]) -> Vec<&'v str> {
    let typed = typed.to_lowercase();
    let mut fitting: Vec<(u8, &str)> = values
        .iter()
        .map(AsRef::as_ref)
        .filter_map(|value| {
            let lower = value.to_lowercase();
            let rank = if lower.starts_with(&typed) {
                0
            } else if lower.contains(&typed) {
                1
            } else if contains_in_order(&lower, &typed) {
                2
            } else {
                return None;
            };
            Some((rank, value))
        })
        .collect();
    // A stable sort: within a rank the values keep their order, which is the author's.
    fitting.sort_by_key(|(rank, _)| *rank);
    fitting.into_iter().map(|(_, value)| value).collect()
}

fn contains_in_order(value: &str, typed: &str) -> bool {
    let mut letters = value.chars();
    typed.chars().all(|wanted| letters.any(|letter| letter == wanted))
}
