#!lua flags=allow-oom
-- Raises a holder's beat, which shows that it is alive.
-- The caller reads the beats of all holders by HGETALL before this call, since a script needs 20 times as long for them.
-- KEYS[1] partition record
-- KEYS[2] beats
-- ARGV[1] holder. Empty if no beat is raised.
-- ARGV[2] beat. It changes nothing unless it is greater than the holder's last one.
-- Reply: {epoch, 1 if its grace has ended (else 0), time of its adoption in microseconds}.
-- Invariant: a late copy of an earlier beat does not make a holder look silent (S5). The call fails
--   under another incarnation than the recorded one, since its sessions may be older.
expect(#KEYS == 2 and #ARGV == 2)
local r = present(KEYS[1])
local beat = number(ARGV[2], 'the beat')
expect_hashes(2, 2)
if ARGV[1] ~= '' then
  local last = call('HGET', KEYS[2], ARGV[1])
  if not last or number(beat_of(last), 'the last beat') < beat then call('HSET', KEYS[2], ARGV[1], ARGV[2]) end
end
local adopted = call('HGET', KEYS[1], 'adopted') or '0'
return { r.epoch, is_graced(KEYS[1], r) and '1' or '0', adopted }
