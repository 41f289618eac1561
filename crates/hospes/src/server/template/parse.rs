//! The parts of a URI template whose syntax has been checked.

/// A piece of a template.
#[derive(Clone, Debug)]
pub(super) enum TemplateSegment {
    Literal(Box<str>),
    Expression(TemplateExpression),
}

/// `{?a,b*}`.
#[derive(Clone, Debug)]
pub(super) struct TemplateExpression {
    pub(super) kind: ExpressionKind,
    pub(super) variables: Vec<VariableSpec>,
}

/// `b*` or `b:3`.
#[derive(Clone, Debug)]
pub(super) struct VariableSpec {
    pub(super) name: Box<str>,
    pub(super) explode: bool,
    pub(super) prefix: Option<u16>,
}

/// The kinds of expression (RFC 6570, section 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpressionKind {
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

impl ExpressionKind {
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
pub(super) fn parse_parts(template: &str) -> Option<Box<[TemplateSegment]>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let Some((literal, after)) = rest.split_once('{') else {
            parts.push(TemplateSegment::Literal(rest.into()));
            break;
        };
        if !literal.is_empty() {
            parts.push(TemplateSegment::Literal(literal.into()));
        }
        let (inside, after) = after.split_once('}')?;
        parts.push(TemplateSegment::Expression(parse_expression(inside)?));
        rest = after;
    }
    Some(parts.into())
}

fn parse_expression(inside: &str) -> Option<TemplateExpression> {
    let kind = match inside.chars().next()? {
        '+' => ExpressionKind::Reserved,
        '#' => ExpressionKind::Fragment,
        '.' => ExpressionKind::Label,
        '/' => ExpressionKind::Path,
        ';' => ExpressionKind::Parameters,
        '?' => ExpressionKind::Query,
        '&' => ExpressionKind::Continuation,
        _ => ExpressionKind::Simple,
    };
    // Every operator is a single byte.
    let list = if kind == ExpressionKind::Simple { inside } else { &inside[1..] };
    let variables = list.split(',').map(|text| {
        if let Some(name) = text.strip_suffix('*') {
            return Some(VariableSpec { name: name.into(), explode: true, prefix: None });
        }
        Some(match text.split_once(':') {
            Some((name, length)) => {
                VariableSpec { name: name.into(), explode: false, prefix: Some(length.parse().ok()?) }
            }
            None => VariableSpec { name: text.into(), explode: false, prefix: None },
        })
    });
    Some(TemplateExpression { kind, variables: variables.collect::<Option<_>>()? })
}
