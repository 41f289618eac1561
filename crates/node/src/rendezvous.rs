//! Choice of a node by rendezvous hashing: all nodes choose the same one without asking each other.
//!
//! A node that joins takes keys from the others, and one that leaves gives its own away; no other key moves. Nodes are
//! compared by their addresses, which stay the same over restarts, and not by their ids.

use aws_lc_rs::digest::{Context, SHA256};
use hospes_fleet::node::NodeRecord;

/// Returns the node that a key belongs to; `None` without nodes.
pub(crate) fn choose_node<'a>(
    nodes: impl Iterator<Item = &'a NodeRecord>,
    key: &[&[u8]],
) -> Option<&'a NodeRecord> {
    // Of two processes at one address, which only a list within a restart has, all choose the same.
    nodes.max_by_key(|node| (weight(&node.address, key), node.id))
}

/// Computes the weight of an address for a key, whose parts are hashed with their lengths.
fn weight(address: &str, key: &[&[u8]]) -> [u8; 32] {
    let mut hash = Context::new(&SHA256);
    hash.update(b"hospes node of a key\n");
    for part in [address.as_bytes()].iter().chain(key) {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut weight = [0; 32];
    weight.copy_from_slice(hash.finish().as_ref());
    weight
}

#[cfg(test)]
mod tests {
    use hospes_fleet::node::NodeId;

    use super::*;

    fn nodes(ports: impl IntoIterator<Item = u16>) -> Vec<NodeRecord> {
        let record = |port| NodeRecord::new(NodeId::random(), &format!("10.0.0.7:{port}"));
        ports.into_iter().map(record).collect()
    }

    fn choices(nodes: &[NodeRecord]) -> Vec<String> {
        let choose = |person: u32| {
            let person = format!("person {person}");
            choose_node(nodes.iter(), &[person.as_bytes(), b"app"]).unwrap().address.clone()
        };
        (0..1000).map(choose).collect()
    }

    #[test]
    fn a_choice_depends_on_addresses_and_not_on_order_or_ids() {
        let before = choices(&nodes(1..=3));
        let mut restarted = nodes(1..=3);
        restarted.reverse();
        assert_eq!(choices(&restarted), before);
        assert!(choose_node([].into_iter(), &[b"a"]).is_none());
        // Two parts are not one.
        let three = nodes(1..=3);
        let differs = (0..100).any(|number: u32| {
            let text = format!("{number}");
            let (one, two) = ([text.as_bytes(), b"x"], [format!("{text}x").into_bytes(), Vec::new()]);
            let two: Vec<&[u8]> = two.iter().map(Vec::as_slice).collect();
            choose_node(three.iter(), &one).unwrap().id != choose_node(three.iter(), &two).unwrap().id
        });
        assert!(differs);
    }

    #[test]
    fn each_node_has_its_share() {
        let before = choices(&nodes(1..=4));
        for node in nodes(1..=4) {
            let share = before.iter().filter(|address| **address == node.address).count();
            assert!((180..=320).contains(&share), "{} of 1000 at {}", share, node.address);
        }
    }

    #[test]
    fn only_the_keys_of_a_node_that_comes_or_goes_move() {
        let (three, four) = (choices(&nodes(1..=3)), choices(&nodes(1..=4)));
        let new = nodes([4]).remove(0).address;
        for (before, now) in three.iter().zip(&four) {
            assert!(before == now || *now == new, "{before} became {now}");
        }
        assert!(four.contains(&new));
    }
}
