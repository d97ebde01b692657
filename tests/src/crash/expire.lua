-- Removes the locks, leases and announcements of a dead process, as if their time had passed.
-- ARGV[1] prefix
-- Reply: the number of removed keys.
local count = 0
for _, pattern in ipairs({ '-lock:*', '-lease:*', '-workers' }) do
  for _, key in ipairs(redis.call('KEYS', ARGV[1] .. pattern)) do count = count + redis.call('DEL', key) end
end
return count
