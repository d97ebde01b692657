#!lua flags=allow-oom
-- Takes a lock that nobody else holds.
-- The holder itself prolongs it, since the answer to its first request may have been lost.
-- KEYS[1] lock
-- ARGV[1] token and holder
-- ARGV[2] time to live, milliseconds
-- Reply: 1 if the caller holds the lock now, 0 if another holder does.
-- Invariant: a lock has one holder. It runs out at the latest one time to live after the last
--   attempt to take it. The key itself has no time to live. A full server evicts keys that have
--   one, and then no worker could land (R13).
expect(#KEYS == 1 and #ARGV == 2)
local last = time() + number(ARGV[2], 'the time to live') * 1000
local holder, ends = holder_of(KEYS[1])
if not holder or holder == ARGV[1] then
  hold(KEYS[1], ARGV[1], last)
  return 1
end
-- If the clock was set back, the lock of a dead holder would last longer by as much (H8).
if ends > last then hold(KEYS[1], holder, last) end
return 0
