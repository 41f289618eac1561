-- KEYS: nodes. ARGV: prefix of leases, prefix of indexes. Returns node, record and '1' if it has a lease, of each.
-- A dead node without sessions is forgotten: its id is not used again.
local known, found = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #known, 2 do
  local alive = redis.call('EXISTS', ARGV[1] .. known[i])
  if alive == 0 and redis.call('EXISTS', ARGV[2] .. known[i]) == 0 then
    redis.call('HDEL', KEYS[1], known[i])
  else
    found[#found + 1] = known[i]
    found[#found + 1] = known[i + 1]
    found[#found + 1] = tostring(alive)
  end
end
return found
