#!lua flags=allow-oom
-- Raises a holder's beat, so that nobody takes it for gone; answers the beats of all holders and who asks this one for owners.
-- KEYS[1] partition record
-- KEYS[2] beats
-- KEYS[3] owners that are asked for
-- ARGV[1] holder
-- ARGV[2] beat
-- Reply: {epoch, 1 if its grace has ended, else 0, {holder, beat, ...}, {owner's name, who asks, ...}}.
-- Invariant: refused under another incarnation than the recorded one, whose sessions may be older.
expect(#KEYS == 3 and #ARGV == 2)
local r = present(KEYS[1])
number(ARGV[2], 'the beat')
expect_hashes(2, 3)
call('HSET', KEYS[2], ARGV[1], ARGV[2])
local asked, all = {}, call('HGETALL', KEYS[3])
for i = 1, #all, 2 do
  local holder, by = string.match(all[i + 1], '^(%x+) (%S+)$')
  if holder == ARGV[1] then
    asked[#asked + 1] = all[i]
    asked[#asked + 1] = by
  end
end
return { r.epoch, is_graced(KEYS[1], r) and '1' or '0', call('HGETALL', KEYS[2]), asked }
