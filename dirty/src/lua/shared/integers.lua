-- Shared by the scripts that add to integers of 64 bits.
-- Signed 64-bit integers as hi * 10^9 + lo with 0 <= lo < 10^9, since Lua's numbers hold only 53
-- bits exactly.
local function integer(text)
  local sign, body = string.match(text, '^(%-?)(%d+)$')
  if not body or #body > 19 or (text ~= '0' and string.sub(body, 1, 1) == '0') then return nil end
  local hi, lo = tonumber(string.sub(body, 1, -10)) or 0, tonumber(string.sub(body, -9))
  if sign == '-' then
    hi, lo = 0 - hi, 0 - lo
    if lo < 0 then hi, lo = hi - 1, lo + 1000000000 end
  end
  return { hi, lo }
end
local function in_range(n)
  if n[1] > 9223372036 or n[1] < -9223372037 then return false end
  if n[1] == 9223372036 and n[2] > 854775807 then return false end
  return n[1] > -9223372037 or n[2] >= 145224192
end
local function sum(a, b)
  local hi, lo = a[1] + b[1], a[2] + b[2]
  if lo >= 1000000000 then hi, lo = hi + 1, lo - 1000000000 end
  return { hi, lo }
end
local function text_of(n)
  local hi, lo, sign = n[1], n[2], ''
  if hi < 0 then
    sign, hi, lo = '-', 0 - hi, 0 - lo -- not -0, which prints its sign
    if lo < 0 then hi, lo = hi - 1, lo + 1000000000 end
  end
  if hi == 0 then return string.format('%s%.0f', sign, lo) end
  return string.format('%s%.0f%09.0f', sign, hi, lo)
end
local function is_below(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end
