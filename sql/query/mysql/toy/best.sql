-- Purpose: reads the greatest scores.
-- Arguments: the most rows.
-- Result: owner_id, score.
SELECT owner_id, score
FROM `{stem}_toy`
ORDER BY score DESC
LIMIT ?
