#!lua flags=allow-oom
-- Says how far the probation of a partition's landed marks is, and lets the next window begin.
-- KEYS[1] marks on probation
-- KEYS[2] marks whose probation ends
-- KEYS[3] partition record
-- KEYS[4] lock
-- ARGV[1] token and holder
-- ARGV[2] how long a probation lasts at least, microseconds
-- Reply: {"empty"}, {"waits"}, {"lost"} after a change of the epoch, or {"ended", epoch, time at which the window ended}.
-- Invariant: the marks of a window that has ended were all settled so long ago, in this epoch; one is never overwritten (R4).
expect(#KEYS == 4 and #ARGV == 2)
local r = present(KEYS[3])
held(KEYS[4], ARGV[1])
local period, now = number(ARGV[2], 'the probation'), time()
local at = call('HMGET', KEYS[3], 'relive', 'landed_at', 'leaving_at')
if at[1] then return { 'lost' } end
local ending, ended_at = call('EXISTS', KEYS[2]) == 1, at[3]
if not ending then
  if call('EXISTS', KEYS[1]) == 0 then return { 'empty' } end
  if now - number(at[2] or '0', 'the begin of the window') < period then return { 'waits' } end
  call('RENAME', KEYS[1], KEYS[2])
  call('HDEL', KEYS[3], 'landed_at')
end
if not ending or not ended_at then
  ended_at = digits(now)
  call('HSET', KEYS[3], 'leaving_at', ended_at)
end
if now - number(ended_at, 'the end of the window') < period then return { 'waits' } end
return { 'ended', r.epoch, ended_at }
