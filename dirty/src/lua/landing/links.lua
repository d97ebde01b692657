#!lua flags=no-writes,allow-oom
-- Follows the partners of owners until no mark names another one.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- KEYS[7] links of the dirty map
-- KEYS[8] links of the snapshot
-- ARGV[1] epoch of the values that the caller has read
-- ARGV[2] the most owners that are followed
-- ARGV[3..] name of each owner in the maps
-- Reply: 1 if there are more owners, else 0. Then for each owner that has a partner, or is one,
--   {its name, names of its partners…}.
-- Invariant: marks of all five maps count (G1). Marks that were put aside do not. The call fails in
--   another epoch or under another incarnation. So no mark was lost since the values were read.
expect(#KEYS == 8 and #ARGV >= 3)
in_epoch(KEYS[PART], ARGV[1])
local most = number(ARGV[2], 'the number of owners')
-- A set of links is read up to so many that there are too many owners for certain.
local links, enough = { [DIRTY] = KEYS[7], [SNAPSHOT] = KEYS[8] }, digits(most + #ARGV - 1)
local known, linked, order, count = {}, {}, {}, 0
local function partners_of_owner(name)
  if not linked[name] then
    linked[name] = { names = { name }, has = {} }
    order[#order + 1] = name
  end
  return linked[name]
end
local function link(name, partner, found)
  local partners = partners_of_owner(name)
  if partners.has[partner] then return end
  partners.has[partner] = true
  partners.names[#partners.names + 1] = partner
  partners_of_owner(partner)
  if not known[partner] then
    known[partner] = true
    found[#found + 1] = partner
  end
end

local maps = {}
for map = DIRTY, EXPIRING do
  if call('EXISTS', KEYS[map]) == 1 then maps[#maps + 1] = map end
end
local names = {}
for i = 3, #ARGV do
  names[i - 2], known[ARGV[i]] = ARGV[i], true
end
local more = 0
while #names > 0 and more == 0 do
  local found = {}
  for _, map in ipairs(maps) do
    -- In the error map, the line of a partner begins with its name.
    local pattern = map == ERRORS and '\n\30([^\31\n]*)' or '\31\30([^\31]*)'
    for i, text in ipairs(hmget(KEYS[map], names)) do
      if text and string.find(text, '\30', 1, true) then
        local list = map == ERRORS and table.concat({ '\n', text }) or table.concat({ '\31', string.sub(text, 15) })
        for partner in string.gmatch(list, pattern) do
          local further = partner == '' and links[map] and further_partners(links[map], names[i], enough)
          for _, one in ipairs(further or { partner }) do link(names[i], one, found) end
        end
      end
    end
  end
  count = count + #found
  if count > most then more = 1 end
  names = found
end
local reply = { more }
for i, name in ipairs(order) do reply[i + 1] = linked[name].names end
return reply
