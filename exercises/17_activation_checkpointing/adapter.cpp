// One solution of exercise 17 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;
using yotta::LayerPtr;
using yotta::Layers;

LayerPtr checkpoint(Layers slice) { return std::make_unique<student::Checkpoint>(slice); }
std::vector<LayerPtr> checkpointed(Layers stack, int64_t every, int64_t first, int64_t last) {
  return student::checkpointed(stack, {student::Recompute::all, every}, first, last);
}
std::unique_ptr<yotta::AttentionCore> recomputed(std::unique_ptr<yotta::AttentionCore> core) {
  return std::make_unique<student::RecomputedCore>(std::move(core));
}
LayerPtr replay(Layers slice, yotta::ReplayActions actions) {
  return std::make_unique<student::Replay>(slice, std::move(actions));
}

}  // namespace

const exercise::Solution exercise::solution = {student::square_root_of, checkpoint, checkpointed,
                                               recomputed, replay};
