#!lua flags=allow-oom
-- Moves snapshot entries to the error map, and counts attempts.
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
-- KEYS[11..] hash of the owner of each entry
-- ARGV[1] token and holder
-- ARGV[2] epoch
-- ARGV[3] number of the snapshot that the entries were read from
-- ARGV[4] first delay before a retry, microseconds
-- ARGV[5] longest delay, microseconds
-- ARGV[6] time to live of landed data, milliseconds
-- ARGV[7..] of each entry: its source, its name there, its name in the error map, number of faults,
--   number of partners that it loses. Then of each fault: field, version, code and message. Then the
--   name of each partner. The source is 1 for the snapshot and 0
--   for none. It is 2 if the entry also goes on probation, since other fields of it have landed.
-- Reply: for each entry 1 if it is in the error map now. 0 if another worker or an earlier call has
--   landed or moved it.
-- Invariant: an entry is always in the snapshot or in the error map. The greater version of a field
--   stays. Landed fields of an entry stay on probation (H33).
expect(#KEYS >= OWNERS and #ARGV >= 6)
local retry_min, retry_max = number(ARGV[4], 'the delay'), number(ARGV[5], 'the delay')
local ttl = number(ARGV[6], 'the time to live')
in_epoch(KEYS[PART], ARGV[2])
held(KEYS[LOCK], ARGV[1])
local now, is_there = time(), is_snapshot(ARGV[3])

local entries = {}
local at = 7
while at <= #ARGV do
  expect(#ARGV >= at + 4)
  local faults, leaves = number(ARGV[at + 3], 'the number of faults'), number(ARGV[at + 4], 'the number of partners')
  local entry = { moves = ARGV[at] ~= '0', stays = ARGV[at] == '2', raw = ARGV[at + 1], name = ARGV[at + 2], from = at + 5, to = at + 4 + 4 * faults }
  entry.last = entry.to + leaves
  expect(#ARGV >= entry.last)
  entries[#entries + 1] = entry
  entry.hash = KEYS[OWNERS + #entries]
  at = entry.last + 1
end
expect(#KEYS == OWNERS + #entries)

local kept, owners, cleared, rejected, order = adder(KEYS[LANDED]), releaser(), {}, {}, {}
local function errors_of(name)
  if not rejected[name] then
    rejected[name] = {}
    rejected[name].fields, rejected[name].order = error_lines(call('HGET', KEYS[ERRORS], name))
    order[#order + 1] = name
  end
  return rejected[name]
end
local function reject(name, field, version, code, message, again)
  local errors = errors_of(name)
  local old = errors.fields[field]
  local old_version, attempts, first, reason = string.match(old or '', '^(%d+) (%d+) (%d+) %d+ %d+ (.*)$')
  local stays = old_version and error_version(old_version) > version -- the greater version, with its reason
  -- The error mark of a retried field may be gone, even if another one is there. Then the field has
  -- landed, or the mark was lost with another server. A new mark would name a hash that can have a
  -- time to live.
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
-- The owner's partners stay with its error marks (G1).
local function keep_partners(name, stored)
  for partner in string.gmatch(string.sub(stored, 15), '[^\31]+') do
    if is_partner(partner) then
      local errors = errors_of(name)
      if not errors.fields[partner] then
        errors.order[#errors.order + 1] = partner
        errors.fields[partner] = '0 0'
      end
    end
  end
end
local answers = {}
for i, entry in ipairs(entries) do
  local stored = entry.moves and is_there and not cleared[entry.raw] and call('HGET', KEYS[SNAPSHOT], entry.raw)
  if stored then
    cleared[entry.raw] = true
    stored = whole_mark(entry.raw, stored)
    if entry.stays then kept.put(entry.raw, stored) end
    owners.add(entry.name, KEYS[OWNERS + i])
    if entry.raw == entry.name then keep_partners(entry.name, stored) end
  end
  answers[i] = 0
  -- Another worker has landed or moved an entry that is gone from the snapshot, or the scan brought
  -- the entry twice.
  if stored or not entry.moves then
    for fault = entry.from, entry.to, 4 do
      local version, again = number(ARGV[fault + 1], 'a fault'), not entry.moves
      answers[i] = math.max(answers[i], reject(entry.name, ARGV[fault], version, ARGV[fault + 2], ARGV[fault + 3], again))
    end
    for partner = entry.to + 1, answers[i] == 1 and entry.last or 0 do
      errors_of(entry.name).fields[table.concat({ '\30', ARGV[partner] })] = nil
    end
  end
end

-- ORDER: marks go on probation and into the error map before they leave the snapshot. So a mark is
-- always in one of them.
kept.write()
local puts, names = {}, {}
for _, name in ipairs(order) do
  local text = lines_text(rejected[name].fields, rejected[name].order)
  if text ~= '' then puts[#puts + 1], puts[#puts + 2] = name, text end
end
for name in pairs(cleared) do names[#names + 1] = name end
each_chunk('HSET', KEYS[ERRORS], puts)
each_chunk('HDEL', KEYS[SNAPSHOT], names)
-- The mark may have been put aside. Its owner has another hash by now, which may have landed.
for i, entry in ipairs(entries) do
  if answers[i] == 1 and entry.hash ~= KEYS[EVICT] then call('PERSIST', entry.hash) end
end
owners.write(ttl, { DIRTY, SNAPSHOT, ERRORS, LANDED, EXPIRING, SESSIONS })
if #names > 0 then end_of_snapshot() end
return answers
