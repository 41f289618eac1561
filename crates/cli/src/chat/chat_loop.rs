//! The input loop of the chat and its commands.

use hospes_host::Host;

use super::ChatSession;
use super::conversation::ChatConversation;
use super::input::{ChatSignal, ChatSignals};
use crate::args::ChatArgs;
use crate::exit::{CliError, CliResult, FailureCode};
use crate::output::{CYAN, CliOutput, DIM, announce, is_interactive, paint, print_message_part, printable};

/// Command in a line of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatCommand<'a> {
    Nothing,
    Say(&'a str),
    Tools,
    Model(Option<&'a str>),
    Clear,
    Help,
    Quit,
    Unknown(&'a str),
}

impl<'a> ChatCommand<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        let line = line.trim();
        if !line.starts_with('/') {
            return if line.is_empty() { Self::Nothing } else { Self::Say(line) };
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (word, rest.trim()) {
            ("/tools", "") => Self::Tools,
            ("/model", "") => Self::Model(None),
            ("/model", name) => Self::Model(Some(name)),
            ("/clear", "") => Self::Clear,
            ("/help", "") => Self::Help,
            ("/quit", "") => Self::Quit,
            _ => Self::Unknown(word),
        }
    }
}

const HELP: &str = "\
  /tools         list the tools that the model may call
  /model [NAME]  show the current model, or switch to another one
  /clear         clear the conversation
  /quit          quit; Ctrl-D and pressing Ctrl-C twice also quit
  Ctrl-C         stop the turn
Pending approvals (calls, and requests of servers to your model or to you) are shown when they arrive, with their keys:
d denies (d REASON also reports the reason to the model), o allows once, e edits the request in your editor.";

/// Runs the chat until the person leaves.
pub(super) async fn run_chat(
    host: &Host,
    seat: &ChatSession,
    model: String,
    args: &ChatArgs,
    output: CliOutput,
) -> CliResult {
    let sampler = host.sampler().ok_or_else(|| CliError::usage("no model is configured"))?;
    let mut signals = ChatSignals::new()?;
    let (catalogue, max_rounds) = (sampler.catalogue(), args.max_rounds);
    let mut conversation = ChatConversation::new(seat, catalogue, model, max_rounds, output);
    let is_person = is_interactive();
    if is_person {
        output.say(paint(DIM, format!("  {}; /help lists the commands", conversation.describe_model())));
    } else {
        output.say("no terminal: calls that need your approval are denied");
    }
    let (mut is_leaving, mut has_failed) = (false, false);
    loop {
        if is_person {
            print_message_part(&paint(CYAN, "> "));
        }
        // In this order, so that Ctrl-C always works, and so that an approval is shown before the next line is
        // taken for a turn. A dropped read of a line is kept by `InputLines`.
        let line = tokio::select! {
            biased;
            asked = signals.next() => match asked {
                ChatSignal::Stop if is_person && !is_leaving => {
                    is_leaving = true;
                    announce(paint(DIM, "\n  press Ctrl-C again to quit"));
                    continue;
                }
                _ => break,
            },
            () = seat.wait_for_approval() => {
                tokio::select! {
                    biased;
                    asked = signals.next() => {
                        seat.refuse_next().await;
                        if asked == ChatSignal::End {
                            break;
                        }
                    }
                    () = seat.ask_next() => {}
                }
                continue;
            }
            line = seat.lines.next() => match line {
                None => break,
                Some(Ok(line)) => line,
                Some(Err(error)) => {
                    output.warn(error);
                    has_failed = true;
                    continue;
                }
            },
        };
        is_leaving = false;
        match ChatCommand::of(&line) {
            ChatCommand::Nothing => {}
            ChatCommand::Say(text) => {
                let mut asked = None;
                let stop = async { asked = Some(signals.next().await) };
                let said = Box::pin(conversation.say(text, stop)).await;
                has_failed |= !said;
                match asked {
                    Some(ChatSignal::End) => break,
                    // Without a terminal there is no person to press it a second time.
                    Some(ChatSignal::Stop) if !is_person => break,
                    asked => is_leaving = asked.is_some(),
                }
            }
            ChatCommand::Tools => conversation.show_tools().await,
            ChatCommand::Model(name) => conversation.change_model(name),
            ChatCommand::Clear => {
                conversation.clear();
                output.say(paint(DIM, "  conversation cleared"));
            }
            ChatCommand::Help => output.say(HELP),
            ChatCommand::Quit => break,
            ChatCommand::Unknown(word) => {
                output.warn(format_args!("unknown command {}; /help lists the commands", printable(word)))
            }
        }
    }
    // A script needs the failure in the exit code.
    if has_failed && !is_person { Err(CliError::silent(FailureCode::Tool)) } else { Ok(()) }
}
