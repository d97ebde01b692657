#!lua flags=allow-oom
-- Takes a lock that nobody else holds; who holds it already prolongs it, since the answer to the first request may have been lost.
-- Or takes a lease, which has no name of a holder and is given once.
-- KEYS[1] lock or lease
-- ARGV[1] token and holder; empty for a lease
-- ARGV[2] time to live, milliseconds
-- Reply: 1 if it did, 0 if somebody else holds it.
-- Invariant: a lock has one holder and runs out, a time to live after the last try to take it at the latest.
expect(#KEYS == 1 and #ARGV == 2)
local ttl = number(ARGV[2], 'the time to live')
local holder = call('GET', KEYS[1])
if not holder or (holder == ARGV[1] and holder ~= '') then
  call('SET', KEYS[1], ARGV[1], 'PX', digits(ttl))
  return 1
end
-- A clock that was set back would let the lock of somebody who died last for as long (H8).
if call('PTTL', KEYS[1]) > ttl then call('PEXPIRE', KEYS[1], digits(ttl)) end
return 0
