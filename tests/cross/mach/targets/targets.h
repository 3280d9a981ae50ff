// What threads are doing when they are captured.

#define NOT_INLINE __attribute__((noinline))

extern volatile long other;

NOT_INLINE long leaf(long n);
NOT_INLINE long descend(long n);
NOT_INLINE long roomy(long n);
NOT_INLINE long saver(long n);
NOT_INLINE long lean(long n);
NOT_INLINE long work(long n);
NOT_INLINE long sealed(long n);

// Behind a call: it is no jump then.
#define NO_TAIL_CALL __asm__ volatile("")
