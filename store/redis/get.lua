-- Reads a register: a mark, the register, how long the seat still lives in milliseconds (-1: no matter), and who holds the seat if it is
-- somebody who does not use Regent. Nothing if it was never written. 1 if it still has the revision that the caller knows.
--
-- With one register the answer is its own, with several it is a list of theirs.
--
-- KEYS: for each register
--       1 the seat, which anybody may look at: its holder, expiring as the lease does
--       2 the register, which never expires, in four lines: the revision, when the seat expires, in milliseconds of the server that wrote it,
--         and that server's ID, or only the revision if it does not; the seat's value, nothing if it is vacant; what else makes a
--         change of hands; the record
-- ARGV: for each register the revision that the caller knows, empty if it knows none

-- Nothing is changed by this, but a server that would not take a write (a replica, a primary that has lost its replicas) refuses it:
-- what such a server shows may be old.
redis.call('PERSIST', KEYS[2])

local function get(key, register, known)
  local reg = redis.call('GET', register)
  local rev, till, stamp, who = string.match(reg or ' \n\n', '^(%S*) (%S*) ?(%S*)\n([^\n]*)\n')
  if not rev then return redis.error_reply('ERR ' .. register .. ' is no register of Regent') end
  local seat = redis.pcall('GET', key)
  if type(seat) == 'table' then
    if not string.find(seat.err, 'WRONGTYPE', 1, true) then return seat end
    seat = '(not a string)'
  end
  if not reg and leftover(key, seat) then return false end
  local function now()
    local t = redis.call('TIME')
    return t[1] * 1000 + t[2] / 1000
  end
  local function answer(mark, left, other)
    if known ~= '' and rev .. mark == known then return 1 end
    return {mark, reg or '', left, other}
  end

  -- The mark goes to the revision when the seat is not as the register has it. ! it has expired. ~ it is in other hands, until the time that
  -- is part of it: when that is put off, the revision changes, as with every renewal. @ its lease was written by another server, or by this
  -- one before it was last promoted: renewals may have been lost, so that the time of expiry proves nothing.
  if seat and (seat ~= who or who == '') then
    local left = redis.call('PTTL', key)
    local mark = '~' .. redis.sha1hex(seat)
    if left >= 0 then mark = mark .. string.format('.%.0f', (now() + left) / 100) end
    return answer(mark, left, seat)
  end
  if not reg then return false end
  if till == '' then return answer('', -1) end
  local me = server()
  if me ~= '' and me ~= stamp then return answer('@' .. me, -1) end
  if seat then return answer('', redis.call('PTTL', key)) end
  -- A seat that is gone before its time was deleted or evicted, and its holder does not know: it holds it until then.
  local left = math.ceil(till - now())
  return answer(left <= 0 and '!' or '', left)
end

if #KEYS == 2 then return get(KEYS[1], KEYS[2], ARGV[1] or '') end
local all = {}
for i = 1, #KEYS, 2 do all[#all + 1] = get(KEYS[i], KEYS[i + 1], ARGV[#all + 1] or '') end
return all
