#!lua flags=allow-oom
-- Takes the right to load an owner, if nobody has it (R12).
-- KEYS[1] lease
-- ARGV[1] time to live, milliseconds
-- Reply: 1 if it did, 0 if somebody has it.
-- Invariant: a lease is given once and runs out, a time to live after the last try to take it at the latest. That a full server may
-- evict it costs no more than another load.
expect(#KEYS == 1 and #ARGV == 1)
local ttl = number(ARGV[1], 'the time to live')
if not call('GET', KEYS[1]) then
  call('SET', KEYS[1], '', 'PX', digits(ttl))
  return 1
end
-- A clock that was set back would let the lease of somebody who died last for as long (H8).
if call('PTTL', KEYS[1]) > ttl then call('PEXPIRE', KEYS[1], digits(ttl)) end
return 0
