#!lua flags=allow-oom
-- Ends a session without a save.
-- KEYS[1] owner hash
-- KEYS[2] owners to evict
-- KEYS[3] dirty map
-- KEYS[4] snapshot
-- KEYS[5] error map
-- KEYS[6] marks on probation
-- KEYS[7] marks whose probation ends
-- KEYS[8] sessions
-- KEYS[9] lapsed sessions
-- KEYS[10] requests for held owners
-- KEYS[11] partition record
-- ARGV[1] the owner's name in the maps
-- ARGV[2] version of the fence
-- ARGV[3] token of the fence
-- ARGV[4] time to live of landed data, milliseconds
-- Reply: 1 if the session was there. 0 if the owner has another session or none, or if the grace of
--   the epoch has not ended.
-- Invariant: an owner that a map names keeps its hash (R2). The call fails under another
--   incarnation than the recorded one, since its sessions may be older.
expect(#KEYS == 11 and #ARGV == 4)
local r = present(KEYS[11])
-- The session may be the only trace of a steal that the hot tier has forgotten (S8).
if not is_graced(KEYS[11], r) then return 0 end
local ttl, found = number(ARGV[4], 'the time to live'), 0
for map = 8, 9 do
  local session = session_of(call('HGET', KEYS[map], ARGV[1]))
  if session and is_of(session, ARGV[2], ARGV[3]) then found = map end
end
if found == 0 then return 0 end
expect_hashes(2, 10)
local keeps = is_named(3, ARGV[1])
call('HDEL', KEYS[found], ARGV[1])
call('HDEL', KEYS[10], ARGV[1])
if not keeps then
  if call('HDEL', KEYS[2], ARGV[1]) == 1 then
    call('UNLINK', KEYS[1])
  else
    call('PEXPIRE', KEYS[1], digits(ttl))
  end
end
return 1
