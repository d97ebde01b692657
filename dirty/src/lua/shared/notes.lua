-- Shared by the scripts that read the stream of notes. An entry has the notes of one call, a pair
-- each. Its id is "epoch-number", the place of the last of them. The others have the numbers before.

-- The epoch of an entry's notes, and the numbers of its first and last one.
local function span(entry)
  local epoch, last = string.match(entry[1], '^(%d+)-(%d+)$')
  last = number(last, 'the number of a note')
  return epoch, last - #entry[2] / 2 + 1, last
end

-- Whether the note of this place is in the entry.
local function holds(entry, place)
  local epoch, first, last = span(entry)
  local in_epoch, at = string.match(place, '^(%d+)-(%d+)$')
  at = number(at, 'the number of a note')
  return epoch == in_epoch and first <= at and at <= last
end
