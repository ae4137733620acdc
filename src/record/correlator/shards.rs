//! The shards of the caches: their number, and the shard in which a key lies.

/// The number of shards. They are enough for two threads seldom to meet, and few enough to look
/// through for the oldest entry.
pub(super) const SHARDS: usize = 32;

/// The position of the lowest shard bit in a hash. The shard bits lie below the seven bits that a
/// table uses for its tags, and far above those by which the table finds a slot.
const SHARD_SHIFT: u32 = 64 - 7 - SHARDS.ilog2();
const SHARD_BITS: u64 = (SHARDS as u64 - 1) << SHARD_SHIFT;

/// Returns the number of the shards in which a key with this hash lies.
pub(super) fn shard_of(hash: u64) -> usize {
    ((hash & SHARD_BITS) >> SHARD_SHIFT) as usize
}

/// Returns `hash` with the shard of `other`.
pub(super) fn beside(other: u64, hash: u64) -> u64 {
    (hash & !SHARD_BITS) | (other & SHARD_BITS)
}
