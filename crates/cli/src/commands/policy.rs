//! `hospes policy`: checks the rules, and shows decisions without making a call.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::PathBuf;

use hospes_host::Host;
use hospes_host::config::{HostConfig, nearest};
use hospes_host::upstream::UpstreamState;
use hospes_policy::{
    CallArguments, CallEffect, DecisionReason, FlowLabels, KnownLabels, KnownTool, LabelSource, LabelSources,
    Policy as Rules, PolicyAction, PolicyCaller, PolicyDecision, PolicyLayer, PolicyRequest, PolicyVerdict,
    Preset, SessionFlow, ToolEffectSet, UnmatchedPart,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::{ConfigFileArgs, PolicyCommand, PolicyFileArgs, PolicyInitArgs, PolicyTestArgs};
use crate::exit::{CliError, CliResult};
use crate::known_servers::{ConfiguredServer, OffersSource, configured_servers, unmatched_rules};
use crate::output::{BOLD, CliOutput, DIM, GREEN, RED, YELLOW, paint, printable};
use crate::paths;
use crate::policy_files::{LayeredPolicies, PolicyFiles};
use crate::settings::load_without_secrets;

/// Keys of a rule that are not conditions.
const OPTION_KEYS: [&str; 6] = ["strong", "remember", "approver", "not_self", "review", "delegable"];

pub(crate) async fn run(args: PolicyCommand, output: CliOutput) -> CliResult {
    match args {
        PolicyCommand::Init(init) => write_policy(&init, output),
        PolicyCommand::Check(file) => check(&file, output).await,
        PolicyCommand::Test(test) => explain(&test, output).await,
        PolicyCommand::Batch(file) => {
            let rules = policies(&file)?.1.in_force(None);
            super::batch::run(&rules.unwrap_or_else(Rules::without_rules))
        }
    }
}

/// Finds the policy files that a host with these options uses.
fn policy_files(args: &PolicyFileArgs) -> CliResult<PolicyFiles> {
    if let Some(organization) = &args.organization_policy {
        return PolicyFiles::with_organization(args.policy.as_deref(), organization);
    }
    let files = ConfigFileArgs { config: args.config.clone(), allow_unset: true, strict: false };
    // The checks against the servers report a configuration that cannot be read.
    let config = load_without_secrets(&files).ok().map(|loaded| loaded.config);
    let organization = config.and_then(|config| config.organization_policy);
    PolicyFiles::find(args.policy.as_deref(), organization.as_deref())
}

/// Reads the policy files. At least one has to exist.
fn policies(args: &PolicyFileArgs) -> CliResult<(PolicyFiles, LayeredPolicies)> {
    let files = policy_files(args)?;
    if !files.has_rules()? {
        let usual =
            paths::policy_file().map_or_else(|| "--policy".to_owned(), |file| paths::display_path(&file));
        return Err(CliError::usage(
            "there is no policy file, so the preset `balanced` applies without rules",
        )
        .hint(format!("`hospes policy init` writes {usual}; --policy names another file")));
    }
    let policies = read(&files)?;
    Ok((files, policies))
}

fn read(files: &PolicyFiles) -> CliResult<LayeredPolicies> {
    // The error's hint recommends `hospes policy check`, which may be the command that is running.
    let of_user = |failure: CliError| match &failure.hint {
        Some(hint) if hint.contains("hospes policy check") => CliError { hint: None, ..failure },
        _ => failure,
    };
    files.read().map_err(of_user)
}

/// Writes a policy file with a preset. A file that exists is never replaced.
fn write_policy(init: &PolicyInitArgs, output: CliOutput) -> CliResult {
    let nowhere = || CliError::usage("no folder found for the policy file (HOME is not set)");
    let file = init.policy.clone().or_else(paths::policy_file).ok_or_else(nowhere)?;
    let shown = paths::display_path(&file);
    let failed = |error: &std::io::Error| {
        let folder = file.parent().map(paths::display_path).unwrap_or_default();
        CliError::usage(format!("cannot write {shown}"))
            .with_cause(error)
            .hint(format!("make {folder} writable for you, or name another file with --policy"))
    };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    let text = POLICY_TEMPLATE.replace("PRESET", &init.preset.to_string());
    let written = std::fs::File::create_new(&file)
        .and_then(|mut created| std::io::Write::write_all(&mut created, text.as_bytes()));
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(CliError::usage(format!("{shown} exists already"))
                .hint(format!("to change its preset, write `preset = \"{}\"` at its top", init.preset)))
        }
        Err(error) => Err(failed(&error)),
        Ok(()) => {
            if output.json {
                output.value(&json!({ "file": file, "preset": init.preset }));
            } else {
                output.result(format_args!("{shown}: written, {}", super::up::preset_line(init.preset)));
            }
            Ok(())
        }
    }
}

/// Policy file that `hospes policy init` writes.
const POLICY_TEMPLATE: &str = r#"# Rules for the calls of your applications. `hospes policy check` reports mistakes; changes take effect at once.

# cautious: asks about every effect. balanced: asks about effects that a text of others may have caused.
# open: asks about values that stand in such a text.
preset = "PRESET"

# An application may ask for the approval of several calls at once, as a plan.
plans = true

# Servers whose annotations (read-only, destructive) are believed.
# trusted = ["git"]

# Your own addresses, domains and accounts: nobody is asked because of them.
# own = ["me@example.com", "@example.com"]

# The first rule that fits decides. What no rule fits, the preset decides.
# [[rule]]
# decide = "deny"
# tool = "delete_*"

# Labels say what a tool returns and does.
# [[label]]
# server = "mail"
# tool = "read_*"
# private = true
# untrusted = true
# outbound = false
# effect = "none"
"#;

async fn check(file: &PolicyFileArgs, output: CliOutput) -> CliResult {
    let (files, LayeredPolicies { user, organization }) = policies(file)?;
    let rules = user.unwrap_or_else(Rules::without_rules);
    let known = configured_servers(&file.config, output).await;
    let servers: Vec<_> = known.iter().flatten().map(|one| one.server.clone()).collect();
    let people = RulePeople::of(&file.config);
    let unmatched = |rules: &Rules| {
        let mut found = if known.is_some() { rules.unmatched(&servers) } else { Vec::new() };
        found.extend(people.unmatched(rules));
        found
    };
    let found = unmatched(&rules);
    let of_organization = organization.as_ref().map(unmatched).unwrap_or_default();
    let unseen: Vec<&str> = of_origin(known.as_deref(), OffersSource::Unseen).collect();
    if output.json {
        let told: Vec<Value> = found.iter().map(value).collect();
        output.value(&json!({
            "file": files.user, "rules": rules.rules().len(), "unmatched": told, "unseen": unseen,
            "organization": organization.map(|policy| json!({
                "file": files.organization.path(), "rules": policy.rules().len(),
                "unmatched": of_organization.iter().map(value).collect::<Vec<_>>(),
            })),
        }));
        return Ok(());
    }
    if let Some(policy) = organization {
        let shown = paths::display_path(files.organization.path());
        output.result(format_args!("{shown}: {}, no errors (organisation)", count_rules(&policy)));
        for one in &of_organization {
            output.warn(format_args!("organisation's policy: {}", printable(&one.to_string())));
        }
    }
    if let Some(file) = &files.user {
        output.result(format_args!("{}: {}, no errors", paths::display_path(file), count_rules(&rules)));
    }
    warn(&found, output);
    if !unseen.is_empty() {
        output.hint(format_args!(
            "the tools of {} are not known yet, so rules about them were not checked; run `hospes up` once to record \
             what servers offer",
            unseen.join(", ")
        ));
    }
    Ok(())
}

/// People that a host knows to whom rules can refer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RulePeople {
    /// True if the groups of callers are read.
    reads_groups: bool,
    /// True if people of a team sign in to the console.
    has_team: bool,
}

impl RulePeople {
    /// Returns the people of a host with this configuration.
    pub(crate) fn of_config(config: &HostConfig) -> Self {
        let reads_groups = config.auth.as_ref().is_some_and(|auth| auth.groups_claim.is_some());
        Self { reads_groups, has_team: config.console_team.is_some() }
    }

    /// Returns the people of a host with these files. If they cannot be read, nothing is wrong with the rules.
    pub(crate) fn of(files: &[PathBuf]) -> Self {
        let files = ConfigFileArgs { config: files.to_vec(), allow_unset: true, strict: false };
        let unknown = Self { reads_groups: true, has_team: true };
        load_without_secrets(&files).map_or(unknown, |loaded| Self::of_config(&loaded.config))
    }

    /// Returns true if the groups of callers are read.
    pub(crate) fn reads_groups(self) -> bool {
        self.reads_groups
    }

    /// Returns the rules that refer to people whom the host does not know.
    pub(crate) fn unmatched(self, rules: &Rules) -> Vec<UnmatchedPart> {
        let mut found = if self.reads_groups { Vec::new() } else { rules.rules_with_groups() };
        found.extend(if self.has_team { Vec::new() } else { rules.rules_with_approvers() });
        found.sort_by_key(|one| one.line);
        found
    }
}

fn count_rules(policy: &Rules) -> String {
    match policy.rules().len() {
        1 => "1 rule".to_owned(),
        count => format!("{count} rules"),
    }
}

fn of_origin(known: Option<&[ConfiguredServer]>, origin: OffersSource) -> impl Iterator<Item = &str> {
    known.unwrap_or_default().iter().filter(move |one| one.origin == origin).map(|one| &*one.server.name)
}

/// Formats an unmatched part as JSON for scripts.
fn value(unmatched: &UnmatchedPart) -> Value {
    json!({ "line": unmatched.line, "message": unmatched.message })
}

/// Warns once about each rule that matches nothing that the servers offer, or that refers to people whom the host does not
/// know. Checks when all servers have started, when lists change, and when the policy is reloaded. Never returns.
pub(super) async fn report(host: &Host, people: RulePeople, output: CliOutput) -> Infallible {
    let Some(guard) = host.guard() else { return std::future::pending().await };
    // Subscribed before the policy is read, so that no replacement is missed.
    let mut replaced = guard.policy_changes();
    let mut said: HashSet<String> = HashSet::new();
    let mut seen = 0;
    loop {
        // The offers of a starting server are unknown, and rules about them would look wrong.
        let is_starting = host.status().servers.iter().any(|server| server.state == UpstreamState::Starting);
        if let Some(policy) = guard.policy().filter(|_| !is_starting) {
            let mut found = unmatched_rules(host, &policy);
            let layers = policy.organization().into_iter().chain([&*policy]);
            found.extend(layers.flat_map(|layer| people.unmatched(layer)));
            warn(found.iter().filter(|one| said.insert(one.to_string())), output);
        }
        // Both futures only wait for changes, so that dropping one loses nothing.
        tokio::select! {
            now = host.changed(seen) => seen = now,
            Ok(()) = replaced.changed() => said.clear(),
        }
    }
}

/// Prints a warning for each part that matches nothing.
fn warn<'u>(unmatched: impl IntoIterator<Item = &'u UnmatchedPart>, output: CliOutput) {
    for one in unmatched {
        output.warn(format_args!("policy: {}", printable(&one.to_string())));
    }
}

/// A tested call and the known facts about it.
struct PolicyTestCase<'a> {
    /// Definition of the tool, if known.
    tool: Option<&'a KnownTool>,
    origin: Option<OffersSource>,
    /// Server of the configuration.
    server: Option<&'a ConfiguredServer>,
}

async fn explain(test: &PolicyTestArgs, output: CliOutput) -> CliResult {
    check_object(&test.arguments)?;
    let policies = read(&policy_files(&test.file)?)?;
    if policies.user.is_none() {
        let preset = Preset::default();
        output.say(format_args!("there is no policy file: the preset `{preset}` decides, without rules"));
    }
    // As the host does.
    let rules = policies.in_force(None).unwrap_or_else(Rules::without_rules);
    let known = configured_servers(&test.file.config, output).await;
    let case = find(test, known.as_deref(), output)?;
    let arguments = match CallArguments::read(&test.arguments) {
        Ok(arguments) => arguments,
        // A server could read them in more than one way.
        Err(error) => {
            let facts = DecisionFacts::default();
            return show(&Rules::deny_unreadable(&error), &facts, output);
        }
    };
    let mut effects = case.tool.map_or(ToolEffectSet::unknown(), |tool| tool.effects);
    effects.read_only |= test.read_only;
    effects.destructive &= !test.read_only && !test.not_destructive;
    effects.open_world &= !test.closed_world;
    let action = match (test.prompt, test.resource) {
        (true, _) => PolicyAction::Prompt { name: &test.name },
        (_, true) => PolicyAction::Resource { uri: &test.name },
        _ => PolicyAction::tool(&test.name, effects, &arguments),
    };
    let is_tool = matches!(action, PolicyAction::Tool { .. });
    let caller = PolicyCaller::new(test.application.as_deref(), test.principal.as_deref(), &test.group);
    let asked = PolicyRequest::new(&test.server, action).with_caller(caller);
    let explained = rules.explain(&asked, Timestamp::now());
    let organization = explained.organization.as_ref();
    let steps = organization.iter().flat_map(|layer| &layer.steps).chain(&explained.steps).map(|step| {
        let conditions =
            step.rule.conditions().into_iter().filter(|(key, _)| !OPTION_KEYS.contains(&key.as_str()));
        let conditions = conditions.map(|(key, said)| format!("`{key}` is {said}"));
        RuleStep {
            rule: step.rule.reference(),
            miss: step.miss.as_ref().map(ToString::to_string),
            conditions: conditions.collect(),
        }
    });
    let steps = steps.collect();
    let layers = organization.cloned().map(|layer| LayerVerdicts {
        organization: layer.verdict,
        user: layer.user,
        is_delegated: layer.is_delegated,
    });
    let known = match case.server {
        Some(server) => server.known_labels(&test.name).await,
        None => KnownLabels::default(),
    };
    let (labels, sources) = rules.labels_with_sources(&asked, known);
    let tool = is_tool.then(|| {
        let origin = case.origin.filter(|_| case.tool.is_some()).unwrap_or(OffersSource::Unseen);
        ToolEffects { effects, origin, are_believed: rules.trusts(&test.server) }
    });
    let facts = DecisionFacts { steps, layers, labels: Some((labels, sources)), tool };
    let flow = SessionFlow::new(test.private.clone(), test.untrusted.clone());
    let verdict = rules.apply_data_flow(explained.verdict, labels, flow);
    show(&verdict, &facts, output)
}

/// Checks that the arguments are a JSON object. Anything else is a mistake in the command, such as a missing quote.
fn check_object(arguments: &str) -> CliResult {
    const HINT: &str = r#"quote the object as one word, such as '{"path":"notes.txt"}'"#;

    serde_json::from_str::<serde::de::IgnoredAny>(arguments)
        .map_err(|error| CliError::usage("the arguments are not valid JSON").with_cause(&error).hint(HINT))?;
    match arguments.trim_start().starts_with('{') {
        true => Ok(()),
        false => Err(CliError::usage("the arguments are not a JSON object").hint(HINT)),
    }
}

/// Looks up the tested item among the known ones. A near miss of a known name is an error. Any other unknown name gets
/// a warning, because the item may not exist yet.
fn find<'a>(
    test: &PolicyTestArgs,
    known: Option<&'a [ConfiguredServer]>,
    output: CliOutput,
) -> CliResult<PolicyTestCase<'a>> {
    let nothing = PolicyTestCase { tool: None, origin: None, server: None };
    let Some(known) = known else { return Ok(nothing) };
    let servers = || known.iter().map(|one| &*one.server.name);
    for name in test.private.iter().chain(&test.untrusted).chain([&test.server]) {
        if !servers().any(|server| server == name) {
            unknown("server", name, "the configuration", servers(), output)?;
        }
    }
    let Some(found) = known.iter().find(|one| one.server.name == test.server) else { return Ok(nothing) };
    let case = PolicyTestCase { tool: None, origin: Some(found.origin), server: Some(found) };
    let Some(offers) = &found.server.offers else {
        output.hint(format_args!(
            "the tools and annotations of `{}` are not known yet; run `hospes up` once to record what servers offer",
            printable(&test.server)
        ));
        return Ok(case);
    };
    // Resources change often, and templates produce more of them, so URIs are not looked up.
    if test.resource {
        return Ok(case);
    }
    if test.prompt {
        if !offers.prompts.contains(&test.name) {
            unknown("prompt", &test.name, &test.server, offers.prompts.iter().map(String::as_str), output)?;
        }
        return Ok(case);
    }
    let tool = offers.tools.iter().find(|tool| tool.name == test.name);
    if tool.is_none() {
        unknown("tool", &test.name, &test.server, offers.tools.iter().map(|tool| &*tool.name), output)?;
    }
    Ok(PolicyTestCase { tool, ..case })
}

/// Returns an error or a warning for an unknown name.
fn unknown<'n>(
    kind: &str,
    name: &str,
    of: &str,
    names: impl Iterator<Item = &'n str> + Clone,
    output: CliOutput,
) -> CliResult {
    let name = printable(name);
    let what = format!("unknown {kind} in {}: `{name}`", printable(of));
    match nearest(&name, names.clone()) {
        Some(meant) => Err(CliError::usage(what).hint(format!("did you mean `{}`?", printable(meant)))),
        None => {
            let all: Vec<String> = names.map(printable).collect();
            let there = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            output.warn(format_args!("{what} (known: {there}); evaluated without annotations"));
            Ok(())
        }
    }
}

/// A rule that was evaluated.
struct RuleStep {
    rule: String,
    miss: Option<String>,
    conditions: Vec<String>,
}

/// Annotations of a tool, and whether they are trusted.
struct ToolEffects {
    effects: ToolEffectSet,
    origin: OffersSource,
    are_believed: bool,
}

/// Verdicts of the organisation and of the user.
struct LayerVerdicts {
    /// `None` if no rule of the organisation matches.
    organization: Option<PolicyVerdict>,
    /// `None` if the user has no policy.
    user: Option<PolicyVerdict>,
    is_delegated: bool,
}

/// Inputs of a decision.
#[derive(Default)]
struct DecisionFacts {
    steps: Vec<RuleStep>,
    /// Verdict of each layer, if there is a policy of an organisation.
    layers: Option<LayerVerdicts>,
    labels: Option<(FlowLabels, LabelSources)>,
    tool: Option<ToolEffects>,
}

/// Describes the data labels that a call brings into its session and carries out of it.
fn words(labels: FlowLabels) -> String {
    let gives = match (labels.private, labels.untrusted) {
        (true, true) => "private data and untrusted text",
        (true, false) => "private data",
        (false, true) => "untrusted text",
        (false, false) => "neither private data nor untrusted text",
    };
    let takes = if labels.outbound { "can send data out" } else { "cannot send data out" };
    format!("data flow: results contain {gives}; the call {takes}")
}

/// Labels with their values and origins, in the order of the documentation.
fn sourced(labels: FlowLabels, sources: LabelSources) -> [(&'static str, String, LabelSource); 4] {
    let FlowLabels { private, untrusted, outbound, effect } = labels;
    let effect = match effect {
        CallEffect::None => "none",
        CallEffect::Reversible => "reversible",
        CallEffect::Irreversible => "irreversible",
    };
    [
        ("private", private.to_string(), sources.private),
        ("untrusted", untrusted.to_string(), sources.untrusted),
        ("outbound", outbound.to_string(), sources.outbound),
        ("effect", effect.to_owned(), sources.effect),
    ]
}

/// Names the labels that come from the package of the server. `None` if none does.
fn built_in_words(labels: FlowLabels, sources: LabelSources) -> Option<String> {
    let built_in = |(key, value, source): (&str, String, LabelSource)| {
        matches!(source, LabelSource::Package(_)).then(|| (format!("{key} {value}"), source))
    };
    let (said, of): (Vec<String>, Vec<LabelSource>) =
        sourced(labels, sources).into_iter().filter_map(built_in).unzip();
    of.first().map(|source| format!("labels: {} ({source})", said.join(", ")))
}

/// Formats the origins of labels as JSON for scripts.
fn source_value(sources: LabelSources) -> Value {
    let LabelSources { private, untrusted, outbound, effect } = sources;
    let [private, untrusted, outbound, effect] =
        [private, untrusted, outbound, effect].map(|source| source.to_string());
    json!({ "private": private, "untrusted": untrusted, "outbound": outbound, "effect": effect })
}

impl ToolEffects {
    /// Describes the annotations and their source.
    fn words(&self) -> String {
        let ToolEffectSet { read_only, destructive, idempotent, open_world, .. } = self.effects;
        let all = [
            (if read_only { "read_only" } else { "not read_only" }),
            (if destructive { "destructive" } else { "not destructive" }),
            (if idempotent { "idempotent" } else { "not idempotent" }),
            (if open_world { "open_world" } else { "not open_world" }),
        ];
        let source = match self.origin {
            OffersSource::Builtin => "from the built-in server",
            OffersSource::Remembered => "as last seen by a host",
            OffersSource::Unseen => "assumed, because the definition is unknown",
        };
        let counts = if self.are_believed {
            "used, because the server is in `trusted`"
        } else {
            "ignored, because the server is not in `trusted`"
        };
        format!("annotations: {} ({source}); {counts}", all.join(", "))
    }

    fn value(&self) -> Value {
        let ToolEffectSet { read_only, destructive, idempotent, open_world, .. } = self.effects;
        json!({
            "readOnly": read_only, "destructive": destructive, "idempotent": idempotent, "openWorld": open_world,
            "source": self.origin.as_str(), "believed": self.are_believed,
        })
    }
}

impl LayerVerdicts {
    /// Describes what each layer says.
    fn words(&self) -> [String; 2] {
        let words = |verdict: &PolicyVerdict| format!("{} ({})", verdict.decision, verdict.because);
        let delegated = if self.is_delegated { ", delegable: your rule decides" } else { "" };
        let organization = match &self.organization {
            Some(verdict) => words(verdict),
            None => "no rule matches".to_owned(),
        };
        let user = self.user.as_ref().map_or_else(|| "no policy".to_owned(), words);
        [format!("organisation: {organization}{delegated}"), format!("you: {user}")]
    }

    fn value(&self) -> Value {
        let value = |verdict: &PolicyVerdict| json!({ "decision": verdict.decision.to_string(), "because": verdict.because.to_string() });
        json!({
            "organization": self.organization.as_ref().map(value), "user": self.user.as_ref().map(value),
            "delegated": self.is_delegated,
        })
    }
}

fn show(verdict: &PolicyVerdict, facts: &DecisionFacts, output: CliOutput) -> CliResult {
    if output.json {
        let steps: Vec<_> = facts
            .steps
            .iter()
            .map(|RuleStep { rule, miss, .. }| json!({ "rule": rule, "fits": miss.is_none(), "miss": miss }))
            .collect();
        let rule = match deciding(&verdict.because) {
            DecisionReason::Rule { layer, number, line, name, .. } => {
                let of = if *layer == PolicyLayer::Organization { "organization" } else { "user" };
                json!({ "of": of, "number": number, "line": line, "name": name })
            }
            _ => Value::Null,
        };
        output.value(&json!({
            "decision": verdict.decision.to_string(),
            "because": verdict.why(),
            "approvers": verdict.approvers,
            "rule": rule,
            "steps": steps,
            "layers": facts.layers.as_ref().map(LayerVerdicts::value),
            "annotations": facts.tool.as_ref().map(ToolEffects::value),
            "labels": facts.labels.map(|(labels, _)| json!({
                "private": labels.private, "untrusted": labels.untrusted, "outbound": labels.outbound,
            })),
            "effect": facts.labels.map(|(labels, _)| labels.effect),
            "labelSources": facts.labels.map(|(_, sources)| source_value(sources)),
        }));
        return Ok(());
    }
    let mut lines = Vec::new();
    for RuleStep { rule, miss, conditions } in &facts.steps {
        lines.push(match miss {
            Some(miss) => paint(DIM, format!("{rule}: {}", printable(miss))),
            None if conditions.is_empty() => format!("{rule}: matches, no conditions"),
            None => format!("{rule}: matches, {}", printable(&conditions.join(", "))),
        });
    }
    if let Some(layers) = &facts.layers {
        lines.extend(layers.words().map(|line| printable(&line)));
    }
    if let Some(tool) = &facts.tool {
        lines.push(paint(DIM, tool.words()));
    }
    if let Some((labels, sources)) = facts.labels {
        lines.push(paint(DIM, words(labels)));
        lines.extend(built_in_words(labels, sources).map(|line| paint(DIM, line)));
    }
    if let Some(approvers) = &verdict.approvers {
        let caller = if approvers.excludes_requester() { ", and never the caller" } else { "" };
        lines.push(printable(&format!("approver: a member of {approvers}{caller}")));
    }
    let colour = match verdict.decision {
        PolicyDecision::Allow => GREEN,
        PolicyDecision::Ask => YELLOW,
        PolicyDecision::Deny => RED,
    };
    let decision = paint(BOLD, paint(colour, verdict.decision));
    let mut text: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    text.push_str(&format!("{decision}  {}", printable(&verdict.why())));
    output.result(text);
    Ok(())
}

/// Returns the rule behind a decision that was modified by other reasons.
fn deciding(because: &DecisionReason) -> &DecisionReason {
    match because {
        DecisionReason::Flow(before) => deciding(before),
        DecisionReason::Unclear { rule, .. } => deciding(rule),
        other => other,
    }
}
