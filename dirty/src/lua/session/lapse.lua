#!lua flags=allow-oom
-- Declares a holder gone. Its sessions lapse, and any process may take their owners.
-- KEYS[1] beats
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
-- KEYS[12..] hash of each owner
-- ARGV[1] holder
-- ARGV[2] its last known beat, or 0 if it had none
-- ARGV[3] time to live of landed data, milliseconds
-- ARGV[4] 1 if these are the last of its owners, so that its beat goes unless it holds others by now,
--   else 0
-- ARGV[5..] name in the maps of each owner
-- Reply: number of lapsed sessions, or -1 if the holder is not gone.
-- Invariant: a holder that has beaten since keeps its sessions (S5). A lapsed session keeps its
--   fence, and goes on if no other process took or changed the owner meanwhile (S6). An owner that
--   a map names keeps its hash (R2). The call fails under another incarnation than the recorded
--   one, since its beats and sessions may be older.
expect(#KEYS >= 11 and #ARGV >= 4 and #KEYS - 11 == #ARGV - 4)
present(KEYS[11])
local ttl = number(ARGV[3], 'the time to live')
if (call('HGET', KEYS[1], ARGV[1]) or '0') ~= ARGV[2] then return -1 end
expect_hashes(1, 10)
local sessions, lapsed = {}, 0
for i = 5, #ARGV do sessions[i] = session_of(call('HGET', KEYS[8], ARGV[i])) end
for i = 5, #ARGV do
  local session = sessions[i]
  if session and session.holder == ARGV[1] then
    lapsed = lapsed + 1
    local keeps = is_named(3, ARGV[i])
    call('HSET', KEYS[9], ARGV[i], session_text(session.version, session.token, '0', session.holder, '-', session.name))
    call('HDEL', KEYS[8], ARGV[i])
    call('HDEL', KEYS[10], ARGV[i])
    if keeps then
    elseif call('HDEL', KEYS[2], ARGV[i]) == 1 then
      call('UNLINK', KEYS[7 + i])
    else
      call('PEXPIRE', KEYS[7 + i], digits(ttl))
    end
  end
end
-- A save or a claim can have confirmed a session since the caller listed them. The holder keeps its
-- beat then, so that it is missed again.
local function holds_any()
  local all = call('HGETALL', KEYS[8])
  for i = 2, #all, 2 do
    if session_of(all[i]).holder == ARGV[1] then return true end
  end
  return false
end
if ARGV[4] == '1' and not holds_any() then call('HDEL', KEYS[1], ARGV[1]) end
return lapsed
