#!lua
-- Writes what was loaded from the cold tier, if nothing has happened since that could make it stale.
-- KEYS[1] owner hash
-- KEYS[2] exist marker
-- KEYS[3] partition record
-- ARGV[1] time to live of landed data, milliseconds
-- ARGV[2] time to live of a negative answer, milliseconds
-- ARGV[3..] observed marker, epoch, complete (0 or 1), rows; then field, stored name, stored value, version a row
-- Reply: {"refused"}; or {"filled", generation of the partition, all fields and values of the hash, reserved ones included}.
-- Invariant: a fill never replaces a newer value, and a hash it creates is clean (R7, R15).
expect(#KEYS == 3 and #ARGV >= 6)
local load = load_of(3)
local ttl, absent_ttl = number(ARGV[1], 'the time to live'), number(ARGV[2], 'the time to live')
local r = present(KEYS[3])
local hash = header(KEYS[1])
local mark, version = marker(KEYS[2], r)
if not proved(load, hash, mark, r) then return { 'refused' } end
if not hash and #load.rows == 0 and (mark == '?' or mark == '-' or not load.complete) then
  if load.complete and mark == '?' then call('SET', KEYS[2], absence(r), 'PX', digits(absent_ttl)) end
  return { 'filled', digits(r.generation), {} }
end
local out = changes()
overlay(load, hash, KEYS[1], r, out)
local base, generation, complete = merged(load, hash, version, r)
out.put(':v', head(base, generation, complete))
if base > r.source then call('HSET', KEYS[3], 'src', digits(base)) end
if base ~= version or mark == '?' or mark == '-' then call('SET', KEYS[2], digits(base)) end
out.write(KEYS[1])
-- ORDER: before the time to live, or a clock that is set back in between takes the whole hash away at once.
local held = call('HGETALL', KEYS[1])
if not hash then call('PEXPIRE', KEYS[1], digits(ttl)) end
return { 'filled', digits(r.generation), held }
