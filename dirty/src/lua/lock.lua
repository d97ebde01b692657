#!lua flags=allow-oom
-- Takes a lock or a lease that nobody holds.
-- KEYS[1] lock
-- ARGV[1] token and holder
-- ARGV[2] time to live, milliseconds
-- Reply: 1 if it did, 0 if somebody holds it.
-- Invariant: a lock has one holder and runs out, a time to live after the last try to take it at the latest.
expect(#KEYS == 1 and #ARGV == 2)
local ttl = number(ARGV[2], 'the time to live')
if call('SET', KEYS[1], ARGV[1], 'NX', 'PX', digits(ttl)) then return 1 end
-- A clock that was set back would let the lock of somebody who died last for as long (H8).
if call('PTTL', KEYS[1]) > ttl then call('PEXPIRE', KEYS[1], digits(ttl)) end
return 0
