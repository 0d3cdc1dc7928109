// For authors: `./yotta exercise new 32_my_topic` makes a whole exercise, which can be built and graded at once.
//
//     docs/example/                                    the same files, with other names
//       include/yotta/parallel/gossip.hpp       ──►    include/yotta/parallel/my_topic.hpp
//       cmake/compiled/parallel_gossip.cpp      ──►    cmake/compiled/parallel_my_topic.cpp
//       tests/parallel/gossip_test.cpp          ──►    tests/parallel/my_topic_test.cpp
//       exercises/32_gossip/...                 ──►    exercises/32_my_topic/...
//       lessons/32_gossip/...                   ──►    lessons/32_my_topic/...
//       notebooks_cpp/32_gossip.ipynb           ──►    notebooks_cpp/32_my_topic.ipynb
//
// The example is built and proven by the suite, so what is copied from it works. The lesson and the notebook come with it,
// because the suite wants them beside an exercise. docs/adding_a_topic.md goes through the parts.
#pragma once

#include <string>
#include <vector>

namespace runner {

// Writes the files of exercise `id`, "32_my_topic", below `root`. Returns their paths from there, sorted. Throws
// std::runtime_error, and writes nothing, if the id is none, its number is taken, or one of the files is there already.
std::vector<std::string> new_exercise(const std::string& root, const std::string& id);

// The verb: makes it, and says what to do next.
int make_exercise(const std::string& id);

}  // namespace runner
