// The bodies of model/.
#include "yotta/model/transformer.hpp"
