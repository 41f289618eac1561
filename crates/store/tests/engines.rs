//! The same operations have the same results on both engines.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::HashMap;
use std::time::Duration;

use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_store::approvals::NewDecision;
use hospes_store::grants::NewGrant;
use hospes_store::pins::{
    ItemDefinition, ItemKind, ServerFingerprint, ServerSighting, Sha256Digest, StoredServer, TrustDecision,
    TrustMode,
};
use hospes_store::{PostgresSettings, StateStore};
use jiff::Timestamp;
use zeroize::Zeroizing;

/// Number of operations on the pins, and on the other parts.
const OPERATIONS: usize = 400;

/// Numbers from a seed, so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn one_in(&mut self, limit: usize) -> bool {
        self.below(limit) == 0
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

fn digest(text: &str) -> Sha256Digest {
    let mut bytes = [0; 32];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    Sha256Digest::new(bytes)
}

/// Removes the times, which differ.
fn timeless(mut server: StoredServer) -> StoredServer {
    server.seen_at = 0;
    server.decided_at = server.decided_at.map(|_| 0);
    for item in &mut server.items {
        item.seen_at = 0;
        item.decided_at = item.decided_at.map(|_| 0);
    }
    server.items.sort_by(|a, b| (a.kind, &a.name, a.hash).cmp(&(b.kind, &b.name, b.hash)));
    server
}

/// Names that engines could order or compare differently.
const NAMES: [&str; 7] = ["a", "B", "b", "é", "a b", "?1", "it's"];

fn sighting(numbers: &mut Numbers) -> ServerSighting {
    let target = numbers.pick(&["target", "another"]);
    let program = numbers.pick(&["p", "q"]);
    let fingerprint = ServerFingerprint::new(digest(target), "run it")
        .with_program(Some("/usr/bin/it".to_owned()), (!numbers.one_in(4)).then(|| digest(program)));
    let (server, audience) = (numbers.pick(&["it", "It"]), numbers.pick(&["ann", "bob"]));
    let mut sighting = ServerSighting::new(server, fingerprint, audience);
    sighting.is_whole = !numbers.one_in(4);
    for name in NAMES {
        if numbers.one_in(2) {
            let kind = numbers.pick(&[ItemKind::Tool, ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource]);
            let text = numbers.pick(&["1", "2", "3"]);
            let mut one = ItemDefinition::new(kind, name, digest(text), text);
            one.needs_review = numbers.one_in(8);
            one.is_small_change = numbers.one_in(6);
            one.earlier = numbers.one_in(6).then(|| digest("0"));
            sighting.definitions.push(one);
        }
    }
    sighting
}

struct Engines {
    sqlite: StateStore,
    postgres: StateStore,
    _server: PostgresServer,
    _folder: tempfile::TempDir,
}

impl Engines {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = PostgresServer::start(PostgresOptions::default());
        let settings = PostgresSettings::new(server.url().into());
        Self {
            sqlite: StateStore::open(folder.path().join("state.db")).unwrap(),
            postgres: StateStore::connect(settings, vec![Zeroizing::new([7; 32])]).await.unwrap(),
            _server: server,
            _folder: folder,
        }
    }

    const fn both(&self) -> [&StateStore; 2] {
        [&self.sqlite, &self.postgres]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pins_are_the_same_on_both_engines() {
    let engines = Engines::start().await;
    let mut numbers = Numbers(0x5eed);
    for step in 0..OPERATIONS {
        let mut results = Vec::new();
        let (operation, stale) = (numbers.below(11), digest("stale"));
        let (sighting, trust) =
            (sighting(&mut numbers), numbers.pick(&[TrustMode::Ask, TrustMode::FirstUse]));
        let (name, target) = (sighting.server.clone(), sighting.fingerprint.target);
        let item = (numbers.pick(&[ItemKind::Tool, ItemKind::Prompt]), numbers.pick(&NAMES));
        let (is_stale, is_for_item, accepts) = (numbers.one_in(6), numbers.one_in(2), numbers.one_in(2));
        for state in engines.both() {
            let pins = state.pins();
            let said = match operation {
                0..=5 => {
                    let report = pins.record_sighting(sighting.clone(), trust).await.unwrap();
                    format!("{:?} {} {}", report.news, report.is_first, report.is_replaced)
                }
                6..=7 => {
                    let shown = pins.server(&name, target).await.unwrap();
                    let hash = shown.as_ref().filter(|_| !is_stale).map_or(stale, |shown| {
                        let mut items = shown.items.iter();
                        let found = items.find(|of| (of.kind, of.name.as_str()) == item && of.is_current);
                        if is_for_item { found.map_or(shown.hash, |of| of.hash) } else { shown.hash }
                    });
                    let mut decision = if accepts {
                        TrustDecision::accept(&name, target, hash, "ann")
                    } else {
                        TrustDecision::reject(&name, target, "bob")
                    };
                    if is_for_item {
                        decision = decision.for_item(item.0, item.1);
                    }
                    let made = pins.decide(decision).await.unwrap();
                    format!("{:?}", made.map(|made| (timeless(made.server), made.changed.len())))
                }
                8 => {
                    let of = is_for_item.then(|| (item.0, item.1.to_owned()));
                    let history = pins.history(&name, target, of).await.unwrap();
                    let mut history: Vec<_> = history
                        .into_iter()
                        .map(|one| (one.item.name, one.item.hash, one.definition))
                        .collect();
                    history.sort();
                    format!("{history:?}")
                }
                9 => {
                    let shown = pins.server(&name, target).await.unwrap();
                    let items = shown.iter().flat_map(|shown| &shown.items);
                    let items =
                        items.filter(|of| of.kind == item.0).map(|of| (of.kind, of.name.clone(), of.hash));
                    format!(
                        "{:?}",
                        pins.withdraw_unreviewed(&name, target, items.collect(), Vec::new()).await
                    )
                }
                _ => format!("{:?}", pins.forget_undecided(&name).await),
            };
            let mut servers: Vec<_> = pins.servers().await.unwrap().into_iter().map(timeless).collect();
            servers.sort_by_key(|server| (server.name.clone(), server.fingerprint.target));
            results.push((said, servers));
        }
        assert_eq!(results[0], results[1], "step {step}, operation {operation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_parts_are_the_same_on_both_engines() {
    let engines = Engines::start().await;
    let (mut numbers, begun) = (Numbers(0xfeed), Timestamp::now());
    let at = |seconds: usize| begun + Duration::from_secs(seconds as u64);
    for step in 0..OPERATIONS {
        let mut results = Vec::new();
        let (operation, id) = (numbers.below(9), format!("id{}", numbers.below(6)));
        // Around the times at which things end, but never close to one.
        let (now, until) = (at(step * 10), at(step * 10 + numbers.pick(&[5, 25, 205])));
        let (text, count) = (format!("text {step} '?'"), numbers.below(50) as u64);
        for state in engines.both() {
            let (approvals, grants) = (state.approvals().unwrap(), state.grants());
            let said = match operation {
                0 | 1 => format!("{}", approvals.insert(id.clone(), text.clone(), until).await.is_ok()),
                2 => format!(
                    "{}",
                    approvals.decide(id.clone(), NewDecision::new(text.clone(), until), now).await.unwrap()
                ),
                3 => format!("{:?}", approvals.take(id.clone(), now).await.unwrap()),
                4 => format!("{:?}", approvals.remove(vec![id.clone()], now).await),
                5 => {
                    let until = (count > 25).then_some(until);
                    format!("{:?}", grants.insert(NewGrant::new(id.clone(), text.clone(), until), None).await)
                }
                6 => format!("{:?}", grants.record_uses(vec![(id.clone(), at(step), count)]).await),
                7 => format!("{}", grants.remove(id.clone(), None).await.unwrap()),
                _ => {
                    state.tasks().insert(id.clone(), text.clone()).await.unwrap();
                    let text = text.clone();
                    let kept = move |kept: Option<String>| (Some(format!("{text}{}", kept.is_some())), kept);
                    format!("{:?}", state.budgets().update(kept).await.unwrap())
                }
            };
            let known = HashMap::from([(id.clone(), count > 25)]);
            let mut changes = approvals.changes_since(now, known).await.unwrap();
            changes.gone.sort();
            let news: Vec<_> = changes
                .news
                .iter()
                .map(|one| (one.id.clone(), one.matter.clone(), one.decided.clone()))
                .collect();
            let all = grants.all(now).await.unwrap();
            let task = state.tasks().find(id.clone()).await.unwrap();
            results.push((said, news, changes.gone, all, task));
        }
        assert_eq!(results[0], results[1], "step {step}, operation {operation}");
    }
}
