-- Reads a register. The answer is a mark, the register, the milliseconds until the election expires (-1: it does not),
-- and the election's value if a program without Regent holds it. It is nothing if the register was never written, and 1
-- if the register still has the revision that the caller knows.
--
-- With one register the answer is its own, with several it is a list of theirs.
--
-- KEYS: for each register
--       1 the election, for other programs to read: its holder, with the expiry of the lease
--       2 the register, which never expires, in four lines:
--         - the revision; and if the election expires, when, in milliseconds of the server that wrote it, and its ID
--         - the election's value, empty if it is vacant
--         - the other fields of which a change is published
--         - the record
-- ARGV: for each register the revision that the caller knows, empty if it knows none

-- This changes nothing, but a server that accepts no writes (a replica, a primary that has lost its replicas) refuses
-- it: such a server may return old data.
redis.call('PERSIST', KEYS[2])

local function get(key, register, known)
  local reg = redis.call('GET', register)
  local rev, till, stamp, who = string.match(reg or ' \n\n', '^(%S*) (%S*) ?(%S*)\n([^\n]*)\n')
  if not rev then return redis.error_reply('ERR ' .. register .. ' is not a register of Regent') end
  local value = redis.pcall('GET', key)
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
    value = '(not a string)'
  end
  if not reg and leftover(key, value) then return false end
  local function now()
    local t = redis.call('TIME')
    return t[1] * 1000 + t[2] / 1000
  end
  local function answer(mark, left, other)
    if known ~= '' and rev .. mark == known then return 1 end
    return {mark, reg or '', left, other}
  end

  -- The mark is appended to the revision if the election is not as the register says.
  -- ! It has expired.
  -- ~ A program without Regent holds it. The mark contains its time of expiry, so a renewal changes the revision.
  -- @ Another server wrote its lease, or this one before it was last promoted. Renewals may have been lost, so the time
  --   of expiry proves nothing.
  if value and (value ~= who or who == '') then
    local left = redis.call('PTTL', key)
    local mark = '~' .. redis.sha1hex(value)
    if left >= 0 then mark = mark .. string.format('.%.0f', (now() + left) / 100) end
    return answer(mark, left, value)
  end
  if not reg then return false end
  if till == '' then return answer('', -1) end
  local me = server()
  if me ~= '' and me ~= stamp then return answer('@' .. me, -1) end
  if value then return answer('', redis.call('PTTL', key)) end
  -- An election that is gone before it expires was deleted or evicted. Its holder does not know, and holds it until
  -- then.
  local left = math.ceil(till - now())
  return answer(left <= 0 and '!' or '', left)
end

if #KEYS == 2 then return get(KEYS[1], KEYS[2], ARGV[1] or '') end
local all = {}
for i = 1, #KEYS, 2 do all[#all + 1] = get(KEYS[i], KEYS[i + 1], ARGV[#all + 1] or '') end
return all
