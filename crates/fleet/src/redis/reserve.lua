-- KEYS: session, lease of the owner, index of the owner.
-- ARGV: node, epoch, state, version, body, lifetime ms, session.
local record = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'state')
if record[1] then
  if record[3] == '3' then return {'gone'} end
  if record[1] == ARGV[1] and record[2] == ARGV[2] then return {'ok'} end
  return {'fenced', record[1], record[2]}
end
if redis.call('EXISTS', KEYS[2]) == 0 then return {'fenced'} end
redis.call('DEL', KEYS[1] .. ':x', KEYS[1] .. ':t', KEYS[1] .. ':o')
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'epoch', ARGV[2], 'state', ARGV[3], 'version', ARGV[4],
  'body', ARGV[5], 'lifetime', ARGV[6])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
index_add(KEYS[3], ARGV[7], ARGV[6])
return {'ok'}
