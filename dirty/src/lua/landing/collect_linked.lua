#!lua flags=allow-oom
-- Reads owners that must land together, in one step. Reads nothing if a mark names another partner.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- KEYS[7] links of the dirty map
-- KEYS[8] links of the snapshot
-- KEYS[9..] hash of each owner
-- ARGV[1] the most rows
-- ARGV[2] the most bytes of values
-- ARGV[3..] of each owner its name in the maps, and "*" for all fields, or the number of wanted
--   fields and their names.
-- Reply: {"open", names of further partners…}. {"large"} if there are more rows or bytes. Or {"closed", epoch, landed, how far the values
--   reach, generation, identity of the database (false if it is not watched), 1 if the error map
--   has entries, the place of the gap as in end_collect.lua}, then of each owner {names and values, fields that were read, partners, how long
--   it has been rejected in microseconds or ""}. The fields are those that are wanted or that a mark names.
-- Invariant: marks of all five maps count (G1). As in end_collect.lua, the call fails under another
--   incarnation (R14).
expect(#KEYS >= 9 and #ARGV >= 4)
local rows_left, bytes_left = number(ARGV[1], 'the number of rows'), number(ARGV[2], 'the number of bytes')
local r = present(KEYS[PART])
local owners, names, known, at = {}, {}, {}, 3
for i = 9, #KEYS do
  expect(#ARGV > at)
  local owner = { hash = KEYS[i], name = ARGV[at], whole = ARGV[at + 1] == '*', fields = {}, partners = {}, seen = {}, since = '' }
  local count = owner.whole and 0 or number(ARGV[at + 1], 'the number of fields')
  expect(#ARGV >= at + 1 + count)
  for field = at + 2, at + 1 + count do
    owner.fields[#owner.fields + 1] = ARGV[field]
    owner.seen[ARGV[field]] = true
  end
  at = at + 2 + count
  owners[#owners + 1], names[#names + 1], known[owner.name] = owner, owner.name, true
end
expect(at == #ARGV + 1)

local missing, is_missing = {}, {}
local function take_partner(owner, partner)
  owner.partners[#owner.partners + 1] = partner
  if not known[partner] and not is_missing[partner] then
    is_missing[partner] = true
    missing[#missing + 1] = partner
  end
end
-- Takes a name of a mark: a field, a partner, or the sign that the set of links has more partners.
local function take(owner, name, links)
  if name == '\30' and links then
    for _, partner in ipairs(further_partners(links, owner.name)) do take(owner, table.concat({ '\30', partner })) end
  elseif not owner.seen[name] then
    owner.seen[name] = true
    if is_partner(name) then
      take_partner(owner, string.sub(name, 2))
    else
      owner.fields[#owner.fields + 1] = name
    end
  end
end
local links = { [DIRTY] = KEYS[7], [SNAPSHOT] = KEYS[8] }
for _, map in ipairs({ DIRTY, SNAPSHOT, LANDED, EXPIRING }) do
  if call('EXISTS', KEYS[map]) == 1 then
    for i, text in ipairs(hmget(KEYS[map], names)) do
      for name in string.gmatch(text and string.sub(text, 15) or '', '[^\31]+') do take(owners[i], name, links[map]) end
    end
  end
end
if call('EXISTS', KEYS[ERRORS]) == 1 then
  for i, text in ipairs(hmget(KEYS[ERRORS], names)) do
    local lines, order = error_lines(text or nil)
    for _, name in ipairs(order) do
      take(owners[i], name)
      -- A mark whose value vanished from Redis was not rejected by the database.
      local since, reason = string.match(lines[name], '^%d+ %d+ (%d+) %d+ %d+ %d+ (.*)$')
      if since and string.sub(reason, 1, 8) ~= 'vanished' and (owners[i].since == '' or tonumber(since) < tonumber(owners[i].since)) then owners[i].since = since end
    end
  end
end
if #missing > 0 then return { 'open', unpack(missing, 1, math.min(#missing, CHUNK)) } end

local source, now = digits(r.source), time()
call('HSET', KEYS[PART], 'collected', source)
local reply = { 'closed', r.epoch, digits(r.landed), source, digits(r.generation), call('HGET', KEYS[PART], 'db'), call('EXISTS', KEYS[ERRORS]), call('HGET', KEYS[PART], 'older') }
for _, owner in ipairs(owners) do
  -- The data of another program is no hash. Its owner has no cells, and its marks are rejected.
  local cells, kind = {}, call('TYPE', owner.hash).ok
  if kind ~= 'hash' then
    cells = {}
  elseif owner.whole then
    cells = call('HGETALL', owner.hash)
  else
    local wanted = { ':v', ':b', ':n' }
    for _, field in ipairs(owner.fields) do
      wanted[#wanted + 1], wanted[#wanted + 2] = field, table.concat({ ':d:', field })
    end
    for i, value in ipairs(hmget(owner.hash, wanted)) do
      if value then cells[#cells + 1], cells[#cells + 2] = wanted[i], value end
    end
  end
  for i = 1, #cells, 2 do
    -- Of the reserved names, only those of tombstones are rows.
    if string.byte(cells[i]) ~= 58 or string.sub(cells[i], 1, 3) == ':d:' then rows_left = rows_left - 1 end
    bytes_left = bytes_left - #cells[i + 1]
  end
  if rows_left < 0 or bytes_left < 0 then return { 'large' } end
  local age = owner.since ~= '' and digits(math.max(now - tonumber(owner.since), 0)) or ''
  reply[#reply + 1] = { cells, owner.fields, owner.partners, age }
end
return reply
