//! Which partitions the owners of a range lie in.

use storage_sdk::feed::Partition;
use storage_shard_read::ShardRange;

/// The partitions with owners of a range, among so many. The sharding key of an owner is its placement with the
/// bits reversed. So the partitions of a power of two are intervals of sharding keys. Of another number each
/// range has owners of all of them.
pub(super) fn of_range(range: ShardRange, count: u32) -> Vec<Partition> {
    if !count.is_power_of_two() {
        return (0..count).map(Partition).collect();
    }
    let bits = count.trailing_zeros();
    let has = |partition: &Partition| {
        // The low bits of a placement are the high ones of a sharding key.
        let first = u64::from(partition.0).reverse_bits();
        let last = first | u64::MAX.checked_shr(bits).unwrap_or(0);
        first <= range.last() && range.begin() <= last
    };
    (0..count).map(Partition).filter(has).collect()
}

#[cfg(test)]
mod tests {
    use storage_sdk::Owner;
    use storage_shard_read::Schema as _;
    use storage_shard_read::owners::Owners;

    use super::*;

    #[test]
    fn each_owner_of_a_range_lies_in_one_of_its_partitions() {
        for count in [1, 2, 8, 12, 64, 256] {
            for shards in [1_u64, 3, 4, 16] {
                let begin = |shard: u64| u64::MAX / shards * shard;
                for shard in 0..shards {
                    let end = (shard + 1 < shards).then(|| begin(shard + 1));
                    let range = ShardRange::new(begin(shard), end).unwrap();
                    let partitions = of_range(range, count);
                    for id in 0..200 {
                        let owner = Owner::new("game", "eu", "player", &id.to_string()).unwrap();
                        if range.contains(Owners::sharding_key(&owner)) {
                            assert!(
                                partitions.contains(&owner.partition(count)),
                                "{owner} of {range}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_range_follows_its_part_of_the_partitions() {
        let quarter = ShardRange::new(1 << 62, Some(1 << 63)).unwrap();
        assert_eq!(of_range(quarter, 8), [2, 6].map(Partition));
        assert_eq!(of_range(quarter, 2), [Partition(0)]);
        assert_eq!(of_range(quarter, 1), [Partition(0)]);
        assert_eq!(of_range(ShardRange::ALL, 8).len(), 8);
        assert_eq!(of_range(quarter, 6).len(), 6, "no power of two");
    }
}
