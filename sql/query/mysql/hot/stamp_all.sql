-- Purpose: gives all partitions to a hot tier that takes over.
-- Arguments: the stamp of the raise, the number of the hot tier's incarnation.
-- Result: the number of changed rows.
UPDATE `{stem}_stamp` SET stamp = ?, hot = ?
