//! Maps the number of each event's last write to the event's slot.
//!
//! Every write to the store gets the next number, which replaces the event's previous number. The
//! numbers in use are therefore dense, except where events have been written again. The numbers are
//! stored in blocks of 64, so a write usually changes one bit in one block and one position in
//! another block.

use std::collections::BTreeMap;

/// The number of versions in a block, with one bit per version.
const BLOCK: u64 = 64;

#[derive(Default)]
pub(super) struct Versions {
    /// The blocks, with the version divided by [`BLOCK`] as the key. No block is empty.
    blocks: BTreeMap<u64, Box<Block>>,
}

struct Block {
    /// The versions in use, with one bit per version.
    used: u64,
    slots: [u32; BLOCK as usize],
}

impl Versions {
    /// Adds a version, which must be higher than all versions added before.
    pub(super) fn push(&mut self, version: u64, slot: u32) {
        match self.blocks.last_entry() {
            Some(mut last) if *last.key() == version / BLOCK => last.get_mut().set(version, slot),
            _ => {
                let mut block = Box::new(Block { used: 0, slots: [0; BLOCK as usize] });
                block.set(version, slot);
                self.blocks.insert(version / BLOCK, block);
            }
        }
    }

    pub(super) fn remove(&mut self, version: u64) {
        let Some(block) = self.blocks.get_mut(&(version / BLOCK)) else { return };
        block.used &= !(1 << (version % BLOCK));
        if block.used == 0 {
            self.blocks.remove(&(version / BLOCK));
        }
    }

    /// Returns the slot with the lowest version, or `None` if no versions are stored.
    pub(super) fn first(&self) -> Option<u32> {
        let (_, block) = self.blocks.first_key_value()?;
        Some(block.slots[block.used.trailing_zeros() as usize])
    }

    /// Returns the versions above `version` and their slots, in ascending order.
    pub(super) fn after(&self, version: u64) -> impl Iterator<Item = (u64, u32)> {
        let blocks = self.blocks.range(version / BLOCK..);
        blocks.flat_map(|(number, block)| block.ascending(*number)).skip_while(move |(at, _)| *at <= version)
    }

    /// Returns the versions below `version` and their slots, in descending order.
    pub(super) fn before(&self, version: u64) -> impl Iterator<Item = (u64, u32)> {
        let blocks = self.blocks.range(..=version / BLOCK).rev();
        blocks.flat_map(|(number, block)| block.descending(*number)).skip_while(move |(at, _)| *at >= version)
    }
}

impl Block {
    fn set(&mut self, version: u64, slot: u32) {
        self.used |= 1 << (version % BLOCK);
        self.slots[(version % BLOCK) as usize] = slot;
    }

    fn ascending(&self, number: u64) -> impl Iterator<Item = (u64, u32)> {
        let mut left = self.used;
        std::iter::from_fn(move || {
            let place = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            self.at(number, place)
        })
    }

    fn descending(&self, number: u64) -> impl Iterator<Item = (u64, u32)> {
        let mut left = self.used;
        std::iter::from_fn(move || {
            let place = (BLOCK as u32 - 1).wrapping_sub(left.leading_zeros());
            left &= !1_u64.checked_shl(place).unwrap_or(0);
            self.at(number, place)
        })
    }

    /// Returns the version at a position and the version's slot, or `None` if the position is
    /// beyond the end of the block.
    fn at(&self, number: u64, place: u32) -> Option<(u64, u32)> {
        Some((number * BLOCK + u64::from(place), *self.slots.get(place as usize)?))
    }
}

#[cfg(test)]
mod tests {
    use super::Versions;
    use std::collections::BTreeMap;

    /// Compares the results with those from a plain map. The writes leave some blocks full, some
    /// sparse and some empty.
    #[test]
    fn versions_lie_in_order_whatever_is_removed() {
        let (mut versions, mut plain) = (Versions::default(), BTreeMap::new());
        let mut random = 7_u64;
        for version in 1..3_000_u64 {
            versions.push(version, version as u32 * 3);
            plain.insert(version, version as u32 * 3);
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Fewer than half of the versions remain. None of the versions from 1,000 to 1,299
            // remain.
            let goes = if (1_000..1_300).contains(&version) { version } else { random >> 33 };
            if random % 3 > 0 || goes == version {
                versions.remove(goes % (version + 1));
                plain.remove(&(goes % (version + 1)));
            }
            assert_eq!(versions.first(), plain.values().next().copied());
            if version % 97 == 0 || version > 2_990 {
                for bound in (0..version + 3).step_by(61).chain([1, 63, 64, 65, 127, 128, u64::MAX]) {
                    let above = plain.range((std::ops::Bound::Excluded(bound), std::ops::Bound::Unbounded));
                    assert!(versions.after(bound).eq(above.map(|(version, slot)| (*version, *slot))));
                    let below = plain.range(..bound).rev();
                    assert!(versions.before(bound).eq(below.map(|(version, slot)| (*version, *slot))));
                }
            }
        }
        assert!(plain.len() > 300 && versions.blocks.len() < 3_000 / 64);
        while let Some((version, _)) = plain.pop_last() {
            versions.remove(version);
        }
        assert!(versions.first().is_none() && versions.blocks.is_empty());
    }
}
