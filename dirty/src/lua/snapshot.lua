#!lua flags=allow-oom
-- Turns the dirty map into the snapshot.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] partition record
-- KEYS[4] lock
-- ARGV[1] token and holder
-- Reply: "leftover", "taken" or "empty".
-- Invariant: a snapshot is never overwritten (R4); refused under another incarnation or without the lock.
expect(#KEYS == 4 and #ARGV == 1)
present(KEYS[3])
held(KEYS[4], ARGV[1])
if call('EXISTS', KEYS[2]) == 1 then return 'leftover' end
if call('EXISTS', KEYS[1]) == 0 then return 'empty' end
local first = call('HGET', KEYS[3], 'first')
call('RENAME', KEYS[1], KEYS[2])
if first then
  call('HSET', KEYS[3], 'first_saving', first)
  call('HDEL', KEYS[3], 'first')
end
return 'taken'
