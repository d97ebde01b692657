-- Purpose: stores up to which position the events of a partition were dropped for their age.
-- Arguments: epoch, number, partition_id, epoch, epoch, number.
-- Result: none. The record is locked until the transaction ends.
UPDATE `{stem}_feed`
SET trimmed_epoch = ?, trimmed_number = ?
WHERE partition_id = ? AND (trimmed_epoch < ? OR trimmed_epoch = ? AND trimmed_number < ?)
