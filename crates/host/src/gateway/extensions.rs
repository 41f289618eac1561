//! Protocol extensions: declaration of the servers' extensions, and forwarding of extension methods.
//!
//! The meaning of such a request is unknown here. It is sent to the server whose label is in its `uri`, `ref.uri` or
//! `name`, or whose task it names; else to the only possible server. If several are possible, it is rejected. Params
//! and result are passed on unchanged except for that label.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use hospes::{Call, Context, Outcome, Service as _};
use hospes_model::{Method, Notification, RawJson, Reply, Revision, RpcError};

use super::declared_extensions::{declared, shares_extension};
use super::gateway_state::ViewLease;
use super::handle::Gateway;
use super::rewrite::{self, not_an_object};
use super::route::{NamedItemKind, locate_item, unknown_resource};
use super::routed_call::RoutedCall;
use crate::catalogue::names::SEPARATOR;
use crate::catalogue::uris::RouteError;
use crate::catalogue::{MergedCatalogue, is_labelled, template_matches};
use crate::guard::{METHOD_SUBJECT, TargetItem};
use crate::server::ExtensionSettings;
use crate::upstream::ReadyConnection;

/// The longest name of such a method, in bytes.
const MAX_METHOD_BYTES: usize = 128;
/// The members of results that hold further objects with URIs.
const NESTED: [&str; 3] = ["skills", "skill", "resources"];
/// Maximum depth to which such members are followed.
const MAX_DEPTH: usize = 4;

impl Gateway {
    /// Returns the connected servers that this application sees, with their connections.
    pub(super) fn in_view(&self, using: &ViewLease) -> Vec<(usize, Arc<ReadyConnection>)> {
        let (user, abilities) = (using.view.user.as_ref(), using.view.abilities);
        let seen = self.shared.upstreams.current().filter(|(server, _)| using.sees(*server));
        let live = seen.filter_map(|(server, slot)| {
            // Of what nobody has accepted, no word is passed on.
            if slot.server.gate.as_ref().is_some_and(|gate| gate.server_block_reason().is_some()) {
                return None;
            }
            let upstream = slot.of(user)?;
            let own = upstream.own(&using.application, abilities);
            let own = own.and_then(|line| line.phase().offers().cloned());
            let live = own.or_else(|| upstream.line(abilities).phase().offers().cloned())?;
            Some((server, live))
        });
        live.collect()
    }

    /// The extensions that the servers in view have; of a server that is not connected, those that it had when it was. Settings are passed as they came where one server has the extension,
    /// and of several what is equal in all of them.
    pub(super) fn extensions(&self, using: &ViewLease) -> ExtensionSettings {
        let mut all: BTreeMap<String, Vec<RawJson>> = BTreeMap::new();
        let seen = self.in_view(using);
        for (_, live) in &seen {
            for (identifier, settings) in declared(live) {
                all.entry(identifier.clone()).or_default().push(settings.clone());
            }
        }
        // An application of an older revision hears this once. So a server that is still starting counts as it was.
        for (server, slot) in self.shared.upstreams.current() {
            let is_withheld =
                || slot.server.gate.as_ref().is_some_and(|gate| gate.server_block_reason().is_some());
            let is_missing = using.sees(server) && seen.iter().all(|(other, _)| *other != server);
            let Some(definition) = slot.server.definition.as_ref().filter(|_| is_missing && !is_withheld())
            else {
                continue;
            };
            for (identifier, settings) in self.shared.memory.extensions(definition) {
                all.entry(identifier).or_default().push(settings);
            }
        }
        all.into_iter().map(|(identifier, settings)| (identifier, agreed(&settings))).collect()
    }

    /// Forwards a request with a method that the specification does not define.
    pub(super) async fn forward_extension_request(
        &self,
        call: Call,
        using: &ViewLease,
    ) -> Result<Outcome, RpcError> {
        let method = call.method.clone();
        let name = method.name();
        if !is_method_name(name) {
            // The name is not repeated: it has characters that must not reach logs and screens.
            return Err(RpcError::method_not_found(""));
        }
        // Readers differ in which of two members they take: what is checked here might not be what the server reads.
        if let Some(repeated) = call.params.view().repeated {
            return Err(RpcError::invalid_params(format!("invalid params: duplicate key `{repeated}`")));
        }
        // A server that is still starting may be the one that is meant.
        self.shared.wait_for_first_start(&using.view, |slot| slot.server.start_wait).await;
        if let Some(listed) = self.extension_list(&call, using).await {
            return listed;
        }
        let catalogue = using.catalogue();
        let (server, params) = self.resolve_recipient(&call, using, &catalogue)?;
        let subject = format!("{METHOD_SUBJECT}{name}");
        let shown = without_meta(&params);
        let item = TargetItem::Method(&subject, &shown);
        let routed = RoutedCall { using, server, item, catalogue: &catalogue, reached: None };
        let outcome = self.send_routed(call, routed, |_, _| Ok(params)).await?;
        Ok(match outcome {
            Outcome::Complete(Reply::Raw { revision, json, bridge }) if names_uris(name) => {
                let server = &self.shared.upstreams[server].server.name;
                let show = |uri: &str| catalogue.uris.show(server, uri, &template_matches);
                let json = if catalogue.is_alone { json } else { with_shown_uris(&json, 0, &show) };
                Outcome::Complete(Reply::Raw { revision, json, bridge })
            }
            outcome => outcome,
        })
    }

    /// Forwards a notification of an extension: to the server that it names, else to all that share an extension with
    /// the application. Its outcome appears only in the audit log.
    pub(super) async fn unknown_notification(&self, method: Method, params: RawJson, context: Context) {
        let call = Call::new(method, params, context);
        let name = call.method.name();
        let peer = call.context.peer();
        let Ok(using) = self.shared.view(peer, self.scope) else { return };
        if !is_method_name(name) || call.params.view().repeated.is_some() {
            tracing::debug!("notification dropped: ambiguous name or params");
            return;
        }
        let catalogue = using.catalogue();
        let targets = match self.named_in_params(&call, &using, &catalogue) {
            Ok(Some(target)) => vec![target],
            Ok(None) => {
                let seen = self.in_view(&using);
                let sharing = seen.iter().filter(|(_, live)| shares_extension(live, &peer.capabilities));
                sharing.map(|(server, _)| (*server, call.params.raw().clone())).collect()
            }
            Err(error) => {
                tracing::debug!(method = name, %error, "notification dropped");
                return;
            }
        };
        // All at once: a server that is slow to connect must not keep the others from hearing it.
        let told = targets.into_iter().map(|(server, params)| self.tell(server, params, &call, &using));
        futures::future::join_all(told).await;
    }

    /// Sends a notification to one server, if the rules allow it without asking; nobody can be asked about a
    /// notification.
    async fn tell(&self, server: usize, params: RawJson, call: &Call, using: &ViewLease) {
        let subject = format!("{METHOD_SUBJECT}{}", call.method.name());
        let shown = without_meta(&params);
        let what = TargetItem::Notification(&subject, &shown);
        let ControlFlow::Continue(mut passage) = self.admit(call, server, &what, using).await else {
            return;
        };
        let outcome = match self.reach(server, using).await {
            Ok(mut reached) => {
                if let Some(why) = self.block_reason_on_connection(server, &what, &mut reached).await {
                    reached.lease.finish();
                    self.refuse(passage, call, server, what, &why).await;
                    return;
                }
                let notification = Notification::Other { method: call.method.clone(), params: Some(params) };
                let context = call.context.clone();
                reached.live.connection.service.notified(notification, context).await;
                reached.lease.finish();
                Ok(Outcome::Complete(Reply::raw(Revision::LATEST, RawJson::empty_object())))
            }
            Err(unreached) => {
                tracing::debug!(method = call.method.name(), why = unreached.why, "notification dropped");
                if let Some(passage) = &mut passage {
                    passage.clear_labels();
                }
                Err(unreached.into())
            }
        };
        let Some(passage) = passage else { return };
        // It has reached the server, or the record says that it has not; the application hears neither.
        let _unheard = passage.finish(outcome).await;
    }

    /// Returns the server that a request is for, and the params with that server's own names and URIs.
    fn resolve_recipient(
        &self,
        call: &Call,
        using: &ViewLease,
        catalogue: &MergedCatalogue,
    ) -> Result<(usize, RawJson), RpcError> {
        match self.named_in_params(call, using, catalogue)? {
            Some(target) => Ok(target),
            None => Ok((self.only_candidate(call.method.name(), using)?, call.params.raw().clone())),
        }
    }

    /// Returns the server that the params name, and the params for that server.
    fn named_in_params(
        &self,
        call: &Call,
        using: &ViewLease,
        catalogue: &MergedCatalogue,
    ) -> Result<Option<(usize, RawJson)>, RpcError> {
        let (view, params) = (call.params.view(), call.params.raw());
        let wrong = |error: serde_json::Error| not_an_object(&error);
        if let Some(uri) = view.uri.as_deref() {
            match self.route(catalogue, uri) {
                Ok((server, own)) => {
                    return Ok(Some((server, rewrite::with_text(params, "uri", &own).map_err(wrong)?)));
                }
                Err(error @ RouteError::Ambiguous { .. }) => return Err(unknown_resource(uri, &error)),
                // A URI of nobody known leaves the other members to say who is meant.
                Err(_) => {}
            }
        }
        // Of repeated members the last one counts, as for most readers of JSON.
        let reference = params.members().filter(|member| member.key() == "ref").last();
        if let Some(reference) = reference.map(|member| member.value())
            && let Some(uri) = reference.members().filter(|member| member.key() == "uri").last()
            && let Some(uri) = uri.text()
        {
            match catalogue.uris.route_template(&uri) {
                Ok(target) => {
                    if let Some(server) = self.position(target.server) {
                        let own = rewrite::with_text(&reference, "uri", &target.uri).map_err(wrong)?;
                        return Ok(Some((server, params.with_member("ref", &own))));
                    }
                }
                Err(error @ RouteError::Ambiguous { .. }) => return Err(unknown_resource(&uri, &error)),
                Err(_) => {}
            }
        }
        if let Some(shown) = view.name.as_deref()
            && let Some((server, own)) = self.named_server(shown, catalogue)
        {
            return Ok(Some((server, rewrite::with_text(params, "name", &own).map_err(wrong)?)));
        }
        if let Some(shown) = view.task_id.as_deref()
            && let Ok((server, own)) = self.resolve_task(shown, &call.context)
            && using.sees(server)
        {
            return Ok(Some((server, rewrite::with_text(params, "taskId", &own).map_err(wrong)?)));
        }
        Ok(None)
    }

    /// Returns the server of a labelled name, and the server's own name for the item.
    fn named_server(&self, shown: &str, catalogue: &MergedCatalogue) -> Option<(usize, String)> {
        let known = [NamedItemKind::Tool, NamedItemKind::Prompt]
            .into_iter()
            .find_map(|kind| locate_item(catalogue, kind, shown));
        if let Some(known) = known {
            return Some((known.server, known.name.to_string()));
        }
        let (prefix, own) = shown.split_once(SEPARATOR).filter(|_| !self.is_single())?;
        Some((self.position(self.shared.upstreams.prefixes().server(prefix)?)?, own.to_owned()))
    }

    /// Returns the only possible server of a request that names none.
    fn only_candidate(&self, method: &str, using: &ViewLease) -> Result<usize, RpcError> {
        let seen = self.in_view(using);
        // Extensions are named `vendor/name`, and their methods begin with that name.
        let family = method.split('/').next().unwrap_or_default();
        let is_of_family = |identifier: &str| {
            identifier.rsplit_once('/').is_some_and(|(_, name)| name == family) && method.contains('/')
        };
        let servers = |wanted: &dyn Fn(&str) -> bool| -> Vec<usize> {
            let has = |live: &ReadyConnection| declared(live).any(|(identifier, _)| wanted(identifier));
            seen.iter().filter(|(_, live)| has(live)).map(|(server, _)| *server).collect()
        };
        let extended = servers(&|_| true);
        let of_family = servers(&is_of_family);
        let candidates = if of_family.is_empty() { &extended } else { &of_family };
        match (candidates.as_slice(), seen.as_slice()) {
            ([one], _) => Ok(*one),
            // With one server in view nobody else can be meant; it may have the method without declaring an extension.
            ([], [(one, _)]) => Ok(*one),
            ([], _) => Err(RpcError::method_not_found(method)),
            (several, _) => {
                let prefixes = self.shared.upstreams.prefixes();
                let labels = several.iter().filter_map(|server| {
                    let prefix = prefixes.of(&self.shared.upstreams[*server].server.name)?;
                    Some(prefix.as_str().to_owned())
                });
                Err(ambiguous(method, labels.collect()))
            }
        }
    }
}

/// Returns true if a method name can be displayed and recorded unchanged.
fn is_method_name(name: &str) -> bool {
    let is_shown = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    name.len() <= MAX_METHOD_BYTES && name.bytes().all(is_shown)
}

fn ambiguous(method: &str, servers: Vec<String>) -> RpcError {
    #[derive(serde::Serialize)]
    struct AmbiguousServersData {
        servers: Vec<String>,
    }
    let text = format!(
        "{method}: the server is ambiguous ({}); name one of them in `uri` or `name`, or use the endpoint of one \
         server",
        servers.join(", ")
    );
    RpcError::invalid_params(text).with_data(&AmbiguousServersData { servers })
}

/// Merges the settings of servers: those of one server unchanged, of several the members that are equal in all.
fn agreed(settings: &[RawJson]) -> RawJson {
    let Some((first, others)) = settings.split_first() else { return RawJson::empty_object() };
    if others.is_empty() {
        return first.clone();
    }
    let others: Vec<_> = others.iter().map(|other| other.to_value().unwrap_or_default()).collect();
    // Members are copied as text, so that numbers and escapes stay as the server wrote them.
    let mut out = vec![b'{'];
    for member in first.members() {
        let value = member.value().to_value().ok();
        if others.iter().all(|other| other.get(&*member.key()) == value.as_ref()) {
            member.write(&mut out);
        }
    }
    out.push(b'}');
    RawJson::parse(out).unwrap_or_else(|_| RawJson::empty_object())
}

/// Returns the params without `_meta`.
pub(super) fn without_meta(params: &RawJson) -> RawJson {
    // Members are copied as text, so that numbers and escapes stay as the application wrote them.
    let mut out = vec![b'{'];
    let own = ["_meta", "inputResponses", "requestState"];
    params
        .members()
        .filter(|member| !own.contains(&&*member.key()))
        .for_each(|member| member.write(&mut out));
    out.push(b'}');
    RawJson::parse(out).unwrap_or_else(|_| RawJson::empty_object())
}

/// Returns whether the result of a method holds URIs of resources, and where is known.
fn names_uris(method: &str) -> bool {
    matches!(method, "skills/list" | "skills/get" | "resources/directory/read")
}

/// Returns the result with the shown forms of URIs that have a label.
pub(super) fn with_shown_uris(value: &RawJson, depth: usize, show: &impl Fn(&str) -> String) -> RawJson {
    if depth > MAX_DEPTH {
        return value.clone();
    }
    if value.as_bytes().first() == Some(&b'[') {
        let Ok(items) = value.decode::<Vec<RawJson>>() else { return value.clone() };
        let items: Vec<RawJson> = items.iter().map(|item| with_shown_uris(item, depth + 1, show)).collect();
        return RawJson::from_serialize(&items).unwrap_or_else(|_| value.clone());
    }
    let mut shown = value.clone();
    for member in value.members() {
        let key = member.key();
        if key == "uri" {
            let uri = member.text().filter(|uri| is_labelled(uri)).map(|uri| show(&uri));
            if let Some(uri) = uri.and_then(|uri| RawJson::from_serialize(&uri).ok()) {
                shown = shown.with_member("uri", &uri);
            }
        } else if NESTED.contains(&&*key) {
            shown = shown.with_member(&key, &with_shown_uris(&member.value(), depth + 1, show));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn settings_of_several_servers_are_what_they_agree_on() {
        let one = raw(r#"{"b":1, "a":{"x":1e400}}"#);
        assert_eq!(agreed(std::slice::from_ref(&one)), one, "as they came");
        let several =
            [raw(r#"{"b":[1,2],"a":1,"c":3}"#), raw(r#"{"a":1.0,"b":[1,2]}"#), raw(r#"{"b":[1, 2]}"#)];
        assert_eq!(agreed(&several).as_str(), r#"{"b":[1,2]}"#);
        assert_eq!(agreed(&[raw("{}"), raw(r#"{"a":1}"#)]).as_str(), "{}");
    }

    #[test]
    fn uris_are_shown_where_they_stand_and_nowhere_else() {
        let result = raw(
            r#"{"skills":[{"uri":"skill://x/SKILL.md","resources":[{"uri":"skill://x/a","size":1.0}],"text":"skill://x"}],
            "uri":"https://x/","frontmatter":{"uri":"skill://x/y"}}"#,
        );
        let shown = with_shown_uris(&result, 0, &|uri: &str| uri.replacen("://", "://a/", 1));
        let expected = result.as_str().replace("\"uri\":\"skill://x/SKILL", "\"uri\":\"skill://a/x/SKILL");
        let expected = expected.replace("skill://x/a", "skill://a/x/a");
        assert_eq!(shown.to_value().unwrap(), raw(&expected).to_value().unwrap());
        assert!(shown.as_str().contains("1.0"), "numbers stay as they were written");
    }
}
