//! Identity of a span across processes, as W3C Trace Context has it.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// Maximum length of a `tracestate`, in bytes. W3C Trace Context requires that 512 are passed on.
const MAX_TRACESTATE_BYTES: usize = 512;
/// Flag of a `traceparent`: the sender records the trace.
const SAMPLED: u8 = 1;

/// A span of this or another process, as its children refer to it.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceContext {
    pub(crate) trace_id: u128,
    pub(crate) span_id: u64,
    is_sampled: bool,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// Reads a `traceparent` and a `tracestate`. Returns `None` if the `traceparent` is not valid; a `tracestate` that
    /// cannot be one is left out.
    #[must_use]
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let is_hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let mut parts = traceparent.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_valid = is_hex(version, 2)
            && version != "ff"
            && is_hex(trace, 32)
            && is_hex(span, 16)
            && is_hex(flags, 2)
            // Later versions may append parts.
            && (version != "00" || parts.next().is_none());
        if !is_valid {
            return None;
        }
        let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        let span_id = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & SAMPLED != 0;
        let is_state = |text: &&str| {
            text.len() <= MAX_TRACESTATE_BYTES
                && !text.is_empty()
                && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        };
        let state = tracestate.filter(is_state).map(Arc::from);
        Some(Self { trace_id, span_id, is_sampled, state })
    }

    /// Creates the context of a new span: that of a child, or of the first span of a trace.
    pub(crate) fn next(parent: Option<&Self>, is_sampled: bool, trace_id: u128) -> Self {
        let state = parent.and_then(|parent| parent.state.clone());
        Self { trace_id, span_id: random_id(), is_sampled, state }
    }

    /// Returns true if the trace is recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Returns the `tracestate`, if there is one.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns the `traceparent` for requests that belong to this span.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags())
    }

    /// Flags of the `traceparent`.
    pub(crate) fn flags(&self) -> u8 {
        if self.is_sampled { SAMPLED } else { 0 }
    }
}

impl fmt::Debug for TraceContext {
    /// Leaves out the `tracestate`, whose values are those of other systems.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TraceContext").field(&self.traceparent()).finish()
    }
}

/// Draws the id of a trace.
pub(crate) fn random_trace_id() -> u128 {
    u128::from(random_id()) << 64 | u128::from(random_id())
}

/// Draws the id of a span. Ids are unique, and not secret: a seed of the system for each thread, and SplitMix64 from
/// there.
pub(crate) fn random_id() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(getrandom::u64().unwrap_or_else(|_| clock_seed()));
    }
    STATE.with(|state| {
        loop {
            let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            state.set(next);
            let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let id = mixed ^ (mixed >> 31);
            // Ids that are all zeros are not valid.
            if id != 0 {
                return id;
            }
        }
    })
}

/// Seed on a system without random numbers.
fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_secs().rotate_left(32) ^ u64::from(now.subsec_nanos()) ^ u64::from(std::process::id()) << 40
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_written_as_it_was_read() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let context = TraceContext::parse(text, Some("a=1,b=2")).unwrap();
        assert_eq!((context.traceparent().as_str(), context.is_sampled()), (text, true));
        assert_eq!(context.tracestate(), Some("a=1,b=2"));
        let later = format!("cc-{}-what", text.strip_prefix("00-").unwrap());
        assert_eq!(TraceContext::parse(&later, None).unwrap().traceparent(), text);
    }

    #[test]
    fn a_traceparent_that_is_not_valid_is_none() {
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-00f067aa0ba902b7-01",
            "00-+af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(text, None), None, "{text}");
        }
        let good = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";
        for state in ["a=\n", "", &"a".repeat(MAX_TRACESTATE_BYTES + 1)] {
            assert_eq!(TraceContext::parse(good, Some(state)).unwrap().tracestate(), None, "{state}");
        }
    }

    #[test]
    fn ids_differ() {
        let ids: std::collections::HashSet<u64> = (0..10_000).map(|_| random_id()).collect();
        assert_eq!(ids.len(), 10_000);
    }
}
