-- KEYS: session. Returns the fields of all streams, and those of all pending answers.
return {redis.call('HGETALL', KEYS[1] .. ':t'), redis.call('HGETALL', KEYS[1] .. ':o')}
