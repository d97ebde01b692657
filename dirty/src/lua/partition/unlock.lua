#!lua flags=allow-oom
-- Gives a lock back. One that ran out meanwhile is nobody's, but its key would stay.
-- KEYS[1] lock
-- ARGV[1] token and holder
-- Reply: 1 if it did, 0 if there is none, or somebody else has taken it.
-- Invariant: nobody gives another's lock back.
expect(#KEYS == 1 and #ARGV == 1)
if last_holder(KEYS[1]) ~= ARGV[1] then return 0 end
return call('DEL', KEYS[1])
