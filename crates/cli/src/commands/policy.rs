//! `hospes policy`: what the rules say, without a call.

use hospes_policy::{Action, Arguments, Asked, Decision, Effects, Flow, Labels, Policy as Rules};
use jiff::Timestamp;

use crate::args::{Policy, PolicyFile, PolicyTest};
use crate::exit::{Failure, Outcome};
use crate::guard;
use crate::output::{BOLD, DIM, GREEN, Output, RED, YELLOW, paint, printable};
use crate::place;

pub(crate) fn run(args: Policy, output: Output) -> Outcome {
    match args {
        Policy::Check(file) => check(&file, output),
        Policy::Test(test) => explain(&test, output),
    }
}

fn rules(file: &PolicyFile) -> Outcome<(std::path::PathBuf, Rules)> {
    let Some(file) = guard::rules(file.policy.as_deref())? else {
        let usual = place::policy().map_or_else(|| "--policy".to_owned(), |file| place::short(&file));
        return Err(Failure::usage("there are no rules, so everything may be called")
            .hint(format!("write them into {usual}, or name a file with --policy")));
    };
    let rules = guard::read(&file).map_err(|failure| Failure { hint: None, ..failure })?;
    Ok((file, rules))
}

fn check(file: &PolicyFile, output: Output) -> Outcome {
    let (file, rules) = rules(file)?;
    if output.json {
        output.value(&serde_json::json!({ "file": file, "rules": rules.rules().len() }));
    } else {
        let count = rules.rules().len();
        output.result(format_args!("{}: {count} rules, all of them can be read", place::short(&file)));
    }
    Ok(())
}

fn explain(test: &PolicyTest, output: Output) -> Outcome {
    let (_, rules) = rules(&test.file)?;
    let arguments = match Arguments::read(&test.arguments) {
        Ok(arguments) => arguments,
        Err(error) => return show(&Rules::unreadable(&error), &[], None, output),
    };
    let mut effects = Effects::unknown();
    effects.read_only = test.read_only;
    effects.destructive = !test.read_only && !test.not_destructive;
    effects.open_world = !test.closed_world;
    let action = match (test.prompt, test.resource) {
        (true, _) => Action::Prompt { name: &test.name },
        (_, true) => Action::Resource { uri: &test.name },
        _ => Action::tool(&test.name, effects, &arguments),
    };
    let asked = Asked::new(&test.server, action)
        .with_application(test.application.as_deref())
        .with_principal(test.principal.as_deref());
    let explained = rules.explain(&asked, Timestamp::now());
    let steps: Vec<(String, Option<String>)> = explained
        .steps
        .iter()
        .map(|step| {
            let name = step.rule.name().map(|name| format!(" `{name}`")).unwrap_or_default();
            let rule = format!("rule {} (line {}){name}", step.rule.number(), step.rule.line());
            (rule, step.miss.as_ref().map(ToString::to_string))
        })
        .collect();
    let labels = rules.labels(&asked, None);
    let flow = Flow::new(test.private.clone(), test.untrusted.clone());
    let verdict = rules.weigh(explained.verdict, labels, flow);
    show(&verdict, &steps, Some(labels), output)
}

/// What a call brings into its session and carries out of it, in words.
fn words(labels: Labels) -> String {
    let gives = match (labels.private, labels.untrusted) {
        (true, true) => "private data, and text that nobody vouches for",
        (true, false) => "private data",
        (false, true) => "text that nobody vouches for",
        (false, false) => "nothing to be careful about",
    };
    let takes = if labels.outbound { "can send things out" } else { "sends nothing out" };
    format!("its results hold {gives}; it {takes}")
}

fn show(
    verdict: &hospes_policy::Verdict,
    steps: &[(String, Option<String>)],
    labels: Option<Labels>,
    output: Output,
) -> Outcome {
    if output.json {
        let steps: Vec<_> = steps
            .iter()
            .map(|(rule, miss)| serde_json::json!({ "rule": rule, "fits": miss.is_none(), "miss": miss }))
            .collect();
        output.value(&serde_json::json!({
            "decision": verdict.decision.to_string(),
            "because": verdict.why(),
            "steps": steps,
            "labels": labels.map(|labels| serde_json::json!({
                "private": labels.private, "untrusted": labels.untrusted, "outbound": labels.outbound,
            })),
        }));
        return Ok(());
    }
    let mut text = String::new();
    for (rule, miss) in steps {
        let line = match miss {
            Some(miss) => paint(DIM, format!("{rule}: {}", printable(miss))).to_string(),
            None => format!("{rule}: fits"),
        };
        text.push_str(&format!("  {line}\n"));
    }
    if let Some(labels) = labels {
        text.push_str(&format!("  {}\n", paint(DIM, words(labels))));
    }
    let colour = match verdict.decision {
        Decision::Allow => GREEN,
        Decision::Ask => YELLOW,
        Decision::Deny => RED,
    };
    let decision = paint(BOLD, paint(colour, verdict.decision));
    text.push_str(&format!("{decision}  {}", printable(&verdict.why())));
    output.result(text);
    Ok(())
}
