#error "not in Yotta's emulator: cuRAND. Use a generator of your own: a counter and a hash"
