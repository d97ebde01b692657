#!lua flags=allow-oom
-- Drops the last calls of stores that are gone, so that a record does not grow for ever; names those that are left.
-- KEYS[1] partition record
-- ARGV[1..] field of a last call and its number, of each that is to go
-- Reply: field and number of each last call that is left.
-- Invariant: a call that was made since its number was read stays (R11).
expect(#KEYS == 1 and #ARGV % 2 == 0)
for i = 1, #ARGV, 2 do
  local stored = call('HGET', KEYS[1], ARGV[i])
  if stored and string.match(stored, '^%d+') == ARGV[i + 1] then call('HDEL', KEYS[1], ARGV[i]) end
end
local left, all = {}, call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 2) == 'w:' then
    left[#left + 1] = all[i]
    left[#left + 1] = string.match(all[i + 1], '^%d+') or ''
  end
end
return left
