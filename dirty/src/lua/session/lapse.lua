#!lua flags=allow-oom
-- Declares a holder gone, in steps. Its sessions lapse, and any process may take their owners.
-- The caller marks the holder's beat, lists the sessions, lets the found ones lapse, and takes the beat away.
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
-- ARGV[4] mark of this caller, which no other caller uses
-- ARGV[5] step: "mark", "lapse" or "end"
-- ARGV[6..] with "lapse": name in the maps of each owner
-- Reply: number of lapsed sessions, or -1 if the holder is not gone.
-- Invariant: a holder that has beaten since keeps its sessions, and a holder with a session has a
--   beat (S5). A session that begins or goes on after the mark takes the mark away, so the beat stays and the holder is
--   missed again. A lapsed session keeps its fence, and goes on if no other process took or changed
--   the owner meanwhile (S6). An owner that a map names keeps its hash (R2). The call fails under
--   another incarnation than the recorded one, since its beats and sessions may be older.
expect(#KEYS >= 11 and #ARGV >= 5 and #KEYS - 11 == #ARGV - 5)
present(KEYS[11])
local ttl, step = number(ARGV[3], 'the time to live'), ARGV[5]
local beat = call('HGET', KEYS[1], ARGV[1])
if (beat and beat_of(beat) or '0') ~= ARGV[2] then return -1 end
expect_hashes(1, 10)
local marked = table.concat({ ARGV[2], ' ', ARGV[4] })
if step == 'mark' then
  call('HSET', KEYS[1], ARGV[1], marked)
  return 0
elseif step == 'end' then
  if beat == marked then call('HDEL', KEYS[1], ARGV[1]) end
  return 0
end
local sessions, lapsed = {}, 0
for i = 6, #ARGV do sessions[i] = session_of(call('HGET', KEYS[8], ARGV[i])) end
for i = 6, #ARGV do
  local session = sessions[i]
  if session and session.holder == ARGV[1] then
    lapsed = lapsed + 1
    local keeps = is_named(3, ARGV[i])
    call('HSET', KEYS[9], ARGV[i], session_text(session.version, session.token, '0', session.holder, '-', session.name))
    call('HDEL', KEYS[8], ARGV[i])
    call('HDEL', KEYS[10], ARGV[i])
    if keeps then
    elseif call('HDEL', KEYS[2], ARGV[i]) == 1 then
      call('UNLINK', KEYS[6 + i])
    else
      call('PEXPIRE', KEYS[6 + i], digits(ttl))
    end
  end
end
return lapsed
