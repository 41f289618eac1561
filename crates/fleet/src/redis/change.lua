-- KEYS: session, index of the owner.
-- ARGV: node, epoch, session, tombstone ms, max entries, then each change: kind and two values.
-- Kinds: s state, b body, p put (field, value), r remove (field).
local added = 0
for i = 6, #ARGV, 3 do
  if ARGV[i] == 's' and tonumber(ARGV[i + 1]) < tonumber(record[3]) then return {'gone'} end
  if ARGV[i] == 'p' then added = added + 1 - redis.call('HEXISTS', KEYS[1] .. ':x', ARGV[i + 1]) end
end
if added > 0 and redis.call('HLEN', KEYS[1] .. ':x') + added > tonumber(ARGV[5]) then return {'limit'} end
local state = record[3]
for i = 6, #ARGV, 3 do
  if ARGV[i] == 's' then
    state = ARGV[i + 1]
    redis.call('HSET', KEYS[1], 'state', state)
  elseif ARGV[i] == 'b' then
    redis.call('HSET', KEYS[1], 'body', ARGV[i + 1])
  elseif ARGV[i] == 'p' then
    redis.call('HSET', KEYS[1] .. ':x', ARGV[i + 1], ARGV[i + 2])
  elseif ARGV[i] == 'r' then
    redis.call('HDEL', KEYS[1] .. ':x', ARGV[i + 1])
  end
end
if state == '3' then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1] .. ':t')) do
    local stream = string.match(field, '^(.*):kind$')
    if stream then redis.call('DEL', KEYS[1] .. ':e:' .. stream) end
  end
  redis.call('DEL', KEYS[1] .. ':x', KEYS[1] .. ':t', KEYS[1] .. ':o')
  redis.call('HDEL', KEYS[1], 'body')
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  redis.call('SREM', KEYS[2], ARGV[3])
else
  extend_with_events(lifetime)
  index_add(KEYS[2], ARGV[3], lifetime)
end
return {'ok'}
