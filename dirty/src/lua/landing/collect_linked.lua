#!lua flags=allow-oom
-- Reads owners with all fields that their marks name, in one step, and the partners that their marks
-- lead to.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- KEYS[7] links of the dirty map
-- KEYS[8] links of the snapshot
-- KEYS[9..] hash of each owner. Of partners that the call does not name, it reads hashes that are
--   there. They have keys of the same form and slot.
-- ARGV[1] the most rows, and the most owners
-- ARGV[2] the most bytes of values
-- ARGV[3] 1 if partners are read, too, or 0
-- ARGV[4..] of each owner its name in the maps, and "*" for all fields, or the number of wanted
--   fields and their names.
-- Reply: {"open", names of partners…} if the hash of a partner is not here and its key is not named.
--   It can be on the other server of a slot that moves, so the caller names it. {"large"} if there
--   are more owners, rows or bytes. Or {"closed", epoch, landed, how far the values reach, generation,
--   identity of the database (false if it is not watched), 1 if the error map has entries, the place
--   of the gap as in end_collect.lua, the number of the snapshot, the stamp of the epoch (false if an
--   older program adopted it)}, then of each owner {its name, names
--   and values, fields that were read, partners, how long it has been rejected in microseconds or
--   "", its mark in the snapshot or ""}. The named owners come first. The fields are those that are
--   wanted or that a mark names.
-- Invariant: marks of all five maps count (R16, G1). As in end_collect.lua, the call fails under another
--   incarnation (R14).
expect(#KEYS >= 9 and #ARGV >= 5)
local most, bytes_left = number(ARGV[1], 'the number of rows'), number(ARGV[2], 'the number of bytes')
local rows_left, follow = most, ARGV[3] == '1'
local r = present(KEYS[PART])
local owners, known, missing = {}, {}, {}
local function add(name, hash, is_whole)
  local owner = { hash = hash, name = name, whole = is_whole, fields = {}, partners = {}, seen = {}, since = '', saved = '' }
  owners[#owners + 1], known[name] = owner, true
  return owner
end
local at = 4
for i = 9, #KEYS do
  expect(#ARGV > at)
  local owner = add(ARGV[at], KEYS[i], ARGV[at + 1] == '*')
  local count = owner.whole and 0 or number(ARGV[at + 1], 'the number of fields')
  expect(#ARGV >= at + 1 + count)
  for field = at + 2, at + 1 + count do
    owner.fields[#owner.fields + 1] = ARGV[field]
    owner.seen[ARGV[field]] = true
  end
  at = at + 2 + count
end
expect(at == #ARGV + 1)

-- Adds a partner if its hash is here. Transactions since `links.lua` can have linked more owners, and
-- others would link more until a further call.
local prefix = string.sub(KEYS[9], 1, -1 - #ARGV[4])
local function take_partner(owner, partner)
  owner.partners[#owner.partners + 1] = partner
  if known[partner] or not follow then return end
  known[partner] = true
  local hash = table.concat({ prefix, partner })
  if redis.pcall('EXISTS', hash) == 1 then
    add(partner, hash, false)
  else
    missing[#missing + 1] = partner
  end
end
-- A set of links is read up to so many that there are too many owners for certain.
local enough = digits(most + 1)
-- Takes a name of a mark: a field, a partner, or the sign that the set of links has more partners.
local function take(owner, name, links)
  if name == '\30' and links then
    for _, partner in ipairs(further_partners(links, owner.name, enough)) do take(owner, table.concat({ '\30', partner })) end
  elseif not owner.seen[name] then
    owner.seen[name] = true
    if is_partner(name) then
      take_partner(owner, string.sub(name, 2))
    else
      owner.fields[#owner.fields + 1] = name
    end
  end
end
local function take_errors(owner, text)
  local lines, order = error_lines(text)
  for _, name in ipairs(order) do
    take(owner, name)
    -- A mark whose value vanished from Redis was not rejected by the database.
    local since, reason = string.match(lines[name], '^%d+ %d+ (%d+) %d+ %d+ %d+ (.*)$')
    if since and string.sub(reason, 1, 8) ~= 'vanished' and (owner.since == '' or tonumber(since) < tonumber(owner.since)) then owner.since = since end
  end
end
local maps, links = {}, { [DIRTY] = KEYS[7], [SNAPSHOT] = KEYS[8] }
for map = DIRTY, EXPIRING do
  if call('EXISTS', KEYS[map]) == 1 then maps[#maps + 1] = map end
end
-- Reads the marks of the owners from this one on, which can add others.
local function read_marks(from)
  local names, last = {}, #owners
  for i = from, last do names[#names + 1] = owners[i].name end
  for _, map in ipairs(maps) do
    for i, text in ipairs(hmget(KEYS[map], names)) do
      local owner = owners[from + i - 1]
      if text and map == ERRORS then
        take_errors(owner, text)
      elseif text then
        if map == SNAPSHOT then owner.saved = text end
        for name in string.gmatch(string.sub(text, 15), '[^\31]+') do take(owner, name, links[map]) end
      end
    end
  end
  return last + 1
end
local from = 1
while from <= #owners do
  if #owners + #missing > most then return { 'large' } end
  from = read_marks(from)
end
if #missing > 0 then return { 'open', unpack(missing, 1, math.min(#missing, CHUNK)) } end

-- The data of another program is no hash. Its owner has no cells, and its marks are rejected.
local function cells_of(owner)
  if call('TYPE', owner.hash).ok ~= 'hash' then return {} end
  if owner.whole then return call('HGETALL', owner.hash) end
  local wanted, cells = { ':v', ':b', ':n' }, {}
  for _, field in ipairs(owner.fields) do
    wanted[#wanted + 1], wanted[#wanted + 2] = field, table.concat({ ':d:', field })
  end
  for i, value in ipairs(hmget(owner.hash, wanted)) do
    if value then cells[#cells + 1], cells[#cells + 2] = wanted[i], value end
  end
  return cells
end
local source, now = digits(r.source), time()
call('HSET', KEYS[PART], 'collected', source)
local reply = { 'closed', r.epoch, digits(r.landed), source, digits(r.generation), call('HGET', KEYS[PART], 'db'), call('EXISTS', KEYS[ERRORS]), call('HGET', KEYS[PART], 'older'), call('HGET', KEYS[PART], 'snap') or '0', call('HGET', KEYS[PART], 'stamp') }
for _, owner in ipairs(owners) do
  local cells = cells_of(owner)
  for i = 1, #cells, 2 do
    -- Of the reserved names, only those of tombstones are rows.
    if string.byte(cells[i]) ~= 58 or string.sub(cells[i], 1, 3) == ':d:' then rows_left = rows_left - 1 end
    bytes_left = bytes_left - #cells[i + 1]
  end
  if rows_left < 0 or bytes_left < 0 then return { 'large' } end
  local age = owner.since ~= '' and digits(math.max(now - tonumber(owner.since), 0)) or ''
  reply[#reply + 1] = { owner.name, cells, owner.fields, owner.partners, age, owner.saved }
end
return reply
