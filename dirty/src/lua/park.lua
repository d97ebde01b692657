#!lua flags=allow-oom
-- Moves snapshot entries to the error map, and counts attempts.
-- KEYS[1] snapshot
-- KEYS[2] error map
-- KEYS[3] partition record
-- KEYS[4] lock
-- KEYS[5] marks on probation
-- KEYS[6..] owner hashes
-- ARGV[1] token and holder
-- ARGV[2] epoch
-- ARGV[3] first delay before another attempt, microseconds
-- ARGV[4] longest delay, microseconds
-- ARGV[5] time to live of landed data, milliseconds
-- ARGV[6..] of each entry: number of the owner (1 is KEYS[6]; 0 none), 0 if it does not come from the snapshot, 1 if it does, 2 if it
--   also goes on probation, since other fields of it have landed; its name and version there, number of
--   faults; then of each fault: name in the error map, version, code and message
-- Reply: for each entry 1 if it is in the error map now, 0 if it was landed or parked meanwhile by another worker, or before.
-- Invariant: an entry is in the snapshot or in the error map, never in none; the greater version stays; counts follow
--   (H12); what landed of it stays on probation (H33).
expect(#KEYS >= 5 and #ARGV >= 5)
local retry_min, retry_max = number(ARGV[3], 'the delay'), number(ARGV[4], 'the delay')
local ttl = number(ARGV[5], 'the time to live')
in_epoch(KEYS[3], ARGV[2])
held(KEYS[4], ARGV[1])
local now = time()

local entries, partly = {}, {}
local at = 6
while at <= #ARGV do
  expect(#ARGV >= at + 4)
  local faults = number(ARGV[at + 4], 'the number of faults')
  local entry = { owner = number(ARGV[at], 'an owner'), moves = ARGV[at + 1] ~= '0', stays = ARGV[at + 1] == '2', name = ARGV[at + 2],
    version = number(ARGV[at + 3], 'a mark'), from = at + 5, to = at + 4 + 4 * faults }
  expect(#ARGV >= entry.to)
  entries[#entries + 1] = entry
  if entry.stays then partly[#partly + 1] = entry.name end
  at = entry.to + 1
end

local owners, cleared, parked = counts(6), {}, {}
local kept = keeper(KEYS[5], partly, owners)
local function park(owner, name, version, code, message, again)
  local old = parked[name] or call('HGET', KEYS[2], name)
  local old_version, attempts, first, reason = string.match(old or '', '^(%d+) (%d+) (%d+) %d+ %d+ (.*)$')
  local stays = old_version and error_version(old_version) > version -- the greater version, with its reason
  -- What was tried again and is gone from the error map, though another may be there, was landed meanwhile, or was lost with another
  -- server: a mark made anew would name a hash that may have a time to live.
  if again and (not old or stays) then return 0 end
  attempts = (tonumber(attempts) or 0) + 1
  local old_number = old and error_version(old_version or '0')
  if old then owners.add(owner, -1, old_number) end
  owners.add(owner, 1, math.max(version, old_number or 0))
  local delay = math.min(retry_max, retry_min * 2 ^ math.min(attempts - 1, 40))
  parked[name] = table.concat({
    digits(stays and old_number or version), digits(attempts), first or digits(now), digits(now),
    digits(now + delay), stays and reason or table.concat({ code, message }, ' '),
  }, ' ')
  return 1
end
local answers = {}
for i, entry in ipairs(entries) do
  local name, version = entry.name, entry.version
  local stored = entry.moves and not cleared[name] and call('HGET', KEYS[1], name)
  local here = stored and mark_version(stored) == version
  if here then
    cleared[name] = true
    if entry.stays then
      kept.put(name, entry.owner, version)
    else
      owners.add(entry.owner, -1, version)
    end
  end
  answers[i] = 0
  -- An entry that is gone from the snapshot was landed or parked by another worker, or the scan brought it twice.
  if here or not entry.moves then
    for fault = entry.from, entry.to, 4 do
      local version, again = number(ARGV[fault + 1], 'a fault'), not entry.moves
      answers[i] = math.max(answers[i], park(entry.owner, ARGV[fault], version, ARGV[fault + 2], ARGV[fault + 3], again))
    end
  end
end

-- ORDER: onto probation and into the error map before out of the snapshot, so that a mark is always in one of them.
kept.write()
local puts, names = {}, {}
for name, value in pairs(parked) do
  puts[#puts + 1] = name
  puts[#puts + 1] = value
end
for name in pairs(cleared) do names[#names + 1] = name end
each_chunk('HSET', KEYS[2], puts)
each_chunk('HDEL', KEYS[1], names)
owners.write(ttl)
if #names > 0 then end_of_snapshot(KEYS[1], KEYS[3]) end
return answers
