use super::table::SETS;
use super::*;
use crate::action::{PolicyAction, PolicyRequest};
use crate::arguments::CallArguments;
use crate::file::PolicyEnvironment;
use crate::flow::CallEffect::{Irreversible, None as NoEffect, Reversible};
use crate::policy::{LabelSource, Policy};
use crate::preset::Preset;

const FILES: &str = "npm:@modelcontextprotocol/server-filesystem";

fn known(package: &str, may_lower: bool) -> KnownLabels {
    KnownLabels { program: None, package: PackageLabels::find(package), may_lower }
}

fn labels_of(policy: &Policy, known: KnownLabels, tool: &str) -> (FlowLabels, [LabelSource; 4]) {
    let arguments = CallArguments::none();
    let asked = PolicyRequest::new("s", PolicyAction::tool(tool, ToolEffectSet::unknown(), &arguments));
    let (labels, sources) = policy.labels_with_sources(&asked, known);
    assert_eq!(labels, policy.labels(&asked, known));
    (labels, [sources.private, sources.untrusted, sources.outbound, sources.effect])
}

fn of(known: KnownLabels, tool: &str) -> (bool, bool, bool, CallEffect) {
    let FlowLabels { private, untrusted, outbound, effect } =
        labels_of(&Policy::of_preset(Preset::Balanced), known, tool).0;
    (private, untrusted, outbound, effect)
}

fn file(text: &str) -> Policy {
    Policy::read(text, &PolicyEnvironment::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// A package is in one set, a tool is once in its set, and both are written as they are looked up.
#[test]
fn each_package_and_each_tool_is_named_once() {
    let mut packages: Vec<&str> = Vec::new();
    for set in SETS {
        for package in set.packages {
            assert!(!packages.contains(package), "{package}");
            packages.push(package);
            let (kind, name) = package.split_once(':').unwrap();
            assert!(["npm", "pypi", "oci", "https"].contains(&kind), "{package}");
            let is_normal =
                name == name.to_lowercase() && !name.ends_with('/') && !name.contains(char::is_whitespace);
            assert!(is_normal, "{package}");
            assert!(kind != "pypi" || !name.contains(['_', '.']), "{package}");
            assert_eq!(PackageLabels::find(package).unwrap().package(), *package);
        }
        let mut tools: Vec<&str> = set.named_tools().map(|(_, name)| name).collect();
        let count = tools.len();
        tools.sort_unstable();
        tools.dedup();
        assert_eq!(tools.len(), count, "{:?}", set.packages);
        assert!(tools.iter().all(|tool| !tool.is_empty() && !tool.contains('*')), "{:?}", set.packages);
    }
    assert!(packages.len() > 30);
}

#[test]
fn only_the_exact_package_has_labels() {
    assert!(PackageLabels::find(FILES).is_some());
    for other in [
        "npm:@modelcontextprotocol/server-filesystem2",
        "npm:@Modelcontextprotocol/server-filesystem",
        "npm:server-filesystem",
        "pypi:@modelcontextprotocol/server-filesystem",
        "https://evil.example",
        "https://mcp.notion.com.evil.example",
        "",
    ] {
        assert!(PackageLabels::find(other).is_none(), "{other}");
    }
}

/// Until a person has accepted the definitions, a set makes the guard more careful and never less.
#[test]
fn a_set_raises_labels_and_lowers_them_only_once_the_tool_is_accepted() {
    for (package, tool, raised, accepted) in [
        (FILES, "read_text_file", (true, true, true, Reversible), (true, true, false, NoEffect)),
        (FILES, "write_file", (false, true, true, Irreversible), (false, true, false, Irreversible)),
        (FILES, "create_directory", (false, true, true, Reversible), (false, true, false, Reversible)),
        (
            "pypi:mcp-server-time",
            "convert_time",
            (false, true, true, Reversible),
            (false, false, false, NoEffect),
        ),
        ("pypi:mcp-server-fetch", "fetch", (false, true, true, Reversible), (false, true, true, NoEffect)),
        (
            "npm:slack-mcp-server",
            "conversations_history",
            (true, true, true, Reversible),
            (true, true, false, NoEffect),
        ),
        (
            "npm:@gongrzhe/server-gmail-autoauth-mcp",
            "send_email",
            (false, true, true, Irreversible),
            (false, true, true, Reversible),
        ),
        (
            "npm:@gongrzhe/server-gmail-autoauth-mcp",
            "create_filter",
            (false, true, true, Irreversible),
            (false, true, true, Irreversible),
        ),
        (
            "npm:@modelcontextprotocol/server-postgres",
            "query",
            (true, true, true, Reversible),
            (true, true, true, Reversible),
        ),
        (
            "npm:mcp-server-kubernetes",
            "kubectl_apply",
            (true, true, true, Irreversible),
            (true, true, true, Irreversible),
        ),
    ] {
        assert_eq!(of(known(package, false), tool), raised, "{package} {tool}");
        assert_eq!(of(known(package, true), tool), accepted, "{package} {tool}: accepted");
    }
    let unlabelled = of(KnownLabels::default(), "read_text_file");
    assert_eq!(unlabelled, (false, true, true, Reversible));
}

/// No set lowers anything of a tool whose definition nobody has accepted, and each entry changes something.
#[test]
fn each_entry_raises_or_lowers_something_and_lowers_nothing_before_acceptance() {
    for set in SETS {
        for (_, tool) in set.named_tools() {
            let without = of(KnownLabels::default(), tool);
            let with = of(known(set.packages[0], false), tool);
            let is_raised =
                with.0 >= without.0 && with.1 >= without.1 && with.2 >= without.2 && with.3 >= without.3;
            assert!(is_raised, "{tool}: {without:?} {with:?}");
            let accepted = of(known(set.packages[0], true), tool);
            assert!(with != without || accepted != without, "{tool}: no label differs from the default");
        }
    }
}

#[test]
fn a_tool_that_is_not_named_and_whatever_is_no_tool_have_no_built_in_labels() {
    for may_lower in [false, true] {
        for tool in ["read_secrets", "READ_FILE", "read_file "] {
            assert_eq!(of(known(FILES, may_lower), tool), of(KnownLabels::default(), tool), "{tool}");
        }
        let policy = Policy::of_preset(Preset::Balanced);
        for action in
            [PolicyAction::Prompt { name: "read_file" }, PolicyAction::Resource { uri: "read_file" }]
        {
            let asked = PolicyRequest::new("s", action);
            assert_eq!(
                policy.labels(&asked, known(FILES, may_lower)),
                policy.labels(&asked, KnownLabels::default())
            );
        }
    }
}

/// What a trusted server declares does not keep a set from raising a label.
#[test]
fn a_set_raises_the_labels_of_a_trusted_server() {
    let policy = file("preset = 'balanced'\ntrusted = ['s']");
    let arguments = CallArguments::none();
    let effects = ToolEffectSet {
        read_only: true,
        destructive: false,
        idempotent: true,
        open_world: false,
        says_destructive: false,
    };
    let labels = |tool: &str, known: KnownLabels| {
        let asked = PolicyRequest::new("s", PolicyAction::tool(tool, effects, &arguments));
        let FlowLabels { private, untrusted, outbound, effect } = policy.labels(&asked, known);
        (private, untrusted, outbound, effect)
    };
    assert_eq!(labels("read_file", KnownLabels::default()), (false, false, false, NoEffect));
    assert_eq!(labels("read_file", known(FILES, false)), (true, true, false, NoEffect));
    assert_eq!(labels("write_file", known(FILES, false)), (false, false, false, Irreversible));
    assert_eq!(labels("fetch", known("pypi:mcp-server-fetch", false)), (false, true, true, NoEffect));
}

/// The definition says that it destroys something, whatever earlier versions of the tool did.
#[test]
fn a_tool_that_says_that_it_is_destructive_stays_irreversible() {
    let policy = Policy::of_preset(Preset::Balanced);
    let arguments = CallArguments::none();
    let effects = ToolEffectSet { says_destructive: true, ..ToolEffectSet::unknown() };
    let asked = PolicyRequest::new("s", PolicyAction::tool("create_directory", effects, &arguments));
    assert_eq!(policy.labels(&asked, known(FILES, true)).effect, Irreversible);
}

#[test]
fn the_policy_file_comes_first_and_each_label_says_where_it_comes_from() {
    let policy = file(
        "preset = 'balanced'\n[[label]]\nserver = 's'\ntool = 'read_*'\nprivate = false\noutbound = true\n
         [[label]]\nserver = 's'\neffect = 'reversible'\n",
    );
    let package = LabelSource::Package(FILES);
    let (labels, sources) = labels_of(&policy, known(FILES, true), "read_text_file");
    assert_eq!(labels, FlowLabels { private: false, untrusted: true, outbound: true, effect: Reversible });
    assert_eq!((sources[0].to_string(), sources[1]), ("label 1 (line 2)".to_owned(), package));
    assert_eq!(
        (sources[2].to_string(), sources[3].to_string()),
        ("label 1 (line 2)".to_owned(), "label 2 (line 8)".to_owned())
    );
    let balanced = Policy::of_preset(Preset::Balanced);
    let sources = labels_of(&balanced, known(FILES, false), "read_text_file").1;
    assert_eq!(sources, [package, package, LabelSource::Default, LabelSource::Default]);
    assert_eq!(package.to_string(), format!("built in for {FILES}"));
    let sources = labels_of(&balanced, known(FILES, true), "other").1;
    assert_eq!(sources, [LabelSource::Default; 4]);
}

/// A policy file without a preset means what it says.
#[test]
fn built_in_labels_can_be_switched_off_and_need_a_preset() {
    for (text, applies) in [
        ("preset = 'open'", true),
        ("preset = 'balanced'\nbuilt_in_labels = false", false),
        ("trusted = ['x']", false),
        ("built_in_labels = true", true),
    ] {
        let policy = file(text);
        assert_eq!(policy.uses_built_in_labels(), applies, "{text}");
        assert_eq!(labels_of(&policy, known(FILES, true), "read_file").0.private, applies, "{text}");
    }
    assert!(file("trusted = []").with_preset(Preset::Balanced).uses_built_in_labels());
    assert!(!file("preset = 'balanced'").without_preset().uses_built_in_labels());
}

/// An accepted tool counts as described: its effect is known, and what it claims does not matter. So does one that the
/// set raises, because without the set nobody would be asked about it in a clean conversation.
#[test]
fn a_tool_is_described_by_a_set_once_it_is_accepted() {
    let policy = Policy::of_preset(Preset::Balanced);
    let arguments = CallArguments::none();
    let describe = |tool: &str, may_lower: bool| {
        let asked = PolicyRequest::new("s", PolicyAction::tool(tool, ToolEffectSet::unknown(), &arguments));
        let described = policy.describe(&asked, known(FILES, may_lower));
        (described.is_described, described.claims_to_read)
    };
    assert_eq!(describe("read_file", false), (false, true));
    assert_eq!(describe("read_file", true), (true, false));
    assert_eq!(describe("read_other", true), (false, true));
    assert_eq!((describe("write_file", false).0, describe("create_directory", false).0), (true, false));
    // By its name it is irreversible already.
    let asked_of = |tool: &str| {
        let asked = PolicyRequest::new("s", PolicyAction::tool(tool, ToolEffectSet::unknown(), &arguments));
        policy.describe(&asked, known("npm:@modelcontextprotocol/server-memory", false)).is_described
    };
    assert!(!asked_of("delete_entities"));
}
