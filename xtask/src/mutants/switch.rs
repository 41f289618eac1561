//! Puts all mutants of a file into it at once, each behind a switch that the environment turns on: the tests are built
//! once for all of them and not once for each.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context as _, Result};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Arm, BinOp, Block, Expr, Pat, ReturnType, Signature, Type};

use super::mutant::{Mutant, SourcePosition};

/// The variable that says which mutant is alive.
pub(crate) const VARIABLE: &str = "HOSPES_MUTANT";

/// Module inserted into a crate to read the variable.
pub(crate) const MODULE: &str = r#"
#[doc(hidden)]
#[allow(missing_docs)]
pub mod mutant_switch {
    pub fn on(number: u32) -> bool {
        static ALIVE: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
            std::env::var("HOSPES_MUTANT").ok().and_then(|it| it.parse().ok()).unwrap_or(0)
        });
        *ALIVE == number
    }
}
"#;

/// The file with these mutants in it, and which went in. Left out is what has no place for a switch: conditions with
/// `let`, and code that may run while compiling.
pub(crate) fn install(source: &str, mutants: &[&Mutant]) -> Result<(String, Vec<u32>)> {
    let mut file = syn::parse_file(source).context("it cannot be parsed")?;
    let mut places: BTreeMap<_, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        places.entry((mutant.genre.as_str(), mutant.start)).or_default().push(mutant);
    }
    let mut installer = SwitchInstaller { places, installed: Vec::new() };
    installer.visit_file_mut(&mut file);
    Ok((quote!(#file).to_string(), installer.installed))
}

struct SwitchInstaller<'a> {
    places: BTreeMap<(&'a str, SourcePosition), Vec<&'a Mutant>>,
    installed: Vec<u32>,
}

/// Number of a mutant, and its replacement for the original.
type MutantAlternative = (u32, TokenStream);

impl<'a> SwitchInstaller<'a> {
    /// The mutants of a place that `make` can make.
    fn take(
        &mut self,
        genre: &'a str,
        place: SourcePosition,
        make: impl Fn(&Mutant) -> Option<TokenStream>,
    ) -> Vec<MutantAlternative> {
        let found = self.places.remove(&(genre, place)).unwrap_or_default();
        let made: Vec<_> = found.iter().filter_map(|one| Some((one.number, make(one)?))).collect();
        self.installed.extend(made.iter().map(|(number, _)| number));
        made
    }

    fn function(&mut self, signature: &Signature, block: &mut Block) {
        if signature.constness.is_some() {
            return;
        }
        let place = block.stmts.first().map(|first| start(first.span()));
        visit_mut::visit_block_mut(self, block);
        let Some(place) = place else { return };
        let made = self.take("FnValue", place, |mutant| mutant.replacement.parse().ok());
        let stmts = &block.stmts;
        let branches = made
            .iter()
            .map(|(number, value)| quote!(if crate::mutant_switch::on(#number) { return #value; }));
        let body = quote!({ #(#branches)* #(#stmts)* });
        if let Ok(body) = syn::parse2(body) {
            *block = body;
        }
    }
}

impl VisitMut for SwitchInstaller<'_> {
    fn visit_item_fn_mut(&mut self, function: &mut syn::ItemFn) {
        self.function(&function.sig, &mut function.block);
    }

    fn visit_impl_item_fn_mut(&mut self, function: &mut syn::ImplItemFn) {
        self.function(&function.sig, &mut function.block);
    }

    fn visit_trait_item_fn_mut(&mut self, function: &mut syn::TraitItemFn) {
        if let Some(block) = &mut function.default {
            self.function(&function.sig, block);
        }
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let place = match expr {
            Expr::Binary(binary) => start(binary.op.span()),
            Expr::Unary(unary) => start(unary.op.span()),
            _ => start(expr.span()),
        };
        // Fields are told by where they stand, which is lost when something in them is replaced.
        let fields: Vec<_> = match expr {
            Expr::Struct(built) => built.fields.iter().map(|field| start(field.span())).collect(),
            _ => Vec::new(),
        };
        visit_mut::visit_expr_mut(self, expr);
        let made = match expr {
            Expr::Binary(_) if has_let(expr) => Vec::new(),
            Expr::Binary(binary) => self.take("BinaryOperator", place, |mutant| {
                let op: BinOp = syn::parse_str(&mutant.replacement).ok()?;
                let (left, right) = (&binary.left, &binary.right);
                Some(quote!(#left #op #right))
            }),
            Expr::Unary(unary) => self.take("UnaryOperator", place, |_| {
                let operand = &unary.expr;
                Some(quote!(#operand))
            }),
            Expr::Struct(built) => {
                let without = |index: usize| {
                    let mut other = built.clone();
                    let kept = built.fields.iter().enumerate().filter(|(at, _)| *at != index);
                    other.fields = kept.map(|(_, field)| field.clone()).collect();
                    // What follows is `..base`.
                    if !other.fields.empty_or_trailing() {
                        other.fields.push_punct(syn::token::Comma::default());
                    }
                    quote!(#other)
                };
                let take = |(index, place)| self.take("StructField", place, |_| Some(without(index)));
                fields.into_iter().enumerate().flat_map(take).collect()
            }
            _ => return,
        };
        if !made.is_empty() {
            *expr = Expr::Verbatim(choose(&made, &quote!(#expr)));
        }
    }

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        let place = start(arm.pat.span());
        let guarded = match &arm.pat {
            Pat::Guard(guard) => Some(start(guard.guard.span())),
            _ => None,
        };
        visit_mut::visit_arm_mut(self, arm);
        let mut condition = None;
        if let (Some(place), Pat::Guard(guard)) = (guarded, &arm.pat) {
            let guard = &guard.guard;
            let made = match has_let(guard) {
                true => Vec::new(),
                false => self.take("MatchArmGuard", place, |mutant| mutant.replacement.parse().ok()),
            };
            condition = Some(if made.is_empty() { quote!(#guard) } else { choose(&made, &quote!(#guard)) });
        }
        for (number, _) in self.take("MatchArm", place, |_| Some(TokenStream::new())) {
            let rest = condition.map(|rest| quote!(&& #rest));
            condition = Some(quote!(!crate::mutant_switch::on(#number) #rest));
        }
        let Some(condition) = condition else { return };
        let pat = match &arm.pat {
            Pat::Guard(guard) => &*guard.pat,
            other => other,
        };
        arm.pat = Pat::Verbatim(quote!(#pat if #condition));
    }

    // These are computed while compiling.
    fn visit_item_const_mut(&mut self, _: &mut syn::ItemConst) {}
    fn visit_item_static_mut(&mut self, _: &mut syn::ItemStatic) {}
    fn visit_impl_item_const_mut(&mut self, _: &mut syn::ImplItemConst) {}
    fn visit_trait_item_const_mut(&mut self, _: &mut syn::TraitItemConst) {}
    fn visit_expr_const_mut(&mut self, _: &mut syn::ExprConst) {}
    fn visit_variant_mut(&mut self, _: &mut syn::Variant) {}
    fn visit_generic_argument_mut(&mut self, _: &mut syn::GenericArgument) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
}

fn choose(made: &[MutantAlternative], original: &TokenStream) -> TokenStream {
    let branches =
        made.iter().map(|(number, value)| quote!(if crate::mutant_switch::on(#number) { #value } else));
    quote!((#(#branches)* { #original }))
}

/// Returns true if the condition is a chain that contains a `let`, which is valid in no other position.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn start(span: Span) -> SourcePosition {
    let start = span.start();
    SourcePosition { line: start.line, column: start.column }
}

/// Byte ranges of the mutants in a file, used to find the mutant that caused a compiler error.
#[derive(Debug, Default)]
pub(crate) struct MutantRanges {
    alternatives: Vec<(Range<usize>, u32)>,
    /// Byte ranges of functions, each with true if its return type is written out in full.
    functions: Vec<(Range<usize>, bool)>,
}

impl MutantRanges {
    /// Looks through a file that `install` wrote.
    pub(crate) fn read(source: &str) -> Result<Self> {
        let file = syn::parse_file(source).context("what was made of it cannot be parsed")?;
        let mut blame = Self::default();
        blame.visit_file(&file);
        Ok(blame)
    }

    /// The mutant in whose own code the place is, and whether the code around it leaves no doubt about the types there:
    /// what is wrong with it is wrong without the others, too.
    pub(crate) fn culprit(&self, at: usize) -> Option<(u32, bool)> {
        let (_, number) = innermost(&self.alternatives, at)?;
        let certain = innermost(&self.functions, at).is_some_and(|(_, certain)| *certain);
        Some((*number, certain))
    }

    /// Returns all mutants in the same function.
    pub(crate) fn suspects(&self, at: usize) -> Vec<u32> {
        let Some((function, _)) = innermost(&self.functions, at) else { return Vec::new() };
        let within = self.alternatives.iter().filter(|(range, _)| function.contains(&range.start));
        within.map(|(_, number)| *number).collect()
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        let mut opaque = OpaqueTypeFinder(false);
        if let ReturnType::Type(_, returned) = &signature.output {
            opaque.visit_type(returned);
        }
        self.functions.push((block.span().byte_range(), !opaque.0));
        visit::visit_block(self, block);
    }
}

fn innermost<T>(ranges: &[(Range<usize>, T)], at: usize) -> Option<&(Range<usize>, T)> {
    ranges.iter().filter(|(range, _)| range.contains(&at)).min_by_key(|(range, _)| range.len())
}

impl<'ast> Visit<'ast> for MutantRanges {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, block);
        }
    }

    fn visit_expr_if(&mut self, chosen: &'ast syn::ExprIf) {
        if let Some(number) = switch(&chosen.cond) {
            self.alternatives.push((chosen.then_branch.span().byte_range(), number));
        }
        visit::visit_expr_if(self, chosen);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if let Some(number) = switch(&unary.expr) {
            self.alternatives.push((unary.span().byte_range(), number));
        }
        visit::visit_expr_unary(self, unary);
    }
}

/// The number of the mutant that is asked about.
fn switch(asked: &Expr) -> Option<u32> {
    let Expr::Call(call) = asked else { return None };
    let Expr::Path(path) = &*call.func else { return None };
    if !path.path.segments.iter().any(|one| one.ident == "mutant_switch") {
        return None;
    }
    let Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) = call.args.first()? else { return None };
    number.base10_parse().ok()
}

/// Visitor that finds `impl Trait` in a type.
struct OpaqueTypeFinder(bool);

impl Visit<'_> for OpaqueTypeFinder {
    fn visit_type_impl_trait(&mut self, _: &syn::TypeImplTrait) {
        self.0 = true;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SOURCE: &str = "\
fn small(a: i32, b: i32) -> bool {
    a < b && !(a == 0)
}
const fn early(a: i32) -> bool { a > 1 }
fn found(text: Option<&str>) -> impl Iterator<Item = char> {
    if let Some(text) = text && text != \"\" { return text.chars() }
    match text { Some(\"é\") if true => \"b\".chars(), None => \"\".chars(), _ => \"c\".chars() }
}
fn other(one: Pair) -> Pair {
    Pair { a: 1, b: 2, ..one }
}
";

    /// Creates a mutant at the first occurrence of `text`.
    fn mutant(number: u32, genre: &str, text: &str, replacement: &str) -> Mutant {
        let at = SOURCE.find(text).unwrap();
        let place = |at: usize| {
            let before = &SOURCE[..at];
            let line = before.rsplit('\n').next().unwrap();
            json!({ "line": before.matches('\n').count() + 1, "column": line.chars().count() + 1 })
        };
        let span = json!({ "start": place(at), "end": place(at + text.len()) });
        let listed = json!({
            "name": text, "file": "a.rs", "genre": genre, "replacement": replacement, "span": span,
        });
        Mutant::read(number, &listed).unwrap()
    }

    fn install_all(mutants: &[Mutant]) -> (String, Vec<u32>) {
        let (text, mut installed) = install(SOURCE, &mutants.iter().collect::<Vec<_>>()).unwrap();
        installed.sort_unstable();
        (text, installed)
    }

    #[test]
    fn a_mutant_goes_behind_a_switch_where_there_can_be_one() {
        let (text, installed) = install_all(&[
            mutant(1, "FnValue", "a < b && !(a == 0)", "true"),
            mutant(2, "BinaryOperator", "< b", "=="),
            mutant(3, "BinaryOperator", "&&", "||"),
            mutant(4, "UnaryOperator", "!", ""),
            mutant(5, "BinaryOperator", "==", "!="),
            mutant(6, "BinaryOperator", "> 1", "<"),
            mutant(7, "BinaryOperator", "&& text", "||"),
            mutant(8, "BinaryOperator", "!= \"\"", "=="),
            mutant(9, "MatchArmGuard", "true =>", "false"),
            mutant(10, "MatchArm", "None =>", ""),
            mutant(11, "MatchArm", "Some(\"é\")", ""),
            mutant(12, "StructField", "b: 2", ""),
        ]);
        // What is constant and a condition with `let` have no place for one.
        assert_eq!(installed, [1, 2, 3, 4, 5, 8, 9, 10, 11, 12]);
        let text = text.replace([' ', '\n'], "");
        for part in [
            "{ifcrate::mutant_switch::on(1u32){returntrue;}",
            "(ifcrate::mutant_switch::on(2u32){a==b}else{a<b})",
            "constfnearly(a:i32)->bool{a>1}",
            "Noneif!crate::mutant_switch::on(10u32)=>",
            "Some(\"é\")if!crate::mutant_switch::on(11u32)&&(ifcrate::mutant_switch::on(9u32){false}else{true})=>",
            "{Pair{a:1,..one}}",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn who_breaks_the_build_is_found() {
        let (text, _) = install_all(&[
            mutant(1, "FnValue", "a < b && !(a == 0)", "\"first\""),
            mutant(2, "BinaryOperator", "< b", "/"),
            mutant(3, "FnValue", "if let", "\"third\""),
        ]);
        let blame = MutantRanges::read(&text).unwrap();
        assert_eq!(blame.culprit(text.find("\"first\"").unwrap()), Some((1, true)));
        assert_eq!(blame.culprit(text.find('/').unwrap()), Some((2, true)));
        // What a function returns is not said: the mutant may be sound, only not beside the original.
        assert_eq!(blame.culprit(text.find("\"third\"").unwrap()), Some((3, false)));
        let beside = text.find("a < b").unwrap();
        assert_eq!(blame.culprit(beside), None);
        assert!(blame.suspects(beside).contains(&1) && !blame.suspects(beside).contains(&3));
    }

    #[test]
    fn one_alone_is_put_where_it_belongs() {
        let alone = mutant(1, "BinaryOperator", "!= \"\"", "== \"é\"");
        let text = alone.apply(SOURCE).unwrap();
        assert!(text.contains("&& text  == \"é\"  { return"), "{text}");
        assert_eq!(text.lines().count(), SOURCE.lines().count());
    }
}
