#!lua flags=allow-oom
-- Gives a lock back that is still held.
-- KEYS[1] lock
-- ARGV[1] token and holder
-- Reply: 1 if it did, 0 if the lock ran out or somebody else holds it.
-- Invariant: nobody gives another's lock back.
expect(#KEYS == 1 and #ARGV == 1)
if holder_of(KEYS[1]) ~= ARGV[1] then return 0 end
return call('DEL', KEYS[1])
