//! The parts of a URI template whose syntax has been checked.

/// A piece of a template.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Literal(Box<str>),
    Expression(Expression),
}

/// `{?a,b*}`.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) kind: Kind,
    pub(super) variables: Vec<Variable>,
}

/// `b*` or `b:3`.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: Box<str>,
    pub(super) explode: bool,
    pub(super) prefix: Option<u16>,
}

/// The kinds of expression (RFC 6570, section 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `{a}`
    Simple,
    /// `{+a}`
    Reserved,
    /// `{#a}`
    Fragment,
    /// `{.a}`
    Label,
    /// `{/a}`
    Path,
    /// `{;a}`
    Parameters,
    /// `{?a}`
    Query,
    /// `{&a}`
    Continuation,
}

impl Kind {
    /// Operator after the brace.
    pub(super) const fn operator(self) -> &'static str {
        match self {
            Self::Simple => "",
            Self::Reserved => "+",
            Self::Fragment => "#",
            Self::Label => ".",
            Self::Path => "/",
            Self::Parameters => ";",
            Self::Query => "?",
            Self::Continuation => "&",
        }
    }

    /// Text before the first value.
    pub(super) const fn first(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved => "",
            Self::Fragment => "#",
            Self::Label => ".",
            Self::Path => "/",
            Self::Parameters => ";",
            Self::Query => "?",
            Self::Continuation => "&",
        }
    }

    /// Text between values.
    pub(super) const fn separator(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => ",",
            Self::Label => ".",
            Self::Path => "/",
            Self::Parameters => ";",
            Self::Query | Self::Continuation => "&",
        }
    }

    /// Returns true if names are written before their values.
    pub(super) const fn is_named(self) -> bool {
        matches!(self, Self::Parameters | Self::Query | Self::Continuation)
    }

    /// Returns true if reserved characters in values are kept.
    pub(super) const fn keeps_reserved(self) -> bool {
        matches!(self, Self::Reserved | Self::Fragment)
    }
}

/// The parts of `template`, whose syntax has been checked; none for what that check would not have let through.
pub(super) fn parts(template: &str) -> Option<Box<[Part]>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let Some((literal, after)) = rest.split_once('{') else {
            parts.push(Part::Literal(rest.into()));
            break;
        };
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        let (inside, after) = after.split_once('}')?;
        parts.push(Part::Expression(expression(inside)?));
        rest = after;
    }
    Some(parts.into())
}

fn expression(inside: &str) -> Option<Expression> {
    let kind = match inside.chars().next()? {
        '+' => Kind::Reserved,
        '#' => Kind::Fragment,
        '.' => Kind::Label,
        '/' => Kind::Path,
        ';' => Kind::Parameters,
        '?' => Kind::Query,
        '&' => Kind::Continuation,
        _ => Kind::Simple,
    };
    let list = if kind == Kind::Simple { inside } else { &inside[1..] };
    let variables = list.split(',').map(|text| {
        if let Some(name) = text.strip_suffix('*') {
            return Some(Variable { name: name.into(), explode: true, prefix: None });
        }
        Some(match text.split_once(':') {
            Some((name, length)) => {
                Variable { name: name.into(), explode: false, prefix: Some(length.parse().ok()?) }
            }
            None => Variable { name: text.into(), explode: false, prefix: None },
        })
    });
    Some(Expression { kind, variables: variables.collect::<Option<_>>()? })
}
