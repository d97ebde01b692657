#!lua flags=allow-oom
-- Raises a holder's beat, so that nobody takes it for gone, and answers the beats of all holders.
-- KEYS[1] partition record
-- KEYS[2] beats
-- ARGV[1] holder; empty if no beat is raised
-- ARGV[2] beat
-- Reply: {epoch, 1 if its grace has ended, else 0, {holder, beat, ...}}.
-- Invariant: refused under another incarnation than the recorded one, whose sessions may be older.
expect(#KEYS == 2 and #ARGV == 2)
local r = present(KEYS[1])
number(ARGV[2], 'the beat')
expect_hashes(2, 2)
if ARGV[1] ~= '' then call('HSET', KEYS[2], ARGV[1], ARGV[2]) end
return { r.epoch, is_graced(KEYS[1], r) and '1' or '0', call('HGETALL', KEYS[2]) }
