// One solution of exercise 17 (the student's, the library's or a wrong one) as the graded cases see it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;
using yotta::LayerPtr;
using yotta::Layers;

LayerPtr checkpoint(Layers slice) { return std::make_unique<student::Checkpoint>(slice); }
LayerPtr attention_checkpoint(Layers slice) {
  return std::make_unique<student::AttentionCheckpoint>(slice);
}
LayerPtr replay(Layers slice, yotta::ReplayActions actions) {
  return std::make_unique<student::Replay>(slice, std::move(actions));
}

}  // namespace

const exercise::Solution exercise::solution = {student::slices_of, student::square_root_of,
                                               checkpoint, attention_checkpoint, replay};
