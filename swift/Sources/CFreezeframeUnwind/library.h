#include <freezeframe_unwind.h>
