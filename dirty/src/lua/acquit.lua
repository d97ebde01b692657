#!lua flags=allow-oom
-- Ends the probation of marks: the database still is the one that they were landed to.
-- KEYS[1] marks whose probation ends
-- KEYS[2] partition record
-- KEYS[3] lock
-- KEYS[4..] owner hashes
-- ARGV[1] token and holder
-- ARGV[2] epoch under which the database was looked at
-- ARGV[3] number of the window
-- ARGV[4] time to live of landed data, milliseconds
-- ARGV[5..] name, version and number of the owner (1 is KEYS[4]; 0 none) of each mark
-- Reply: number of marks that went.
-- Invariant: refused under another epoch, nothing happens to another window (H33); owners' counts follow (H12).
expect(#KEYS >= 3 and #ARGV >= 4 and (#ARGV - 4) % 3 == 0)
local ttl = number(ARGV[4], 'the time to live')
in_epoch(KEYS[2], ARGV[2])
held(KEYS[3], ARGV[1])
local at = call('HMGET', KEYS[2], 'relive', 'window')
if at[1] or (at[2] or '0') ~= ARGV[3] then return 0 end

local owners, gone = counts(4), {}
local names = arguments(5)
local stored = hmget(KEYS[1], names)
for i, name in ipairs(names) do
  local version = stored[i] and mark_version(stored[i])
  if version and version == number(ARGV[3 + 3 * i], 'a mark') then
    gone[#gone + 1] = name
    owners.add(number(ARGV[4 + 3 * i], 'an owner'), -1, version)
  end
end

each_chunk('HDEL', KEYS[1], gone)
owners.write(ttl)
return #gone
