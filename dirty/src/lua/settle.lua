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
-- Invariant: a mark is cleared only if it still has the version that landed (R5); owners' counts follow (H12); a mark that goes on
--   probation is in one map or the other, and keeps its owner (H33).
expect(#KEYS >= 5 and #ARGV >= 6 and (#ARGV - 6) % 3 == 0)
local landed, ttl, count = number(ARGV[3], 'landed'), number(ARGV[4], 'the time to live'), number(ARGV[6], 'the number of marks')
expect(#ARGV >= 6 + 3 * count and (count == 0 or ARGV[1] ~= ''))
local r = in_epoch(KEYS[3], ARGV[2])
if ARGV[1] ~= '' then held(KEYS[4], ARGV[1]) end

local owners = counts(6)
local kept = keeper(KEYS[5], ARGV[5] == '1' and arguments(7), owners)
local function chosen(map, from, to, version_of, wanted)
  local arguments, on_probation, names, found, done = ARGV, ARGV[5] == '1', {}, {}, {}
  for at = from, to, 3 do names[#names + 1] = arguments[at] end
  local stored, at = hmget(map, names), from
  for i, name in ipairs(names) do
    local there, told, owner = stored[i], arguments[at + 1], tonumber(arguments[at + 2])
    local asked = version_of(told)
    if not owner then expect(false) end
    -- Mostly the two are the same text, and need no reading.
    local version = there and (there == told and asked or version_of(there))
    if version and not done[name] and wanted(version, asked) then
      done[name] = true
      found[#found + 1] = name
      if on_probation then
        kept.put(name, owner, version)
      else
        owners.add(owner, -1, version)
      end
    end
    at = at + 3
  end
  return found
end
local last = 6 + 3 * count
local marks = chosen(KEYS[1], 7, last, mark_version, function(stored, version) return stored == version end)
local errors = {}
if call('EXISTS', KEYS[2]) == 1 then
  errors = chosen(KEYS[2], last + 1, #ARGV, error_version, function(stored, version) return stored <= version end)
end

-- ORDER: onto probation before out of the maps, so that a mark is always in one of them.
kept.write()
each_chunk('HDEL', KEYS[1], marks)
each_chunk('HDEL', KEYS[2], errors)
owners.write(ttl)
if #marks > 0 then end_of_snapshot(KEYS[1], KEYS[3]) end
raise_landed(KEYS[3], r, landed)
return { #marks, #errors }
