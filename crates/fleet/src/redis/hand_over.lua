-- KEYS: session, lease of the target, index of the owner, index of the target.
-- ARGV: node, epoch, target, session.
local record = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'state', 'lifetime')
if not record[1] or record[3] == '3' then return {'gone'} end
local epoch = string.format('%.0f', tonumber(ARGV[2]) + 1)
if record[1] == ARGV[3] and record[2] == epoch then return {'ok'} end
if record[1] ~= ARGV[1] or record[2] ~= ARGV[2] then return {'fenced', record[1], record[2]} end
if redis.call('EXISTS', KEYS[2]) == 0 then return {'fenced'} end
redis.call('HSET', KEYS[1], 'owner', ARGV[3], 'epoch', epoch)
redis.call('SREM', KEYS[3], ARGV[4])
index_add(KEYS[4], ARGV[4], record[4])
extend_with_events(record[4])
return {'ok'}
