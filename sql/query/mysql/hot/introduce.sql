-- Purpose: stores a hot tier that is about to take partitions, or its present address. It is used now, so that no other program forgets it meanwhile.
-- Arguments: the number of its incarnation, its address.
-- Result: none.
INSERT INTO `{stem}_hot` (id, address, since, seen_at)
VALUES (?, ?, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))
ON DUPLICATE KEY UPDATE address = VALUES(address), seen_at = VALUES(seen_at)
