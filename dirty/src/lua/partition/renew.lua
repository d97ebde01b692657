#!lua flags=allow-oom
-- Prolongs a lock that is still held.
-- KEYS[1] lock
-- ARGV[1] token and holder
-- ARGV[2] time to live, milliseconds
-- Reply: 1 if it did, 0 if the lock ran out or another holder has it.
-- Invariant: nobody prolongs another's lock.
expect(#KEYS == 1 and #ARGV == 2)
local last = time() + number(ARGV[2], 'the time to live') * 1000
if holder_of(KEYS[1]) ~= ARGV[1] then return 0 end
hold(KEYS[1], ARGV[1], last)
return 1
