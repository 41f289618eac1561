//! The schemas of the versions.

use serde_json::{Map, Value};

use super::fields::{
    Fields, Issues, boolean, list, number, object, one_of, record, shortened, text, text_of, texts,
};
use super::formats::{has_locale_placeholder, is_email, is_icon_size, is_locale, is_not_empty, is_url};
use super::{
    BundleAuthor, BundleCompatibility, BundleIcon, BundleLocalization, BundleManifest, BundleRepository,
    MAX_MANIFEST_BYTES, ManifestError, ManifestVersion, McpConfig, OptionKind, PlatformOverride, PromptEntry,
    ServerConfig, ServerKind, ToolEntry, UserOption,
};
use crate::launch::{BundlePlatform, UserValue};

pub(super) fn decode(json: &[u8], is_loose: bool) -> Result<BundleManifest, ManifestError> {
    let size = json.len() as u64;
    if size > MAX_MANIFEST_BYTES {
        return Err(ManifestError::TooLarge { size });
    }
    let value: Value =
        serde_json::from_slice(json).map_err(|error| ManifestError::Json { why: error.to_string() })?;
    let version = version(&value)?;
    let mut issues = Issues::new(is_loose);
    let manifest = manifest(&mut issues, &value, version);
    match manifest {
        Some(manifest) if issues.listed.is_empty() => {
            Ok(BundleManifest { unknown_keys: issues.unknown_keys, ..manifest })
        }
        _ => Err(ManifestError::Invalid { issues: issues.listed, more: issues.more }),
    }
}

/// Selects the version whose schema applies: a known `manifest_version`, or else a known `dxt_version`.
fn version(value: &Value) -> Result<ManifestVersion, ManifestError> {
    let named = |key: &str| value.get(key).and_then(Value::as_str);
    let known = |text: &str| ManifestVersion::ALL.into_iter().find(|version| version.as_str() == text);
    let found = ["manifest_version", "dxt_version"].into_iter().filter_map(named);
    let version = found.clone().find_map(known);
    version.ok_or_else(|| ManifestError::Version { found: found.into_iter().next().map(shortened) })
}

fn manifest(issues: &mut Issues, value: &Value, version: ManifestVersion) -> Option<BundleManifest> {
    let mut fields = Fields::of(issues, "", value)?;
    fields.optional("$schema", &text);
    for key in ["manifest_version", "dxt_version"] {
        fields.optional(key, &|issues, path, value| this_version(issues, path, value, version));
    }
    let name = fields.required("name", &text);
    let display_name = fields.optional("display_name", &text);
    let bundle_version = fields.required("version", &text);
    let description = fields.required("description", &text);
    let long_description = fields.optional("long_description", &text);
    let author = fields.required("author", &author);
    let repository = fields.optional("repository", &repository);
    let homepage = fields.optional("homepage", &url);
    let documentation = fields.optional("documentation", &url);
    let support = fields.optional("support", &url);
    let icon = fields.optional("icon", &text);
    let screenshots = fields.optional("screenshots", &texts);
    let server = fields.required("server", &|issues, path, value| server(issues, path, value, version));
    let tools = fields.optional("tools", &|issues, path, value| list(issues, path, value, &tool));
    let tools_generated = fields.optional("tools_generated", &boolean);
    let prompts = fields.optional("prompts", &|issues, path, value| list(issues, path, value, &prompt));
    let prompts_generated = fields.optional("prompts_generated", &boolean);
    let keywords = fields.optional("keywords", &texts);
    let license = fields.optional("license", &text);
    let compatibility = fields.optional("compatibility", &compatibility);
    let user_config = fields.optional("user_config", &user_config);
    let (mut privacy_policies, mut icons, mut localization, mut meta) = (None, None, None, None);
    if version >= ManifestVersion::V0_2 {
        privacy_policies =
            fields.optional("privacy_policies", &|issues, path, value| list(issues, path, value, &url));
    }
    if version >= ManifestVersion::V0_3 {
        icons = fields.optional("icons", &|issues, path, value| list(issues, path, value, &self::icon));
        localization = fields.optional("localization", &self::localization);
        meta = fields.optional("_meta", &self::meta);
    }
    fields.finish();
    Some(BundleManifest {
        manifest_version: version,
        name: name?,
        display_name,
        version: bundle_version?,
        description: description?,
        long_description,
        author: author?,
        repository,
        homepage,
        documentation,
        support,
        icon,
        icons: icons.unwrap_or_default(),
        screenshots: screenshots.unwrap_or_default(),
        localization,
        server: server?,
        tools: tools.unwrap_or_default(),
        tools_generated: tools_generated.unwrap_or(false),
        prompts: prompts.unwrap_or_default(),
        prompts_generated: prompts_generated.unwrap_or(false),
        keywords: keywords.unwrap_or_default(),
        license,
        privacy_policies: privacy_policies.unwrap_or_default(),
        compatibility: compatibility.unwrap_or_default(),
        user_config: user_config.unwrap_or_default(),
        meta: meta.unwrap_or_default(),
        unknown_keys: Vec::new(),
    })
}

/// Both keys may stand in a manifest, with the same version.
fn this_version(issues: &mut Issues, path: &str, value: &Value, version: ManifestVersion) -> Option<()> {
    if value.as_str() == Some(version.as_str()) {
        return Some(());
    }
    issues.add(path, format!("expected \"{version}\", the version that the manifest is read as"));
    None
}

fn url(issues: &mut Issues, path: &str, value: &Value) -> Option<String> {
    text_of(issues, path, value, is_url, "an absolute URL")
}

fn author(issues: &mut Issues, path: &str, value: &Value) -> Option<BundleAuthor> {
    let mut fields = Fields::of(issues, path, value)?;
    let name = fields.required("name", &text);
    let email = fields
        .optional("email", &|issues, path, value| text_of(issues, path, value, is_email, "an email address"));
    let url = fields.optional("url", &url);
    fields.finish();
    Some(BundleAuthor { name: name?, email, url })
}

fn repository(issues: &mut Issues, path: &str, value: &Value) -> Option<BundleRepository> {
    let mut fields = Fields::of(issues, path, value)?;
    let kind = fields.required("type", &text);
    let url = fields.required("url", &url);
    fields.finish();
    Some(BundleRepository { kind: kind?, url: url? })
}

fn icon(issues: &mut Issues, path: &str, value: &Value) -> Option<BundleIcon> {
    let mut fields = Fields::of(issues, path, value)?;
    let src = fields.required("src", &text);
    let size = fields.required("size", &|issues, path, value| {
        text_of(issues, path, value, is_icon_size, "WIDTHxHEIGHT, for example 16x16")
    });
    let theme = fields.optional("theme", &|issues, path, value| {
        text_of(issues, path, value, is_not_empty, "a text that is not empty")
    });
    fields.finish();
    Some(BundleIcon { src: src?, size: size?, theme })
}

fn localization(issues: &mut Issues, path: &str, value: &Value) -> Option<BundleLocalization> {
    let mut fields = Fields::of(issues, path, value)?;
    let resources = fields.required("resources", &|issues, path, value| {
        text_of(issues, path, value, has_locale_placeholder, "a path with ${locale}")
    });
    let default_locale = fields.required("default_locale", &|issues, path, value| {
        text_of(issues, path, value, is_locale, "a BCP 47 locale, for example en-US")
    });
    fields.finish();
    Some(BundleLocalization { resources: resources?, default_locale: default_locale? })
}

fn server(issues: &mut Issues, path: &str, value: &Value, version: ManifestVersion) -> Option<ServerConfig> {
    const KINDS: [(&str, ServerKind); 4] = [
        ("node", ServerKind::Node),
        ("python", ServerKind::Python),
        ("binary", ServerKind::Binary),
        ("uv", ServerKind::Uv),
    ];
    let known = if version >= ManifestVersion::V0_4 { &KINDS[..] } else { &KINDS[..3] };
    let mut fields = Fields::of(issues, path, value)?;
    let kind = fields.required("type", &|issues, path, value| one_of(issues, path, value, known));
    let entry_point = fields.required("entry_point", &text);
    // The page about the format says that a server of uv needs no command; its strict schema demands one.
    let may_lack = fields.issues.is_loose && kind == Some(ServerKind::Uv);
    let mcp_config = match may_lack {
        true => fields.optional("mcp_config", &mcp_config),
        false => Some(fields.required("mcp_config", &mcp_config)?),
    };
    fields.finish();
    Some(ServerConfig { kind: kind?, entry_point: entry_point?, mcp_config })
}

fn env(issues: &mut Issues, path: &str, value: &Value) -> Option<Vec<(String, String)>> {
    record(issues, path, value, &text)
}

fn mcp_config(issues: &mut Issues, path: &str, value: &Value) -> Option<McpConfig> {
    let mut fields = Fields::of(issues, path, value)?;
    let command = fields.required("command", &text);
    let args = fields.optional("args", &texts);
    let env = fields.optional("env", &env);
    let platform_overrides = fields.optional("platform_overrides", &|issues, path, value| {
        record(issues, path, value, &platform_override)
    });
    fields.finish();
    Some(McpConfig {
        command: command?,
        args: args.unwrap_or_default(),
        env: env.unwrap_or_default(),
        platform_overrides: platform_overrides.unwrap_or_default(),
    })
}

fn platform_override(issues: &mut Issues, path: &str, value: &Value) -> Option<PlatformOverride> {
    let mut fields = Fields::of(issues, path, value)?;
    let command = fields.optional("command", &text);
    let args = fields.optional("args", &texts);
    let env = fields.optional("env", &env);
    fields.finish();
    Some(PlatformOverride { command, args, env })
}

fn tool(issues: &mut Issues, path: &str, value: &Value) -> Option<ToolEntry> {
    let mut fields = Fields::of(issues, path, value)?;
    let name = fields.required("name", &text);
    let description = fields.optional("description", &text);
    fields.finish();
    Some(ToolEntry { name: name?, description })
}

fn prompt(issues: &mut Issues, path: &str, value: &Value) -> Option<PromptEntry> {
    let mut fields = Fields::of(issues, path, value)?;
    let name = fields.required("name", &text);
    let description = fields.optional("description", &text);
    let arguments = fields.optional("arguments", &texts);
    let body = fields.required("text", &text);
    fields.finish();
    Some(PromptEntry { name: name?, description, arguments: arguments.unwrap_or_default(), text: body? })
}

fn compatibility(issues: &mut Issues, path: &str, value: &Value) -> Option<BundleCompatibility> {
    let mut fields = Fields::of(issues, path, value)?;
    let claude_desktop = fields.optional("claude_desktop", &text);
    let platforms = fields.optional("platforms", &|issues, path, value| {
        list(issues, path, value, &|issues, path, value| {
            one_of(issues, path, value, &BundlePlatform::ALL.map(|platform| (platform.as_str(), platform)))
        })
    });
    let runtimes = fields.optional("runtimes", &runtimes);
    let mut clients: Vec<(String, String)> =
        claude_desktop.map(|range| ("claude_desktop".to_owned(), range)).into_iter().collect();
    if fields.issues.is_loose {
        // Ranges of other applications are described in words, and refused by the strict schemas.
        let others = fields.others().into_iter();
        clients.extend(others.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))));
    } else {
        fields.finish();
    }
    let (python, node) = runtimes.unwrap_or_default();
    Some(BundleCompatibility { platforms, python, node, clients })
}

type RuntimeRanges = (Option<String>, Option<String>);

fn runtimes(issues: &mut Issues, path: &str, value: &Value) -> Option<RuntimeRanges> {
    let mut fields = Fields::of(issues, path, value)?;
    let ranges = (fields.optional("python", &text), fields.optional("node", &text));
    fields.finish();
    Some(ranges)
}

fn meta(issues: &mut Issues, path: &str, value: &Value) -> Option<Map<String, Value>> {
    let platforms = record(issues, path, value, &object)?;
    Some(platforms.into_iter().map(|(key, value)| (key, Value::Object(value))).collect())
}

fn user_config(issues: &mut Issues, path: &str, value: &Value) -> Option<Vec<UserOption>> {
    let options = record(issues, path, value, &user_option)?;
    Some(options.into_iter().map(|(key, option)| UserOption { key, ..option }).collect())
}

fn user_option(issues: &mut Issues, path: &str, value: &Value) -> Option<UserOption> {
    const KINDS: [OptionKind; 5] = [
        OptionKind::String,
        OptionKind::Number,
        OptionKind::Boolean,
        OptionKind::Directory,
        OptionKind::File,
    ];
    let mut fields = Fields::of(issues, path, value)?;
    let kind = fields.required("type", &|issues, path, value| {
        one_of(issues, path, value, &KINDS.map(|kind| (kind.as_str(), kind)))
    });
    let title = fields.required("title", &text);
    let description = fields.required("description", &text);
    let required = fields.optional("required", &boolean);
    let default = fields.optional("default", &default_value);
    let multiple = fields.optional("multiple", &boolean);
    let sensitive = fields.optional("sensitive", &boolean);
    let (min, max) = (fields.optional("min", &number), fields.optional("max", &number));
    fields.finish();
    Some(UserOption {
        key: String::new(),
        kind: kind?,
        title: title?,
        description: description?,
        required: required.unwrap_or(false),
        default,
        multiple: multiple.unwrap_or(false),
        sensitive: sensitive.unwrap_or(false),
        min,
        max,
    })
}

fn default_value(issues: &mut Issues, path: &str, value: &Value) -> Option<UserValue> {
    match value {
        Value::String(text) => Some(UserValue::Text(text.clone())),
        Value::Number(_) => number(issues, path, value).map(UserValue::Number),
        Value::Bool(is_on) => Some(UserValue::Boolean(*is_on)),
        Value::Array(elements) if elements.iter().all(Value::is_string) => {
            texts(issues, path, value).map(UserValue::List)
        }
        _ => {
            issues.add(path, "expected a text, a number, true, false, or texts");
            None
        }
    }
}
