//! The shards of the caches: how many there are, and in which one a key lies.

/// Enough for two threads seldom to meet, few enough to look through for the oldest entry.
pub(super) const SHARDS: usize = 32;

/// Below the seven bits that a table takes for its tags, far above those by which it finds a slot.
const SHARD_SHIFT: u32 = 64 - 7 - SHARDS.ilog2();
const SHARD_BITS: u64 = (SHARDS as u64 - 1) << SHARD_SHIFT;

/// The number of the shards in which a key with this hash lies.
pub(super) fn shard_of(hash: u64) -> usize {
    ((hash & SHARD_BITS) >> SHARD_SHIFT) as usize
}

/// A hash with the shard of another.
pub(super) fn beside(other: u64, hash: u64) -> u64 {
    (hash & !SHARD_BITS) | (other & SHARD_BITS)
}
