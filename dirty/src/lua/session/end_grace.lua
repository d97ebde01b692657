#!lua flags=allow-oom
-- Ends the grace of an epoch: whoever says so has seen that epoch for longer than a lease.
-- KEYS[1] partition record
-- ARGV[1] epoch
-- Reply: 1 if it is the epoch still, else 0.
-- Invariant: refused under another incarnation than the recorded one.
expect(#KEYS == 1 and #ARGV == 1)
local r = present(KEYS[1])
if r.epoch ~= ARGV[1] then return 0 end
call('HSET', KEYS[1], 'graced', r.epoch)
return 1
