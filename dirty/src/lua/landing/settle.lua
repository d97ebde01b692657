#!lua flags=allow-oom
-- Clears marks of committed rows and error marks of committed fields, or puts them on probation.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- KEYS[7] lock
-- KEYS[8] owners to evict
-- KEYS[9] sessions
-- KEYS[10] links of the snapshot
-- KEYS[11..] hash of the owner of each mark, then of each row
-- ARGV[1] token and holder. Empty if only error marks are cleared.
-- ARGV[2] epoch
-- ARGV[3] number of the snapshot that the marks were read from
-- ARGV[4] how far the commit reaches
-- ARGV[5] time to live of landed data, milliseconds
-- ARGV[6] 1 if marks go on probation, else 0
-- ARGV[7] number of marks
-- ARGV[8..] name of each mark. Then of each committed row the owner's name, field, version, and the
--   version below which error marks stay.
-- Reply: {marks cleared, error marks cleared}.
-- Invariant: no mark is added to a snapshot, and marks are cleared only under its number (R5). An
--   owner that a map names keeps its hash (R2). Marks without a hash stay (R6). A mark that goes on
--   probation is always in a map (H33).
expect(#KEYS >= OWNERS and #ARGV >= 7)
local landed, ttl = number(ARGV[4], 'landed'), number(ARGV[5], 'the time to live')
local count = number(ARGV[7], 'the number of marks')
local rows = (#ARGV - 7 - count) / 4
expect(rows >= 0 and rows == math.floor(rows) and #KEYS == OWNERS + count + rows and (count == 0 or ARGV[1] ~= ''))
local r = in_epoch(KEYS[PART], ARGV[2])
if ARGV[1] ~= '' then held(KEYS[LOCK], ARGV[1]) end

local owners, kept = releaser(), ARGV[6] == '1' and adder(KEYS[LANDED]) or nil

-- Which hashes of marks and rows somebody has deleted. Their marks stay until they are told: a load
-- under way may bring rows from before the commit, which land over it (R6).
local function gone_hashes()
  local gone = {}
  for from = 1, count + rows, CHUNK do
    local to = math.min(from + CHUNK - 1, count + rows)
    if call('EXISTS', unpack(KEYS, OWNERS + from, OWNERS + to)) <= to - from then
      for i = from, to do
        local hash = KEYS[OWNERS + i]
        gone[i] = hash ~= KEYS[EVICT] and call('EXISTS', hash) == 0
      end
    end
  end
  return gone
end
local gone = gone_hashes()

local function names_of_marks()
  local names = {}
  if count == 0 or not is_snapshot(ARGV[3]) then return names end
  for i = 1, count do
    if not gone[i] then names[#names + 1] = ARGV[7 + i] end
  end
  if not kept then return names end
  local there = {}
  for i, text in ipairs(hmget(KEYS[SNAPSHOT], names)) do
    if text then
      there[#there + 1] = names[i]
      kept.put(names[i], whole_mark(names[i], text))
    end
  end
  return there
end

-- Drops the error marks that the rows clear. Returns their number, and the owners' new entries.
local function landed_errors()
  local entries, order, cleared = {}, {}, 0
  if rows == 0 or call('EXISTS', KEYS[ERRORS]) == 0 then return 0, {}, {} end
  for i = 1, rows do
    local at = 4 + count + 4 * i
    local name, field, version, from = ARGV[at], ARGV[at + 1], number(ARGV[at + 2], 'a row'), number(ARGV[at + 3], 'a birth')
    local entry = entries[name]
    if not entry then
      entry = {}
      entry.fields, entry.order = error_lines(call('HGET', KEYS[ERRORS], name))
      entries[name] = entry
      order[#order + 1] = name
    end
    local line = entry.fields[field]
    -- A hash that was made anew can have rows that no write has changed. They prove nothing about a
    -- write that went with the hash before (R6).
    local born = line and tonumber(call('HGET', KEYS[OWNERS + count + i], ':b') or '0')
    if line and error_version(line) <= version and error_version(line) >= math.max(from, born) and not gone[count + i] then
      entry.fields[field] = nil
      entry.changed, cleared = true, cleared + 1
      owners.add(name, KEYS[OWNERS + count + i])
      if kept then kept.put(name, table.concat({ mark_text(error_version(line)), field, partners_of(entry) })) end
    end
  end
  local puts, drops = {}, {}
  for _, name in ipairs(order) do
    local entry = entries[name]
    local text = entry.changed and (has_fields(entry) and lines_text(entry.fields, entry.order) or '')
    if text == '' then
      drops[#drops + 1] = name
    elseif text then
      puts[#puts + 1], puts[#puts + 2] = name, text
    end
  end
  return cleared, puts, drops
end
local marks = names_of_marks()
local errors, puts, drops = landed_errors()

-- ORDER: marks go on probation before they leave the maps. So a mark is always in one of them.
if kept then kept.write() end
local cleared = 0
for from = 1, #marks, CHUNK do
  cleared = cleared + call('HDEL', KEYS[SNAPSHOT], unpack(marks, from, math.min(from + CHUNK - 1, #marks)))
end
each_chunk('HSET', KEYS[ERRORS], puts)
each_chunk('HDEL', KEYS[ERRORS], drops)
-- The owners of all marks. If a mark was gone already, another map names its owner, or the hash may
-- expire.
if #marks > 0 then
  for i = 1, count do
    if not gone[i] then owners.add(ARGV[7 + i], KEYS[OWNERS + i]) end
  end
end
-- Cleared marks are gone from the snapshot. But the snapshot may name an owner that lost an error
-- mark.
owners.write(ttl, { DIRTY, ERRORS, LANDED, EXPIRING, SESSIONS, errors > 0 and SNAPSHOT or nil })
if cleared > 0 then end_of_snapshot() end
raise_landed(KEYS[PART], r, landed)
return { cleared, errors }
