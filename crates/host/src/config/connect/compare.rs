//! Comparison of documents, without their locations.

use super::super::document::{ConfigNode, ConfigValue};
use super::super::export_value::ExportValue;

pub(super) fn is_empty(node: &ConfigNode) -> bool {
    match &node.value {
        ConfigValue::Null => true,
        ConfigValue::Object(entries) => entries.is_empty(),
        ConfigValue::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Removes the table of servers if it is empty, which is the same as none.
pub(super) fn prune(node: &mut ConfigNode, keys: &[&str]) {
    let Some((key, rest)) = keys.split_first() else { return };
    if let ConfigValue::Object(entries) = &mut node.value {
        for entry in entries.iter_mut().filter(|entry| entry.key == *key) {
            prune(&mut entry.node, rest);
        }
        entries.retain(|entry| entry.key != *key || !is_empty(&entry.node));
    } else if is_empty(node) {
        node.value = ConfigValue::Object(Vec::new());
    }
}

/// Compares documents without their locations.
pub(super) fn is_same(one: &ConfigNode, other: &ConfigNode, is_ordered: bool) -> bool {
    match (&one.value, &other.value) {
        (ConfigValue::Null, ConfigValue::Null) | (ConfigValue::Date, ConfigValue::Date) => true,
        (ConfigValue::Boolean(one), ConfigValue::Boolean(other)) => one == other,
        (ConfigValue::Number(one), ConfigValue::Number(other))
        | (ConfigValue::String(one), ConfigValue::String(other)) => one == other,
        (ConfigValue::Array(one), ConfigValue::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other, is_ordered))
        }
        (ConfigValue::Object(one), ConfigValue::Object(other)) if is_ordered => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len()
                && pairs
                    .all(|(one, other)| one.key == other.key && is_same(&one.node, &other.node, is_ordered))
        }
        (ConfigValue::Object(entries), ConfigValue::Object(others)) => {
            let mut entries_of_one = entries.iter();
            entries.len() == others.len()
                && entries_of_one
                    .all(|entry| other.get(&entry.key).is_some_and(|node| is_same(&entry.node, node, false)))
        }
        _ => false,
    }
}

/// Compares a part of a document with a value that is written.
pub(super) fn is_value(node: &ConfigNode, value: &ExportValue) -> bool {
    match (&node.value, value) {
        (ConfigValue::String(text), ExportValue::Text(expected)) => text == expected,
        (ConfigValue::Boolean(value), ExportValue::Boolean(expected)) => value == expected,
        (ConfigValue::Array(items), ExportValue::List(expected)) => {
            items.len() == expected.len()
                && items.iter().zip(expected).all(|(item, value)| is_value(item, value))
        }
        (ConfigValue::Object(entries), ExportValue::Object(expected)) => {
            let has = |(key, value): &(String, ExportValue)| {
                node.get(key).is_some_and(|node| is_value(node, value))
            };
            entries.len() == expected.len() && expected.iter().all(has)
        }
        _ => false,
    }
}
