#!lua flags=allow-oom
-- Forgets lapsed sessions that nobody took. A holder that comes back has lost its session.
-- KEYS[1] partition record
-- KEYS[2] lapsed sessions
-- ARGV[1..] of each session the owner's name in the maps, version and token of the fence
-- Reply: number of forgotten sessions.
-- Invariant: a session that goes on, or that has replaced a lapsed one, stays.
expect(#KEYS == 2 and #ARGV >= 3 and #ARGV % 3 == 0)
present(KEYS[1])
expect_hashes(2, 2)
local forgotten = {}
for i = 1, #ARGV, 3 do
  local session = session_of(call('HGET', KEYS[2], ARGV[i]))
  if session and is_of(session, ARGV[i + 1], ARGV[i + 2]) then forgotten[#forgotten + 1] = ARGV[i] end
end
for _, name in ipairs(forgotten) do call('HDEL', KEYS[2], name) end
return #forgotten
