-- Lets the time pass that locks, leases and announcements of a dead process would take to run out.
-- ARGV[1] prefix
-- Reply: how many of them there were.
local count = 0
for _, pattern in ipairs({ '-lock:*', '-lease:*', '-workers' }) do
  for _, key in ipairs(redis.call('KEYS', ARGV[1] .. pattern)) do count = count + redis.call('DEL', key) end
end
return count
