-- Purpose: stores a hot tier that is about to take partitions, or its present address. It is used now, so that no other program forgets it meanwhile.
-- Arguments: the number of its incarnation, its address.
-- Result: none.
INSERT INTO `{stem}_hot` (id, address, since, seen_at)
VALUES (?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now'))
ON CONFLICT (id) DO UPDATE SET address = excluded.address, seen_at = excluded.seen_at
