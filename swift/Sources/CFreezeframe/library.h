#include <freezeframe.h>
