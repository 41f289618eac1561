//! Choice of the traces that are recorded.

use crate::trace_context::TraceContext;

/// Rule that decides at the first span of a trace whether it is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSampler {
    /// Traces whose id is below this are recorded.
    limit: u64,
    follows_parent: bool,
}

impl TraceSampler {
    /// Creates a rule that records this part of the traces, from 0 to 1.
    #[must_use]
    pub fn ratio(ratio: f64) -> Self {
        let ratio = if ratio.is_nan() { 0.0 } else { ratio.clamp(0.0, 1.0) };
        // 2^63: ids are compared without their lowest bit, as other libraries do.
        let limit = if ratio >= 1.0 { u64::MAX } else { (ratio * 9_223_372_036_854_775_808.0) as u64 };
        Self { limit, follows_parent: true }
    }

    /// Decides by the id of the trace alone, also where the caller has decided already.
    #[must_use]
    pub fn without_parent(mut self) -> Self {
        self.follows_parent = false;
        self
    }

    pub(crate) fn samples(self, trace_id: u128, parent: Option<&TraceContext>) -> bool {
        match parent.filter(|_| self.follows_parent) {
            Some(parent) => parent.is_sampled(),
            // Truncated on purpose: the lower half of the id.
            None => (trace_id as u64) >> 1 < self.limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_context::random_trace_id;

    #[test]
    fn the_ratio_is_that_of_new_traces_and_callers_decide_about_theirs() {
        let sampled = |sampler: TraceSampler, parent: Option<&TraceContext>| {
            (0..20_000).filter(|_| sampler.samples(random_trace_id(), parent)).count()
        };
        assert_eq!(sampled(TraceSampler::ratio(0.0), None), 0);
        assert_eq!(sampled(TraceSampler::ratio(1.0), None), 20_000);
        assert_eq!(sampled(TraceSampler::ratio(f64::NAN), None), 0);
        let some = sampled(TraceSampler::ratio(0.05), None);
        assert!((800..1200).contains(&some), "{some} of 20,000");
        let parent = |flags: &str| {
            let text = format!("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-{flags}");
            TraceContext::parse(&text, None).unwrap()
        };
        assert_eq!(sampled(TraceSampler::ratio(0.0), Some(&parent("01"))), 20_000);
        assert_eq!(sampled(TraceSampler::ratio(1.0), Some(&parent("00"))), 0);
        assert_eq!(sampled(TraceSampler::ratio(1.0).without_parent(), Some(&parent("00"))), 20_000);
    }
}
