#!lua flags=allow-oom
-- Takes a lock that nobody else holds; who holds it already prolongs it, since the answer to the first request may have been lost.
-- KEYS[1] lock
-- ARGV[1] token and holder
-- ARGV[2] time to live, milliseconds
-- Reply: 1 if it did, 0 if somebody else holds it.
-- Invariant: a lock has one holder and runs out.
expect(#KEYS == 1 and #ARGV == 2)
local ttl = number(ARGV[2], 'the time to live')
local holder = call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
call('SET', KEYS[1], ARGV[1], 'PX', digits(ttl))
return 1
