#!lua flags=allow-oom
-- Clears marks whose rows were committed, and error marks of committed fields; or puts them on probation. A mark that may stand for a
-- later write without a script goes back to the dirty map, and so does the only one of an owner that is changed so again and again.
-- KEYS[1] snapshot
-- KEYS[2] error map
-- KEYS[3] partition record
-- KEYS[4] lock
-- KEYS[5] marks on probation
-- KEYS[6] dirty map
-- KEYS[7..] owner hashes
-- ARGV[1] token and holder; empty if only error marks are cleared
-- ARGV[2] epoch
-- ARGV[3] how far the commit reaches
-- ARGV[4] when the owners were read, microseconds since 1970
-- ARGV[5] time to live of landed data, milliseconds
-- ARGV[6] 1 if marks go on probation, 0 if not
-- ARGV[7] number of marks
-- ARGV[8..] name, version and number of the owner (1 is KEYS[7]; 0 none) of each mark, then of each error mark of a committed row;
--   versions as the map keeps them; then of each mark the version at which its owner was read, and how the map keeps it if it stays though
--   it has landed, empty if that version is the mark's own
-- Reply: {marks cleared, error marks cleared}; marks that were put back do not count.
-- Invariant: a mark is cleared only if it still has the version that it had when it was read (R5); owners' counts follow (H12); a mark
--   that goes on probation is in one map or the other, and keeps its owner (H33); a writer that needs a mark which goes is told (R17).
expect(#KEYS >= 6 and #ARGV >= 7)
local landed, collected = number(ARGV[3], 'landed'), number(ARGV[4], 'the time of reading')
local ttl, count = number(ARGV[5], 'the time to live'), number(ARGV[7], 'the number of marks')
expect(#ARGV >= 7 + 5 * count and (#ARGV - 7 - 2 * count) % 3 == 0 and (count == 0 or ARGV[1] ~= ''))
local r = in_epoch(KEYS[3], ARGV[2])
if ARGV[1] ~= '' then held(KEYS[4], ARGV[1]) end

local owners = counts(7, r.generation)
local on_probation = ARGV[6] == '1'
local last, reads = 7 + 3 * count, #ARGV - 2 * count
local kept = keeper(KEYS[5], on_probation and arguments(8, reads), owners)
local back = returner(KEYS[6], owners, r.first)
local cleared = 0
local function settled(name, version, owner)
  if not owner then expect(false) end
  if on_probation then kept.put(name, owner, version) else owners.add(owner, -1, version) end
end

-- A mark whose rows were committed as its owner was at version `read`.
local function landed_mark(name, version, owner, read, landed_text)
  if not owner then expect(false) end
  if owners.is_behind(owner, version, read) then
    if not owners.has_one(owner, version) then owners.let_go(owner, version) end
    return back.put(name, owner, version)
  end
  -- Where a database may forget what has landed, nothing stays as landed.
  if landed_text ~= '' and not on_probation and owners.is_only(owner, version) then return back.put_landed(name, landed_text) end
  owners.let_go(owner, version)
  cleared = cleared + 1
  settled(name, version, owner)
end

local function landed_marks()
  local told, names, found, done, n = ARGV, {}, {}, {}, 0
  for i = 1, count do names[i] = told[5 + 3 * i] end
  local stored = hmget(KEYS[1], names)
  for i = 1, count do
    local name, there, wanted = names[i], stored[i], told[6 + 3 * i]
    -- Mostly the two are the same text, and only one needs reading.
    if there and not done[name] and (there == wanted or mark_version(there) == mark_version(wanted)) then
      n, done[name] = n + 1, true
      found[n] = name
      landed_mark(name, mark_version(there), tonumber(told[7 + 3 * i]), told[reads + 2 * i - 1], told[reads + 2 * i])
    end
  end
  return found
end
local function landed_errors()
  local names, found, done = {}, {}, {}
  for at = last + 1, reads, 3 do names[#names + 1] = ARGV[at] end
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

-- ORDER: onto probation and back before out of the maps, so that a mark is always in one of them.
owners.tell()
kept.write()
back.write(KEYS[3], collected)
each_chunk('HDEL', KEYS[1], marks)
each_chunk('HDEL', KEYS[2], errors)
owners.write(ttl)
if #marks > 0 then end_of_snapshot(KEYS[1], KEYS[3]) end
raise_landed(KEYS[3], r, landed)
return { cleared, #errors }
