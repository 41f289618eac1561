//! View of a JSON Schema, limited to the keywords that determine how command-line text is read.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Map, Value};

/// Maximum number of steps in one schema. A schema that refers to itself in a circle reaches it; everything is allowed
/// from there on.
const FUEL: u32 = 20_000;

/// Maximum depth to which a schema is followed; anything is allowed below it.
const MAX_DEPTH: u32 = 64;

/// Maximum number of schemas that apply together through `$ref` and `allOf`.
const MAX_PARTS: usize = 32;

/// A schema node and the document that its references point into.
#[derive(Debug, Clone)]
pub(super) struct ArgumentSchema<'a> {
    root: &'a Value,
    /// The node itself, followed by the schemas that `$ref` and `allOf` add to it.
    parts: Vec<&'a Map<String, Value>>,
    /// Number of parts that belong to the node. The parts after them are inherited from the schema around a branch.
    own: usize,
    depth: u32,
    fuel: Rc<Cell<u32>>,
}

impl<'a> ArgumentSchema<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self::at(root, root, 0, Rc::new(Cell::new(FUEL)))
    }

    fn at(root: &'a Value, node: &'a Value, depth: u32, fuel: Rc<Cell<u32>>) -> Self {
        // Shared by all views of one schema, so that it limits the total work and not each path.
        fuel.set(fuel.get().saturating_sub(1));
        let mut schema = Self { root, parts: Vec::new(), own: 0, depth, fuel };
        let mut next = vec![node];
        while let Some(node) = next.pop() {
            let Value::Object(part) = node else { continue };
            // Compared by address: a node that is reached twice adds nothing and may close a circle.
            if schema.parts.len() >= MAX_PARTS || schema.parts.iter().any(|known| std::ptr::eq(*known, part))
            {
                continue;
            }
            schema.parts.push(part);
            if let Some(Value::Array(all)) = part.get("allOf") {
                // Reversed, because the last one pushed is taken first, and `find` prefers earlier parts.
                next.extend(all.iter().rev());
            }
            // Only references into the same document are followed; nothing is fetched.
            if let Some(pointer) = part.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'))
            {
                next.extend(root.pointer(pointer));
            }
        }
        schema.own = schema.parts.len();
        schema
    }

    /// Returns one of the alternatives, combined with the keywords beside `anyOf` or `oneOf`.
    pub(super) fn branch(&self, node: &'a Value) -> Self {
        let mut branch = self.child(node);
        for part in &self.parts {
            if !branch.parts.iter().any(|known| std::ptr::eq(*known, *part)) {
                branch.parts.push(part);
            }
        }
        branch
    }

    pub(super) fn child(&self, node: &'a Value) -> Self {
        Self::at(self.root, node, self.depth + 1, Rc::clone(&self.fuel))
    }

    /// Returns a schema that allows everything.
    pub(super) fn any(&self) -> Self {
        Self { root: self.root, parts: Vec::new(), own: 0, depth: self.depth, fuel: Rc::clone(&self.fuel) }
    }

    /// Returns true if the limit of work or depth is reached, so that the rest is accepted unchecked.
    pub(super) fn is_exhausted(&self) -> bool {
        self.fuel.get() == 0 || self.depth > MAX_DEPTH
    }

    fn find<T>(&self, read: impl Fn(&'a Map<String, Value>) -> Option<T>) -> Option<T> {
        self.parts.iter().find_map(|part| read(part))
    }

    /// Returns the values of `enum` or `const`.
    pub(super) fn choices(&self) -> Option<&'a [Value]> {
        self.find(|part| match (part.get("const"), part.get("enum")) {
            (Some(value), _) => Some(std::slice::from_ref(value)),
            (_, Some(Value::Array(values))) => Some(values.as_slice()),
            _ => None,
        })
    }

    /// Returns the members of `anyOf` or `oneOf`.
    pub(super) fn alternatives(&self) -> Option<&'a [Value]> {
        // Own parts alone: a branch that inherited the alternatives would branch into itself again.
        self.parts[..self.own]
            .iter()
            .find_map(|part| part.get("anyOf").or_else(|| part.get("oneOf"))?.as_array())
            .map(Vec::as_slice)
            .filter(|all| !all.is_empty())
    }

    /// Returns the allowed types, declared or inferred from other keywords.
    pub(super) fn types(&self) -> Vec<&'a str> {
        let named = self.find(|part| match part.get("type")? {
            Value::String(name) => Some(vec![name.as_str()]),
            Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect()),
            _ => None,
        });
        named.unwrap_or_else(|| {
            if self.find(|part| part.get("properties")).is_some() {
                vec!["object"]
            } else if self.find(|part| part.get("items").or_else(|| part.get("prefixItems"))).is_some() {
                vec!["array"]
            } else {
                Vec::new()
            }
        })
    }

    /// Returns the schema of the named member, if it is declared.
    pub(super) fn property(&self, name: &str) -> Option<Self> {
        self.find(|part| part.get("properties")?.as_object()?.get(name)).map(|node| self.child(node))
    }

    /// Returns the names of all declared members, in schema order.
    pub(super) fn properties(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for part in &self.parts {
            if let Some(Value::Object(properties)) = part.get("properties") {
                names.extend(properties.keys().map(String::as_str));
            }
        }
        names
    }

    /// Returns the names of the required members, in schema order.
    pub(super) fn required(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for part in &self.parts {
            for name in part.get("required").and_then(Value::as_array).into_iter().flatten() {
                names.extend(name.as_str().filter(|name| !names.contains(name)));
            }
        }
        names
    }

    /// Returns the default value.
    pub(super) fn default(&self) -> Option<&'a Value> {
        self.find(|part| part.get("default"))
    }

    /// Returns the schema of undeclared members. `None` if they are forbidden.
    pub(super) fn additional(&self) -> Option<Self> {
        match self.find(|part| part.get("additionalProperties")) {
            // With `patternProperties` other names are possible, and patterns are not evaluated here.
            Some(Value::Bool(false)) if self.find(|part| part.get("patternProperties")).is_none() => None,
            Some(node) => Some(self.child(node)),
            None => Some(self.any()),
        }
    }

    /// Returns true if the schema explicitly allows further members.
    pub(super) fn welcomes_more(&self) -> bool {
        let explicit = self.find(|part| part.get("additionalProperties"));
        explicit.is_some_and(|node| *node != Value::Bool(false))
            || self.find(|part| part.get("patternProperties")).is_some()
            || (explicit.is_none() && self.properties().is_empty())
    }

    /// Returns the schema of the array item at `index`.
    pub(super) fn item(&self, index: usize) -> Self {
        // `items` applies to the positions after `prefixItems` (JSON Schema 2020-12).
        let prefixed = self.find(|part| part.get("prefixItems")?.as_array()?.get(index));
        let node = prefixed.or_else(|| self.find(|part| part.get("items")));
        node.map_or_else(|| self.any(), |node| self.child(node))
    }
}
