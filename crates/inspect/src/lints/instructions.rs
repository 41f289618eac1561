//! Text that reads like instructions to a model.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;

use crate::secrets::find_secrets;

/// Words without which no pattern matches, with their groups. A pattern needs a word of each of its groups.
const WORDS: &[(&str, u16)] = &[
    ("ignore", OVERRIDE),
    ("disregard", OVERRIDE),
    ("forget", OVERRIDE),
    ("override", OVERRIDE),
    ("instruction", DIRECTIVE),
    ("prompt", DIRECTIVE),
    ("guideline", DIRECTIVE),
    ("directive", DIRECTIVE),
    ("the user", USER),
    ("your user", USER),
    ("the human", USER),
    ("assistant", MODEL),
    ("language model", MODEL),
    ("llm", MODEL),
    ("chatgpt", MODEL),
    ("claude", MODEL),
    ("copilot", MODEL),
    ("gemini", MODEL),
    ("ai agent", MODEL),
    ("ai model", MODEL),
    ("to the ai", MODEL),
    ("for the ai", MODEL),
    ("attention ai", MODEL),
    ("im_start|>", MARKUP),
    ("[inst]", MARKUP),
    ("<<sys>>", MARKUP),
    ("<system", MARKUP),
    ("<important", MARKUP),
    ("<instruction", MARKUP),
    ("<secret", MARKUP),
    ("<admin", MARKUP),
    ("system prompt", PROMPT),
    ("system message", PROMPT),
    ("conversation", DATA),
    ("chat history", DATA),
    ("credential", DATA),
    ("password", DATA),
    ("private key", DATA),
    ("secret", DATA),
    ("api key", DATA),
    ("token", DATA),
    ("environment variable", DATA),
    ("previous messages", DATA),
    ("you are now", ROLE),
    ("already approved", APPROVAL),
    ("already authori", APPROVAL),
    ("already consented", APPROVAL),
    ("pre-approved", APPROVAL),
    ("pre-authori", APPROVAL),
    ("://", ADDRESS),
    ("@", ADDRESS),
    ("send", SEND),
    ("forward", SEND),
    ("post", SEND),
    ("upload", SEND),
    ("email", SEND),
    ("e-mail", SEND),
    ("submit", SEND),
    ("retry", RETRY),
    ("try again", RETRY),
    ("rerun", RETRY),
    ("repeat", RETRY),
    (" server", SERVER),
    ("reply", ANSWER),
    ("response", ANSWER),
    ("answer", ANSWER),
];

const OVERRIDE: u16 = 1;
const DIRECTIVE: u16 = 1 << 1;
const USER: u16 = 1 << 2;
const MODEL: u16 = 1 << 3;
const MARKUP: u16 = 1 << 4;
const PROMPT: u16 = 1 << 5;
const DATA: u16 = 1 << 6;
const ROLE: u16 = 1 << 7;
const APPROVAL: u16 = 1 << 8;
const ADDRESS: u16 = 1 << 9;
const SEND: u16 = 1 << 10;
const RETRY: u16 = 1 << 11;
const SERVER: u16 = 1 << 12;
const ANSWER: u16 = 1 << 13;

/// Patterns with the groups of words that they need.
const PATTERNS: &[(u16, &str)] = &[
    // The previous instructions are to be ignored.
    (
        OVERRIDE | DIRECTIVE,
        r"\b(ignore|disregard|forget|override)\s+(all\s+(of\s+)?|any\s+(of\s+)?|the\s+|your\s+|my\s+|these\s+|every(thing)?\s+)*(previous|prior|above|earlier|preceding|existing|original|system|initial|safety)\s+((system|safety|user)\s+)?(instructions?|prompts?|guidelines?|directives?)",
    ),
    (
        OVERRIDE | DIRECTIVE,
        r"\b(ignore|disregard|forget)\s+(all\s+(of\s+)?|any\s+(of\s+)?)?(your|the)\s+(system\s+)?(instructions?|guidelines?|prompt)\b\s*(and|,|\.|!|above|before|so far|given)",
    ),
    // The system prompt is to be told.
    (
        PROMPT,
        r"\b(reveal|print|output|repeat|leak|disclose|recite|send|include|return|show)\s+(me\s+|us\s+)?(your|the)\s+((full|entire|complete|exact|hidden|initial|verbatim|current)\s+)*system\s+(prompt|message)",
    ),
    // The user is to be kept in the dark, in a text that addresses a model.
    (
        USER,
        r"\b(do\s+not|don't|never)\s+(tell|inform|alert|notify|mention\s+(this|it|any\s+of\s+this)\s+to|reveal\s+(this|it)\s+to|show\s+(this|it)\s+to)\s+(the|your)\s+(user|human)\s+(about|that\s+you|of\s+this|any)",
    ),
    (
        USER,
        r"\b(do\s+not|don't|never)\s+(mention|reveal|disclose|show|tell)\s+(this|it|these|any\s+of\s+this)(\s+(instruction|step|message|request|note|call|action)s?)?\s+to\s+(the|your)\s+(user|human)",
    ),
    // The user is to be asked for a secret.
    (
        USER | DATA,
        r"\bask\s+(the|your)\s+user\s+(for|to\s+(provide|enter|paste|share|give|send|tell))\s+(you\s+)?(the|their|his|her|an?|your)?\s*([\w-]+\s+){0,2}(api\s+key|password|passphrase|access\s+token|credentials?|private\s+key|secret|one-time\s+code)",
    ),
    // Consent is claimed.
    (
        USER | APPROVAL,
        r"\bthe\s+user\s+(has|have)\s+(already|pre-?)\s*(approved|authori[sz]ed|consented\s+to|agreed\s+to)\s+(this|all|any|every|these|the\s+(following|transfer|payment|call|action))",
    ),
    // A model is addressed and told what to do.
    (
        MODEL,
        r"(^|[.!?:>*#\n\[(-]\s*)((attention|important|urgent|note|notice|message|instructions?|reminder)[\s,:]+)?((to|for)\s+)?(all\s+|any\s+|the\s+|dear\s+)*((ai|llm)\s+(agent|assistant|model|system)s?|llms?|language\s+models?|assistants?|chatgpt|claude|copilot|gemini|ai)\s*[:,!-]+\s*(you\s+(must|should|need|have)|please\s+(ignore|send|call|forward|include|read|fetch|run|execute|delete|transfer|use)|do\s+not|don't|ignore|send|call|forward|fetch|execute|delete|transfer|immediately|before\s+(you|answering|responding|continuing)|always|first,?)",
    ),
    (
        MODEL,
        r"\b(if\s+you\s+are|as)\s+an?\s+((ai|llm)\s+(agent|assistant|model)|large\s+language\s+model|llm|ai\s+agent)\b[^.\n]{0,60}?,\s*(you\s+(must|should|have\s+to|need\s+to)|please|do\s+not|ignore|send|call|forward|execute|delete|transfer|run|include|add|recommend|rate)\b",
    ),
    // The markup of a conversation stands in the text, with an instruction in it.
    (
        MARKUP,
        r"<(important|system|system[_-]prompt|instructions?|secret|admin)>[^<]{0,400}?\b(you\s+(must|should|need|have|are)|do\s+not|don't|never|ignore|before\s+(using|calling|you|answering)|call\s+the|send\s+(the|all|it)|read\s+the\s+file)\b",
    ),
    (
        MARKUP,
        r"(^|\n|\s)<\|im_start\|>\s*(system|user)\b[^`]{0,200}?\b(you|ignore|do\s+not|must|send|call)\b",
    ),
    (
        MARKUP,
        r"(^|\n|\s)\[inst\]\s*[^`\[]{0,200}?\b(you|ignore|do\s+not|must|send|call)\b[^`\[]{0,400}\[/inst\]",
    ),
    // A conversation or secrets are to be sent somewhere.
    (
        DATA | ADDRESS,
        r"\b(send|forward|post|upload|transmit|e-?mail|exfiltrate|bcc)\s+(all\s+|the\s+|this\s+|your\s+|any\s+|its\s+|their\s+|every\s+|of\s+|full\s+|entire\s+|whole\s+|user's\s+)*(conversation|chat\s+history|credentials?|passwords?|private\s+keys?|secrets|api\s+keys|access\s+tokens|environment\s+variables|previous\s+messages)\b[^.\n]{0,60}?\b(to|at)\s+(https?://|[\w.+-]+@[\w-]+\.)",
    ),
    (
        DATA | ADDRESS | SEND,
        r"\byour\s+([\w-]+\s+){0,4}(token|password|passphrase|api\s+key|credential|private\s+key|secret)s?\b[^\n]{0,40}?\b(and|then)\s+(send|forward|post|upload|e-?mail|submit)\s+(it|them|this|these)\s+to\s+(https?://|[\w.+-]+@[\w-]+\.)",
    ),
    // They are to stand in the answer.
    (
        DATA | ANSWER,
        r"\b(include|repeat|quote|copy|put|append)\s+(all\s+|the\s+|this\s+|your\s+|any\s+|every\s+|of\s+|full\s+|entire\s+|whole\s+|prior\s+|previous\s+|user's\s+)*(conversation|chat\s+history|credentials?|passwords?|private\s+keys?|secrets|api\s+keys|access\s+tokens|environment\s+variables|previous\s+messages)\b[^.\n]{0,80}?\b(in|into|to)\s+(your|the|each|every)\s+(reply|response|answer)",
    ),
    // Another tool is to be called, in the form of a call or at another server.
    (
        RETRY,
        r"\b(retry|try\s+again|rerun|repeat\s+(it|this|the\s+(call|request)))\s*,?\s+(with|using|via|by\s+(calling|running|using))\s+(the\s+)?[`'\x22]?\w*[a-z]_[a-z]\w*[`'\x22]?\s*\(",
    ),
    (
        SERVER,
        r"\b(please|must|should|now|then|immediately)\s+(also\s+)?(run|call|invoke|execute|trigger|use)\s+[`'\x22]?\w*[a-z]_[a-z]\w*[`'\x22]?\s+(on|via|from|through)\s+(the\s+)?[\w-]+\s+(mcp\s+)?server\b",
    ),
    // The model is to be another one.
    (
        ROLE,
        r"\byou\s+are\s+now\s+(no\s+longer\s+(bound|restricted|an?\s+\w+\s+assistant)|(in|entering)\s+(developer|debug|god|admin|unrestricted|jailbreak|dan)\s+mode|(an?|the)\s+(unrestricted|uncensored|unfiltered|different|evil|new)\s+(ai|assistant|model|agent|persona))",
    ),
];

/// An address that something is to be sent to.
static SENDING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(send|forward|post|upload|e-?mail|submit)\s+((it|them|this|these|those|(the|all)\s+\w+)\s+)?to\s+(https?://|[\w.+-]+@[\w-]+\.)",
    )
    .ok()
});

/// Distance at which a secret counts that is to be sent somewhere, in bytes.
const SECRET_DISTANCE: usize = 200;

/// Words around a quoted instruction that show that the text is about instructions.
const ABOUT: &[&str] = &[
    "injection",
    "jailbreak",
    "attack",
    "malicious",
    "adversar",
    "phishing",
    "e.g.",
    "for example",
    "such as",
    "like \"",
    "phrases",
    "detect",
    "classif",
    "refus",
    "payload",
    "red team",
    "exploit",
    "test case",
];

/// Distance at which such a word counts, in bytes.
const ABOUT_DISTANCE: usize = 200;

static SEARCH: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let words = WORDS.iter().map(|(word, _)| word);
    AhoCorasick::builder().ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA)).build(words).ok()
});

static REGEXES: LazyLock<Vec<(u16, Regex)>> = LazyLock::new(|| {
    let compiled = PATTERNS
        .iter()
        .filter_map(|(groups, pattern)| Some((*groups, Regex::new(&format!("(?i){pattern}")).ok()?)));
    compiled.collect()
});

/// Returns the groups that have a word in the text.
fn groups_of(text: &str) -> u16 {
    let Some(search) = &*SEARCH else { return 0 };
    search.find_overlapping_iter(text).fold(0, |groups, hit| groups | WORDS[hit.pattern().as_usize()].1)
}

/// Returns true if a pattern may match. The text may be JSON.
pub(super) fn may_instruct(text: &str) -> bool {
    let groups = groups_of(text);
    PATTERNS.iter().any(|(needed, _)| groups & needed == *needed) || groups & SENT == SENT
}

/// Groups of a text in which something is to be sent to an address.
const SENT: u16 = SEND | ADDRESS;

/// Finds a secret that is to be sent to an address.
fn find_sent_secret(text: &str) -> Option<Range<usize>> {
    let sending = SENDING.as_ref()?.find(text)?;
    let near = find_secrets(text).into_iter().rev().find(|secret| {
        secret.range.end <= sending.start() && sending.start() - secret.range.end <= SECRET_DISTANCE
    });
    near.map(|_| sending.range())
}

/// Finds the first text that reads like an instruction to a model.
pub(super) fn find_instruction(text: &str) -> Option<Range<usize>> {
    let groups = groups_of(text);
    let needed = REGEXES.iter().filter(|(needed, _)| groups & needed == *needed);
    let sent = (groups & SENT == SENT).then(|| find_sent_secret(text)).flatten();
    let instructions = needed.filter_map(|(_, pattern)| {
        pattern.find_iter(text).map(|found| found.range()).find(|found| !is_quoted(text, found))
    });
    instructions.chain(sent).min_by_key(|found| found.start)
}

/// Returns true if an instruction is quoted by a text about instructions.
fn is_quoted(text: &str, found: &Range<usize>) -> bool {
    let before = text[..found.start].trim_end().chars().next_back();
    if !before.is_some_and(|before| matches!(before, '"' | '\'' | '`' | '“' | '‘' | '«' | '„')) {
        return false;
    }
    let start = super::floor(text, found.start.saturating_sub(ABOUT_DISTANCE));
    let end = super::floor(text, text.len().min(found.end + ABOUT_DISTANCE));
    let around = text[start..end].to_lowercase();
    ABOUT.iter().any(|word| around.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(REGEXES.len(), PATTERNS.len());
        assert!(SEARCH.is_some());
    }
}
