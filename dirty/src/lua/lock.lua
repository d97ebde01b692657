#!lua flags=allow-oom
-- Takes a lock that nobody holds.
-- KEYS[1] lock
-- ARGV[1] token and holder
-- ARGV[2] time to live, milliseconds
-- Reply: 1 if it did, 0 if somebody holds it.
-- Invariant: a lock has one holder and runs out.
expect(#KEYS == 1 and #ARGV == 2)
local ttl = number(ARGV[2], 'the time to live')
return call('SET', KEYS[1], ARGV[1], 'NX', 'PX', digits(ttl)) and 1 or 0
