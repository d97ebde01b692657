#!lua flags=no-writes,allow-oom
-- Reads an owner's hash without its values, which can be large.
-- KEYS[1] owner hash
-- Reply: names and values in turn. Only reserved names have a value, and tombstones only its first
--   byte.
-- Invariant: names, states and version belong together, since they are read in one step.
expect(#KEYS == 1 and #ARGV == 0)
local all = call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 1) ~= ':' then
    all[i + 1] = ''
  elseif string.sub(all[i], 1, 3) == ':d:' then
    all[i + 1] = string.sub(all[i + 1], 1, 1)
  end
end
return all
