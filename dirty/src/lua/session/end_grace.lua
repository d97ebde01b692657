#!lua flags=allow-oom
-- Ends the grace of an epoch. The caller has seen that epoch for longer than a lease.
-- KEYS[1] partition record
-- ARGV[1] epoch
-- Reply: 1 if the epoch is still the same, else 0.
-- Invariant: the call fails under another incarnation than the recorded one.
expect(#KEYS == 1 and #ARGV == 1)
local r = present(KEYS[1])
if r.epoch ~= ARGV[1] then return 0 end
call('HSET', KEYS[1], 'graced', r.epoch)
return 1
