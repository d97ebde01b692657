-- Purpose: stores that the rows of owners are ahead of their notes, up to a note of an epoch. A lead of
--   that epoch that reaches further stays.
-- Arguments: for each owner partition_id, app_id, region_id, logic_type, owner_id, epoch, number.
--   The owners come in key order.
-- Result: none.
INSERT INTO `{stem}_lead` (partition_id, app_id, region_id, logic_type, owner_id, epoch, number)
VALUES {each (?, ?, ?, ?, ?, ?, ?)}
ON DUPLICATE KEY UPDATE number = GREATEST(VALUES(number), number)
