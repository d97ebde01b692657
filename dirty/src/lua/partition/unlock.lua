#!lua flags=allow-oom
-- Releases a lock, even one that ran out meanwhile, since the key would stay.
-- KEYS[1] lock
-- ARGV[1] token and holder
-- Reply: 1 if it did, 0 if there is no lock or another holder has taken it.
-- Invariant: nobody releases another's lock.
expect(#KEYS == 1 and #ARGV == 1)
if last_holder(KEYS[1]) ~= ARGV[1] then return 0 end
return call('DEL', KEYS[1])
