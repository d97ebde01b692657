-- Purpose: gives partitions to a hot tier, after their epochs were raised.
-- Arguments: the stamp of the raise, the number of the hot tier's incarnation. Then each partition_id.
-- Result: the number of changed rows.
-- Without the hint a server reads the whole of a small table, and waits for the raises of other partitions.
UPDATE `{stem}_stamp` FORCE INDEX (PRIMARY)
SET stamp = ?, hot = ?
WHERE partition_id IN ({each ?})
