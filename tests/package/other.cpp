#include "every_header.hpp"

yotta::RankContext* context_of_the_other_file() { return &yotta::context(); }
