//! Nodes and sessions in Redis.

use std::time::Duration;

use ::redis::{Value, cmd};
use tokio::time::Instant;

use super::reply::{ScriptReply, UNEXPECTED, byte_strings, state_number, state_of};
use super::{RedisRelay, millis, records, scripts};
use crate::node::{NodeId, NodeLease, NodeRecord, NodeStatus};
use crate::relay::RelayError;
use crate::session::{
    NewSession, RECORD_VERSION, RelaySession, SessionChange, SessionEntry, SessionKey, SessionOwner,
};

/// Arguments of a script.
#[derive(Default)]
struct ScriptArguments(Vec<Vec<u8>>);

impl ScriptArguments {
    fn text(mut self, text: impl std::fmt::Display) -> Self {
        self.0.push(format!("{text}").into_bytes());
        self
    }

    fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.push(bytes.into());
        self
    }

    fn as_slices(&self) -> Vec<&[u8]> {
        self.0.iter().map(Vec::as_slice).collect()
    }
}

impl RedisRelay {
    pub(super) async fn join_fleet(&self, record: &NodeRecord) -> Result<NodeLease, RelayError> {
        let node = record.id;
        self.own_nodes.check_new(node)?;
        let arguments = ScriptArguments::default()
            .text(node)
            .text(millis(self.settings.relay.lease))
            .bytes(records::seal_node(&self.keys, record));
        let keys = [&*self.keyspace.lease(node), &*self.keyspace.nodes()];
        let sent = Instant::now();
        self.lease_link.script(&scripts::JOIN, &keys, &arguments.as_slices()).await?.word()?;
        self.own_nodes.add(node);
        Ok(self.lease(node, sent))
    }

    pub(super) async fn renew_lease(&self, node: NodeId) -> Result<NodeLease, RelayError> {
        let mut command = cmd("PEXPIRE");
        command.arg(self.keyspace.lease(node)).arg(millis(self.settings.relay.lease));
        let sent = Instant::now();
        match self.lease_link.command(&command).await? {
            Value::Int(1) => Ok(self.lease(node, sent)),
            Value::Int(0) => self.own_nodes.note_end(node, Err(RelayError::Gone)),
            _ => Err(UNEXPECTED),
        }
    }

    fn lease(&self, node: NodeId, sent: Instant) -> NodeLease {
        NodeLease::measured(node, sent, self.settings.relay.lease, self.settings.relay.lease_margin)
    }

    pub(super) async fn announce_record(&self, node: NodeId, record: &NodeRecord) -> Result<(), RelayError> {
        let arguments = ScriptArguments::default().text(node).bytes(records::seal_node(&self.keys, record));
        let keys = [&*self.keyspace.lease(node), &*self.keyspace.nodes()];
        let reply = self.lease_link.script(&scripts::ANNOUNCE, &keys, &arguments.as_slices()).await?;
        self.own_nodes.note_end(node, reply.word().map(drop))
    }

    pub(super) async fn end_lease(&self, node: NodeId) -> Result<(), RelayError> {
        self.lease_link.command(cmd("DEL").arg(self.keyspace.lease(node))).await.map(drop)
    }

    pub(super) async fn end_lease_of(&self, node: NodeId, silent_for: Duration) -> Result<bool, RelayError> {
        let left = self.settings.relay.lease.saturating_sub(silent_for);
        let (lease, left) = (self.keyspace.lease(node), ScriptArguments::default().text(millis(left)));
        let script = &scripts::END_SILENT_LEASE;
        let reply = self.lease_link.script(script, &[&lease], &left.as_slices()).await?;
        Ok(reply.word()? == "ok")
    }

    pub(super) async fn known_nodes(&self) -> Result<Vec<NodeStatus>, RelayError> {
        let arguments = ScriptArguments::default().text(self.keyspace.leases()).text(self.keyspace.indexes());
        let connection = self.lease_link.connection().await?;
        let nodes = self.keyspace.nodes();
        let found =
            self.lease_link.script_on(connection, &scripts::NODES, &[&nodes], &arguments.as_slices()).await?;
        let found = byte_strings(found)?;
        let (triples, _) = found.as_chunks::<3>();
        let status = |[node, record, alive]: &[Vec<u8>; 3]| {
            let node = std::str::from_utf8(node).ok().and_then(NodeId::parse).ok_or(UNEXPECTED)?;
            Ok(NodeStatus::new(records::open_node(&self.keys, node, record)?, alive == b"1"))
        };
        triples.iter().map(status).collect()
    }

    pub(super) async fn indexed_sessions(
        &self,
        node: NodeId,
        max: usize,
    ) -> Result<Vec<SessionKey>, RelayError> {
        let mut command = cmd("SRANDMEMBER");
        command.arg(self.keyspace.index(node)).arg(max);
        let sessions = byte_strings(self.lease_link.command(&command).await?)?;
        let key = |bytes: Vec<u8>| SessionKey::from_bytes(&bytes).ok_or(UNEXPECTED);
        sessions.into_iter().map(key).collect()
    }

    pub(super) async fn reserve_session(
        &self,
        session: &SessionKey,
        owner: SessionOwner,
        record: &NewSession,
        lifetime: Duration,
    ) -> Result<(), RelayError> {
        self.settings.relay.limits.check_payload(record.body.len())?;
        let arguments = ScriptArguments::default()
            .text(owner.node)
            .text(owner.epoch)
            .text(state_number(record.state))
            .text(record.version)
            .bytes(records::seal_body(&self.keys, session, &record.body))
            .text(millis(lifetime))
            .bytes(*session.as_bytes());
        let keys = [
            &*self.keyspace.session(session),
            &*self.keyspace.lease(owner.node),
            &*self.keyspace.index(owner.node),
        ];
        let link = self.data_link(session.as_bytes());
        link.script(&scripts::RESERVE, &keys, &arguments.as_slices()).await?.word().map(drop)
    }

    pub(super) async fn find_session(
        &self,
        session: &SessionKey,
    ) -> Result<Option<RelaySession>, RelayError> {
        let mut command = cmd("HMGET");
        command.arg(self.keyspace.session(session)).arg(&["owner", "epoch", "state", "version", "body"]);
        let reply = ScriptReply::read(self.data_link(session.as_bytes()).command(&command).await?)?;
        let Some(owner) = reply.owner_at(0)? else {
            return self.check_recovered(session).await.map(|()| None);
        };
        self.session_of(session, owner, &reply, 2).map(Some)
    }

    /// Session whose state, version and body begin at this place of an answer.
    fn session_of(
        &self,
        session: &SessionKey,
        owner: SessionOwner,
        reply: &ScriptReply,
        index: usize,
    ) -> Result<RelaySession, RelayError> {
        Ok(RelaySession {
            owner,
            state: state_of(reply.number(index)?),
            version: reply.number(index + 1)?.try_into().map_err(|_| UNEXPECTED)?,
            body: records::open_body(&self.keys, session, reply.bytes(index + 2)?)?,
        })
    }

    /// Fails while the engine may have lost what is missing.
    pub(super) async fn check_recovered(&self, session: &SessionKey) -> Result<(), RelayError> {
        self.window.check()?;
        // A server can change its role and back while the connection stands.
        self.data_link(session.as_bytes()).check_identity(&self.window).await?;
        self.window.check()
    }

    pub(super) async fn change_session(
        &self,
        session: &SessionKey,
        me: SessionOwner,
        changes: &[SessionChange],
    ) -> Result<(), RelayError> {
        let limits = &self.settings.relay.limits;
        let mut arguments = ScriptArguments::default()
            .text(me.node)
            .text(me.epoch)
            .bytes(*session.as_bytes())
            .text(millis(self.settings.relay.tombstone))
            .text(limits.max_session_entries);
        let mut script = &scripts::CHANGE_STATE;
        for change in changes {
            arguments = match change {
                SessionChange::State(state) => arguments.text("s").text(state_number(*state)).text(""),
                SessionChange::Body(body) => {
                    limits.check_payload(body.len())?;
                    script = &scripts::CHANGE;
                    arguments.text("b").bytes(records::seal_body(&self.keys, session, body)).text("")
                }
                SessionChange::Put(entry) => {
                    limits.check_payload(entry.key.len() + entry.value.len())?;
                    script = &scripts::CHANGE;
                    let field = records::entry_field(session, entry.kind, &entry.key);
                    arguments.text("p").text(field).bytes(records::seal_entry(&self.keys, session, entry))
                }
                SessionChange::Remove { kind, key } => {
                    arguments.text("r").text(records::entry_field(session, *kind, key)).text("")
                }
            };
        }
        let keys = [&*self.keyspace.session(session), &*self.keyspace.index(me.node)];
        let link = self.data_link(session.as_bytes());
        match link.script(script, &keys, &arguments.as_slices()).await?.word()? {
            "limit" => Err(limits.entries_exceeded()),
            _ => Ok(()),
        }
    }

    pub(super) async fn session_entries(
        &self,
        session: &SessionKey,
    ) -> Result<Vec<SessionEntry>, RelayError> {
        let mut command = cmd("HVALS");
        command.arg(format!("{}:x", self.keyspace.session(session)));
        let sealed = byte_strings(self.data_link(session.as_bytes()).command(&command).await?)?;
        let opened = sealed.iter().map(|sealed| records::open_entry(&self.keys, session, sealed));
        let mut entries = opened.filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
        entries.sort_unstable();
        Ok(entries)
    }

    pub(super) async fn adopt_session(
        &self,
        session: &SessionKey,
        dead: SessionOwner,
        me: NodeId,
    ) -> Result<RelaySession, RelayError> {
        let link = self.data_link(session.as_bytes());
        let connection = link.connection().await?;
        // The holder of a former lease of ours is this process, so no other engine can have extended it.
        let is_own = self.own_nodes.contains(dead.node);
        if !is_own {
            self.window.check()?;
        }
        let replication_id = if is_own { "" } else { &*connection.identity.replication_id };
        let arguments = ScriptArguments::default()
            .text(me)
            .text(dead.node)
            .text(dead.epoch)
            .text(RECORD_VERSION)
            .text(replication_id)
            .bytes(*session.as_bytes());
        let keys = [
            &*self.keyspace.session(session),
            &*self.keyspace.lease(dead.node),
            &*self.keyspace.lease(me),
            &*self.keyspace.index(dead.node),
            &*self.keyspace.index(me),
        ];
        let reply = link.script_on(connection, &scripts::ADOPT, &keys, &arguments.as_slices()).await?;
        let reply = ScriptReply::read(reply)?;
        if reply.word()? == "replaced" {
            link.check_identity(&self.window).await?;
            let retry_in = self.window.remaining().unwrap_or(self.settings.relay.recovery_window);
            return Err(RelayError::Recovering { retry_in });
        }
        let owner = reply.owner_at(1)?.ok_or(UNEXPECTED)?;
        self.session_of(session, owner, &reply, 3)
    }

    pub(super) async fn hand_session_over(
        &self,
        session: &SessionKey,
        me: SessionOwner,
        target: NodeId,
    ) -> Result<SessionOwner, RelayError> {
        let arguments =
            ScriptArguments::default().text(me.node).text(me.epoch).text(target).bytes(*session.as_bytes());
        let keys = [
            &*self.keyspace.session(session),
            &*self.keyspace.lease(target),
            &*self.keyspace.index(me.node),
            &*self.keyspace.index(target),
        ];
        let link = self.data_link(session.as_bytes());
        link.script(&scripts::HAND_OVER, &keys, &arguments.as_slices()).await?.word()?;
        Ok(me.next(target))
    }
}
