#!lua flags=allow-oom
-- Makes marks on probation live again, after a change of the epoch: the database may have lost what they landed.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- KEYS[7] lock
-- ARGV[1] token and holder
-- ARGV[2..] name of each mark
-- Reply: number of marks that became live.
-- Invariant: a mark is in one of the maps, never in none; where the dirty map has one of its name, the two become one.
expect(#KEYS == 7 and #ARGV >= 1)
local r = present(KEYS[PART])
held(KEYS[LOCK], ARGV[1])
if not call('HGET', KEYS[PART], 'relive') then return 0 end

local live, gone, done = adder(KEYS[DIRTY]), {}, {}
for i = 2, #ARGV do
  local name = ARGV[i]
  local landed, leaving = call('HGET', KEYS[LANDED], name), call('HGET', KEYS[LEAVING], name)
  if not done[name] and (landed or leaving) then
    done[name] = true
    gone[#gone + 1] = name
    if landed then live.put(name, landed) end
    if leaving then live.put(name, leaving) end
  end
end

-- ORDER: into the dirty map before out of the others, so that a mark is always in one of them.
if live.write() and not r.first then call('HSET', KEYS[PART], 'first', digits(time())) end
each_chunk('HDEL', KEYS[LANDED], gone)
each_chunk('HDEL', KEYS[LEAVING], gone)
if call('EXISTS', KEYS[LANDED], KEYS[LEAVING]) == 0 then call('HDEL', KEYS[PART], 'relive') end
return #gone
