#!lua flags=allow-oom
-- Moves snapshot entries to the error map, and counts attempts.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- KEYS[7] lock
-- KEYS[8] owners to be evicted
-- KEYS[9] sessions
-- KEYS[10..] hash of the owner of each entry
-- ARGV[1] token and holder
-- ARGV[2] epoch
-- ARGV[3] number of the snapshot that the entries were read from
-- ARGV[4] first delay before another attempt, microseconds
-- ARGV[5] longest delay, microseconds
-- ARGV[6] time to live of landed data, milliseconds
-- ARGV[7..] of each entry: 0 if it does not come from the snapshot, 1 if it does, 2 if it also goes on probation, since other fields
--   of it have landed; its name there; its name in the error map; number of faults; then of each fault: field, version, code and message
-- Reply: for each entry 1 if it is in the error map now, 0 if it was landed or parked meanwhile by another worker, or before.
-- Invariant: an entry is in the snapshot or in the error map, never in none; the greater version of a field stays; what landed of it
--   stays on probation (H33).
expect(#KEYS >= 9 and #ARGV >= 6)
local retry_min, retry_max = number(ARGV[4], 'the delay'), number(ARGV[5], 'the delay')
local ttl = number(ARGV[6], 'the time to live')
in_epoch(KEYS[PART], ARGV[2])
held(KEYS[LOCK], ARGV[1])
local now, is_there = time(), is_snapshot(ARGV[3])

local entries = {}
local at = 7
while at <= #ARGV do
  expect(#ARGV >= at + 3)
  local faults = number(ARGV[at + 3], 'the number of faults')
  local entry = { moves = ARGV[at] ~= '0', stays = ARGV[at] == '2', raw = ARGV[at + 1], name = ARGV[at + 2], from = at + 4, to = at + 3 + 4 * faults }
  expect(#ARGV >= entry.to)
  entries[#entries + 1] = entry
  entry.hash = KEYS[OWNERS + #entries]
  at = entry.to + 1
end
expect(#KEYS == 9 + #entries)

local kept, owners, cleared, parked, order = adder(KEYS[LANDED]), releaser(), {}, {}, {}
local function errors_of(name)
  if not parked[name] then
    parked[name] = {}
    parked[name].fields, parked[name].order = error_lines(call('HGET', KEYS[ERRORS], name))
    order[#order + 1] = name
  end
  return parked[name]
end
local function park(name, field, version, code, message, again)
  local errors = errors_of(name)
  local old = errors.fields[field]
  local old_version, attempts, first, reason = string.match(old or '', '^(%d+) (%d+) (%d+) %d+ %d+ (.*)$')
  local stays = old_version and error_version(old_version) > version -- the greater version, with its reason
  -- What was tried again and is gone from the error map, though another may be there, was landed meanwhile, or was lost with another
  -- server: a mark made anew would name a hash that may have a time to live.
  if again and (not old or stays) then return 0 end
  attempts = (tonumber(attempts) or 0) + 1
  local delay = math.min(retry_max, retry_min * 2 ^ math.min(attempts - 1, 40))
  if not old then errors.order[#errors.order + 1] = field end
  errors.fields[field] = table.concat({
    stays and old_version or digits(version), digits(attempts), first or digits(now), digits(now),
    digits(now + delay), stays and reason or table.concat({ code, message }, ' '),
  }, ' ')
  return 1
end
local answers = {}
for i, entry in ipairs(entries) do
  local stored = entry.moves and is_there and not cleared[entry.raw] and call('HGET', KEYS[SNAPSHOT], entry.raw)
  if stored then
    cleared[entry.raw] = true
    if entry.stays then kept.put(entry.raw, stored) end
    owners.add(entry.name, KEYS[OWNERS + i])
  end
  answers[i] = 0
  -- An entry that is gone from the snapshot was landed or parked by another worker, or the scan brought it twice.
  if stored or not entry.moves then
    for fault = entry.from, entry.to, 4 do
      local version, again = number(ARGV[fault + 1], 'a fault'), not entry.moves
      answers[i] = math.max(answers[i], park(entry.name, ARGV[fault], version, ARGV[fault + 2], ARGV[fault + 3], again))
    end
  end
end

-- ORDER: onto probation and into the error map before out of the snapshot, so that a mark is always in one of them.
kept.write()
local puts, names = {}, {}
for _, name in ipairs(order) do
  local text = lines_text(parked[name].fields, parked[name].order)
  if text ~= '' then puts[#puts + 1], puts[#puts + 2] = name, text end
end
for name in pairs(cleared) do names[#names + 1] = name end
each_chunk('HSET', KEYS[ERRORS], puts)
each_chunk('HDEL', KEYS[SNAPSHOT], names)
-- Of a mark that was put aside: its owner has another hash by now, which may have landed.
for i, entry in ipairs(entries) do
  if answers[i] == 1 and entry.hash ~= KEYS[EVICT] then call('PERSIST', entry.hash) end
end
owners.write(ttl, { DIRTY, SNAPSHOT, ERRORS, LANDED, LEAVING, SESSIONS })
if #names > 0 then end_of_snapshot() end
return answers
