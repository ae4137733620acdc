//! Keeps values in the order of their last use.
//!
//! The values are linked into a ring in the order of their last use. Using a value moves the value
//! to the newest end of the ring. The value at the oldest end of the ring is evicted first. Each
//! operation takes constant time.

/// The index of the sentinel between the ring's two ends. No node has this index. The sentinel's
/// newer neighbour is the oldest node.
const ENDS: u32 = u32::MAX;

/// The number of nodes for which storage stays allocated while there are no values.
const KEPT: usize = 16;

pub(crate) struct Recency<T> {
    nodes: Vec<Node<T>>,
    len: usize,
    ends: Links,
    /// The index of the first free node. Each free node links to the next free node as its newer
    /// neighbour.
    free: u32,
}

struct Node<T> {
    /// `None` if the node is free.
    value: Option<T>,
    links: Links,
}

/// The indices of a node's two neighbours in the ring.
#[derive(Clone, Copy)]
struct Links {
    older: u32,
    newer: u32,
}

impl<T> Default for Recency<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), len: 0, ends: Links { older: ENDS, newer: ENDS }, free: ENDS }
    }
}

impl<T> Recency<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the index of the least recently used value, or `None` if there are no values.
    pub(crate) fn oldest(&self) -> Option<u32> {
        Some(self.ends.newer).filter(|place| *place != ENDS)
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.nodes.get(place as usize)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.nodes.get_mut(place as usize)?.value.as_mut()
    }

    /// Adds a value as the most recently used value, and returns the value's index. There must be
    /// at most 2^32 - 1 nodes.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let mut place = self.free;
        if let Some(node) = self.nodes.get_mut(place as usize) {
            self.free = node.links.newer;
            node.value = Some(value);
        } else {
            place = self.nodes.len() as u32;
            self.nodes.push(Node { value: Some(value), links: self.ends });
        }
        self.len += 1;
        self.link(place);
        place
    }

    /// Marks a value as the most recently used value, and returns the value.
    pub(crate) fn touch(&mut self, place: u32) -> Option<&mut T> {
        if self.ends.older != place {
            self.unlink(place);
            self.link(place);
        }
        self.get_mut(place)
    }

    /// Removes a value. Removing the last value also frees the storage, except for up to `KEPT`
    /// nodes.
    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let value = self.nodes.get_mut(place as usize)?.value.take()?;
        self.len -= 1;
        self.unlink(place);
        if self.len == 0 {
            self.nodes.clear();
            self.nodes.shrink_to(KEPT);
            self.free = ENDS;
        } else {
            self.links(place).newer = self.free;
            self.free = place;
        }
        Some(value)
    }

    fn links(&mut self, place: u32) -> &mut Links {
        self.nodes.get_mut(place as usize).map_or(&mut self.ends, |node| &mut node.links)
    }

    fn unlink(&mut self, place: u32) {
        let Links { older, newer } = *self.links(place);
        self.links(older).newer = newer;
        self.links(newer).older = older;
    }

    fn link(&mut self, place: u32) {
        let newest = self.ends.older;
        *self.links(place) = Links { older: newest, newer: ENDS };
        self.links(newest).newer = place;
        self.ends.older = place;
    }
}
