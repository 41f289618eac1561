//! Several applications at once: whose question is whose, and what that costs.

use hospes::model::Implementation;
use tokio::sync::watch;

use super::*;

/// A server whose tool elicits the caller's name once the given number of calls run concurrently.
fn crowd(calls: usize) -> impl Fn() -> Server + Send + Sync + 'static {
    counted(watch::Sender::new(0), calls)
}

fn counted(here: watch::Sender<usize>, calls: usize) -> impl Fn() -> Server + Send + Sync + 'static {
    move || {
        let here = here.clone();
        Server::new("curious", "1").tool("who", move |ctx: Context| {
            let here = here.clone();
            async move {
                here.send_modify(|here| *here += 1);
                here.subscribe().wait_for(|here| *here >= calls).await?;
                Ok::<_, Error>(ctx.elicit::<String>("Who calls?").await?)
            }
        })
    }
}

/// An application that answers with its name.
async fn named(host: &Host, revision: Revision, name: &'static str) -> Client {
    Client::builder()
        .revision(revision)
        .info(Implementation::new(name, "1"))
        .elicitation(move |_| std::future::ready(Ok(ElicitResult::accept(json!({ "value": name }).into()))))
        .in_memory(host.gateway())
        .await
        .unwrap()
}

/// Nothing on an older connection says on behalf of which call a question comes. On one that two applications shared
/// it went to the youngest call, whosesoever that was.
/// covers: ARCH-08
#[tokio::test]
async fn a_question_reaches_only_the_application_whose_call_caused_it() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let host = House::default().with("curious", up, crowd(3)).start();
        let (ada, bob, eve) =
            tokio::join!(named(&host, down, "ada"), named(&host, down, "bob"), named(&host, down, "eve"));
        let (a, b, e) = tokio::join!(
            ada.call("curious__who", ()).into_future(),
            bob.call("curious__who", ()).into_future(),
            eve.call("curious__who", ()).into_future()
        );
        let said = [a, b, e].map(|result| result.unwrap().all_text());
        assert_eq!(said, ["ada", "bob", "eve"], "{up} behind {down}");
        let connections = host.status().servers[0].connections;
        // The primary one of nobody, and one for each application; newer servers need no more than one for all.
        assert_eq!(connections, if up.is_legacy() { 4 } else { 2 }, "{up} behind {down}");
    }
}

/// Every application counts its requests from the same number; what they ask at the same time, over connections that they
/// share, is answered to each with its own.
#[tokio::test]
async fn a_hundred_applications_whose_requests_have_the_same_ids_get_their_own_answers() {
    const CROWD: usize = 100;
    #[derive(serde::Deserialize, hospes::schemars::JsonSchema)]
    #[schemars(crate = "hospes::schemars")]
    struct Word {
        word: String,
    }
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let here = watch::Sender::new(0);
        let host = House::default()
            .with("echo", up, move || {
                let here = here.clone();
                Server::new("echo", "1").tool("say", move |Args(Word { word }): Args<Word>| {
                    let here = here.clone();
                    async move {
                        here.send_modify(|here| *here += 1);
                        // All of them are under way before the first is answered.
                        here.subscribe().wait_for(|here| *here >= CROWD).await?;
                        Ok::<_, Error>(word)
                    }
                })
            })
            .start();
        let mut clients = Vec::new();
        for _ in 0..CROWD {
            clients.push(plain(&host, down).await);
        }
        let calls = clients.iter().enumerate().map(|(number, client)| {
            client.call("echo__say", json!({ "word": format!("word {number}") })).into_future()
        });
        for (number, answer) in futures::future::join_all(calls).await.into_iter().enumerate() {
            assert_eq!(answer.unwrap().all_text(), format!("word {number}"), "{up} behind {down}");
        }
    }
}

#[tokio::test]
async fn more_applications_than_connections_are_told_which_setting_says_so() {
    let here = watch::Sender::new(0);
    let host = House::default()
        .with("curious", Revision::LATEST_LEGACY, counted(here.clone(), usize::MAX))
        .settings(|settings| settings.max_connections = 2)
        .start();
    let ada = named(&host, Revision::LATEST_LEGACY, "ada").await;
    let bob = named(&host, Revision::LATEST_LEGACY, "bob").await;
    let waiting = tokio::spawn(async move { ada.call("curious__who", ()).await });
    here.subscribe().wait_for(|here| *here == 1).await.unwrap();
    let refused = bob.call("curious__who", ()).await.unwrap();
    assert!(refused.has_failed() && refused.all_text().contains("setting max_connections"), "{refused:?}");
    waiting.abort();
}

/// Regression: an application kept its connection permanently. A connection of an application that has gone must be
/// available to the next.
#[tokio::test(start_paused = true)]
async fn applications_that_come_one_after_the_other_share_a_connection() {
    let host = House::default().with("curious", Revision::LATEST_LEGACY, crowd(1)).start();
    for _ in 0..12 {
        let client = named(&host, Revision::LATEST_LEGACY, "ada").await;
        assert_eq!(client.call("curious__who", ()).await.unwrap().all_text(), "ada");
        client.close().await;
        // A session is over once its connection is, and that may take a while.
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(host.status().servers[0].connections, 2);
}

/// The host is the client of the servers, and `--root` is the person's word that these folders may be told.
#[tokio::test]
async fn the_hosts_own_roots_are_told_where_the_application_has_none() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let host = House::default()
            .with("curious", up, curious)
            .settings(|settings| settings.roots.push("file:///srv/data".into()))
            .start();
        let without = plain(&host, down).await;
        let told = without.call("curious__roots", ()).await.unwrap();
        assert_eq!(told.all_text(), "file:///srv/data", "{up} behind {down}");
        let with = application(&host, down).await;
        let told = with.call("curious__roots", ()).await.unwrap();
        assert_eq!(told.all_text(), "file:///home/guest", "{up} behind {down}");
    }
}

/// A connection that is about to be closed was handed out again, and the call failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_closed_or_handed_out_but_never_both() {
    let host = House::default()
        .with("one", Revision::LATEST_LEGACY, || echo("one"))
        .settings(|settings| settings.idle_after = Duration::from_millis(2))
        .start();
    let client = application(&host, Revision::LATEST).await;
    for pause in 0..300_u64 {
        let answer = client.call("one__say", ()).await.unwrap();
        assert_eq!(answer.all_text(), "this is one", "after {pause} calls");
        tokio::time::sleep(Duration::from_micros(pause % 30 * 100)).await;
    }
}

/// The state that an application of 2026-07-28 carries is worth nothing to a host that does not hold the call: it must
/// say so, and not make the call again, which may do twice what it does.
#[tokio::test(start_paused = true)]
async fn a_parked_call_that_is_gone_is_refused_and_not_made_again() {
    let made = Arc::new(AtomicUsize::new(0));
    let house = |made: &Arc<AtomicUsize>| {
        let made = Arc::clone(made);
        let server = move || {
            let made = Arc::clone(&made);
            Server::new("curious", "1").tool("pay", move |ctx: Context| {
                let made = Arc::clone(&made);
                async move {
                    made.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Error>(ctx.elicit::<String>("Really?").await?)
                }
            })
        };
        House::default()
            .with("curious", Revision::LATEST_LEGACY, server)
            .settings(|settings| settings.park_timeout = Duration::from_secs(30))
    };
    let capabilities = serde_json::from_value(json!({ "elicitation": {} })).unwrap();
    let peer = Arc::new(hospes::Peer::new(Revision::LATEST, None, capabilities));
    let call = |round| {
        let params = json!({ "name": "curious__pay", "arguments": {} }).into();
        Call::new(Method::ToolsCall, params, Context::builder(Arc::clone(&peer)).round(round).build())
    };
    let (first, second) = (house(&made).start(), house(&made).start());
    for restarted in [false, true] {
        let before = made.load(Ordering::SeqCst);
        let asked = first.gateway().call(call(hospes::Round::default())).await;
        let Outcome::InputRequired(questions) = asked else { panic!("it asks: {asked:?}") };
        let mut round = questions.round;
        let key = questions.requests[0].0.clone();
        round.record_answers([(
            key,
            RawJson::from(json!({ "action": "accept", "content": { "value": "yes" } })),
        )]);
        let host = if restarted { &second } else { &first };
        if !restarted {
            tokio::time::sleep(Duration::from_secs(31)).await;
        }
        match host.gateway().call(call(round)).await {
            Outcome::Complete(reply) if restarted => assert!(is_outcome_unknown(&reply), "{reply:?}"),
            Outcome::Failed(error) if !restarted => {
                assert!(error.message.contains("setting park_timeout"), "{error}");
            }
            other => panic!("nobody holds it: {other:?}"),
        }
        assert_eq!(made.load(Ordering::SeqCst), before + 1, "made once");
    }
}

/// An unanswered question must not hold resources. A newer server waits for nothing; for an older one the waiting call
/// has a time limit.
///
/// covers: MRTR-14
#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_holds_nothing() {
    for up in ERAS {
        let ended = Arc::new(Notify::new());
        let signal = Arc::clone(&ended);
        let server = move || {
            let ended = Arc::clone(&signal);
            Server::new("curious", "1").tool("ask", move |ctx: Context| {
                let guard = Dropped(Arc::clone(&ended));
                async move {
                    let _guard = guard;
                    Ok::<_, Error>(ctx.elicit::<String>("Anybody?").await?)
                }
            })
        };
        let host = House::default()
            .with("curious", up, server)
            .settings(|settings| {
                settings.park_timeout = Duration::from_secs(30);
                settings.max_connections = 3;
            })
            .start();
        let capabilities: hospes::model::ClientCapabilities =
            serde_json::from_value(json!({ "elicitation": {} })).unwrap();
        // More than there are connections, each time another one who goes away without a word.
        for visitor in 0..8 {
            let info = Implementation::new(format!("visitor {visitor}"), "1");
            let peer = hospes::Peer::new(Revision::LATEST, Some(info), capabilities.clone());
            let params = json!({ "name": "curious__ask", "arguments": {} }).into();
            let call = Call::new(Method::ToolsCall, params, Context::new(Arc::new(peer)));
            let asked = host.gateway().call(call).await;
            assert!(matches!(asked, Outcome::InputRequired(_)), "{up}, {visitor}: {asked:?}");
            let gone = tokio::time::timeout(Duration::from_secs(1), ended.notified()).await;
            assert!(gone.is_ok(), "{up}, {visitor}: its handler still runs");
            tokio::time::sleep(Duration::from_secs(31)).await;
        }
    }
}

/// Hands out what each connection says its log messages to.
struct Tapped {
    server: InMemory,
    ears: Arc<Mutex<Vec<crate::server::ServerLogCallback>>>,
}

impl UpstreamConnector for Tapped {
    fn connect(
        &self,
        wish: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        self.ears.lock().push(Arc::clone(&wish.on_log));
        self.server.connect(wish)
    }
}

/// After each new subscription the log of an application's own connection was silent until something else changed.
#[tokio::test]
async fn the_log_of_an_own_connection_is_heard_beside_a_new_subscription() {
    let make: Make = Arc::new(|| Ok(hospes::BoxService::new(curious().resource("notes://today", "sunny"))));
    let (settings, ears) = (HostSettings::default(), Arc::default());
    let made = Arc::default();
    let server = InMemory { make, revision: Revision::LATEST_LEGACY, delay: Duration::ZERO, settings, made };
    let tapped = Arc::new(Tapped { server, ears: Arc::clone(&ears) });
    let mut config = HostConfig::default();
    let (transport, source) = (ServerTransport::builtin("curious", []), ConfigSource::unwritten("a test"));
    config.servers.push(ServerConfig::new("curious", transport, source));
    let host = Host::builder(config)
        .connectors(move |_, _| Arc::clone(&tapped) as Arc<dyn UpstreamConnector>)
        .start()
        .unwrap();
    // The first one has the connection from which lists are read.
    let first = named(&host, Revision::LATEST_LEGACY, "ada").await;
    first.call("curious__elicit", ()).await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let client = Client::builder()
        .revision(Revision::LATEST_LEGACY)
        .elicitation(async |_| Ok(ElicitResult::accept(json!({ "value": "bob" }).into())))
        .on_log(move |message| drop(tell.send(message.data.as_str().to_owned())))
        .in_memory(host.gateway())
        .await
        .unwrap();
    client.set_log_level(LoggingLevel::Info).await.unwrap();
    client.call("curious__elicit", ()).await.unwrap();
    let own = Arc::clone(ears.lock().last().unwrap());
    let _stream = client.subscribe("notes://today").await.unwrap();
    own(hospes::model::LogMessageParams::new(LoggingLevel::Warning, json!("about bob").into()));
    let heard = tokio::time::timeout(Duration::from_secs(60), told.recv()).await;
    assert_eq!(heard, Ok(Some("\"about bob\"".to_owned())));
}
