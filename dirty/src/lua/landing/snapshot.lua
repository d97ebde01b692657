#!lua flags=allow-oom
-- Turns the dirty map into the snapshot, under a new number.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] partition record
-- KEYS[4] lock
-- KEYS[5] error map
-- KEYS[6] marks on probation
-- KEYS[7] marks whose probation ends
-- KEYS[8] links of the dirty map
-- KEYS[9] links of the snapshot
-- ARGV[1] token and holder
-- Reply: {"leftover", number}, {"taken", number} or {"empty"}.
-- Invariant: a snapshot is never overwritten (R4). The call fails under another incarnation or
--   without the lock.
expect(#KEYS == 9 and #ARGV == 1)
present(KEYS[3])
held(KEYS[4], ARGV[1])
local at = call('HMGET', KEYS[3], 'snap', 'first', 'linked')
local last = at[1] or '0'
if call('EXISTS', KEYS[2]) == 1 then return { 'leftover', last } end
if call('EXISTS', KEYS[1]) == 0 then return { 'empty' } end
local next = digits(number(last, 'the number of the snapshot') + 1)
-- ORDER: the number first. From now on, entries that were read from an earlier snapshot belong to
-- none.
call('HSET', KEYS[3], 'snap', next)
-- Marks with partners are in the snapshot from now on. The other maps may still have some (G1).
if at[3] then
  call('HSET', KEYS[3], 'linked_saving', at[3])
elseif call('EXISTS', KEYS[5], KEYS[6], KEYS[7]) == 0 then
  call('HDEL', KEYS[3], 'linked_saving')
end
call('RENAME', KEYS[1], KEYS[2])
if call('EXISTS', KEYS[8]) == 1 then call('RENAME', KEYS[8], KEYS[9]) end
if at[3] then call('HDEL', KEYS[3], 'linked') end
if at[2] then
  call('HSET', KEYS[3], 'first_saving', at[2])
  call('HDEL', KEYS[3], 'first')
end
return { 'taken', next }
