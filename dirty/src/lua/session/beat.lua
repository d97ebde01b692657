#!lua flags=allow-oom
-- Raises a holder's beat, so that nobody takes it for gone, and answers the beats of all holders.
-- KEYS[1] partition record
-- KEYS[2] beats
-- ARGV[1] holder; empty if no beat is raised
-- ARGV[2] beat; one that is not greater than the holder's last changes nothing
-- Reply: {epoch, 1 if its grace has ended, else 0, {holder, beat, ...}}.
-- Invariant: a copy of an earlier beat, which comes late, does not make a holder look silent (S5). Refused under another incarnation
--   than the recorded one, whose sessions may be older.
expect(#KEYS == 2 and #ARGV == 2)
local r = present(KEYS[1])
local beat = number(ARGV[2], 'the beat')
expect_hashes(2, 2)
if ARGV[1] ~= '' then
  local last = call('HGET', KEYS[2], ARGV[1])
  if not last or number(last, 'the last beat') < beat then call('HSET', KEYS[2], ARGV[1], ARGV[2]) end
end
return { r.epoch, is_graced(KEYS[1], r) and '1' or '0', call('HGETALL', KEYS[2]) }
