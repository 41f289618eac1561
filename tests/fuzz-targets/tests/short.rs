//! A short run of every target: its corpus, and mutations of it.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::PathBuf;

use hospes_fuzz_targets::TARGETS;

/// Words that the decoders look for.
const WORDS: &[&str] = &[
    "\"jsonrpc\":\"2.0\",",
    "\"id\":1,",
    "\"id\":\"a\",",
    "\"method\":",
    "\"params\":{",
    "\"_meta\":{",
    "\"result\":{",
    "\"error\":{",
    "\"code\":-32600,",
    "\"message\":\"m\"",
    "{}",
    "[]",
    "null",
    "true",
    "1e308",
    "-0",
    "18446744073709551616",
    "\\ud800",
    "\u{0}",
    "\r\n",
    "\n\n",
    "\r",
    "data: ",
    "id: ",
    "event: ",
    "retry: ",
    ": ",
    "\u{feff}",
    "tools/call",
    "initialize",
    "\"type\":",
    "\"name\":",
    "\"arguments\":{",
    "\"uri\":",
    "\"cursor\":",
    "{+a}",
    "{?a*}",
    "{/a:3}",
    "%2F",
    "=?base64?",
    "mcp-session-id: ",
    "[servers.x]\n",
    "command = ",
    "${env:A}",
    "${A:-b}",
    "\u{e9}",
    "\u{1f980}",
];

/// Generator of the same numbers in every run, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below.max(1)
    }

    fn mutate(&mut self, text: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.roll(4) {
            let at = self.roll(text.len() + 1);
            let until = at + self.roll((text.len() - at).min(40) + 1);
            match self.roll(7) {
                0 if at < text.len() => text[at] ^= 1 << self.roll(8),
                1 if at < text.len() => text[at] = self.roll(256) as u8,
                2 => drop(text.drain(at..until)),
                3 => {
                    let again = text[at..until].to_vec();
                    text.splice(at..at, again);
                }
                4 => text.truncate(at),
                5 => {
                    let from = self.roll(other.len() + 1);
                    text.splice(at.., other[from..].iter().copied());
                }
                _ => drop(text.splice(at..at, WORDS[self.roll(WORDS.len())].bytes())),
            }
        }
        text.truncate(8192);
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{name} has no corpus: {error}"))
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn short_run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let corpus = corpus(name);
    assert!(!corpus.is_empty());
    (target.run)(b"");
    corpus.iter().for_each(|input| (target.run)(input));
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..target.rounds {
        let mut input = corpus[dice.roll(corpus.len())].clone();
        let other = &corpus[dice.roll(corpus.len())];
        dice.mutate(&mut input, other);
        let run = std::panic::catch_unwind(|| (target.run)(&input));
        if let Err(panic) = run {
            eprintln!("{name} fails on {:?}", String::from_utf8_lossy(&input));
            eprintln!("as bytes: {input:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

macro_rules! short_runs {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                short_run(stringify!($name));
            }
        )+

        #[test]
        fn every_target_is_run() {
            let mut run = [$(stringify!($name)),+];
            let mut all: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            run.sort_unstable();
            all.sort_unstable();
            assert_eq!(all, run);
            for name in all {
                let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
                assert!(file.join(format!("{name}.rs")).exists(), "{name} is not in fuzz/fuzz_targets");
            }
        }
    };
}

short_runs! {
    envelope lines events http_head mirrored_headers sealed_state answers notifications uri_template config
    challenges sign_in sessions
    bundle_manifest bundle_archive bundle_signature
    service server client http_server
}
