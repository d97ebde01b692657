#!lua flags=allow-oom
-- Makes marks on probation live again after a change of the epoch.
-- The database may have lost the rows of these marks.
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
-- Invariant: a mark is always in one of the maps. It joins the mark of its name in the dirty map,
--   if there is one.
expect(#KEYS == 7 and #ARGV >= 1)
local r = present(KEYS[PART])
held(KEYS[LOCK], ARGV[1])
if not call('HGET', KEYS[PART], 'requeue') then return 0 end

local live, gone, done = adder(KEYS[DIRTY]), {}, {}
for i = 2, #ARGV do
  local name = ARGV[i]
  local landed, expiring = call('HGET', KEYS[LANDED], name), call('HGET', KEYS[EXPIRING], name)
  if not done[name] and (landed or expiring) then
    done[name] = true
    gone[#gone + 1] = name
    if landed then live.put(name, landed) end
    if expiring then live.put(name, expiring) end
  end
end

-- ORDER: marks go into the dirty map before they leave the others. So a mark is always in one of
-- them.
if live.write() and not r.first then call('HSET', KEYS[PART], 'first', digits(time())) end
local linked = call('HGET', KEYS[PART], 'linked_saving')
if linked then call('HSET', KEYS[PART], 'linked', linked) end
each_chunk('HDEL', KEYS[LANDED], gone)
each_chunk('HDEL', KEYS[EXPIRING], gone)
if call('EXISTS', KEYS[LANDED], KEYS[EXPIRING]) == 0 then call('HDEL', KEYS[PART], 'requeue') end
return #gone
