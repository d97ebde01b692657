#!lua flags=allow-oom
-- Stores the partition count if none is stored.
-- KEYS[1] settings of all partitions
-- ARGV[1] partition count
-- Reply: the stored count.
-- Invariant: a stored count never changes.
expect(#KEYS == 1 and #ARGV == 1)
call('HSETNX', KEYS[1], 'partitions', ARGV[1])
return call('HGET', KEYS[1], 'partitions')
