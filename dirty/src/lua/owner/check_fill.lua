#!lua flags=no-writes,allow-oom
-- Checks a load as fill.lua does, for a server that lacks the memory to write it.
-- KEYS[1] owner hash
-- KEYS[2] exist marker
-- KEYS[3] partition record
-- KEYS[4] dirty map
-- KEYS[5] snapshot
-- KEYS[6] error map
-- KEYS[7] marks on probation
-- KEYS[8] marks whose probation ends
-- ARGV[1] the owner's name in the maps
-- ARGV[2..] observed marker, whether there was a hash (0 or 1), epoch, complete (0 or 1), number of
--   rows. Then of each row field, stored name, stored value and version.
-- Reply: {"refused"}. Or {"proved", generation of the partition, fields and values of the hash,
--   names and values that the rows put, names that they drop, head}. The head is version,
--   generation and flag of both together, as in the hash. It is "" if there is neither hash nor
--   row.
-- Invariant: same proof and same merge as fill.lua. Nothing is written.
expect(#KEYS == 8 and #ARGV >= 6)
local load = load_of(2)
local r = present(KEYS[3])
local hash = header(KEYS[1])
local kind, mark_number, version = marker(KEYS[2], r)
if not proved(load, hash, kind, mark_number, r) then return { 'refused' } end
if not hash and #load.rows == 0 and (kind ~= '' or not load.complete) then
  return { 'proved', digits(r.generation), {}, {}, {}, '' }
end
local out = changes()
local is_reborn = not hash and is_named(4, ARGV[1])
local base, generation, complete, _, renews = merge(load, hash, version, r, KEYS[1], 4, ARGV[1], is_reborn, out)
if renews then base = math.max(r.source, base) + 1 end
local puts, drops = {}, {}
for name in pairs(out.drops) do drops[#drops + 1] = name end
for name, value in pairs(out.puts) do
  puts[#puts + 1] = name
  puts[#puts + 1] = value
end
return { 'proved', digits(r.generation), call('HGETALL', KEYS[1]), puts, drops, head(base, generation, complete) }
