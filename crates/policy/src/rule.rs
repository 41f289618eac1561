use std::fmt;

use jiff::Timestamp;

use crate::action::{About, Action, Asked};
use crate::arguments::Way;
use crate::condition::Condition;
use crate::effects::Effects;
use crate::known::Selector;
use crate::paths::Text;
use crate::pattern::{Doubt, Patterns};
use crate::place::Place;
use crate::strings::{self, Standing};
use crate::verdict::{Because, Decision, Verdict};

mod parse;

/// One rule of a policy.
#[derive(Clone, Debug)]
pub struct Rule {
    number: usize,
    line: usize,
    decision: Decision,
    name: Option<String>,
    reason: Option<String>,
    about: Option<Vec<About>>,
    server: Option<Patterns>,
    tool: Option<Patterns>,
    prompt: Option<Patterns>,
    resource: Option<Patterns>,
    application: Option<Patterns>,
    principal: Option<Patterns>,
    effects: Option<WantedEffects>,
    arguments: Vec<(String, Way, Condition)>,
    destinations: Option<Vec<Place>>,
    until: Option<(String, Timestamp)>,
    strong: bool,
    remember: bool,
    review: bool,
}

/// The effects that a rule wants a tool to have, where it says something of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedEffects {
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
}

/// The first condition of a rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Miss {
    /// The key of the rule.
    pub key: String,
    /// Required value.
    pub wanted: String,
}

/// The fit of a rule whose conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// A fit without doubt.
    Whole,
    /// A possible fit, with the reason: readers differ about what a string points to.
    Unclear(String),
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.key, self.wanted)
    }
}

impl Rule {
    /// Its place in the file, from 1.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// The line where it begins, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// Decision of the rule.
    #[must_use]
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Reason of the rule; the model receives it if the rule denies.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Conditions and options of the rule in words, each as a key with its value.
    #[must_use]
    pub fn conditions(&self) -> Vec<(String, String)> {
        let patterns = [
            ("server", &self.server),
            ("tool", &self.tool),
            ("prompt", &self.prompt),
            ("resource", &self.resource),
            ("application", &self.application),
            ("principal", &self.principal),
        ];
        let mut said: Vec<(String, String)> = Vec::new();
        let about = self.about.iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
        if !about.is_empty() {
            said.push(("about".to_owned(), about.join(" or ")));
        }
        let patterns = patterns.into_iter().filter_map(|(key, patterns)| Some((key, patterns.as_ref()?)));
        said.extend(patterns.map(|(key, patterns)| (key.to_owned(), patterns.to_string())));
        if let Some(effects) = self.effects {
            let effects = [
                ("read_only", effects.read_only),
                ("destructive", effects.destructive),
                ("idempotent", effects.idempotent),
                ("open_world", effects.open_world),
            ];
            let effects = effects.into_iter().filter_map(|(key, is)| Some((format!("effects.{key}"), is?)));
            said.extend(effects.map(|(key, is)| (key, is.to_string())));
        }
        let arguments = self.arguments.iter();
        said.extend(arguments.map(|(key, _, condition)| (format!("arguments.{key}"), condition.to_string())));
        let places = self.destinations.iter().flatten().map(ToString::to_string).collect::<Vec<_>>();
        if !places.is_empty() {
            said.push(("destinations".to_owned(), format!("at {}", places.join(" or "))));
        }
        said.extend(self.until.iter().map(|(until, _)| ("until".to_owned(), until.clone())));
        let flags = [
            ("strong", self.strong, true),
            ("remember", !self.remember, false),
            ("review", self.review, true),
        ];
        said.extend(
            flags.iter().filter(|flag| flag.1).map(|(key, _, is)| ((*key).to_owned(), is.to_string())),
        );
        said
    }

    /// The conditions that name something of a server.
    pub(crate) fn selector(&self) -> Selector<'_> {
        Selector {
            section: format!("rule {}", self.number),
            line: self.line,
            doubt: self.doubt(),
            server: self.server.as_ref(),
            tool: self.tool.as_ref(),
            prompt: self.prompt.as_ref(),
            effects: self.effects,
            arguments: &self.arguments,
        }
    }

    /// Bias for ambiguous values: allow rules match less, deny rules match more.
    fn doubt(&self) -> Doubt {
        match self.decision {
            Decision::Allow => Doubt::Refuses,
            Decision::Ask | Decision::Deny => Doubt::Counts,
        }
    }

    /// Matches the rule, or returns the first condition that does not hold. `effects` are the trusted effects of the
    /// tool.
    pub(crate) fn fits(&self, asked: &Asked<'_>, effects: Effects, now: Timestamp) -> Result<Fit, Miss> {
        let doubt = self.doubt();
        let one_of = |key: &str, patterns: &Option<Patterns>, text: Option<&str>| match patterns {
            Some(patterns) if !text.is_some_and(|text| patterns.fits(&Text::new(text), doubt)) => {
                Err(Miss { key: key.to_owned(), wanted: patterns.to_string() })
            }
            _ => Ok(()),
        };
        if let Some((written, end)) = &self.until
            && now >= *end
        {
            return Err(Miss { key: "until".to_owned(), wanted: format!("to come: {written}") });
        }
        if let Some(about) = &self.about
            && !about.contains(&asked.action.about())
        {
            let names: Vec<String> = about.iter().map(ToString::to_string).collect();
            return Err(Miss { key: "about".to_owned(), wanted: names.join(" or ") });
        }
        one_of("server", &self.server, Some(asked.server))?;
        let (tool, prompt, resource) = match asked.action {
            Action::Tool { name, .. } => (Some(name), None, None),
            Action::Prompt { name } => (None, Some(name), None),
            Action::Resource { uri } => (None, None, Some(uri)),
            _ => (None, None, None),
        };
        one_of("tool", &self.tool, tool)?;
        one_of("prompt", &self.prompt, prompt)?;
        one_of("resource", &self.resource, resource)?;
        one_of("application", &self.application, asked.application)?;
        one_of("principal", &self.principal, asked.principal)?;
        self.fits_call(&asked.action, effects, doubt)
    }

    /// Matches the conditions on a tool call.
    fn fits_call(&self, action: &Action<'_>, effects: Effects, doubt: Doubt) -> Result<Fit, Miss> {
        let said = self.effects.map(|said| said.against(effects));
        let call = match action {
            Action::Tool { arguments, .. } => Some(arguments),
            _ => None,
        };
        if let Some(said) = said {
            let first = if call.is_some() { said } else { Some(("effects", true)) };
            if let Some((effect, wanted)) = first {
                return Err(Miss { key: format!("effects.{effect}"), wanted: wanted.to_string() });
            }
        }
        for (key, way, condition) in &self.arguments {
            if !call.is_some_and(|arguments| condition.fits(&way.follow(arguments, doubt), doubt)) {
                return Err(Miss { key: format!("arguments.{key}"), wanted: condition.to_string() });
            }
        }
        let Some(places) = &self.destinations else { return Ok(Fit::Whole) };
        let standing = match action {
            Action::Tool { destinations, arguments, .. } => {
                strings::are_at(places, destinations.strings(arguments), doubt)
            }
            Action::Resource { uri } => strings::are_at(places, &strings::strings_of_uri(uri), doubt),
            _ => Standing::Elsewhere(None),
        };
        match standing {
            Standing::There => Ok(Fit::Whole),
            Standing::Unclear(why) => Ok(Fit::Unclear(why)),
            Standing::Elsewhere(why) => {
                let places: Vec<String> = places.iter().map(ToString::to_string).collect();
                let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
                Err(Miss {
                    key: "destinations".to_owned(),
                    wanted: format!("at {}{why}", places.join(" or ")),
                })
            }
        }
    }

    /// The verdict where the rule fits. What may be what the rule denies is never done unasked.
    pub(crate) fn verdict_of(&self, fit: Fit) -> Verdict {
        let verdict = self.verdict();
        match fit {
            Fit::Unclear(why) if self.decision == Decision::Deny => Verdict {
                decision: Decision::Ask,
                because: Because::Unclear { rule: Box::new(verdict.because), why },
                may_remember: false,
                ..verdict
            },
            _ => verdict,
        }
    }

    fn verdict(&self) -> Verdict {
        Verdict {
            decision: self.decision,
            because: Because::Rule {
                number: self.number,
                line: self.line,
                name: self.name.clone(),
                reason: self.reason.clone(),
            },
            may_remember: self.decision == Decision::Ask && self.remember,
            strong: self.strong,
            review: self.review,
            flow: None,
        }
    }
}

impl WantedEffects {
    /// The first effect that is not as said, and what was said.
    pub(crate) fn against(self, effects: Effects) -> Option<(&'static str, bool)> {
        [
            ("read_only", self.read_only, effects.read_only),
            ("destructive", self.destructive, effects.destructive),
            ("idempotent", self.idempotent, effects.idempotent),
            ("open_world", self.open_world, effects.open_world),
        ]
        .into_iter()
        .find_map(|(name, said, is)| said.filter(|said| *said != is).map(|said| (name, said)))
    }
}
