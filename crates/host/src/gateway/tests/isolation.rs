//! Isolation: the parts of the conversation, and of the other servers, that a server learns of.

use super::*;

/// A server that hears everything that comes to it, whole.
struct Hearing {
    inner: hospes::BoxService,
    heard: Arc<Mutex<String>>,
}

impl Service for Hearing {
    async fn call(&self, call: Call) -> Outcome {
        {
            let mut heard = self.heard.lock();
            heard.push_str(&format!("{} {}\n", call.method, call.params.raw().as_str()));
        }
        self.inner.call(call).await
    }
}

fn hearing(heard: &Arc<Mutex<String>>) -> Make {
    let heard = Arc::clone(heard);
    Arc::new(move || {
        let server = Server::new("inner", "1")
            .tool("say", |Args(Said { text }): Args<Said>| async move { format!("heard {text}") })
            .prompt("greet", || async { "Hello." });
        Ok(hospes::BoxService::new(Hearing {
            inner: hospes::BoxService::new(server),
            heard: Arc::clone(&heard),
        }))
    })
}

#[derive(serde::Deserialize, hospes::schemars::JsonSchema)]
#[schemars(crate = "hospes::schemars")]
struct Said {
    text: String,
}

/// A server sees the calls that are for it, and neither those for others nor that there are others.
///
/// covers: ARCH-09
#[tokio::test]
async fn a_server_sees_its_own_calls_and_no_other_server() {
    for (up, down) in ERAS.iter().flat_map(|up| ERAS.map(|down| (*up, down))) {
        let (harbour, meadow) = (Arc::<Mutex<String>>::default(), Arc::<Mutex<String>>::default());
        let host = House::default()
            .made_by("harbour", up, Duration::ZERO, hearing(&harbour))
            .made_by("meadow", up, Duration::ZERO, hearing(&meadow))
            .start();
        let client = Client::builder().revision(down).in_memory(host.gateway()).await.unwrap();
        for (server, word) in [("harbour", "anchor"), ("meadow", "clover"), ("harbour", "rudder")] {
            let answer = client.call(&format!("{server}__say"), json!({ "text": word })).await.unwrap();
            assert_eq!(answer.all_text(), format!("heard {word}"));
        }
        client.prompt("meadow__greet", [("", ""); 0]).await.unwrap();
        let (harbour, meadow) = (harbour.lock().clone(), meadow.lock().clone());
        for (heard, own, others) in [
            (&harbour, ["anchor", "rudder"].as_slice(), ["clover", "heard", "meadow", "greet", "__"]),
            (&meadow, &["clover", "greet"], ["anchor", "rudder", "heard", "harbour", "__"]),
        ] {
            assert!(own.iter().all(|word| heard.contains(word)), "{up} behind {down}: {heard}");
            for word in others {
                assert!(!heard.contains(word), "{up} behind {down}: {word} in {heard}");
            }
        }
    }
}
