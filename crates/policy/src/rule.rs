use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use toml::value::Datetime;

use crate::action::{About, Action, Asked};
use crate::arguments::Way;
use crate::condition::Condition;
use crate::destination::{self, Place, Standing};
use crate::effects::Effects;
use crate::file::{OneOrMore, Reading, WrittenEffects, WrittenRule};
use crate::paths::Text;
use crate::pattern::{Doubt, Patterns};
use crate::verdict::{Because, Decision, Verdict};

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
    effects: Option<WrittenEffects>,
    arguments: Vec<(String, Way, Condition)>,
    destinations: Option<Vec<Place>>,
    until: Option<(String, Timestamp)>,
    strong: bool,
    remember: bool,
    review: bool,
}

/// The first condition of a rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Miss {
    /// The key of the rule.
    pub key: String,
    /// What it says.
    pub wanted: String,
}

/// How a rule fits whose conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It does.
    Whole,
    /// It may, for the reason given: readers differ about what a string points to.
    Unclear(String),
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.key, self.wanted)
    }
}

impl Rule {
    /// # Errors
    /// What is wrong, as the end of a sentence.
    pub(crate) fn new(
        number: usize,
        line: usize,
        written: WrittenRule,
        reading: &Reading,
    ) -> Result<Self, String> {
        let patterns = |key: &str, texts: Option<OneOrMore>| {
            let read = |texts: OneOrMore| Patterns::new(&texts.0).map_err(|what| format!("`{key}`: {what}"));
            texts.map(read).transpose()
        };
        let arguments = written.arguments.into_iter().map(|(key, condition)| {
            let condition =
                Condition::read(condition, reading).map_err(|what| format!("`arguments.{key}`: {what}"))?;
            Ok((key.clone(), Way::new(&key), condition))
        });
        let destinations = written.destinations.map(|OneOrMore(texts)| {
            let places = texts.iter().map(|text| Place::new(text, reading));
            places.collect::<Result<_, _>>().map_err(|what: String| format!("`destinations`: {what}"))
        });
        let rule = Self {
            number,
            line,
            decision: written.decide,
            name: written.name,
            reason: written.reason,
            about: written.about.map(|about| about.0),
            server: patterns("server", written.server)?,
            tool: patterns("tool", written.tool)?,
            prompt: patterns("prompt", written.prompt)?,
            resource: patterns("resource", written.resource)?,
            application: patterns("application", written.application)?,
            principal: patterns("principal", written.principal)?,
            effects: written.effects,
            arguments: arguments.collect::<Result<_, String>>()?,
            destinations: destinations.transpose()?,
            until: written
                .until
                .map(|until| Ok::<_, String>((until.to_string(), end_of(&until)?)))
                .transpose()?,
            strong: written.strong.unwrap_or(false),
            remember: written.remember.unwrap_or(true),
            review: written.review.unwrap_or(false),
        };
        rule.is_meant(written.strong.is_some(), written.remember.is_some()).map(|()| rule)
    }

    /// What can never fit, or never matters, is a mistake: the person meant something by it.
    fn is_meant(&self, strong: bool, remember: bool) -> Result<(), String> {
        let names = [self.tool.is_some(), self.prompt.is_some(), self.resource.is_some()];
        if names.into_iter().filter(|&named| named).count() > 1 {
            return Err(
                "nothing is a tool, a prompt and a resource at once; write a rule for each".to_owned()
            );
        }
        let of_tools = self.effects.is_some() || !self.arguments.is_empty();
        let others = self.prompt.is_some() || self.resource.is_some();
        if of_tools && others {
            return Err("`effects` and `arguments` are a tool's".to_owned());
        }
        if self.destinations.is_some() && self.prompt.is_some() {
            return Err("`destinations` are a tool's or a resource's".to_owned());
        }
        let kind = match names {
            [true, ..] => Some(About::Tool),
            [_, true, _] => Some(About::Prompt),
            [.., true] => Some(About::Resource),
            _ if of_tools => Some(About::Tool),
            _ => None,
        };
        if let (Some(kind), Some(about)) = (kind, &self.about)
            && about.iter().any(|one| *one != kind)
        {
            return Err(format!("`about` names more than the rest of the rule can fit, which is {kind}"));
        }
        if let (Some(_), Some(about)) = (&self.destinations, &self.about)
            && about.iter().any(|one| !matches!(one, About::Tool | About::Resource))
        {
            return Err("`about` names what has no `destinations`; tools and resources have".to_owned());
        }
        if self.decision != Decision::Ask && (strong || remember) {
            return Err(format!(
                "`strong` and `remember` are about asking, and this rule says {}",
                self.decision
            ));
        }
        if self.decision == Decision::Deny && self.review {
            return Err("what is denied has no result to review".to_owned());
        }
        Ok(())
    }

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

    /// What it decides.
    #[must_use]
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Why it is there, as it is told to the model where it denies.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Its conditions, and what it wants beside its decision, in words: each key with what it says.
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

    /// Whether every condition holds, else the first that does not. `effects` are those that are believed.
    pub(crate) fn fits(&self, asked: &Asked<'_>, effects: Effects, now: Timestamp) -> Result<Fit, Miss> {
        let doubt = match self.decision {
            Decision::Allow => Doubt::Refuses,
            Decision::Ask | Decision::Deny => Doubt::Counts,
        };
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

    /// Whether what is said of a tool's call holds.
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
                destination::are_at(places, destinations.strings(arguments), doubt)
            }
            Action::Resource { uri } => destination::are_at(places, &destination::strings_of_uri(uri), doubt),
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

impl WrittenEffects {
    /// The first effect that is not as said, and what was said.
    fn against(self, effects: Effects) -> Option<(&'static str, bool)> {
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

/// The first moment at which a rule is over: the end of a day, or the moment itself.
fn end_of(until: &Datetime) -> Result<Timestamp, String> {
    let text = until.to_string();
    let wrong = |error: jiff::Error| format!("`until`: {error}");
    match (until.date.is_some(), until.time.is_some(), until.offset.is_some()) {
        (true, true, true) => text.replace(' ', "T").parse().map_err(wrong),
        (true, false, false) => {
            let day: Date = text.parse().map_err(wrong)?;
            let next = day.tomorrow().map_err(wrong)?;
            next.to_zoned(TimeZone::UTC).map(|moment| moment.timestamp()).map_err(wrong)
        }
        _ => Err("`until`: wanted a day (2026-12-31) or a moment with its offset (2026-12-31T18:00:00Z)"
            .to_owned()),
    }
}
