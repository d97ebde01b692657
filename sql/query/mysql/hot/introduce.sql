-- Purpose: stores a hot tier that takes partitions, or its present address.
-- Arguments: the number of its incarnation, its address.
-- Result: none.
INSERT INTO `{stem}_hot` (id, address, since, seen_at)
VALUES (?, ?, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))
ON DUPLICATE KEY UPDATE address = VALUES(address)
