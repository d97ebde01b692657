#!lua flags=allow-oom
-- Makes marks on probation live again, after a change of the epoch: the database may have lost what they landed.
-- KEYS[1] marks on probation
-- KEYS[2] marks whose probation ends
-- KEYS[3] dirty map
-- KEYS[4] partition record
-- KEYS[5] lock
-- KEYS[6..] owner hashes
-- ARGV[1] token and holder
-- ARGV[2] time to live of landed data, milliseconds
-- ARGV[3..] name, version and number of the owner (1 is KEYS[6]; 0 none) of each mark
-- Reply: number of marks that became live.
-- Invariant: a mark is in one of the maps, never in none; the greater version stays; owners' counts follow (H12).
expect(#KEYS >= 5 and #ARGV >= 2 and (#ARGV - 2) % 3 == 0)
local ttl = number(ARGV[2], 'the time to live')
local r = present(KEYS[4])
held(KEYS[5], ARGV[1])
if not call('HGET', KEYS[4], 'relive') then return 0 end

local names, owners, gone = arguments(3), counts(6), {}
local live = keeper(KEYS[3], names, owners)
local landed, leaving = hmget(KEYS[1], names), hmget(KEYS[2], names)
local done = {}
for i, name in ipairs(names) do
  if not done[name] and (landed[i] or leaving[i]) then
    done[name] = true
    gone[#gone + 1] = name
    local owner = number(ARGV[2 + 3 * i], 'an owner')
    if landed[i] then live.put(name, owner, mark_version(landed[i])) end
    if leaving[i] then live.put(name, owner, mark_version(leaving[i])) end
  end
end

-- ORDER: into the dirty map before out of the others, so that a mark is always in one of them.
if live.write() and not r.first then call('HSET', KEYS[4], 'first', digits(time())) end
each_chunk('HDEL', KEYS[1], gone)
each_chunk('HDEL', KEYS[2], gone)
owners.write(ttl)
if call('EXISTS', KEYS[1], KEYS[2]) == 0 then call('HDEL', KEYS[4], 'relive') end
return #gone
