// The bodies of what keeps a run going when ranks die; a fault plan is JSON.
#include "yotta/model/survivor.hpp"
