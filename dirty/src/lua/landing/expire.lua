#!lua flags=allow-oom
-- Ends the probation of marks, since the database is still the one that they landed in.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- KEYS[7] lock
-- KEYS[8] owners to evict
-- KEYS[9] sessions
-- KEYS[10] links of the snapshot
-- KEYS[11..] hash of the owner of each mark
-- ARGV[1] token and holder
-- ARGV[2] epoch in which the caller checked the database
-- ARGV[3] number of the window
-- ARGV[4] time to live of landed data, milliseconds
-- ARGV[5..] name of each mark
-- Reply: number of marks that ended their probation.
-- Invariant: the call fails in another epoch, and marks of another window stay (H33). An owner that
--   a map names keeps its hash (R2).
expect(#KEYS >= OWNERS and #ARGV >= 4 and #KEYS - OWNERS == #ARGV - 4)
local ttl = number(ARGV[4], 'the time to live')
in_epoch(KEYS[PART], ARGV[2])
held(KEYS[LOCK], ARGV[1])
local at = call('HMGET', KEYS[PART], 'requeue', 'window')
if at[1] or (at[2] or '0') ~= ARGV[3] then return 0 end

local owners, gone = releaser(), 0
for i = 5, #ARGV do
  if call('HDEL', KEYS[EXPIRING], ARGV[i]) == 1 then
    gone = gone + 1
    owners.add(ARGV[i], KEYS[OWNERS + i - 4])
  end
end
owners.write(ttl, { DIRTY, SNAPSHOT, ERRORS, LANDED, SESSIONS })
return gone
