#!lua flags=no-writes,allow-oom
-- Checks a load as fill.lua does, for a server that has no memory to write it.
-- KEYS[1] owner hash
-- KEYS[2] exist marker
-- KEYS[3] partition record
-- ARGV[1..] observed marker, whether there was a hash (0 or 1), epoch, complete (0 or 1), rows; then field, stored name, stored value,
--   version a row
-- Reply: {"refused"}; or {"proved", generation of the partition, the hash's fields and values, names that the rows put, names that
--   they drop, version, generation and flag of both together as in the hash, or "" if there is neither hash nor row}.
-- Invariant: same proof and same merge as fill.lua; nothing is written.
expect(#KEYS == 3 and #ARGV >= 5)
local load = load_of(1)
local r = present(KEYS[3])
local hash = header(KEYS[1])
local mark, version = marker(KEYS[2], r)
if not proved(load, hash, mark, r) then return { 'refused' } end
if not hash and #load.rows == 0 and (mark == '?' or mark == '-' or not load.complete) then
  return { 'proved', digits(r.generation), {}, {}, {}, '' }
end
local out = changes()
overlay(load, hash, KEYS[1], r, out)
local base, generation, complete = merged(load, hash, version, r)
local puts, drops = {}, {}
for name in pairs(out.drops) do drops[#drops + 1] = name end
for name, value in pairs(out.puts) do
  puts[#puts + 1] = name
  puts[#puts + 1] = value
end
return { 'proved', digits(r.generation), call('HGETALL', KEYS[1]), puts, drops, head(base, generation, complete) }
