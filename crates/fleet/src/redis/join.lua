-- KEYS: lease, nodes. ARGV: node, lease ms, record. An id that is known and has no lease has ended before.
if redis.call('EXISTS', KEYS[1]) == 0 and redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return {'gone'} end
redis.call('SET', KEYS[1], '1', 'PX', ARGV[2])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return {'ok'}
