#!lua flags=allow-oom
-- Takes a lock that nobody else holds; who holds it already prolongs it, since the answer to the first request may have been lost.
-- KEYS[1] lock
-- ARGV[1] token and holder
-- ARGV[2] time to live, milliseconds
-- Reply: 1 if it did, 0 if somebody else holds it.
-- Invariant: a lock has one holder and runs out, a time to live after the last try to take it at the latest. The key itself has no
-- time to live: a full server evicts keys that have one, and then nobody could land (R13).
expect(#KEYS == 1 and #ARGV == 2)
local last = time() + number(ARGV[2], 'the time to live') * 1000
local holder, ends = holder_of(KEYS[1])
if not holder or holder == ARGV[1] then
  hold(KEYS[1], ARGV[1], last)
  return 1
end
-- A clock that was set back would let the lock of somebody who died last for as long (H8).
if ends > last then hold(KEYS[1], holder, last) end
return 0
