-- Purpose: gives partitions to a hot tier, after their epochs were raised.
-- Arguments: the stamp of the raise, the number of the hot tier's incarnation. Then each partition_id.
-- Result: the number of changed rows.
UPDATE `{stem}_stamp`
SET stamp = ?, hot = ?
WHERE partition_id IN ({each ?})
