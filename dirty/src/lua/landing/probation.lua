#!lua flags=allow-oom
-- Says which of a partition's landed marks leave probation next.
-- If none are expiring, the marks that are on probation now become the next.
-- KEYS[1] marks on probation
-- KEYS[2] marks whose probation ends
-- KEYS[3] partition record
-- KEYS[4] lock
-- ARGV[1] token and holder
-- Reply: {"empty"}, {"lost"} after a change of the epoch, or {"leaves", epoch, number of the
--   window}.
-- Invariant: all marks of a window that leaves were settled before, in this epoch. A window is
--   never overwritten (R4). The caller measures the time since, by a clock that nobody sets (H11).
expect(#KEYS == 4 and #ARGV == 1)
local r = present(KEYS[3])
held(KEYS[4], ARGV[1])
local at = call('HMGET', KEYS[3], 'requeue', 'window')
if at[1] then return { 'lost' } end
local window = at[2]
if call('EXISTS', KEYS[2]) == 0 then
  if call('EXISTS', KEYS[1]) == 0 then return { 'empty' } end
  call('RENAME', KEYS[1], KEYS[2])
  window = digits(number(window or '0', 'the number of the window') + 1)
  call('HSET', KEYS[3], 'window', window)
end
return { 'leaves', r.epoch, window or '0' }
