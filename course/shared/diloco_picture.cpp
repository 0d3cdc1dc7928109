#include "course/shared/diloco_picture.hpp"
namespace yotta {}  // namespace yotta
