//! The order in which entries of one cache were last used.
//!
//! A ring links the entries in the order of their uses. A use moves an entry to the newest end, and
//! the entry at the oldest end is the one to forget. Each step takes constant time.

/// A place that no node has: the point where the ring's two ends meet. Its newer neighbour is the
/// oldest node.
const ENDS: u32 = u32::MAX;

#[derive(Default)]
pub(super) struct Recency {
    nodes: Vec<Node>,
    ends: Links,
    /// The first of the places that are free. Each of them has the next one as its newer neighbour.
    free: Links,
}

/// An entry, as the order knows it.
#[derive(Clone, Copy)]
pub(super) struct Node {
    /// The hashes by which the entry is found.
    pub(super) base: u64,
    pub(super) hash: u64,
    /// The stamp of the entry's last use.
    pub(super) stamp: u64,
    links: Links,
}

/// The places of the two neighbours in the ring.
#[derive(Clone, Copy)]
struct Links {
    older: u32,
    newer: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { older: ENDS, newer: ENDS }
    }
}

impl Recency {
    pub(super) fn node(&mut self, place: u32) -> &mut Node {
        &mut self.nodes[place as usize]
    }

    /// Returns the least recently used entry and its place. Returns `None` if there are no entries.
    pub(super) fn oldest(&self) -> Option<(u32, Node)> {
        self.nodes.get(self.ends.newer as usize).map(|node| (self.ends.newer, *node))
    }

    /// Adds an entry as the newest one, and returns its place.
    pub(super) fn push(&mut self, base: u64, hash: u64, stamp: u64) -> u32 {
        let node = Node { base, hash, stamp, links: Links::default() };
        let mut place = self.free.newer;
        if let Some(free) = self.nodes.get_mut(place as usize) {
            self.free = free.links;
            *free = node;
        } else {
            // The place fits, because a cache has at most 2^24 entries, and one or two more for
            // each thread.
            place = self.nodes.len() as u32;
            self.nodes.push(node);
        }
        self.link(place);
        place
    }

    /// Makes an entry the newest one.
    pub(super) fn touch(&mut self, place: u32, stamp: u64) {
        if self.ends.older != place {
            self.unlink(place);
            self.link(place);
        }
        self.node(place).stamp = stamp;
    }

    /// Removes an entry. With the last one goes the memory.
    pub(super) fn remove(&mut self, place: u32) {
        self.unlink(place);
        if self.ends.newer == ENDS {
            *self = Self::default();
        } else {
            self.node(place).links = self.free;
            self.free.newer = place;
        }
    }

    fn links(&mut self, place: u32) -> &mut Links {
        self.nodes.get_mut(place as usize).map_or(&mut self.ends, |node| &mut node.links)
    }

    fn unlink(&mut self, place: u32) {
        let Links { older, newer } = self.node(place).links;
        self.links(older).newer = newer;
        self.links(newer).older = older;
    }

    fn link(&mut self, place: u32) {
        let newest = self.ends.older;
        self.node(place).links = Links { older: newest, newer: ENDS };
        self.links(newest).newer = place;
        self.ends.older = place;
    }
}
