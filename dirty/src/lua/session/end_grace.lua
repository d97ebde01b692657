#!lua flags=allow-oom
-- Ends the grace of an epoch. The caller has seen its adoption for longer than a lease.
-- KEYS[1] partition record
-- ARGV[1] epoch
-- ARGV[2] time of its adoption, microseconds
-- Reply: 1 if that is still the last adoption, else 0.
-- Invariant: the call fails under another incarnation than the recorded one. A late copy of the
--   adoption, which begins the same epoch in an emptied hot tier, has a grace of its own (S8).
expect(#KEYS == 1 and #ARGV == 2)
local r = present(KEYS[1])
local adopted = call('HGET', KEYS[1], 'adopted') or '0'
if r.epoch ~= ARGV[1] or adopted ~= ARGV[2] then return 0 end
call('HSET', KEYS[1], 'graced', r.epoch)
return 1
