#!lua flags=allow-oom
-- Clears marks whose rows were committed, and error marks of committed fields; or puts them on probation.
-- KEYS[1] snapshot
-- KEYS[2] error map
-- KEYS[3] partition record
-- KEYS[4] lock
-- KEYS[5] marks on probation
-- KEYS[6..] owner hashes
-- ARGV[1] token and holder; empty if only error marks are cleared
-- ARGV[2] epoch
-- ARGV[3] how far the commit reaches
-- ARGV[4] time to live of landed data, milliseconds
-- ARGV[5] 1 if marks go on probation, 0 if not
-- ARGV[6] number of marks
-- ARGV[7..] name, version and number of the owner (1 is KEYS[6]; 0 none) of each mark, then of each error mark of a committed row;
--   versions as the map keeps them
-- Reply: {marks cleared, error marks cleared}.
-- Invariant: a mark is cleared only if it still has the version that it had when it was read (R5); owners' counts follow (H12); a mark
--   that goes on probation is in one map or the other, and keeps its owner (H33).
expect(#KEYS >= 5 and #ARGV >= 6)
local landed, ttl = number(ARGV[3], 'landed'), number(ARGV[4], 'the time to live')
local count = number(ARGV[6], 'the number of marks')
expect(#ARGV >= 6 + 3 * count and (#ARGV - 6) % 3 == 0 and (count == 0 or ARGV[1] ~= ''))
local r = in_epoch(KEYS[3], ARGV[2])
if ARGV[1] ~= '' then held(KEYS[4], ARGV[1]) end

local owners = counts(6)
local on_probation = ARGV[5] == '1'
local last = 6 + 3 * count
local kept = keeper(KEYS[5], on_probation and arguments(7), owners)
local function settled(name, version, owner)
  if not owner then expect(false) end
  if on_probation then kept.put(name, owner, version) else owners.add(owner, -1, version) end
end

local function landed_marks()
  local told, names, found, done, n = ARGV, {}, {}, {}, 0
  for i = 1, count do names[i] = told[4 + 3 * i] end
  local stored = hmget(KEYS[1], names)
  for i = 1, count do
    local name, there, wanted = names[i], stored[i], told[5 + 3 * i]
    -- Mostly the two are the same text, and only one needs reading.
    if there and not done[name] and (there == wanted or mark_version(there) == mark_version(wanted)) then
      n, done[name] = n + 1, true
      found[n] = name
      settled(name, mark_version(there), tonumber(told[6 + 3 * i]))
    end
  end
  return found
end
local function landed_errors()
  local names, found, done = {}, {}, {}
  for at = last + 1, #ARGV, 3 do names[#names + 1] = ARGV[at] end
  local stored = hmget(KEYS[2], names)
  for i, name in ipairs(names) do
    local there, at = stored[i], last + 3 * i
    if there and not done[name] and error_version(there) <= error_version(ARGV[at - 1]) then
      done[name] = true
      found[#found + 1] = name
      settled(name, error_version(there), tonumber(ARGV[at]))
    end
  end
  return found
end
local marks = landed_marks()
local errors = call('EXISTS', KEYS[2]) == 1 and landed_errors() or {}

-- ORDER: onto probation before out of the maps, so that a mark is always in one of them.
kept.write()
each_chunk('HDEL', KEYS[1], marks)
each_chunk('HDEL', KEYS[2], errors)
owners.write(ttl)
if #marks > 0 then end_of_snapshot(KEYS[1], KEYS[3]) end
raise_landed(KEYS[3], r, landed)
return { #marks, #errors }
