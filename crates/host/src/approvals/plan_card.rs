//! Card of a plan: several calls that are approved as one.

use hospes_model::RawJson;
use hospes_policy::{CallEffect, SessionFlow};
use serde::{Deserialize, Serialize};

use super::approval::{CallSummary, GuardCard};

/// Reason of a denial with which a person asks for each call of a plan to be made, and decided, by itself.
pub const ONE_BY_ONE_REASON: &str = "make the calls one by one; the person decides about each";

/// Several calls that are approved as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanCard {
    /// Heading: "3 calls as one plan, for 10 minutes, in this order".
    pub heading: String,
    /// Calls in order, those that are alike and follow each other as one.
    pub groups: Vec<PlanGroup>,
    /// Calls in order.
    pub calls: Vec<PlannedCall>,
}

/// Calls of a plan that follow each other and do the same with the same tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanGroup {
    /// Number of the first call, from 1.
    pub first: usize,
    /// Number of calls.
    pub count: usize,
    /// Name of the server, with the profile whose account it uses: `git (profile work)`.
    pub server: String,
    /// The tool, by its server's own name.
    pub name: String,
    /// What the calls do, to whom: of all of them together.
    pub summary: CallSummary,
    /// Change that the calls make, in words: "cannot be undone".
    pub undo: String,
    /// True if something about one of the calls is unusual.
    #[serde(default)]
    pub is_unusual: bool,
}

/// A call of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlannedCall {
    /// Name of the server, with the profile whose account it uses: `git (profile work)`.
    pub server: String,
    /// The tool, by its server's own name.
    pub name: String,
    /// Head of the call's part, in Hospes' own words.
    pub summary: CallSummary,
    /// Change that the call makes.
    pub effect: CallEffect,
    /// True if the arguments can reach somebody else.
    pub outbound: bool,
    /// Arguments that would be sent, an object.
    pub arguments: RawJson,
    /// Reason for which the call would be asked about. `None` if it would not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Data that the session has read and that this call could send out, if this is a reason to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_flow: Option<SessionFlow>,
    /// Reason of the guard to ask, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardCard>,
}

impl PlanCard {
    /// Creates the card of calls in order, whose approval holds for this many minutes.
    pub(crate) fn new(calls: Vec<PlannedCall>, minutes: u64) -> Self {
        let heading = format!("{} calls as one plan, for {minutes} minutes, in this order", calls.len());
        let mut groups: Vec<PlanGroup> = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            match groups.last_mut().filter(|group| group.includes(call)) {
                Some(group) => group.add(call),
                None => groups.push(PlanGroup::of(index + 1, call)),
            }
        }
        Self { heading, groups, calls }
    }
}

impl PlanCard {
    /// Returns the targets of the calls that are not known yet.
    #[must_use]
    pub fn targets(&self) -> Vec<String> {
        let mut targets: Vec<String> = Vec::new();
        for target in
            self.calls.iter().filter_map(|call| call.guard.as_ref()).flat_map(|guard| &guard.targets)
        {
            if !targets.contains(target) {
                targets.push(target.clone());
            }
        }
        targets
    }
}

impl PlanGroup {
    fn of(first: usize, call: &PlannedCall) -> Self {
        Self {
            first,
            count: 1,
            server: call.server.clone(),
            name: call.name.clone(),
            summary: CallSummary { unusual: String::new(), ..call.summary.clone() },
            undo: call.undo().to_owned(),
            is_unusual: call.is_unusual(),
        }
    }

    fn includes(&self, call: &PlannedCall) -> bool {
        self.server == call.server
            && self.name == call.name
            && self.summary.verb == call.summary.verb
            // The targets that are named must not stand for a call that has none.
            && self.summary.targets.is_empty() == call.summary.targets.is_empty()
            && self.undo == call.undo()
    }

    fn add(&mut self, call: &PlannedCall) {
        self.count += 1;
        self.is_unusual |= call.is_unusual();
        self.summary.more_targets += call.summary.more_targets;
        for target in &call.summary.targets {
            if !self.summary.targets.contains(target) {
                self.summary.targets.push(target.clone());
            }
        }
    }

    /// Returns the number of the group's calls as a person reads it: "2" or "2–4".
    #[must_use]
    pub fn numbers(&self) -> String {
        match self.count {
            1 => self.first.to_string(),
            count => format!("{}–{}", self.first, self.first + count - 1),
        }
    }
}

impl PlannedCall {
    /// Returns true if the guard or the data flow has a concern about the call.
    #[must_use]
    pub fn is_unusual(&self) -> bool {
        self.guard.is_some() || self.data_flow.is_some()
    }

    /// Describes whether the change can be undone.
    #[must_use]
    pub fn undo(&self) -> &'static str {
        match self.effect {
            CallEffect::None => "changes nothing",
            CallEffect::Reversible => "can be undone",
            CallEffect::Irreversible => "cannot be undone",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, target: &str, effect: CallEffect) -> PlannedCall {
        let summary = CallSummary {
            verb: "Send a message".to_owned(),
            preposition: "to".to_owned(),
            targets: if target.is_empty() { Vec::new() } else { vec![target.to_owned()] },
            more_targets: 0,
            irreversible: effect == CallEffect::Irreversible,
            unusual: "It is new.".to_owned(),
        };
        PlannedCall {
            server: "mail".to_owned(),
            name: name.to_owned(),
            summary,
            effect,
            outbound: true,
            arguments: RawJson::empty_object(),
            because: None,
            data_flow: None,
            guard: None,
        }
    }

    /// Calls that may go anywhere are not shown under the name of another call's target.
    #[test]
    fn a_call_without_a_target_is_no_part_of_a_group_with_one() {
        let of = |target| call("send", target, CallEffect::Reversible);
        let mut unusual = of("bob@x.example");
        unusual.data_flow = Some(SessionFlow::default());
        let card = PlanCard::new(vec![of("ann@x.example"), unusual, of(""), of("")], 10);
        let groups: Vec<_> = card.groups.iter().map(|group| (group.numbers(), group.is_unusual)).collect();
        assert_eq!(groups, [("1–2".to_owned(), true), ("3–4".to_owned(), false)]);
    }

    #[test]
    fn alike_calls_that_follow_each_other_are_one_group_with_all_targets() {
        let reversible = CallEffect::Reversible;
        let calls = vec![
            call("send", "ann@x.example", reversible),
            call("send", "bob@x.example", reversible),
            call("send", "ann@x.example", reversible),
            call("delete", "1", CallEffect::Irreversible),
            call("send", "eve@x.example", reversible),
        ];
        let card = PlanCard::new(calls, 10);
        assert_eq!(card.heading, "5 calls as one plan, for 10 minutes, in this order");
        let groups: Vec<_> = card.groups.iter().map(|group| (group.numbers(), &*group.undo)).collect();
        assert_eq!(
            groups,
            [
                ("1–3".to_owned(), "can be undone"),
                ("4".to_owned(), "cannot be undone"),
                ("5".to_owned(), "can be undone")
            ],
            "the order is kept"
        );
        assert_eq!(card.groups[0].summary.targets, ["ann@x.example", "bob@x.example"]);
        let text = serde_json::to_string(&card).unwrap();
        assert_eq!(serde_json::from_str::<PlanCard>(&text).unwrap(), card);
    }
}
